"""A checkpoint that cannot be written: what is waited for, and what stops the migration."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from spirit_py.checkpoint import writer as module
from spirit_py.checkpoint.record import CheckpointRecord, TableProgress
from spirit_py.checkpoint.writer import (
    CheckpointWriter,
    as_written,
    normal_form,
    shown_statement,
)
from spirit_py.config import ConnectionOptions
from spirit_py.errors import AnotherServer, MigrationFailure, ServerFault
from spirit_py.statement import parse_statement
from spirit_py.threads import StopSwitch

RECORD = CheckpointRecord(
    statement="ALTER", tables=(TableProgress(schema="s", table="t"),), server_uuid="u", phase="copy"
)
LOST = ServerFault(2013, "Lost connection", where="checkpoint session")
FULL = ServerFault(1114, "The table is full", where="checkpoint session", hint="free disk space")
LOCKED = ServerFault(1205, "Lock wait timeout exceeded", where="checkpoint session")
GONE = ServerFault(1146, "Table doesn't exist", where="checkpoint session")


class Clock:
    """A clock that the test turns; each look is a minute later."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        self.now += 60.0
        return self.now


class Session:
    """A session that does nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Store:
    """Fails as often as it is told to, then keeps the records."""

    name = ("s", "_t_chkpnt")

    def __init__(self, *faults):
        self.faults = list(faults)
        self.written = []

    def write(self, session, record):
        """Fail or keep."""
        if self.faults:
            raise self.faults.pop(0)
        self.written.append(record)


@pytest.fixture
def writing(monkeypatch):
    """Make a writer over a store, with a clock of its own and no pause."""
    monkeypatch.setattr(module, "connect", lambda *_, **__: Session())
    made = []

    def make(store, **more):
        stop = StopSwitch()
        given: dict[str, Any] = {"period": 0.001, "clock": Clock(), "patience": 600.0} | more
        writer = CheckpointWriter(ConnectionOptions(), store, lambda: RECORD, stop=stop, **given)
        made.append(writer)
        return writer, stop

    yield make
    for writer in made:
        writer.close()


def test_a_passing_fault_of_the_server_is_waited_for(writing):
    """A server that restarts, or is full, is waited for: the next write succeeds."""
    store = Store(LOST, FULL, LOST)
    writer, stop = writing(store)
    writer.start()
    while not store.written:
        assert not stop.wait(0.001)
    assert store.written[0] == RECORD


def test_a_lasting_fault_stops_the_migration(writing):
    """After minutes without a checkpoint the run stops, and says why."""
    store = Store(*[LOST] * 10_000)
    writer, stop = writing(store)
    writer.start()
    assert stop.wait(30.0)
    assert isinstance(stop.reason, MigrationFailure)
    assert "cannot be written any more: Lost connection" in stop.reason.message
    assert len(store.faults) < 10_000 - 5


def test_a_dump_that_locks_the_table_is_waited_for_without_an_end(writing, monkeypatch):
    """``mysqldump`` without --single-transaction keeps every table of a schema locked for hours."""
    monkeypatch.setattr(module, "LockedBy", lambda *_: lambda: "a lock")
    store = Store(*[LOCKED] * 50)
    writer, stop = writing(store)
    writer.start()
    while not store.written:
        assert not stop.wait(0.001)


def test_a_lock_of_which_nothing_is_seen_is_waited_for_as_any_other_fault(writing, monkeypatch):
    """Where performance_schema is OFF it may be anything."""
    monkeypatch.setattr(module, "LockedBy", lambda *_: lambda: "")
    writer, stop = writing(Store(*[LOCKED] * 10_000))
    writer.start()
    assert stop.wait(30.0)
    assert "cannot be written any more: Lock wait" in str(stop.reason)


def test_a_fatal_fault_stops_the_migration_at_once(writing):
    """The checkpoint table was dropped: nothing could be resumed any more."""
    writer, stop = writing(Store(*[GONE] * 100))
    writer.start()
    assert stop.wait(30.0)
    assert "doesn't exist" in str(stop.reason)


def test_a_write_in_the_foreground_raises_its_fault(writing):
    """The caller must know that there is no checkpoint."""
    writer, stop = writing(Store(LOST), period=3600.0)
    with pytest.raises(ServerFault):
        writer.write_now()
    writer.write_now()
    assert writer.age == 60.0
    assert not stop.requested


def test_closing_ends_the_writing(writing):
    """Nothing is written any more, and closing again does no harm."""
    store = Store()
    writer, _ = writing(store, period=3600.0)
    writer.start()
    writer.close()
    writer.close()
    assert store.written == []


def test_the_first_records_follow_each_other_sooner():
    """A run that is stopped in its first minute has lost seconds."""
    assert list(itertools.islice(module.pauses(50.0), 6)) == [5.0, 10.0, 20.0, 40.0, 50.0, 50.0]
    assert list(itertools.islice(module.pauses(1.0), 2)) == [1.0, 1.0]


def test_another_server_ends_the_migration_as_what_it_is(writing):
    """R14: whoever notices it first, the operator is told of the other server."""
    another = AnotherServer("another server answers")
    writer, stop = writing(Store(another))
    writer.start()
    assert stop.wait(30.0)
    assert stop.reason is another


def record_of(text: str, sql_mode: str) -> CheckpointRecord:
    """Return the record of a migration by these statements, of tables of one schema."""
    given = {(one.schema, one.table): one for one in parse_statement(text, "s", sql_mode=sql_mode)}
    return CheckpointRecord(
        statement=normal_form(given),
        written=as_written(given),
        tables=tuple(TableProgress(schema=schema, table=table) for schema, table in given),
        server_uuid="u",
        phase="copy",
    )


@pytest.mark.parametrize(
    ("text", "sql_mode", "shown"),
    [
        (
            "ALTER TABLE t MODIFY CustomerName INT, -- why\n  ADD CONSTRAINT Abc CHECK (A>1)",
            "",
            "ALTER TABLE `s`.`t` MODIFY CustomerName INT, ADD CONSTRAINT Abc CHECK (A>1)",
        ),
        (
            "alter table u force; alter table t add column `x;y` int comment 'a\nb'",
            "",
            "ALTER TABLE `s`.`t` add column `x;y` int comment 'a\\nb'; ALTER TABLE `s`.`u` force",
        ),
        (
            'ALTER TABLE "t" ALTER "c" SET DEFAULT \'a\\\'',
            "ANSI_QUOTES,NO_BACKSLASH_ESCAPES",
            "ALTER TABLE `s`.`t` ALTER \"c\" SET DEFAULT 'a\\'",
        ),
        ("CREATE INDEX Ix ON t (A)", "", "ALTER TABLE `s`.`t` ADD INDEX `Ix` (A)"),
    ],
)
def test_a_statement_is_shown_in_a_line_as_it_was_given(text, sql_mode, shown):
    """Read again it is the same, with the letters that a definition keeps."""
    record = record_of(text, sql_mode)
    line = shown_statement(record, sql_mode)
    assert line == shown
    again = {(one.schema, one.table): one for one in parse_statement(line, "", sql_mode=sql_mode)}
    assert normal_form(again) == record.statement


def test_the_normal_form_is_shown_where_nothing_else_is_known_or_believed():
    """A record of an earlier version has nothing else; a forged one has another statement (R26)."""
    record = record_of("ALTER TABLE t MODIFY A INT; ALTER TABLE u FORCE", "")
    normal = "ALTER TABLE `s`.`t` MODIFY COLUMN `a` int; ALTER TABLE `s`.`u` FORCE"
    forged = ("ALTER TABLE `p`.`salaries` FORCE", f"{record.written}; DROP", "'", "/* */")
    for written in ("", *forged):
        assert shown_statement(replace(record, written=written), "") == normal
    more, fewer = f"{record.statement};\nALTER TABLE `p`.`t` FORCE", record.statement[:41]
    long = f"{record.statement}{' ' * (1 << 16)}"
    for statement in ("x", more, fewer, long):
        assert not shown_statement(replace(record, statement=statement, written=""), "")
        assert not shown_statement(replace(record, statement=statement, written=statement), "")
