"""Which tables belong to one migration, by what their checkpoint tables say themselves.

A record names its tables, and each of their checkpoint tables points back to it. Both must agree:
a table that was migrated by itself since has a checkpoint of its own, and a record that was
written over leaves pointers behind that nobody follows any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spirit_py.checkpoint.beside import drop_beside
from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.record import CheckpointRecord, Pointer
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.mysql.locks.named import named_lock_holder, take_named_lock
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from spirit_py.checkpoint.table import StoredCheckpoint
    from spirit_py.contracts import SqlSession

Name = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What the checkpoint table beside a table leads to.

    Attributes:
        stored: the record of the migration that the table takes part in; None without one.
        home: the table whose checkpoint table holds the record, or should.
        orphaned: the table's pointer leads nowhere, and why; empty otherwise.
    """

    stored: StoredCheckpoint | None
    home: Name
    orphaned: str = ""


def store_of(table: Name) -> CheckpointTable:
    """Return the store beside a table."""
    return CheckpointTable(*table)


def beside(session: SqlSession, table: Name) -> Beside:
    """Follow a table's checkpoint table to the record of its migration, wherever that is.

    Raises:
        UnreadableCheckpoint: when the table's own cannot be read.
    """
    stored = store_of(table).read_record(session)
    if stored is None or not isinstance(stored.found, Pointer):
        return Beside(stored=stored, home=table)
    home = stored.found.home
    together = f"it was migrated together with {'.'.join(home)}"
    try:
        there = store_of(home).read_record(session)
    except UnreadableCheckpoint as error:
        return Beside(
            stored=None, home=home, orphaned=f"{together}, whose checkpoint cannot be read: {error}"
        )
    if there is None or not isinstance(there.found, CheckpointRecord):
        return Beside(stored=None, home=home, orphaned=f"{together}, which has no checkpoint")
    if table not in {one.name for one in there.found.tables}:
        return Beside(
            stored=None,
            home=home,
            orphaned=f"{together}, whose migration is another one by now",
        )
    return Beside(stored=there, home=home)


def members(session: SqlSession, record: CheckpointRecord) -> tuple[Name, ...]:
    """Return the tables of a record whose checkpoint tables say that they are of it."""
    return tuple(one.name for one in record.tables if _says(session, one.name, record) is True)


def taken_over(session: SqlSession, record: CheckpointRecord) -> frozenset[Name]:
    """Return the tables of a record that another migration has been begun on since."""
    return frozenset(one.name for one in record.tables if _says(session, one.name, record) is False)


def _says(session: SqlSession, table: Name, record: CheckpointRecord) -> bool | None:
    """Return whether a table's checkpoint is of this migration; None when it does not tell."""
    try:
        stored = store_of(table).read_record(session)
    except UnreadableCheckpoint:
        return None
    if stored is None:
        return None
    if isinstance(stored.found, Pointer):
        return stored.found.home == record.home
    return table == record.home and set(_names(stored.found)) == set(_names(record))


def _names(record: CheckpointRecord) -> list[Name]:
    return [table.name for table in record.tables]


def drop_left_behind(
    session: SqlSession, record: CheckpointRecord, besides: Collection[Name]
) -> list[str]:
    """Drop what a record that is to be written over leaves beside its other tables.

    Args:
        besides: the tables of the run, which sees to them itself.

    Returns:
        What to tell the operator: each table's, dropped or not.
    """
    return [_drop_one(session, table) for table in members(session, record) if table not in besides]


def _drop_one(session: SqlSession, table: Name) -> str:
    """Drop one table's, unless somebody works on it."""
    name, lock = ".".join(table), lock_name("migration", *table)
    if not take_named_lock(session, lock):
        return (
            f"what the earlier migration left beside {name} stays: a process works on that table"
            f" now (server session {named_lock_holder(session, lock)})"
        )
    try:
        kept = drop_beside(session, *table)
    finally:
        session.query("SELECT RELEASE_LOCK(%s)", (lock,))
    done = f"dropped what the earlier migration left beside {name}, which was to change with it"
    return f"{done}; {kept}" if kept else done
