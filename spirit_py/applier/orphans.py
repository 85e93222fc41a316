"""Rows that a new UNIQUE key pushed out of the new table, and the proof that none stayed out (R11).

While a unique value moves between rows of the source, the new table may hold its old owner for
a moment; the new owner's image pushes it out, and its own change, which comes, brings it back.
A row that is pushed out and does not come back is a duplicate that the new key cannot hold.
So every row that is pushed out is remembered, and looked at again under the table lock.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from spirit_py.applier.stage import stage_table, target_table
from spirit_py.errors import DuplicateForUnique
from spirit_py.sql import identifier_list, quote_identifier, quote_table
from spirit_py.table.values import key_select_expressions, row_key_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Index

MOST_REMEMBERED = 100_000
_EXAMPLES = 10
_BATCH = 500


class Orphans:
    """Keys of the new table that were pushed out, with what pushed them out. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, dict[str, str]] = {}

    def note(self, session: SqlSession, mapping: TableMapping, why: str) -> None:
        """Remember the rows that stand in the way of the staged rows.

        Raises:
            DuplicateForUnique: when there are so many that they cannot be a passing state.
        """
        columns = [mapping.target.column(name) for name in mapping.new_key_columns]
        found: dict[str, str] = {}
        converted = _converted_stage(session, mapping)
        for index in mapping.target.indexes:
            if index.unique and index.name != "PRIMARY" and (match := _match(mapping, index)):
                # Without an alias: under LOCK TABLES only the name itself is locked.
                target = target_table(mapping)
                key = ", ".join(f"{target}.{quote_identifier(c.name)}" for c in columns)
                rows = session.query(
                    f"SELECT {', '.join(key_select_expressions(columns))} FROM (SELECT DISTINCT"
                    f" {key} FROM {converted} s JOIN {target} ON {match}"
                    f" WHERE NOT ({_same_key(mapping)})) AS in_the_way"
                )
                found |= {row_key_sql(columns, row): f"{index.name}: {why}" for row in rows}
        session.execute(f"DROP TEMPORARY TABLE IF EXISTS {converted}")
        with self._lock:
            known = self._keys.setdefault(_name(mapping), {})
            known |= found
            too_many = len(known) > MOST_REMEMBERED
        if too_many:
            raise _duplicates(mapping, known, len(known))

    def verify(self, session: SqlSession, mapping: TableMapping) -> None:
        """Raise when a remembered row is in the source and not in the new table."""
        with self._lock:
            known = dict(self._keys.get(_name(mapping), {}))
        keys = list(known)
        lost: dict[str, str] = {}
        for at in range(0, len(keys), _BATCH):
            part = keys[at : at + _BATCH]
            old = _present(session, mapping, part, new=False)
            new = _present(session, mapping, part, new=True)
            lost |= {key: known.get(key, "") for key in old - new}
        if lost:
            raise _duplicates(mapping, lost, len(lost))


def _name(mapping: TableMapping) -> str:
    return quote_table(mapping.target.schema, mapping.target.name)


def _converted_stage(session: SqlSession, mapping: TableMapping) -> str:
    """Stage the rows once more, as the new table would hold them but without its keys."""
    converted = stage_table(mapping, "new_rows")
    names = identifier_list(mapping.insert_names)
    session.execute(f"DROP TEMPORARY TABLE IF EXISTS {converted}")
    session.execute(
        f"CREATE TEMPORARY TABLE {converted} ENGINE=InnoDB"
        f" SELECT {names} FROM {target_table(mapping)} LIMIT 0"
    )
    selected = ", ".join(mapping.select_expressions)
    session.execute(f"INSERT INTO {converted} SELECT {selected} FROM {stage_table(mapping)}")
    return converted


def _match(mapping: TableMapping, index: Index) -> str:
    """Say when two rows share the index's value.

    Empty for an index over expressions or generated columns, whose values are not staged: what
    such an index pushes out is left to the checksum.
    """
    carried = {pair.new.name.lower() for pair in mapping.pairs}
    target = target_table(mapping)
    terms = []
    for part in index.parts:
        if part.column is None or part.column.lower() not in carried:
            return ""
        name = quote_identifier(part.column)
        sides = (f"s.{name}", f"{target}.{name}")
        if part.prefix is not None:
            sides = (f"LEFT(s.{name}, {part.prefix})", f"LEFT({target}.{name}, {part.prefix})")
        terms.append(" = ".join(sides))
    return " AND ".join(terms)


def _same_key(mapping: TableMapping) -> str:
    return " AND ".join(
        f"s.{quote_identifier(name)} = {target_table(mapping)}.{quote_identifier(name)}"
        for name in mapping.new_key_columns
    )


def _present(
    session: SqlSession, mapping: TableMapping, keys: Sequence[str], *, new: bool
) -> set[str]:
    """Give those of the new table's keys that a table holds, as the new table writes them."""
    schema = mapping.target if new else mapping.source
    names: Iterable[str] = mapping.new_key_columns if new else mapping.key.columns
    columns = [mapping.target.column(name) for name in mapping.new_key_columns]
    shown = key_select_expressions([schema.column(name) for name in names])
    rows = session.query(
        f"SELECT {', '.join(shown)} FROM {quote_table(schema.schema, schema.name)}"
        f" WHERE ({identifier_list(names)}) IN ({', '.join(keys)})"
    )
    return {row_key_sql(columns, row) for row in rows}


def _duplicates(mapping: TableMapping, lost: dict[str, str], count: int) -> DuplicateForUnique:
    """Build the error."""
    examples = tuple(f"key {key}: {why}" for key, why in list(lost.items())[:_EXAMPLES])
    return DuplicateForUnique(
        f"{count} rows of {mapping.source.schema}.{mapping.source.name} are duplicates for a new"
        f" unique key of {mapping.target.name}",
        hint="remove the duplicates, then start the migration again",
        details=examples,
    )
