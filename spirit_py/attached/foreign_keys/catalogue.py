"""Read the foreign keys of a table, and those to it.

REFERENTIAL_CONSTRAINTS and KEY_COLUMN_USAGE have everything, but show only tables on which the
account has some privilege. INNODB_FOREIGN shows every key to an account with PROCESS. Both are
views of the data dictionary (measured on 9.7, also with ``innodb_native_foreign_keys=ON``): names
are plain, and compared as ``lower_case_table_names`` says. A slash parts schema and table in
INNODB_FOREIGN, so a schema with a slash in its name is cut there; the key counts as hidden anyway.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from spirit_py.attached.foreign_keys.model import ForeignKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spirit_py.contracts import SqlSession

_VISIBLE: Final = """
SELECT r.CONSTRAINT_SCHEMA, r.TABLE_NAME, r.CONSTRAINT_NAME,
       r.UNIQUE_CONSTRAINT_SCHEMA, r.REFERENCED_TABLE_NAME, r.DELETE_RULE, r.UPDATE_RULE,
       r.UNIQUE_CONSTRAINT_NAME, k.COLUMN_NAME, k.REFERENCED_COLUMN_NAME
FROM information_schema.REFERENTIAL_CONSTRAINTS r
JOIN information_schema.KEY_COLUMN_USAGE k
  ON k.CONSTRAINT_SCHEMA = r.CONSTRAINT_SCHEMA AND k.CONSTRAINT_NAME = r.CONSTRAINT_NAME
 AND k.TABLE_NAME = r.TABLE_NAME AND k.REFERENCED_TABLE_NAME IS NOT NULL
WHERE {where}
ORDER BY r.CONSTRAINT_SCHEMA, r.TABLE_NAME, r.CONSTRAINT_NAME, k.ORDINAL_POSITION"""
_OF: Final = "r.CONSTRAINT_SCHEMA = %s AND r.TABLE_NAME = %s"
_TO: Final = "r.UNIQUE_CONSTRAINT_SCHEMA = %s AND r.REFERENCED_TABLE_NAME = %s"

_PAIRS: Final = """
SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME, REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME
FROM information_schema.KEY_COLUMN_USAGE
WHERE REFERENCED_TABLE_NAME IS NOT NULL AND TABLE_SCHEMA IN ({})"""

_EVERY: Final = """
SELECT f.ID, f.FOR_NAME, f.REF_NAME, f.TYPE, c.FOR_COL_NAME, c.REF_COL_NAME
FROM information_schema.INNODB_FOREIGN f
JOIN information_schema.INNODB_FOREIGN_COLS c ON c.ID = f.ID
WHERE f.REF_NAME = %s
ORDER BY f.FOR_NAME, f.ID, c.POS"""
# Bits of INNODB_FOREIGN.TYPE (manual 28.4.13); none of them is RESTRICT.
_ON_DELETE: Final = {1: "CASCADE", 2: "SET NULL", 16: "NO ACTION"}
_ON_UPDATE: Final = {4: "CASCADE", 8: "SET NULL", 32: "NO ACTION"}


def keys_of(session: SqlSession, schema: str, table: str) -> tuple[ForeignKey, ...]:
    """Return the keys of a child table that the account may see, ordered by name."""
    return _visible(session, _OF, schema, table)


def visible_keys_to(session: SqlSession, schema: str, table: str) -> tuple[ForeignKey, ...]:
    """Return the keys to a parent table of children that the account may see."""
    return _visible(session, _TO, schema, table)


def keys_to(session: SqlSession, schema: str, table: str) -> tuple[ForeignKey, ...]:
    """Return every key to a parent table, ordered by child and name; needs PROCESS."""
    seen = visible_keys_to(session, schema, table)
    known = {(f"{key.schema}/{key.name}", f"{key.schema}/{key.table}") for key in seen}
    rows = session.query(_EVERY, (f"{schema}/{table}",))
    hidden = [row for row in rows if (row[0], row[1]) not in known]
    return (*seen, *_hidden(hidden, (schema, table)))


def keys_around(session: SqlSession, schema: str, table: str) -> tuple[ForeignKey, ...]:
    """Return the keys of a table and those to it, a self-reference once; needs PROCESS."""
    own = keys_of(session, schema, table)
    return (*own, *(key for key in keys_to(session, schema, table) if not key.self_reference))


def child_and_parent_tables(
    session: SqlSession, schemas: Sequence[str]
) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Yield child and parent, by schema and name, of each key that the account may see.

    Args:
        schemas: of the children.
    """
    if not schemas:
        return
    rows = session.query(_PAIRS.format(", ".join(["%s"] * len(schemas))), schemas)
    for child_schema, child, parent_schema, parent in rows:
        yield (str(child_schema), str(child)), (str(parent_schema), str(parent))


def _visible(session: SqlSession, where: str, schema: str, table: str) -> tuple[ForeignKey, ...]:
    rows = session.query(_VISIBLE.format(where=where), (schema, table))
    return tuple(
        ForeignKey(
            schema=group[0],
            table=group[1],
            name=group[2],
            parent_schema=group[3],
            parent_table=group[4],
            on_delete=group[5],
            on_update=group[6],
            parent_index=group[7] or "",
            columns=tuple(column for column, _ in columns),
            parent_columns=tuple(referred for _, referred in columns),
        )
        for group, columns in _grouped(rows, 8)
    )


def _hidden(rows: Iterable[tuple[Any, ...]], parent: tuple[str, str]) -> Iterator[ForeignKey]:
    for (constraint, child, _, actions), columns in _grouped(rows, 4):
        schema, _, table = child.partition("/")
        yield ForeignKey(
            name=constraint.removeprefix(f"{schema}/"),
            schema=schema,
            table=table,
            columns=tuple(column for column, _ in columns),
            parent_schema=parent[0],
            parent_table=parent[1],
            parent_columns=tuple(referred for _, referred in columns),
            on_delete=_action(actions, _ON_DELETE),
            on_update=_action(actions, _ON_UPDATE),
            visible=False,
        )


def _grouped(
    rows: Iterable[tuple[Any, ...]], fields: int
) -> Iterator[tuple[tuple[Any, ...], list[tuple[str, str]]]]:
    """Yield the fields of each key once, with its pairs of columns in order."""
    for group, members in groupby(rows, key=itemgetter(slice(fields))):
        yield group, [(row[fields], row[fields + 1]) for row in members]


def _action(bits: int, names: dict[int, str]) -> str:
    return next((name for bit, name in names.items() if bits & bit), "RESTRICT")
