"""Look at what an earlier run left. What cannot be asked raises: it proves nothing (R17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.change.resumption import why_unreachable
from spirit_py.checkpoint.decision import Found, TableFound
from spirit_py.checkpoint.record import (
    CheckpointRecord,
    Membership,
    UnreadableCheckpoint,
    digest_of,
    home_of,
)
from spirit_py.checkpoint.store import CheckpointStore
from spirit_py.mysql.inspect import read_table, shape_of
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.checkpoint.store import StoredCheckpoint
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.table.schema import TableSchema

Name = tuple[str, str]


def look(session: SqlSession, options: ConnectionOptions, tables: Sequence[Name]) -> Found:
    """Look at what an earlier run left beside these tables.

    Args:
        options: to ask for the binlog.
        tables: schema and name of each table of this run.

    Raises:
        ServerFault: the server could not be asked.
        FeedFailure: the binlog could not be looked at.
    """
    server = str(session.query("SELECT @@GLOBAL.server_uuid")[0][0])
    seen = tuple(look_at_table(session, *table) for table in tables)
    unreadable = ""
    stored: StoredCheckpoint | None = None
    for table in _home_first(tables):
        try:
            stored = stored or store_of(table).read(session)
        except UnreadableCheckpoint as error:
            if store_of(table).is_ours(session):
                unreadable = unreadable or str(error)
    if stored is None or unreadable:
        return Found(unreadable=unreadable, server_uuid=server, tables=seen)
    return Found(
        record=stored.found,
        age=stored.age,
        server_uuid=server,
        tables=seen,
        unreachable=unreachable(options, stored, server),
    )


def _home_first(tables: Sequence[Name]) -> list[Name]:
    """Give the tables, first the one whose checkpoint table holds the record."""
    home = home_of(tables)
    return [home, *(table for table in tables if table != home)]


def store_of(table: Name) -> CheckpointStore:
    """Give the store beside a table."""
    return CheckpointStore(table[0], AuxiliaryNames.of(table[1]).checkpoint)


def look_at_table(session: SqlSession, schema: str, table: str) -> TableFound:
    """Look at one table and at those beside it."""
    names = AuxiliaryNames.of(table)
    return TableFound(
        schema=schema,
        table=table,
        source_shape=_shape(session, schema, table),
        new_shape=_shape(session, schema, names.new),
        old_shape=_shape(session, schema, names.old),
        ours=store_of((schema, table)).is_ours(session),
    )


def _shape(session: SqlSession, schema: str, table: str) -> str:
    found = read_table(session, schema, table)
    return "" if found is None else shape_digest(found)


def shape_digest(table: TableSchema) -> str:
    """Give the digest of a table's definition that a checkpoint holds."""
    return digest_of(shape_of(table), table.name)


def unreachable(options: ConnectionOptions, stored: StoredCheckpoint, server: str) -> str:
    """Say why the change feed cannot go on from the record's position."""
    record = stored.found
    if isinstance(record, Membership) or not record.position or record.server_uuid != server:
        return ""
    return why_unreachable(options, record.position, age=stored.age)


def record_beside(session: SqlSession, table: Name) -> tuple[StoredCheckpoint | None, str]:
    """Find the record of the migration that a table takes part in, wherever it is.

    Returns:
        The checkpoint, and why one that is there cannot be read.
    """
    try:
        stored = store_of(table).read(session)
        if stored is not None and isinstance(stored.found, Membership):
            home = store_of(stored.found.home).read(session)
            if home is None or not isinstance(home.found, CheckpointRecord):
                return None, f"it points to {'.'.join(stored.found.home)}, which has none"
            return home, ""
    except UnreadableCheckpoint as error:
        return None, str(error)
    return stored, ""
