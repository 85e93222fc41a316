"""Column histograms: the new table gets those that a native ALTER would keep.

Measured on 9.7, for every algorithm: ALTER TABLE drops the histograms of columns named in MODIFY,
CHANGE, RENAME or DROP COLUMN, of those that get another character set, and of those that a new
unique index covers alone. Here a histogram also stays where a column is named and keeps its type.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import SYNTAX_ERROR
from spirit_py.sql import quote_identifier

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Column, TableSchema

_HISTOGRAMS: Final = """
SELECT COLUMN_NAME, HISTOGRAM FROM information_schema.COLUMN_STATISTICS
WHERE SCHEMA_NAME = %s AND TABLE_NAME = %s"""
_BUCKETS: Final = 100


def carry_histograms(
    session: SqlSession,
    mapping: TableMapping,
    there: SqlSession | None = None,
    *,
    rebuild: bool = True,
) -> list[str]:
    """Set on the new table the histograms of columns whose definition stays; safe to repeat.

    Replicas get them by the binlog. Servers before 8.0.31 take no ready histogram: with ``rebuild``
    they read the new table to build it. ``there``: a session of the new table's server, if that is
    another one. Returns the server's messages about those it refused.
    """
    there = there or session
    if mapping.keep is not None:
        return []  # They describe rows that the new table does not have.
    source, target = mapping.source, mapping.target
    pairs = [(pair.old, pair.new) for pair in mapping.pairs]
    old = {column.name: column for column in source.columns if column.generated}
    pairs += [(old[one.name], one) for one in target.columns if one.generated and one.name in old]
    unchanged = {new.name for old, new in pairs if _values_of(old) == _values_of(new)}
    unchanged -= {
        index.parts[0].column or ""
        for index in target.indexes
        if index.unique and len(index.parts) == 1
    }
    present = _histograms(there, target)
    trouble = []
    for name, found in _histograms(session, source).items():
        if name in unchanged and _lasting(found) != _lasting(present.get(name, "{}")):
            trouble += _set(there, target, name, found, rebuild=rebuild)
    return trouble


def _values_of(column: Column) -> tuple[str | None, ...]:
    """Return what a column's values depend on; those of ENUM and SET are numbers."""
    found = (column.name, column.column_type, column.generation_expression)
    return found if column.members else (*found, column.charset, column.collation)


def _histograms(session: SqlSession, table: TableSchema) -> dict[str, str]:
    rows = session.query(_HISTOGRAMS, (table.schema, table.name))
    return {str(name): str(found) for name, found in rows}


def _lasting(found: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(found)
    return {name: value for name, value in parsed.items() if name != "last-updated"}


def _set(
    session: SqlSession, table: TableSchema, name: str, found: str, *, rebuild: bool
) -> list[str]:
    analyze = f"ANALYZE TABLE {table.quoted} UPDATE HISTOGRAM ON {quote_identifier(name)}"
    try:
        said = session.query(f"{analyze.replace('%', '%%')} USING DATA %s", (found,))
    except ServerFault as fault:
        if fault.code != SYNTAX_ERROR:
            raise
        if not rebuild:
            return []
        buckets = int(json.loads(found).get("number-of-buckets-specified", _BUCKETS))
        said = session.query(f"{analyze} WITH {buckets} BUCKETS")
    return [f"column {name}: {row[3]}" for row in said if str(row[2]).lower() == "error"]
