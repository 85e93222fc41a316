"""Drop auxiliary tables that are proven to be ours, and no others (R24)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.attached.record import AttachmentsNote
from spirit_py.checkpoint.earlier_run import cannot_be_read, may_hold_rows, see_what_it_holds
from spirit_py.checkpoint.examination import members
from spirit_py.checkpoint.proofs import read_proofs
from spirit_py.checkpoint.queue import RequestQueue
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.locks.named import named_lock_holder, take_named_lock
from spirit_py.mysql.processlist import whose
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.identity import drop_if, is_one_of
from spirit_py.mysql.tables.new_table import drop_building, drop_sentinel
from spirit_py.table.names import AuxiliaryNames, lock_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from spirit_py.checkpoint.record import CheckpointRecord
    from spirit_py.contracts import SqlSession


def drop_left_behind(
    session: SqlSession, record: CheckpointRecord, besides: Collection[tuple[str, str]]
) -> list[str]:
    """Drop the auxiliary tables of a replaced record's other tables; return a line about each."""
    return [_drop_one(session, table) for table in members(session, record) if table not in besides]


def _drop_one(session: SqlSession, table: tuple[str, str]) -> str:
    name = ".".join(table)
    if busy := take_from_others(session, table):
        return f"what the earlier migration of {name} left is kept: {busy}"
    try:
        kept = drop_auxiliary(session, *table)
    finally:
        session.query("SELECT RELEASE_LOCK(%s)", (lock_name("migration", *table),))
    done = f"dropped what the earlier migration of {name} left, which was to change in the same run"
    return f"{done}; {kept}" if kept else done


def take_from_others(session: SqlSession, table: tuple[str, str]) -> str:
    """Take the lock of a table's migration for the life of the session; return who has it."""
    lock = lock_name("migration", *table)
    # The server may take a moment to end the session of a run that has ended just now.
    if take_named_lock(session, lock, timeout=1):
        return ""
    holder = named_lock_holder(session, lock)
    return f"a process works on {'.'.join(table)} now ({whose(session, holder)})"


def drop_auxiliary(session: SqlSession, schema: str, table: str) -> str:
    """Drop the new table, the sentinel and the checkpoint beside a table, never the old table.

    The checkpoint, which proves the others, goes last. Nothing is dropped without it, nor while
    foreign keys may refer to the new table, nor where that may have been in the table's place and
    hold the application's rows. Returns what is not ours, for the operator.
    """
    names, checkpoint = AuxiliaryNames.of(table), CheckpointTable(schema, table)
    if not checkpoint.is_ours(session):
        return ""
    if checkpoint.has(session, AttachmentsNote):
        return (
            f"{schema}.{names.new} stays, and its checkpoint: a swap was stopped half-way, and"
            " foreign keys may refer to it: the same command, or spirit-py cleanup, settles them"
        )
    if why := checkpoint.unreadable(session):
        return "; ".join(cannot_be_read(schema, table, why))
    proofs = read_proofs(session, schema, table)
    if proofs.swap_begun and is_one_of(session, schema, names.new, proofs.new):
        return (
            f"{schema}.{names.new} stays, and its checkpoint: {may_hold_rows(schema, table)};"
            f" {see_what_it_holds(schema, table)}"
        )
    drop_building(session, schema, table, proofs.building)
    dropped = drop_if(session, schema, names.new, proofs.new)
    kept = ""
    if not dropped and read_table(session, schema, names.new):
        kept = (
            f"{schema}.{names.new} stays: nothing proves that this program made it; see who did,"
            " and drop it when it is not needed"
        )
    drop_sentinel(session, schema, names.sentinel)
    drop_checkpoint(session, (schema, table))
    return kept


def drop_checkpoint(session: SqlSession, table: tuple[str, str]) -> None:
    """Drop the requests beside a table, then its checkpoint: nothing else leads to the requests."""
    RequestQueue(*table).drop(session)
    CheckpointTable(*table).drop(session)
