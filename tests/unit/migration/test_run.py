"""What a run keeps for its report."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

import spirit_py.migration.run as module
from spirit_py.batch import entry as batch_entry
from spirit_py.checkpoint.record import CheckpointRecord, TableProgress
from spirit_py.config import ConnectionOptions, MigrationConfig, RevertConfig
from spirit_py.errors import AnotherServer, ServerFault, Stopped
from spirit_py.events.run import ResumeDecided
from spirit_py.migration import entry, job
from spirit_py.migration.facts import AlterAnswered, PlainFact
from spirit_py.migration.migration import compared_under
from spirit_py.migration.reverse.revert import Revert
from spirit_py.migration.run import Run
from spirit_py.move import move
from spirit_py.move.run import MoveRun
from spirit_py.phases import Phase
from spirit_py.threads import StopSwitch
from spirit_py.units import Window
from tests.kits.reporter import RecordingReporter


@pytest.mark.parametrize(
    ("windows", "paused", "still"),
    [((), "", False), ((), "paused by me", True), (("00:00-24:00",), "", False)],
)
def test_work_stands_still_as_the_operator_wants_it(windows, paused, still):
    """In a pause, and not in a window that is open; then no end of the work is known."""
    run = run_of(allow=tuple(map(Window.parse, windows)))
    run.settings.change(paused=paused)
    assert run.figures.paused() is still


def test_outside_of_its_windows_the_work_stands_still():
    """A window of the hour that begins in six hours is closed now, whatever time it is."""
    hour = (datetime.now(UTC) + timedelta(hours=6)).strftime("%H")
    begins = Window.parse(f"{hour}:00-{hour}:59Z")
    assert run_of(allow=(begins,)).figures.paused() is True


def run_of(told: RecordingReporter | None = None, *, kind: type[Run] = Run, **more: Any) -> Run:
    """Return a run that does nothing."""
    config: Any = MigrationConfig(connection=ConnectionOptions(), database="s", table="t", **more)
    engine: Any = None
    return kind(config, told or RecordingReporter(), engine_factory=engine, stop=StopSwitch())


def test_a_step_behind_a_backup_is_repeated_until_that_is_over(monkeypatch):
    """Any number of times, and what is waited for is shown; a lock of nobody ends the step."""
    run, left = run_of(), [ServerFault(1205, "no lock", where="x")] * 40
    monkeypatch.setattr(run.stop, "pause", lambda _: None)
    monkeypatch.setattr(run, "session", lambda *_, **__: contextlib.nullcontext())
    shown: list[str] = []
    monkeypatch.setattr(run, "show", shown.append)
    monkeypatch.setattr(job, "LockedBy", lambda *_, **__: lambda: "a backup" if left else "")

    def work(_session):
        if left:
            raise left.pop()
        return "made"

    assert run.step("sentinel", work) == "made"
    assert shown[0] == "a backup"
    assert shown[-1] == ""
    left[:] = [ServerFault(1205, "no lock", where="x")] * 40
    monkeypatch.setattr(job, "LockedBy", lambda *_, **__: lambda: "")
    with pytest.raises(ServerFault, match="no lock"):
        run.step("sentinel", work)


def test_another_server_is_not_hurried(monkeypatch):
    """After a failover no statement of this run is there, and its own end is waited for."""

    def connect(*_args, **_more):
        raise AnotherServer("another server answers")

    monkeypatch.setattr(module, "connect", connect)
    run = run_of()
    run.config = replace(run.config, connection=replace(run.config.connection, label="x"))
    run.go_on_to(Phase.SHORTCUT)
    run.hurry()


def test_an_abort_reaches_the_same_work_with_other_servers():
    """The swap back of a move looks at the run as the other server sees it (R15)."""
    run = run_of()
    facing = run.facing(connection=replace(run.config.connection, host="there"))
    run.give_up("aborted by me")
    assert facing.giving_up == "aborted by me"
    run.give_up("")
    assert not facing.giving_up


def test_a_warning_that_comes_again_is_in_the_report_once():
    """Throttlers are made again for the swap, and warn again of what they cannot watch."""
    told = RecordingReporter()
    run = run_of(told)
    for text in ("the server knows no replica", "another", "the server knows no replica"):
        run.warn(text)
    assert run.report.warnings == ["the server knows no replica", "another"]
    assert told.text.count("the server knows no replica") == 2


def swap_is(*, swapped: bool = False, renaming: bool = False, back: bool = False) -> Any:
    """Return a swap, or a swap back, that is so far."""
    return SimpleNamespace(swapped=swapped, renaming=renaming, may_be_back=lambda: back)


RESUMED = ResumeDecided(
    said="", decision="resume", reason="", number=2, rows_copied=0, phase=None, swapped=True
)
SENT = PlainFact.ALTER_SENT


@pytest.mark.parametrize(
    ("noted", "cutover", "keeper", "code", "says"),
    [
        ([], None, None, 130, "the source table is intact"),
        ([SENT], None, None, 3, "may or may not have happened"),
        ([SENT, AlterAnswered(made=False)], None, None, 130, "the source table is intact"),
        ([SENT, AlterAnswered(made=True)], None, None, 130, "the change is done"),
        ([RESUMED], None, None, 130, "the change is done"),
        ([PlainFact.TABLES_CHANGED], None, None, 130, "the change is done"),
        ([], swap_is(), None, 130, "the source table is intact"),
        ([], swap_is(renaming=True), None, 3, "may or may not have happened"),
        ([], swap_is(renaming=True, swapped=True), None, 130, "the change is done"),
        ([], swap_is(swapped=True), swap_is(), 130, "the change is done"),
        ([], swap_is(swapped=True), swap_is(renaming=True, back=True), 3, "may or may not have"),
        ([], swap_is(swapped=True), swap_is(back=True), 130, "the old definition is in place"),
        ([RESUMED], None, swap_is(renaming=True, back=True), 3, "may or may not have happened"),
    ],
)
@pytest.mark.parametrize("batch", [False, True])
def test_who_leaves_at_once_is_told_what_is_known(noted, cutover, keeper, code, says, batch):
    """Exit code 3 while a statement that changes the tables is sent and not answered; no more."""
    run = run_of()
    for fact in noted:
        run.note(fact)
    run.cutover, run.keeper = cutover, keeper
    of_batch: Any = SimpleNamespace(runs=(run,))
    error = batch_entry._left_at_once(of_batch) if batch else entry._left_at_once(run)
    assert error.exit_code == code
    said = f"{error.message}; {error.hint}"
    if not batch:
        assert says in said
    elif code == 130:
        assert ("is done" in said) is ("is done" in says)
    assert ("intact" in said) is ("intact" in says or (batch and "old definition" in says))


@pytest.mark.parametrize("batch", [False, True])
def test_who_leaves_at_once_is_told_of_each_table_that_is_swapped(batch):
    """Of two that change in one RENAME, both may have changed."""
    run = run_of()
    run.report.tables = ["s.t", "s.u"]
    run.cutover = swap_is(renaming=True)
    of_batch: Any = SimpleNamespace(runs=(run,))
    error = batch_entry._left_at_once(of_batch) if batch else entry._left_at_once(run)
    assert "the change of s.t, s.u" in error.message


@pytest.mark.parametrize(
    ("noted", "cutover", "keeper", "says"),
    [
        ([], None, None, "intact"),
        ([AlterAnswered(made=True)], None, None, "the change is done"),
        ([RESUMED], None, None, "the change is done"),
        ([], swap_is(swapped=True), None, "the change is done"),
        ([], swap_is(swapped=True), swap_is(), "the change is done"),
        ([RESUMED], None, swap_is(back=True), "the old definition is in place"),
    ],
)
@pytest.mark.parametrize("told", [False, True])
def test_a_stop_says_what_is_done_by_then(noted, cutover, keeper, says, told):
    """Wherever it ends the work, if nothing else has said it; to others it says what it did."""
    run = run_of()
    for fact in noted:
        run.note(fact)
    run.cutover, run.keeper = cutover, keeper
    stopped = Stopped("stopped", hint="the source table is intact")
    run.stop.request(stopped)

    def work() -> None:
        raise stopped.saying("said") if told else ServerFault(2013, "lost", where="x")

    with pytest.raises(Stopped, match="stopped") as ended:
        run.to_its_end(work)
    assert ("said" if told else says) in ended.value.hint
    assert run.stop.cause_of(ended.value) is ended.value
    assert (ended.value.exit_code, stopped.hint) == (143, "the source table is intact")


@pytest.mark.parametrize(
    ("noted", "cutover", "keeper", "code", "says"),
    [
        ([], None, None, 130, "the source's tables are intact"),
        ([], swap_is(renaming=True), None, 3, "may or may not have happened"),
        ([], swap_is(renaming=True, swapped=True), None, 130, "the switch to the target is made"),
        ([RESUMED], None, None, 130, "the switch to the target is made"),
        ([], swap_is(swapped=True), swap_is(), 130, "the switch to the target is made"),
        ([], swap_is(swapped=True), swap_is(renaming=True, back=True), 3, "may or may not"),
        ([RESUMED], None, swap_is(back=True), 130, "the source's tables are in place again"),
    ],
)
def test_who_leaves_a_move_at_once_is_told_what_is_known(noted, cutover, keeper, code, says):
    """Behind the switch the source's tables are no longer the ones that are used."""
    run: Any = run_of(kind=MoveRun)
    for fact in noted:
        run.note(fact)
    run.cutover, run.keeper = cutover, keeper
    error = move._left_at_once(run)
    assert error.exit_code == code
    assert says in f"{error.message}; {error.hint}"


