"""Every text of a row is one of a known kind: none reaches a statement as it is (R26).

Whoever can write a row writes anything into it. The decoder refuses it, or the field is one of
those that are listed here with what becomes of them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.attached.foreign_keys.model import KeyNote
from spirit_py.attached.record import AttachmentsNote
from spirit_py.attached.triggers.model import TriggerNote
from spirit_py.batch.store import BatchRecord, TableRecord
from spirit_py.checkpoint.codec import UnreadableCheckpoint, from_text, to_text
from spirit_py.checkpoint.live import Answer, LiveFigures, Request, StandingOrders
from spirit_py.checkpoint.record import (
    CheckpointRecord,
    MoveNote,
    OldTableRecord,
    Pointer,
    Proofs,
    ReverseRecord,
    ReverseTable,
    TableProgress,
    UncopiedRange,
    as_address,
)
from spirit_py.checkpoint.table import Row
from spirit_py.config import SessionModes
from spirit_py.mysql.tables.identity import Identity
from spirit_py.table.build import ReverseChanges
from spirit_py.table.names import Swap
from spirit_py.table.values import bound_from_literals
from tests.kits.definitions import column

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTILE = "x'); DROP TABLE `mysql`.`user`; -- `\x1b[2J"
LONG = "x" * 70

IDENTITY = Identity(server="uuid", numbers=frozenset({1}), born=1)
SWAP = Swap(schema="s", table="t", new="_t_new", old="_t_old")
ROWS: tuple[Any, ...] = (
    CheckpointRecord(
        statement="ALTER TABLE `s`.`t` ENGINE InnoDB",
        written="alter table t engine = InnoDB",
        tables=(
            TableProgress(
                schema="s",
                table="t",
                source_shape="1",
                target_shape="2",
                bare_shape="3",
                deferred=("i",),
                uncopied=(UncopiedRange(lower=("1",), upper=("2",)),),
                checked_up_to=("1",),
            ),
        ),
        server_uuid="uuid",
        phase="copy",
        position="p",
        settled_at="p",
        started_at="2026-11-22T12:00:00.900153+00:00",
        totals={"rows": 1},
        modes=SessionModes(sql_mode="ANSI", innodb_strict_mode="off"),
        program="1",
    ),
    Pointer(home=("s", "t"), program="1"),
    Proofs(building="_t_0f0f0f", source=IDENTITY, new=IDENTITY),
    ReverseRecord(
        tables=(
            ReverseTable(
                schema="s",
                table="t",
                old="_t_old",
                undone="_t_undone",
                changes=ReverseChanges(
                    renames={"a": "b"}, added=frozenset({"c"}), dropped=frozenset({"d"})
                ),
                now_shape="1",
                old_shape="2",
                guarded_shape="3",
                losses=("all",),
            ),
        ),
        position="p",
        until=1.0,
        reason="why",
        modes=SessionModes(sql_mode="ANSI", innodb_strict_mode="off"),
        program="1",
    ),
    LiveFigures(
        table="s.t",
        elapsed=1.0,
        phase_elapsed=1.0,
        host="h",
        pid=1,
        run="r",
        program="1",
        phase="copy",
        paused="by me",
        settings={"nice": "1"},
    ),
    StandingOrders(paused="by me", settings={"nice": "1"}, over={"nice": "0"}),
    OldTableRecord(swapped_at=1.0),
    MoveNote(target="uuid", program="1", sources=("db1:3306",), asked="db1:3306"),
    AttachmentsNote(
        swaps=(SWAP,),
        keys=(
            KeyNote(
                name="k", child=("s", "t"), parent=("s", "p"), temporary="_spirit_py_0f0f0f0f_1"
            ),
        ),
        triggers=(
            TriggerNote(schema="s", table="t", name="g", temporary="_spirit_py_0f0f0f0f_t_1"),
        ),
    ),
    Request.of("set", {"nice": "1"}),
    Answer(token="t", state="done", said=("done",), hint="h", details=("d",), error_code="c"),
    BatchRecord(
        home="s",
        server_uuid="uuid",
        asked="all",
        started_at="2026-11-22T12:00:00.900153+00:00",
        runs=1,
        parallel=1,
        on_failure="stop",
        program="1",
    ),
    TableRecord(schema="s", table="t", statement="ENGINE=InnoDB", before="0" * 32, after="1" * 32),
)

#: Compared with what the server or the command line says, and never sent.
COMPARED = {
    *("CheckpointRecord.judged", "CheckpointRecord.evaluated"),
    "CheckpointRecord.origin.file",  # with the server's own list of its logs
    *("CheckpointRecord.statement", "CheckpointRecord.server_uuid", "Proofs.source.server"),
    *("Proofs.new.server", "BatchRecord.server_uuid", "BatchRecord.home", "TableRecord.statement"),
    *(f"CheckpointRecord.tables.{kind}_shape" for kind in ("source", "target", "bare")),
    *(f"ReverseRecord.tables.{kind}_shape" for kind in ("now", "old", "guarded")),
    *("Answer.token", "LiveFigures.run", "StandingOrders.over", "MoveNote.target"),
}
#: Shown alone, and written as an escape where a terminal is; see ``status/plain.py``.
SHOWN = {
    "CheckpointRecord.written",  # only where it is read as the statement
    *("CheckpointRecord.program", "CheckpointRecord.mysql", "Pointer.program"),
    *("ReverseRecord.tables.losses", "ReverseRecord.reason", "ReverseRecord.program"),
    *("StandingOrders.paused", "Answer.state", "Answer.said", "Answer.hint", "Answer.details"),
    *("Answer.error_code", "BatchRecord.asked", "BatchRecord.started_at", "BatchRecord.on_failure"),
    *("BatchRecord.program", "TableRecord.outcome", "TableRecord.error", "TableRecord.report"),
    *("CheckpointRecord.totals", "LiveFigures", "MoveNote.program"),
}
#: Read into values of a type of their own before they are used, and refused where they are none.
PARSED = {
    *("CheckpointRecord.position", "CheckpointRecord.settled_at", "ReverseRecord.position"),
    *(f"CheckpointRecord.tables.{name}" for name in ("checked_up_to", "uncopied.lower")),
    *("CheckpointRecord.tables.uncopied.upper", "StandingOrders.settings", "ReverseRecord.state"),
    *("MoveNote.sources", "MoveNote.asked", "OldTableRecord.looked_at"),
}
#: Quoted, or sent as a literal, wherever they are used.
QUOTED = {
    *("CheckpointRecord.tables.schema", "CheckpointRecord.tables.table"),
    *("CheckpointRecord.tables.deferred", "Pointer.home", "ReverseRecord.tables.changes"),
    *("ReverseRecord.tables.schema", "AttachmentsNote.keys.name", "AttachmentsNote.triggers.name"),
    *("AttachmentsNote.keys.parent", "AttachmentsNote.swaps.schema"),
    *("CheckpointRecord.modes", "CheckpointRecord.choices", "ReverseRecord.modes"),
    *("TableRecord.schema", "TableRecord.table"),
}


#: Quoted for a shell, in a command that is shown.
OPTIONS = {"CheckpointRecord.modes", "CheckpointRecord.choices", "ReverseRecord.modes"}


def changed(value: Any, text: str, path: str) -> Iterator[tuple[str, Any]]:
    """Yield a copy for each text in a value, with another text there, and where that is."""
    if isinstance(value, str):
        yield path, text
    elif isinstance(value, list):
        for at, one in enumerate(value):
            for where, new in changed(one, text, path):
                yield where, [*value[:at], new, *value[at + 1 :]]
    elif isinstance(value, dict):
        for name, one in value.items():
            inner = f"{path}.{name}"
            for where, new in changed(one, text, inner):
                yield where, {**value, name: new}


def known(path: str) -> bool:
    """Whether a field, or what it is in, is listed."""
    parts = path.split(".")
    beginnings = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return bool(beginnings & (COMPARED | SHOWN | PARSED | QUOTED))


def names(path: str) -> bool:
    """Whether a field holds a name of a schema, a table, a key or a trigger."""
    return path in QUOTED - OPTIONS and not path.endswith("changes")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_a_hostile_text_is_refused_or_in_a_field_that_is_known(row):
    """In every field of every kind of row, one at a time."""
    kind = type(row)
    assert from_text(to_text(row), kind) == row
    for path, found in changed(json.loads(to_text(row)), HOSTILE, kind.__name__):
        try:
            from_text(json.dumps(found), kind)
        except UnreadableCheckpoint:
            continue
        assert known(path), path
    for path, found in changed(json.loads(to_text(row)), LONG, kind.__name__):
        if names(path):
            with pytest.raises(UnreadableCheckpoint):
                from_text(json.dumps(found), kind)


def test_every_kind_of_row_is_tried():
    """A new one is to be added here."""
    assert set(Row.__args__) <= {type(row) for row in ROWS}


@pytest.mark.parametrize("kind", ["int", "varchar(9)", "decimal(9,2)", "datetime(3)", "double"])
@pytest.mark.parametrize(
    "literal",
    [
        *("1); DROP TABLE t; -- ", "SLEEP(9)", "(SELECT 1)", "1 OR 1", "_utf8mb4 X'61' OR 1"),
        *("X'61')", "_latin1 X'61'", "@a", "NULL", "1 ", "nan", "inf", "0x61", "1e400", "", "'a'"),
    ],
)
def test_a_key_that_is_no_literal_of_its_column_is_refused(kind, literal):
    """It is read into a value, and written again by the one renderer: both texts must be one."""
    with pytest.raises((ValueError, ArithmeticError)):
        bound_from_literals([column("k", kind)], [literal])


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "1" * 10_000])
def test_a_text_that_exhausts_the_reader_is_refused(text):
    """Depth and length are nobody's gain."""
    with pytest.raises(UnreadableCheckpoint):
        from_text(text, Proofs)


@pytest.mark.parametrize("path", ["/run/my sql/\u00fc.sock", "[::1]:3306", "x" * 400])
def test_every_address_can_be_noted(path):
    """The path of a socket may have any character."""
    address = as_address(path)
    assert MoveNote(target="uuid", sources=(address,), asked=address).asked == address


@pytest.mark.parametrize("until", ["NaN", "Infinity", "1e12", "1e300", "-1e12"])
@pytest.mark.parametrize(
    "row", [one for one in ROWS if isinstance(one, OldTableRecord | ReverseRecord)]
)
def test_a_moment_that_is_no_date_is_refused(row, until):
    """It is told as a date, by every command that looks at the table."""
    text = to_text(replace(row, until=7.0))
    with pytest.raises(UnreadableCheckpoint, match="no date"):
        from_text(text.replace('"until": 7.0', f'"until": {until}'), type(row))
