"""The end of a table whose end cannot be noted, and a batch that is refused."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from spirit_py.batch import batch as module
from spirit_py.batch import entry
from spirit_py.batch.batch import Batch
from spirit_py.batch.changes import TableChange
from spirit_py.batch.plan import BatchPlan, PlannedTable
from spirit_py.batch.report import BatchReport
from spirit_py.batch.store import TableRecord, TableState
from spirit_py.batch.table_run import TableRun
from spirit_py.classes import replace
from spirit_py.command_config import BatchConfig, FleetOrders
from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.errors import (
    AnotherServer,
    Interrupted,
    MigrationFailure,
    OutcomeUnknown,
    SchemaChanged,
    SpiritError,
)
from spirit_py.migration.facts import Concluded, PlainFact
from spirit_py.phases import Phase
from spirit_py.threads import Background, StopSwitch
from tests.kits.reporter import RecordingReporter

CONFIG = BatchConfig(each=MigrationConfig(connection=ConnectionOptions(), database="s"))


def change(table: str) -> TableChange:
    """Return the change of one table."""
    return TableChange(schema="s", table=table, clauses="FORCE", normalized="FORCE")


def record(table: str, **more: str) -> TableRecord:
    """Return what is noted of one table."""
    return replace(TableRecord(schema="s", table=table, statement="FORCE"), **more)


class Store:
    """Keeps what is noted, or raises ``fault`` for the state ``failing``."""

    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.noted: list[TableRecord] = []

    def note(self, _session: object, table: TableRecord) -> None:
        """Keep the record of a table."""
        if table.state == self.failing:
            raise AnotherServer("another server answers")
        self.noted.append(table)


@pytest.fixture
def begun(monkeypatch):
    """Return how a batch of these tables begins, whose migrations do nothing but end well."""
    monkeypatch.setattr(module, "connect", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(module, "related_tables", lambda *_: {})
    monkeypatch.setattr(module, "step_for", lambda *_, **__: None)
    monkeypatch.setattr(module, "forms_of", lambda *_: ("", ""))

    monkeypatch.setattr(TableRun, "execute", lambda _: None)

    def of(store: Store, *records: TableRecord, parallel: int = 1) -> Batch:
        tables = tuple(PlannedTable(change=change(one.table), action="copied") for one in records)
        nothing: Any = None
        return Batch(
            config=replace(CONFIG, parallel=parallel),
            plan=BatchPlan(name="b", server_uuid="u", tables=tables),
            reporter=RecordingReporter(),
            store=store,  # type: ignore[arg-type]
            records={one.name: one for one in records},
            engine_factory=nothing,
            stop=StopSwitch(),
        )

    return of


def test_a_batch_whose_record_takes_no_note_fails(begun):
    """The table is not called done: whether it is, the next run finds out; no other one begins."""
    store = Store(failing=TableState.DONE)
    batch = begun(store, record("a"), record("b"))
    with pytest.raises(AnotherServer):
        batch.run()
    states = {name: one.state for (_, name), one in batch.records.items()}
    assert states == {"a": TableState.RUNNING, "b": TableState.PENDING}
    assert [one.state for one in store.noted] == [TableState.RUNNING]


def test_a_server_of_a_fleet_begins_no_table_before_its_record_was_looked_at(begun, monkeypatch):
    """A pause may have been ordered before it had one."""
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    seen = FleetOrders(unseen=True), FleetOrders(number=1, paused=True), FleetOrders(number=2)
    left = list(seen)

    class Ordered(Store):
        def orders(self, _session: object) -> FleetOrders:
            return left.pop(0)

        def note(self, session: object, table: TableRecord) -> None:
            assert not left
            super().note(session, table)

    store = Ordered()
    batch = begun(store, record("a"))
    batch.config = replace(batch.config, fleet="1" * 32)
    batch.run()
    assert [one.state for one in store.noted] == [TableState.RUNNING, TableState.DONE]


@pytest.mark.parametrize("written", [True, False])
def test_a_batch_is_refused_without_a_trace_only_where_no_earlier_run_left_one(written):
    """Exit code 2 promises that nothing was written (R16)."""
    tables = (PlannedTable(change=change("a"), refusals=("no key",)),)
    plan = BatchPlan(name="b", server_uuid="u", tables=tables, written=written)
    with pytest.raises(SpiritError) as raised:
        entry.run_batch(CONFIG, plan, reporter=RecordingReporter())
    assert raised.value.exit_code == (1 if written else 2)
    assert ("nothing was written" in raised.value.message) is not written
    assert "1 of 1 tables cannot be changed" in raised.value.message


def test_a_changed_table_that_is_left_out_counts_as_done():
    """Forgotten, it would be changed again by the same command; one that was begun is not known."""
    tables = (PlannedTable(change=change("a"), action="copied"),)
    earlier = {("s", one.table): one for one in (record("b", state="changed"), record("c"))}
    found = entry._records(BatchPlan(name="b", server_uuid="u", tables=tables), earlier)
    assert {name: one.state for (_, name), one in found.items()} == {"a": "pending", "b": "done"}


def test_counts_say_of_a_table_that_is_resumed_that_it_is_under_way(begun, monkeypatch):
    """Not that it has failed, as it did before; so that no count falls below zero."""
    store, seen = Store(), []
    failed = {"outcome": "failed", "error": "duplicates"}
    batch = begun(store, record("a", **failed, state=TableState.RUNNING), record("b", **failed))

    def execute(_run: TableRun) -> None:
        seen.append((batch.status().counts, [one.error for one in batch.records.values()]))

    monkeypatch.setattr(TableRun, "execute", execute)
    batch.run()
    counts = {"done": 0, "running": 1, "failed": 1, "left": 0}
    assert seen == [(counts, ["", "duplicates"]), (counts | {"done": 1, "failed": 0}, ["", ""])]
    assert [one.error for one in store.noted] == [""] * 4


def test_a_batch_that_fails_stops_its_tables_and_waits_for_them(begun, monkeypatch):
    """They are not left to work unseen, and what became of them is noted."""
    store, ended = Store(), []
    batch = begun(store, record("a"), record("b"), parallel=2)

    def execute(run: TableRun) -> None:
        ended.append(run.run.stop.wait(60))
        run.run.stop.check()

    start = Background.start

    def start_one(thread: Background) -> None:
        if len(batch.runs) > 1:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(TableRun, "execute", execute)
    monkeypatch.setattr(Background, "start", start_one)
    monkeypatch.setattr(module, "is_begun", lambda *_: False)
    monkeypatch.setattr(module, "read_shape", lambda *_: None)
    monkeypatch.setattr(module, "form_of", lambda *_: "changed")
    with pytest.raises(RuntimeError):
        batch.run()
    assert ended == [True]
    assert [(one.table, one.outcome) for one in store.noted] == [("a", ""), ("a", "failed")]
    assert batch.ended


def test_the_record_of_a_batch_stays_small_where_gtids_are_long(begun, monkeypatch):
    """Thousands of tables have a row each; only a position of a usual length is kept in it."""
    store = Store()

    def execute(run: TableRun) -> None:
        run.report.outcome = "rehearsed"
        run.report.start_position, run.report.final_position = "gtid;a:1-7", "b:1," * 50_000

    monkeypatch.setattr(TableRun, "execute", execute)
    begun(store, record("a")).run()
    kept = store.noted[-1].report
    assert len(kept) < 10_000
    assert '"start_position": "gtid;a:1-7"' in kept
    assert '"final_position": ""' in kept


@pytest.mark.parametrize(
    ("error", "checkpoint", "definition", "state"),
    [
        (MigrationFailure("duplicates"), False, "before", TableState.PENDING),
        (MigrationFailure("duplicates"), False, "other", TableState.RUNNING),
        (MigrationFailure("the feed"), True, "before", TableState.RUNNING),
        (OutcomeUnknown("no answer"), False, "before", TableState.RUNNING),
        (SchemaChanged("by another session"), False, "other", TableState.PENDING),
    ],
)
def test_a_failed_table_counts_as_begun_where_the_change_may_still_be_made(
    begun, monkeypatch, error, checkpoint, definition, state
):
    """By a checkpoint that is kept, or by the server, which has not answered (R17)."""
    batch = begun(store := Store(), record("a"))
    monkeypatch.setattr(module, "forms_of", lambda *_: ("0" * 32, "1" * 32))
    monkeypatch.setattr(module, "is_begun", lambda *_: checkpoint)
    monkeypatch.setattr(module, "read_shape", lambda *_: None)
    seen = {"before": "0" * 32, "other": "2" * 32}[definition]
    monkeypatch.setattr(module, "form_of", lambda *_: seen)
    monkeypatch.setattr(TableRun, "execute", lambda run: run.failed(error))
    batch.run()
    assert store.noted[-1].state == state


def test_a_table_that_was_changed_back_is_not_done(begun, monkeypatch):
    """The batch only cleaned up behind spirit-py revert; the same command changes it again."""

    def execute(run: TableRun) -> None:
        run.run.go_on_to(Phase.CLEANUP)
        run.run.note(PlainFact.TABLES_CHANGED)
        run.run.note(PlainFact.REVERTED)
        run.run.go_on_to(Phase.DONE)
        run.run.note(Concluded("done"))

    batch = begun(store := Store(), record("a"))
    monkeypatch.setattr(TableRun, "execute", execute)
    batch.run()
    (last,) = store.noted[-1:]
    assert (last.state, last.outcome) == (TableState.PENDING, "reverted")
    report = BatchReport()
    report.add([last, record("b", state=TableState.DONE, outcome="done")])
    report.conclude(None, seconds=1.0, record="s.b")
    assert (report.outcome, report.exit_code) == ("failed", 1)
    line, counts, *_ = report.summary()
    assert line.startswith("s.a: reverted: spirit-py revert has put the old definition back")
    assert counts.startswith("2 tables: 1 changed, 1 changed back in")


@pytest.mark.parametrize("state", [TableState.RUNNING, TableState.CHANGED])
def test_a_stopped_batch_calls_no_table_intact_that_is_changed(begun, monkeypatch, state):
    """It names those that are."""
    batch = begun(Store(), record("a"))
    monkeypatch.setattr(module, "is_begun", lambda *_: False)
    monkeypatch.setattr(module, "read_shape", lambda *_: None)
    monkeypatch.setattr(module, "form_of", lambda *_: "other")

    def execute(run: TableRun) -> None:
        batch._note(("s", "a"), state=state)
        batch.stop.request(Interrupted(2, hint="the source table is intact"))
        run.failed(batch.stop.reason)

    monkeypatch.setattr(TableRun, "execute", execute)
    with pytest.raises(Interrupted) as stopped:
        batch.run()
    changed = state == TableState.CHANGED
    assert ("the change of s.a is done" in stopped.value.hint) is changed
    assert ("intact" in stopped.value.hint) is not changed
    assert batch.stop.cause_of(stopped.value) is stopped.value