@pytest.mark.parametrize(
    ("keeper", "code", "says"),
    [
        (None, 130, "this process swaps nothing back"),
        (swap_is(), 130, "not swapped back"),
        (swap_is(renaming=True, back=True), 3, "may or may not have happened"),
        (swap_is(back=True), 130, "the old definition is in place"),
    ],
)
def test_who_leaves_a_revert_at_once_is_told_what_is_known(keeper, code, says):
    """Exit code 3 while the RENAME is sent and not answered."""
    config: Any = RevertConfig(connection=ConnectionOptions(), database="s", table="t")
    nothing: Any = None
    run = Revert(config, RecordingReporter(), engine_factory=nothing, stop=StopSwitch())
    run._keeper = keeper
    error = run.left_at_once()
    assert error.exit_code == code
    assert says in f"{error.message}; {error.hint}"


@pytest.mark.parametrize(
    ("noted", "reason"),
    [("then", "are others since"), ("", "an earlier version has not noted"), ("now", "")],
)
def test_what_was_compared_under_other_settings_does_not_count(noted, reason):
    """Nor under settings that nobody knows."""
    progress = TableProgress(schema="s", table="t", checked_up_to=("5",))
    record = CheckpointRecord(
        statement="",
        tables=(progress,),
        shards=(replace(progress, shard="b"),),
        server_uuid="",
        phase="copy",
        evaluated=noted,
    )
    told = RecordingReporter()
    found = compared_under(run_of(told), record, "now")
    assert reason in told.text
    assert found.evaluated == "now"
    assert [bool(one.checked_up_to) for one in found.everywhere] == [not reason] * 2
