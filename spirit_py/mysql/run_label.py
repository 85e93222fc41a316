"""A session's run: its label, and whether that run still holds the locks of its tables (R18)."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from spirit_py.errors import MigrationFailure
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.contracts import SqlSession

_TOKEN_BYTES: Final = 8

_SAID_BY: Final = """
SELECT CONVERT(v.VARIABLE_VALUE USING utf8mb4)
FROM performance_schema.threads t
JOIN performance_schema.user_variables_by_thread v
  ON v.THREAD_ID = t.THREAD_ID AND v.VARIABLE_NAME = 'spirit_py_run'
WHERE t.PROCESSLIST_ID = %s"""


def run_label(tables: Iterable[tuple[str, str]]) -> str:
    """Make the label of a new run: a token of its own, and a mark for each table."""
    marks = sorted(lock_name("migration", *table).rpartition(":")[2] for table in tables)
    return " ".join((secrets.token_hex(_TOKEN_BYTES), *marks))


def refuse_when_taken_over(session: SqlSession, label: str) -> None:
    """Refuse a session of a run whose table another run has the advisory lock of.

    A worker of a dead run may survive it, and open a new session when its last one was ended.
    Such a session has its label before this check. So either the other run held the lock
    already, and the session is refused; or it takes the lock later, and its search for sessions
    of earlier runs, which follows, finds this one.

    Raises:
        MigrationFailure: another run has taken over.
    """
    own, *marks = label.split()
    for mark in marks:
        holder = session.query("SELECT IS_USED_LOCK(%s)", (f"spirit-py:migration:{mark}",))[0][0]
        said = session.query(_SAID_BY, (holder,)) if holder is not None else []
        if said and str(said[0][0]).split()[:1] != [own]:
            raise MigrationFailure(
                "another run of spirit-py has taken this migration over"
                f" (its server session {holder})",
                hint="let that run end",
            )
