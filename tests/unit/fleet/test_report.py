"""How far a server of a fleet is, after what its process has told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.batch.report import BatchReport
from spirit_py.config import ConnectionOptions
from spirit_py.errors import MigrationFailure, Refusal
from spirit_py.fleet.report import FleetReport, FleetState, ServerRun, ServerState
from spirit_py.progress import BatchStatus


def plan(name: str = "db1", **fields: Any) -> Any:
    """Return what a server's plan has that decides how it begins."""
    known = {"done": False, "refused": False, "begun": False, "error": None, "refusals": ()}
    each = SimpleNamespace(connection=ConnectionOptions(host=name))
    server = SimpleNamespace(name=name, labels={}, batch=SimpleNamespace(each=each))
    return SimpleNamespace(server=server, **(known | fields))


def figures() -> BatchStatus:
    """Return figures of a server without tables."""
    return BatchStatus(described="", elapsed=0.0, tables=())


LOST = MigrationFailure("its named lock is lost")


@pytest.mark.parametrize(
    ("told", "why", "stopped", "state"),
    [
        ([BatchReport()], None, False, ServerState.DONE),
        ([BatchReport()], None, True, ServerState.DONE),
        ([BatchReport(exit_code=1)], None, False, ServerState.FAILED),
        ([BatchReport(exit_code=1)], None, True, ServerState.STOPPED),
        ([BatchReport()], LOST, False, ServerState.FAILED),
        ([MigrationFailure("killed")], None, False, ServerState.FAILED),
        ([], None, False, ServerState.FAILED),
    ],
)
def test_a_server_is_done_by_its_report_alone(told, why, stopped, state):
    """An exit code, or whatever ended its process from here, keeps it from being done."""
    run = ServerRun.of(plan()).begun()
    for one in told:
        run = run.heard(one)
    run = run.ended(1.0, why, stopped=stopped)
    assert run.state is state
    assert (run.exit_code == 0) is (state is ServerState.DONE)


def test_a_fleet_is_done_where_all_servers_are():
    """And not by exit codes alone, which a server that waits has none of."""

    def ended(*runs: ServerRun) -> tuple[str, int]:
        report = FleetReport()
        report.add(runs)
        report.conclude(None, seconds=1.0)
        return report.outcome, report.exit_code

    done, waits = ServerRun.of(plan(done=True)), ServerRun.of(plan())
    failed = waits.begun().heard(BatchReport()).ended(1.0, LOST, stopped=False)
    assert ended(done) == ("done", 0)
    assert ended(done, waits) == ("failed", 1)
    assert ended(done, failed) == ("failed", 1)


@pytest.mark.parametrize(
    ("told", "written"),
    [([], True), ([MigrationFailure("killed")], True), ([Refusal("no key")], False)],
)
def test_of_a_server_without_a_report_it_is_not_known_what_was_written(told, written):
    """So its orders are read, and the report says that something may be; a refusal wrote none."""
    run = ServerRun.of(plan()).begun()
    for one in told:
        run = run.heard(one)
    assert run.ended(1.0, None, stopped=False).written is written


def test_what_ended_a_server_from_here_is_its_cause():
    """The loss of its named lock says more than the end of the process, which follows."""
    run = ServerRun.of(plan()).begun().heard(MigrationFailure("its process was killed"))
    assert run.ended(1.0, LOST, stopped=False).cause == "its named lock is lost"
    assert run.ended(1.0, None, stopped=False).cause == "its process was killed"


def test_figures_that_are_read_late_do_not_come_back():
    """They are read on the server, in another thread than that which notes its end."""
    state = FleetState([plan()])
    state.note("db1", ServerRun.begun)
    assert state.note("db1", lambda run: run.heard(figures())).seen is not None
    state.note("db1", lambda run: run.ended(1.0, None, stopped=False))
    assert state.note("db1", lambda run: run.heard(figures())).seen is None


def test_a_refused_server_says_why():
    """The first of its refusals, with the exit code of a refusal."""
    refused = ServerRun.of(plan(refused=True, refusals=("no privilege", "no key")))
    assert refused.state is ServerState.REFUSED
    assert (refused.cause, refused.exit_code) == ("no privilege", 2)
    assert ServerRun.of(plan(done=True)).state is ServerState.DONE
