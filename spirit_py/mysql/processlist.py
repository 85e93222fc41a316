"""The server's list of sessions, and its list of transactions.

A running statement with an emoji ends queries of ``information_schema.PROCESSLIST``, which is not
used, and ``INNODB_TRX``, which nothing replaces, with error 3854 (measured, 9.7).
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any, Final, Literal

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import access_denied, excused

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from spirit_py.contracts import SqlSession

_OWN: Final = "SELECT 1 FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()"
_LOST: Final = "SHOW GLOBAL STATUS LIKE 'Performance_schema_thread_instances_lost'"
_IDLE: Final = """
SELECT COUNT(*) FROM performance_schema.threads
WHERE PROCESSLIST_COMMAND = 'Sleep' AND PROCESSLIST_TIME >= %s AND PROCESSLIST_ID IN ({})"""
_SENT: Final = """
SELECT t.PROCESSLIST_ID, e.ROWS_SENT FROM performance_schema.threads t
JOIN performance_schema.events_statements_current e ON e.THREAD_ID = t.THREAD_ID
WHERE e.END_EVENT_ID IS NULL AND t.PROCESSLIST_ID IN ({})"""
_DUMPS: Final = """
SELECT PROCESSLIST_ID FROM performance_schema.threads
WHERE PROCESSLIST_COMMAND IN ('Binlog Dump', 'Binlog Dump GTID')"""

#: What may stand before a statement: comments, and the begin of one that the server executes.
_LEAD: Final = r"(?:\s|(?>/\*(?!!).*?\*/)|(?:--\s|#)[^\n]*\n)*+(?:/\*!\d*\s*)?"
_OPTIMIZES: Final = re.compile(rf"{_LEAD}OPTIMIZE\b", re.IGNORECASE | re.DOTALL)
_STOPS_WRITES: Final = re.compile(
    rf"{_LEAD}(?:FLUSH\b|SET\b.*read_only)", re.IGNORECASE | re.DOTALL
)


def performance_schema_shows_sessions(session: SqlSession) -> bool:
    """Return whether performance_schema is on, readable, and large enough for all sessions."""
    if not excused(lambda: session.query(_OWN), (), access_denied):
        return False
    return not any(int(lost) for _, lost in session.query(_LOST))


def rows_sent(session: SqlSession, numbers: Collection[int]) -> dict[int, int]:
    """Return how many rows of its statement each session has sent; of those that send none, 0.

    Empty where performance_schema does not show that.
    """
    if not numbers:
        return {}
    sql = _SENT.format(", ".join(str(int(number)) for number in sorted(numbers)))
    found = excused(lambda: session.query(sql), (), access_denied)
    return {int(number): int(rows) for number, rows in found}


def process_list(session: SqlSession, full: Literal["", "FULL"] = "") -> list[tuple[Any, ...]]:
    """Return the rows of SHOW PROCESSLIST; bytes of a statement that are no UTF-8 are replaced."""
    return [
        tuple(one.decode(errors="replace") if isinstance(one, bytes) else one for one in row)
        for row in query_bytes(session, f"SHOW {full} PROCESSLIST")
    ]


def query_bytes(session: SqlSession, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query with their texts as the bytes that the server has."""
    session.execute("SET SESSION character_set_results = binary")
    try:
        return session.query(sql)
    finally:
        session.execute("SET SESSION character_set_results = utf8mb4")


def user_of(session: SqlSession, number: int | None) -> str:
    """Return user and host of a session; empty where it is gone, or the account may not see it."""
    found = next((row for row in process_list(session) if int(row[0]) == number), None)
    return "" if found is None else f"{found[1]}@{str(found[2]).rpartition(':')[0] or found[2]}"


def whose(session: SqlSession, number: int | None) -> str:
    """Return a session's number, and whose it is, for messages."""
    user = user_of(session, number)
    return f"server session {number}, {user or 'whose user an account with PROCESS sees'}"


def optimizes_now(session: SqlSession) -> bool:
    """Return whether a session executes OPTIMIZE TABLE; the word elsewhere does not count (R26)."""
    return any(_OPTIMIZES.match(str(row[7] or "")) for row in process_list(session, "FULL"))


def stops_writes(statement: str) -> bool:
    """Return whether a statement may request a lock on all tables; behind comments, too."""
    return _STOPS_WRITES.match(statement) is not None


def any_idle(session: SqlSession, numbers: Collection[int], seconds: int) -> bool:
    """Return whether one of our sessions has idled for so long."""
    if not numbers:
        return False
    if performance_schema_shows_sessions(session):
        among = ", ".join(str(int(number)) for number in numbers)
        return bool(session.query(_IDLE.format(among), (seconds,))[0][0])
    return any(
        row[0] in numbers and row[4] == "Sleep" and int(row[5] or 0) >= seconds
        for row in process_list(session)
    )


def dumping(session: SqlSession) -> set[int]:
    """Return the sessions that are sent the binlog; PROCESS may be needed for other accounts."""
    if performance_schema_shows_sessions(session):
        return {int(row[0]) for row in session.query(_DUMPS)}
    return {int(row[0]) for row in process_list(session) if str(row[4]).startswith("Binlog Dump")}


FRESH_SECONDS: Final = 0.15
"""InnoDB renews the table only when it was not read for 0.1 s (its CACHE_MIN_IDLE_TIME_US)."""
UNREADABLE: Final = 3854
"""The code of the error: a statement's text cannot be converted."""
_TRIES: Final = 4


def open_transactions(
    session: SqlSession,
    sql: str,
    parameters: Sequence[object] | None = None,
    *,
    tries: int = _TRIES,
) -> list[tuple[Any, ...]] | None:
    """Run a query on INNODB_TRX, again after :data:`FRESH_SECONDS`; None while it is unreadable."""
    for left in reversed(range(tries)):
        try:
            return session.query(sql, parameters)
        except ServerFault as fault:
            if fault.code != UNREADABLE:
                raise
        if left:
            threading.Event().wait(FRESH_SECONDS)
    return None
