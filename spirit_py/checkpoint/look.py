"""Look at what an earlier run left. What cannot be asked raises: it proves nothing (R17)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spirit_py.binlog.resumption import why_unreachable
from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.decision import Found, TableFound
from spirit_py.checkpoint.members import store_of, taken_over
from spirit_py.checkpoint.proofs import proofs_here, shape_digest, shape_here
from spirit_py.checkpoint.record import (
    CheckpointRecord,
    Pointer,
    home_of,
)
from spirit_py.checkpoint.reverse_found import reverse_left
from spirit_py.errors import SpiritError
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.identity import is_one_of
from spirit_py.table.names import AuxiliaryNames
from spirit_py.table.values import bound_from_literals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spirit_py.checkpoint.record import TableProgress
    from spirit_py.checkpoint.table import StoredCheckpoint
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.table.schema import Index, TableSchema

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
    way_back = reverse_left(session, tables)
    unreadable = ""
    stored: StoredCheckpoint | None = None
    for table in _home_first(tables):
        try:
            stored = stored or store_of(table).read_record(session)
        except UnreadableCheckpoint as error:
            if store_of(table).is_ours(session):
                unreadable = unreadable or str(error)
    if stored is not None and isinstance(stored.found, CheckpointRecord):
        unreadable = unreadable or damage(session, stored.found)
    record = stored.found if stored is not None else None
    seen = tuple(look_at_table(session, table, record) for table in tables)
    if stored is None or unreadable:
        return Found(unreadable=unreadable, server_uuid=server, tables=seen, way_back=way_back)
    return Found(
        record=stored.found,
        age=stored.age,
        server_uuid=server,
        tables=marked(session, seen, stored.found),
        unreachable=unreachable(options, stored),
        way_back=way_back,
    )


def _home_first(tables: Sequence[Name]) -> list[Name]:
    """Return the tables, first the one whose checkpoint table holds the record."""
    home = home_of(tables)
    return [home, *(table for table in tables if table != home)]


def look_at_table(
    session: SqlSession,
    name: Name,
    record: CheckpointRecord | Pointer | None,
    *,
    trusting: bool = False,
) -> TableFound:
    """Look at one table and at those beside it.

    Args:
        record: of the migration; None where it cannot be read.
        trusting: take their definitions for a proof of whose they are: for an account that may
            not see the numbers of tables, and only looks.
    """
    schema, table = name
    names = AuxiliaryNames.of(table)
    if trusting:
        new, old = (shape_here(session, schema, name) for name in (names.new, names.old))
        proofs = {"changed_here": bool(old) and not new, "new_is_ours": True, "old_is_ours": True}
    else:
        made = proofs_here(session, schema, table, progress_of(record, name))
        proofs = {
            "changed_here": is_one_of(session, schema, table, made.new),
            "new_is_ours": is_one_of(session, schema, names.new, made.new),
            "old_is_ours": is_one_of(session, schema, names.old, made.source),
            "swap_begun": made.swap_begun,
        }
    return TableFound(
        schema=schema,
        table=table,
        source_shape=shape_here(session, schema, table),
        new_shape=shape_here(session, schema, names.new),
        old_shape=shape_here(session, schema, names.old),
        ours=store_of((schema, table)).is_ours(session),
        **proofs,
    )


def progress_of(record: CheckpointRecord | Pointer | None, name: Name) -> TableProgress | None:
    """Return what a record says of a table; None for one that says nothing of it."""
    tables = record.tables if isinstance(record, CheckpointRecord) else ()
    return next((table for table in tables if table.name == name), None)


def marked(
    session: SqlSession, tables: Iterable[TableFound], record: CheckpointRecord | Pointer
) -> tuple[TableFound, ...]:
    """Note which tables of a record another migration has been begun on since."""
    others = taken_over(session, record) if isinstance(record, CheckpointRecord) else frozenset()
    return tuple(replace(table, taken_over=table.name in others) for table in tables)


def damage(session: SqlSession, record: CheckpointRecord) -> str:
    """Return which bound of a record cannot be a key of its table; empty when all can.

    A table whose definition is another one by now is judged by that alone.
    """
    for progress in record.tables:
        bounds = {"copied_up_to": progress.copied_up_to, "checked_up_to": progress.checked_up_to}
        source = read_table(session, *progress.name) if any(bounds.values()) else None
        if source is None or shape_digest(source) != progress.source_shape:
            continue
        for name, bound in bounds.items():
            if bound and not any(_is_key(source, index, bound) for index in source.indexes):
                return f"{name} of {progress} is not a key of that table"
    return ""


def _is_key(source: TableSchema, index: Index, literals: tuple[str, ...]) -> bool:
    """Return whether literals are a key of an index that rows can be walked by."""
    if not index.unique:
        return False
    try:
        bound_from_literals([source.column(name) for name in index.columns], literals)
    except (ValueError, ArithmeticError, KeyError, SpiritError):
        return False
    return True


def unreachable(options: ConnectionOptions, stored: StoredCheckpoint) -> str:
    """Return why the change feed cannot go on from the record's position."""
    record = stored.found
    if isinstance(record, Pointer) or not record.position:
        return ""
    return why_unreachable(options, record.position, age=stored.age)
