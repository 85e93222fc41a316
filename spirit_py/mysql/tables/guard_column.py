"""The snapshot guard's column: added and dropped with ALGORITHM=INSTANT, marked by a comment."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py.classes import replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, ServerFault
from spirit_py.estimates import outdated
from spirit_py.mysql.capabilities import Capability, most_row_versions
from spirit_py.mysql.evaluation import as_stored
from spirit_py.mysql.faults import (
    NO_SUCH_COLUMN,
    Disposition,
    access_denied,
    disposition,
    excused,
)
from spirit_py.mysql.tables.identity import is_stored, stored_like
from spirit_py.sql import comment_literal, quote_identifier, quote_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.table.names import Name
    from spirit_py.table.schema import TableSchema

_NAME: Final = "_spirit_py_guard"
_MARK: Final = "snapshot guard of spirit-py"
_COLUMNS: Final = """
SELECT COLUMN_NAME, COLUMN_COMMENT FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"""
_DEFINITION: Final = re.compile(
    rf",\n  `{_NAME}[0-9]*` tinyint DEFAULT NULL COMMENT '{_MARK}'", re.IGNORECASE
)
CHECK: Final = re.compile(r"^  CONSTRAINT (`(?:[^`]|``)+`) CHECK (.*)$", re.MULTILINE)
"""A line of a definition with a CHECK constraint: its name, and what is behind CHECK."""
_TEXT: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'")
# A table that is partitioned has its versions in each partition.
_VERSIONS: Final = """
SELECT MAX(TOTAL_ROW_VERSIONS) FROM information_schema.INNODB_TABLES
WHERE NAME LIKE %s ESCAPE '|' OR NAME LIKE %s ESCAPE '|'"""
_FILE_BYTES: Final = """
SELECT NAME, FILE_SIZE FROM information_schema.INNODB_TABLESPACES WHERE """
_FREE_BYTES: Final = """
SELECT DATA_FREE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"""
#: A column that is added takes one, and one that is dropped another.
_NEEDED_VERSIONS: Final = 2
#: Measured on 9.7: INSTANT adds none to a table that has as many.
MOST_COLUMNS: Final = 1016


def without_guard_column(create_sql: str) -> str:
    """Return a definition's text without the column of an interrupted guard."""
    return _DEFINITION.sub("", create_sql)


def row_versions(session: SqlSession, schema: str, table: str) -> int | None:
    """Return how many row versions a table, or one that looks alike, has used; None for unknown."""
    name = f"{stored_like(schema)}/{stored_like(table)}"
    asked = partial(session.query, _VERSIONS, (name, f"{name}#p#%"))
    ((used,),) = excused(
        asked,
        ((None,),),
        # Before 8.0.29 there are none.
        lambda fault: access_denied(fault) or fault.code == NO_SUCH_COLUMN,
    )
    return None if used is None else int(used)


def file_bytes(session: SqlSession, names: Sequence[Name]) -> dict[Name, list[int]]:
    """Return the bytes of each of the tables' files; none for unknown, or a shared tablespace.

    One query for all of them: the server looks at every tablespace that it has.
    """
    stored = ["/".join(stored_like(part) for part in name) for name in names]
    likes = [like for one in stored for like in (one, f"{one}#p#%")]
    sql = _FILE_BYTES + " OR ".join(["NAME LIKE %s ESCAPE '|'"] * len(likes))
    rows = excused(partial(session.query, sql, likes), (), access_denied) if names else ()
    return {
        name: [int(size) for found, size in rows if is_stored(*name, str(found))] for name in names
    }


def with_file_bytes(
    session: SqlSession, tables: Sequence[TableSchema | None]
) -> list[TableSchema | None]:
    """Return tables just read with what their files hold: statistics may be old, they are not."""
    sizes = file_bytes(session, [(one.schema, one.name) for one in tables if one])
    return [one and _holding(session, one, sizes[one.schema, one.name]) for one in tables]


def _holding(session: SqlSession, table: TableSchema, sizes: Sequence[int]) -> TableSchema:
    held = replace(table, file_bytes=sum(sizes), files=len(sizes))
    if not outdated(held):
        return held
    # The extents that deleted rows have left. The session asks for figures of this moment.
    ((free,),) = session.query(_FREE_BYTES, (table.schema, table.name)) or ((0,),)
    return replace(held, file_bytes=max(0, held.file_bytes - int(free or 0)))


