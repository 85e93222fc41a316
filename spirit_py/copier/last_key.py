"""The last key that an earlier run has copied into the new table (R17).

A delete of a row that is in the new table must not be left to the copy, which only adds rows. So no
change up to the last key of the new table may be dropped. Read that key when no session of the
earlier run can write any more, and before the feed begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.chunk.chunk import walk_directions
from spirit_py.chunk.watermark import OpenEnd
from spirit_py.sql import quote_identifier, quote_table
from spirit_py.table.keys import comparable
from spirit_py.table.values import key_from_row, key_select_expressions

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession
    from spirit_py.table.keys import ComparableKey
    from spirit_py.table.mapping import TableMapping


def last_copied_key(session: SqlSession, mapping: TableMapping) -> ComparableKey | OpenEnd:
    """Return the last key of the new table in the order of the walk.

    Returns:
        ``OpenEnd.BEGINNING`` for an empty table; ``OpenEnd.END`` where the last key cannot be read:
        the key's values mean something else in the new table, or no index gives their order.
    """
    sql = last_key_sql(mapping)
    if not sql:
        return OpenEnd.END
    found = session.query(sql)
    return key_from_row(mapping.key_columns, found[0]) if found else OpenEnd.BEGINNING


def last_key_sql(mapping: TableMapping) -> str:
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
    order = ", ".join(
        quote_identifier(column.name) + ("" if descending else " DESC")
        for column, descending in zip(new, walk_directions(mapping.key), strict=True)
    )
    return (
        f"SELECT {', '.join(key_select_expressions(new))}"
        f" FROM {quote_table(mapping.target.schema, mapping.target.name)}"
        f" FORCE INDEX ({quote_identifier(index)}) ORDER BY {order} LIMIT 1"
    )


def _index_in_order(mapping: TableMapping) -> str:
    """Return the name of a visible index of the new table in the key's order, or its reverse."""
    names = [name.lower() for name in mapping.new_key_columns]
    for index in mapping.target.indexes:
        in_order = [name.lower() for name in index.columns] == names
        if in_order and index.visible and walk_directions(index) == walk_directions(mapping.key):
            return index.name
    return ""
