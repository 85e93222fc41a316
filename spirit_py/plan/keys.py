"""Foreign keys that the server will refuse between the new definitions, as far as that is sure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.attached.foreign_keys.server_refusals import KeyedTables, objections
from spirit_py.codes import ErrorCode
from spirit_py.mysql.tables.definition import read_table
from spirit_py.plan.model import Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.tables.identity import Name
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.schema import TableSchema


def refused_keys(
    session: SqlSession,
    contexts: Iterable[PreflightContext],
    targets: Mapping[Name, TableSchema],
) -> list[Note]:
    """Return a refusal for each key that a swap cannot move.

    Args:
        session: without temporary tables of the names of real ones.
        targets: the new definitions that are known, by schema and name of their sources.

    Raises:
        ServerFault: the server could not be asked.
    """
    known = [one for one in contexts if (one.schema, one.table) in targets]
    around = dict.fromkeys(
        key for one in known for key in keys_around(session, one.schema, one.table)
    )
    old = {(one.schema, one.table): one.source for one in known}
    for key in around:
        for end in (key.child, key.parent):
            found = None if end in old else read_table(session, *end)
            if found is not None:
                old[end] = found
    altered = known[0].altered if known else {}
    # Of an altered table whose new definition is not known nothing is said.
    new = {end: table for end, table in old.items() if end not in altered} | dict(targets)
    tables = KeyedTables(old=old, new=new, altered=altered)
    return [
        Note(
            cause=cause,
            remedy=remedy,
            table=f"{known[0].schema}.{known[0].table}",
            check="foreign_keys",
            code=ErrorCode.FOREIGN_KEY,
        )
        for cause, remedy in objections(around, tables)
    ]
