"""The driver's queries of keys: the next boundary, and the last key that a run copied (R17).

Changes up to that key are not dropped, as the copy only adds rows (docs/decisions.md). Read it when
no session of the earlier run can write, and before the feed begins.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from spirit_py.chunk.chunk import chunk_predicate, walk_directions
from spirit_py.chunk.watermark import OpenEnd
from spirit_py.mysql.connect import connect
from spirit_py.mysql.retry import RenewedSession, patiently
from spirit_py.sql import quote_identifier
from spirit_py.table.keys import comparable
from spirit_py.table.values import key_from_row, key_select_expressions

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.chunk.chunk import KeyRange
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.table.keys import ComparableKey
    from spirit_py.table.mapping import TableMapping
    from spirit_py.threads import StopSwitch


@dataclass(eq=False)
class BoundaryReader:
    """Runs SELECTs for the chunker; not thread-safe. ``stop`` ends the pauses between tries."""

    connection: ConnectionOptions
    _: KW_ONLY
    stop: StopSwitch
    tell: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        self._session = RenewedSession(partial(connect, self.connection, role="boundary"))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a SELECT; a transient fault is tried again."""

        def rows() -> list[tuple[Any, ...]]:
            return self._session.ask(lambda session: session.query(sql))

        return patiently(rows, self.connection, self.stop, tell=self.tell)

    def close(self) -> None:
        """Close the session; safe to call again, and a later query opens another."""
        self._session.close()


def last_copied_key(
    session: SqlSession, mapping: TableMapping, within: KeyRange
) -> ComparableKey | OpenEnd:
    """Return the last key of the new table in a range, ``BEGINNING`` if empty.

    ``END`` where its values mean something else in the new table, or no index gives their order.
    """
    sql = last_key_sql(mapping, within)
    if not sql:
        return OpenEnd.END
    found = session.query(sql)
    return key_from_row(mapping.key_columns, found[0]) if found else OpenEnd.BEGINNING


def last_key_sql(mapping: TableMapping, within: KeyRange) -> str:
    """Render the query for the last key; empty where there is none that is exact and fast."""
    old = mapping.key_columns
    new = tuple(mapping.target.column(name) for name in mapping.new_key_columns)
    same = all(
        one.type_identity == other.type_identity and one.collation == other.collation
        for one, other in zip(old, new, strict=True)
    )
    index = _index_in_order(mapping)
    if not same or not index or not comparable(old):
        return ""
    directions = walk_directions(mapping.key)
    order = ", ".join(
        quote_identifier(column.name) + ("" if descending else " DESC")
        for column, descending in zip(new, directions, strict=True)
    )
    where = chunk_predicate(old, within, directions, mapping.new_key_columns)
    return (
        f"SELECT {', '.join(key_select_expressions(new))}"
        f" FROM {mapping.target.quoted}"
        f" FORCE INDEX ({quote_identifier(index)}) WHERE {where} ORDER BY {order} LIMIT 1"
    )


def _index_in_order(mapping: TableMapping) -> str:
    names = tuple(name.lower() for name in mapping.new_key_columns)
    directions = walk_directions(mapping.key)
    for index in mapping.target.indexes:
        in_order = index.visible and index.leading[: len(names)] == names
        if in_order and walk_directions(index)[: len(names)] == directions:
            return index.name
    return ""
