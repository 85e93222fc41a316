"""Which tables of a batch reference each other by foreign keys."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from spirit_py.attached.foreign_keys.catalogue import child_and_parent_tables

if TYPE_CHECKING:
    from collections.abc import Collection

    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.tables.identity import Name


def related_tables(session: SqlSession, tables: Collection[Name]) -> dict[Name, frozenset[Name]]:
    """Return for each of these tables the others of them that it references, or that reference it.

    Args:
        tables: schema and name as the server keeps them.
    """
    schemas = sorted({schema for schema, _ in tables})
    found: defaultdict[Name, set[Name]] = defaultdict(set)
    for child, parent in child_and_parent_tables(session, schemas):
        if child != parent and child in tables and parent in tables:
            found[child].add(parent)
            found[parent].add(child)
    return {name: frozenset(others) for name, others in found.items()}
