"""Which tables of a batch reference each other by foreign keys."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.tables.identity import Name

_KEYS: Final = """
SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME, REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME
FROM information_schema.KEY_COLUMN_USAGE
WHERE REFERENCED_TABLE_NAME IS NOT NULL AND TABLE_SCHEMA IN ({})"""


def related_tables(session: SqlSession, tables: Collection[Name]) -> dict[Name, frozenset[Name]]:
    """Return for each of these tables the others of them that it references, or that reference it.

    Args:
        tables: schema and name as the server keeps them.
    """
    schemas = sorted({schema for schema, _ in tables})
    found: defaultdict[Name, set[Name]] = defaultdict(set)
    rows = session.query(_KEYS.format(", ".join(["%s"] * len(schemas))), schemas)
    for row in rows:
        child, parent = (str(row[0]), str(row[1])), (str(row[2]), str(row[3]))
        if child != parent and child in tables and parent in tables:
            found[child].add(parent)
            found[parent].add(child)
    return {name: frozenset(others) for name, others in found.items()}
