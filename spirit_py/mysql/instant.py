"""The column of the snapshot guard: added and dropped with ALGORITHM=INSTANT, known by its mark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.sql import comment_literal, quote_identifier, quote_table

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession
    from spirit_py.table.schema import TableSchema

_NAME: Final = "_spirit_py_guard"
_MARK: Final = "snapshot guard of spirit-py"
_COLUMNS: Final = """
SELECT COLUMN_NAME, COLUMN_COMMENT FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"""
_DEFINITION: Final = re.compile(
    rf",\n  `{_NAME}[0-9]*` tinyint DEFAULT NULL COMMENT '{_MARK}'", re.IGNORECASE
)
#: INSTANT drops columns since then.
_OLDEST: Final = (8, 0, 29)
#: Measured on 9.7: INSTANT adds none to a table that has as many.
MOST_COLUMNS: Final = 1016


def without_guard_column(create_sql: str) -> str:
    """Give a definition's text without the column of a guard that was broken off."""
    return _DEFINITION.sub("", create_sql)


def no_instant_drop(session: SqlSession) -> str:
    """Say why the server drops no column instantly; empty when it does."""
    version = str(session.query("SELECT @@version")[0][0])
    return why_not_by_version(version)


def why_not_by_version(version: str) -> str:
    """Say the same of a version, such as ``8.0.28``."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    return "" if numbers >= _OLDEST else f"MySQL {version} drops no column with ALGORITHM=INSTANT"


def why_not_by_definition(table: TableSchema, row_format: str) -> str:
    """Say why the server adds no column to a table instantly; empty when it does (manual 17.12)."""
    if row_format.upper() == "COMPRESSED":
        return "ROW_FORMAT=COMPRESSED"
    if any(index.kind.upper() == "FULLTEXT" for index in table.indexes):
        return "it has a FULLTEXT index"
    if len(table.columns) > MOST_COLUMNS:
        return f"it has more than {MOST_COLUMNS} columns"
    return ""


def guard_columns(session: SqlSession, schema: str, table: str) -> tuple[list[str], str]:
    """Give the guard's columns that a table has, and a name that none of its others has."""
    found = session.query(_COLUMNS, (schema, table))
    ours = [str(name) for name, comment in found if comment == _MARK]
    taken = {str(name).lower() for name, _ in found} - {name.lower() for name in ours}
    numbers = iter(range(2, len(taken) + 3))
    free = _NAME
    while free in taken:
        free = f"{_NAME}{next(numbers)}"
    return [name for name in ours if name.lower().startswith(_NAME)], free


def add_column(session: SqlSession, schema: str, table: str, name: str) -> None:
    """Add the guard's column."""
    session.execute(
        f"ALTER TABLE {quote_table(schema, table)} ADD COLUMN {quote_identifier(name)} TINYINT"
        f" COMMENT {comment_literal(_MARK)}, ALGORITHM=INSTANT"
    )


def drop_column(session: SqlSession, schema: str, table: str, name: str, *, instant: bool) -> None:
    """Drop the guard's column."""
    how = ", ALGORITHM=INSTANT" if instant else ""
    session.execute(
        f"ALTER TABLE {quote_table(schema, table)} DROP COLUMN {quote_identifier(name)}{how}"
    )


def drop_guard_columns(session: SqlSession, schema: str, table: str) -> None:
    """Drop what a guard that was broken off left in a table of ours."""
    left, _ = guard_columns(session, schema, table)
    for name in left:
        drop_column(session, schema, table, name, instant=False)