def why_no_version_left(session: SqlSession, schema: str, table: str) -> str:
    """Return why the guard's column cannot be added and dropped; empty when it can."""
    most = most_row_versions(str(session.query("SELECT @@version")[0][0]))
    used = row_versions(session, schema, table)
    if used is None:
        return f"{quote_table(schema, table)}: its row versions cannot be read"
    if used + _NEEDED_VERSIONS <= most:
        return ""
    return (
        f"{quote_table(schema, table)} has {used} of {most} row versions, and the guard takes"
        f" {_NEEDED_VERSIONS}"
    )


def why_server_cannot(version: str) -> str:
    """Return why a server, such as ``8.0.28``, drops no column instantly; empty when it does."""
    if Capability.INSTANT_COLUMNS.of(version):
        return ""
    return f"MySQL {version} drops no column with ALGORITHM=INSTANT"


def why_table_cannot(table: TableSchema, row_format: str) -> str:
    """Return why a table takes no column instantly; empty when it does (manual 17.12)."""
    if row_format.upper() == "COMPRESSED":
        return "ROW_FORMAT=COMPRESSED"
    if any(index.kind.upper() == "FULLTEXT" for index in table.indexes):
        return "it has a FULLTEXT index"
    if len(table.columns) > MOST_COLUMNS:
        return f"it has more than {MOST_COLUMNS} columns"
    return why_check_would_go(table.create_sql)


def why_check_would_go(create_sql: str) -> str:
    """Return which CHECK would go with a column that is dropped; empty for none.

    The server drops each one that names no column, such as ``CHECK (1 = 1)`` (measured, 9.7.4).
    """
    checks = CHECK.findall(create_sql)
    lost = next((name for name, what in checks if "`" not in _TEXT.sub("", what)), "")
    return lost and f"its CHECK {lost} names no column, and the server drops it with any column"


def guard_columns(session: SqlSession, schema: str, table: str) -> tuple[list[str], str]:
    """Return the guard's columns that a table has, and a name that none of its others has."""
    found = session.query(_COLUMNS, (schema, table))
    ours = [str(name) for name, comment in found if comment == _MARK]
    taken = {str(name).lower() for name, _ in found} - {name.lower() for name in ours}
    numbers = iter(range(2, len(taken) + 3))
    free = _NAME
    while free in taken:
        free = f"{_NAME}{next(numbers)}"
    return [name for name in ours if name.lower().startswith(_NAME)], free


def add_column(session: SqlSession, schema: str, table: str, name: str) -> None:
    """Add the guard's column; the session accepts the definition as it is stored."""
    session.execute(
        f"ALTER TABLE {quote_table(schema, table)} ADD COLUMN {quote_identifier(name)} TINYINT"
        f" COMMENT {comment_literal(_MARK)}, ALGORITHM=INSTANT"
    )


def drop_column(session: SqlSession, schema: str, table: str, name: str) -> None:
    """Drop the guard's column, never by a rebuild: that would make another table of it (R24)."""
    session.execute(
        f"ALTER TABLE {quote_table(schema, table)} DROP COLUMN {quote_identifier(name)},"
        " ALGORITHM=INSTANT"
    )


def drop_guard_columns(session: SqlSession, schema: str, table: str) -> None:
    """Drop the column that an interrupted guard left; MigrationFailure if not INSTANT."""
    left, _ = guard_columns(session, schema, table)
    for name in left:
        try:
            with as_stored(session):
                drop_column(session, schema, table, name)
        except ServerFault as fault:
            if disposition(fault) is not Disposition.FATAL:
                raise
            raise MigrationFailure(
                f"column {name} of {schema}.{table}, which a snapshot guard left there, cannot be"
                f" dropped instantly: {fault.text}",
                hint="see who has used up the table's row versions meanwhile; a rebuild would make"
                " another table of it, which nothing proves to be this migration's",
                error_code=ErrorCode.SNAPSHOT_GUARD,
            ) from fault
