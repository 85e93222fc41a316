"""Tables with the program's comment, which anybody with CREATE can give to a table (R26)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import LOCK_WAIT_TIMEOUT, STATEMENT_TIMED_OUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.tables.identity import Name

_MARKED: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_COMMENT = %s AND (%s = '' OR TABLE_SCHEMA = %s) AND (%s = '' OR TABLE_NAME = %s)
ORDER BY 1, 2"""
_COMPUTED: Final = """
SELECT 1 FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND GENERATION_EXPRESSION <> ''"""


@contextlib.contextmanager
def doubtful(session: SqlSession) -> Iterator[None]:
    """Bound reads of tables that anybody may have made: by a second for a lock, five in all (R26).

    Such a table may be locked, or compute what is read of it for as long as its maker likes.
    """
    ((waits, runs),) = session.query("SELECT @@SESSION.lock_wait_timeout, @@max_execution_time")
    session.execute("SET SESSION lock_wait_timeout = 1, max_execution_time = 5000")
    try:
        yield
    finally:
        with contextlib.suppress(ServerFault):
            session.execute(
                f"SET SESSION lock_wait_timeout = {int(waits)}, max_execution_time = {int(runs)}"
            )


def holds_up(error: BaseException) -> bool:
    """Return whether a read ended because its table is locked, or computes for too long."""
    code = error.code if isinstance(error, ServerFault) else None
    return code in {LOCK_WAIT_TIMEOUT, STATEMENT_TIMED_OUT}


def marked(session: SqlSession, mark: str, *, schema: str = "", name: str = "") -> list[Name]:
    """Return the tables with this comment whose columns are stored, in order.

    Args:
        schema: the schema to look in; empty for all.
        name: the name that is wanted; empty for all.
    """
    rows = session.query(_MARKED, (mark, schema, schema, name, name))
    found = [(str(schema), str(table)) for schema, table in rows]
    return [table for table in found if _is_stored(session, table)]


def has_mark(session: SqlSession, table: Name, mark: str) -> bool:
    """Return whether there is a table, no view, with this comment, whose columns are stored.

    Anybody with CREATE can give a table the comment: it proves nothing of what is in it (R26).
    """
    return kind_and_comment(session, table) == ("BASE TABLE", mark) and _is_stored(session, table)


def _is_stored(session: SqlSession, table: Name) -> bool:
    """Return whether a table computes no column: to read one can take as long as its maker likes.

    Measured on 9.7: max_execution_time ends a statement only after a call of a function (71 s).
    """
    return not session.query(_COMPUTED, table)


def kind_and_comment(session: SqlSession, table: Name) -> tuple[str, str] | None:
    """Return whether a name is that of a table or of a view, and its comment; None for neither."""
    found = session.query(
        "SELECT TABLE_TYPE, TABLE_COMMENT FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        table,
    )
    return (str(found[0][0]), str(found[0][1])) if found else None
