"""Blockers: sessions whose locks our table lock waits for, and which of them may be killed.

:func:`find_blockers` queries the server; :func:`reason_to_spare` is the rule, without a server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import ACCESS_NEEDS_PRIVILEGE
from spirit_py.mysql.kill import kill_session

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession

MOST_ROWS_TO_ROLL_BACK: Final = 1_000_000
#: InnoDB renews INNODB_TRX only when it was not read for 0.1 s (its CACHE_MIN_IDLE_TIME_US).
FRESH_SECONDS: Final = 0.15
_LONGEST_STATEMENT: Final = 200

# Metadata locks that a plain statement never takes: LOCK TABLES, FLUSH TABLES, BACKUP, DDL.
_TABLE_LOCKS: Final = frozenset({"SHARED_READ_ONLY", "SHARED_NO_READ_WRITE", "SHARED_NO_WRITE"})
_DEFINITION_LOCKS: Final = frozenset({"SHARED_UPGRADABLE", "EXCLUSIVE"})

# The lock of a statement that only reads a table's definition blocks no LOCK TABLES.
_BLOCKERS: Final = """
SELECT g.OWNER_THREAD_ID, MIN(g.OWNER_EVENT_ID), t.PROCESSLIST_ID, t.PROCESSLIST_USER,
       t.PROCESSLIST_HOST, t.PROCESSLIST_DB, t.PROCESSLIST_COMMAND, t.PROCESSLIST_TIME,
       MAX(e.DIGEST_TEXT), t.NAME
FROM performance_schema.threads w
JOIN performance_schema.metadata_locks p
  ON p.OWNER_THREAD_ID = w.THREAD_ID AND p.LOCK_STATUS = 'PENDING'
JOIN performance_schema.metadata_locks g
  ON g.OBJECT_TYPE = p.OBJECT_TYPE AND g.OBJECT_SCHEMA <=> p.OBJECT_SCHEMA
 AND g.OBJECT_NAME <=> p.OBJECT_NAME AND g.LOCK_STATUS = 'GRANTED'
 AND g.OWNER_THREAD_ID <> p.OWNER_THREAD_ID AND g.LOCK_TYPE <> 'INTENTION_EXCLUSIVE'
 AND NOT (g.OBJECT_TYPE = 'TABLE' AND g.LOCK_TYPE IN ('SHARED', 'SHARED_HIGH_PRIO'))
LEFT JOIN performance_schema.threads t ON t.THREAD_ID = g.OWNER_THREAD_ID
LEFT JOIN performance_schema.events_statements_current e ON e.THREAD_ID = g.OWNER_THREAD_ID
WHERE w.PROCESSLIST_ID = %s
GROUP BY g.OWNER_THREAD_ID, t.PROCESSLIST_ID, t.PROCESSLIST_USER, t.PROCESSLIST_HOST,
         t.PROCESSLIST_DB, t.PROCESSLIST_COMMAND, t.PROCESSLIST_TIME, t.NAME"""

_HELD: Final = """
SELECT OWNER_THREAD_ID, OBJECT_TYPE, LOCK_TYPE FROM performance_schema.metadata_locks
WHERE LOCK_STATUS = 'GRANTED' AND OWNER_THREAD_ID IN ({})"""

_MODIFIED: Final = """
SELECT trx_mysql_thread_id, trx_rows_modified FROM information_schema.INNODB_TRX
WHERE trx_mysql_thread_id IN ({})"""

_STILL: Final = """
SELECT 1 FROM performance_schema.threads t
JOIN performance_schema.metadata_locks m ON m.OWNER_THREAD_ID = t.THREAD_ID
WHERE t.THREAD_ID = %s AND m.OWNER_EVENT_ID = %s AND m.LOCK_STATUS = 'GRANTED'
  AND t.PROCESSLIST_ID = %s LIMIT 1"""


@dataclass(frozen=True, kw_only=True)
class Blocker:
    """A session that holds a lock for which ours waits.

    Attributes:
        key: identifies this very lock of the session: its next transaction has another key.
        session: what ``KILL`` takes; None for an XA transaction that is prepared and detached.
        idle: whether it executes nothing now: it sits in an open transaction.
        seconds: since when it executes its statement, or idles.
        statement: its current or last statement as a digest, without values (R20).
        rows_modified: rows its transaction has changed; None when that could not be read.
        table_locks: it holds LOCK TABLES or a global read lock.
        defining: it is changing the definition of a table.
        system: it belongs to the server, such as a replication worker.
    """

    key: tuple[int, int]
    session: int | None
    user: str = ""
    host: str = ""
    database: str = ""
    idle: bool = False
    seconds: int = 0
    statement: str = ""
    rows_modified: int | None = 0
    table_locks: bool = False
    defining: bool = False
    system: bool = False

    def __str__(self) -> str:
        """Describe session and activity, without values of the user's data."""
        if self.session is None:
            return "a prepared XA transaction without a session"
        doing = "idle in a transaction" if self.idle else "executing"
        rows = "unknown" if self.rows_modified is None else str(self.rows_modified)
        text = f"session {self.session} of {self.user}@{self.host}, {doing} for {self.seconds} s"
        said = f", last statement: {self.statement}" if self.statement else ""
        return f"{text}, rows changed: {rows}{said}"


def reason_to_spare(blocker: Blocker, *, blocked_for: float, patience: float) -> str:
    """Return why a blocker must not be killed; an empty string when it may be.

    Args:
        blocked_for: seconds for which this very lock has been seen to block ours; below
            ``patience`` it may be a short transaction.
    """
    if blocker.session is None:
        return "it has no session: end it with XA COMMIT or XA ROLLBACK (see XA RECOVER)"
    if blocker.system:
        return "it belongs to the server"
    if blocker.table_locks:
        return "it holds LOCK TABLES or a global read lock"
    if blocker.defining:
        return "it is changing the definition of a table"
    if blocker.rows_modified is None:
        return "how much it has changed cannot be read: grant PROCESS to this user"
    if blocker.rows_modified > MOST_ROWS_TO_ROLL_BACK:
        return f"it has changed {blocker.rows_modified} rows: rolling back would take longer"
    if blocked_for < patience:
        return f"it has blocked the lock for {blocked_for:.1f} s only"
    return ""


def find_blockers(session: SqlSession, waiter: int) -> list[Blocker]:
    """Find the sessions whose granted metadata locks the session ``waiter`` waits for.

    Call at most once in :data:`FRESH_SECONDS`, otherwise ``rows_modified`` is out of date.

    Raises:
        ServerFault: 1142 when the user may not read performance_schema.
    """
    rows = session.query(_BLOCKERS, (waiter,))
    if not rows:
        return []
    threads = ", ".join(str(int(row[0])) for row in rows)
    held: dict[int, set[tuple[str, str]]] = {}
    for thread, kind, lock in session.query(_HELD.format(threads)):
        held.setdefault(thread, set()).add((kind, lock))
    modified = _rows_modified(session, [int(row[2]) for row in rows if row[2] is not None])
    return [_blocker(row, held.get(row[0], set()), modified) for row in rows]


def _rows_modified(session: SqlSession, ids: list[int]) -> dict[int, int] | None:
    """Read how many rows the transactions of these sessions have changed; None if not allowed."""
    if not ids:
        return {}
    try:
        return dict(session.query(_MODIFIED.format(", ".join(map(str, ids)))))
    except ServerFault as fault:
        if fault.code == ACCESS_NEEDS_PRIVILEGE:
            return None
        raise


def _blocker(
    row: tuple[Any, ...], held: set[tuple[str, str]], modified: dict[int, int] | None
) -> Blocker:
    thread, event, number, user, host, database, command, seconds, statement, name = row
    locks = {lock for kind, lock in held if kind == "TABLE"}
    # FLUSH TABLES WITH READ LOCK, LOCK INSTANCE FOR BACKUP
    globally = not held.isdisjoint({("GLOBAL", "SHARED"), ("BACKUP LOCK", "SHARED")})
    return Blocker(
        key=(int(thread), int(event or 0)),
        session=None if number is None else int(number),
        user=user or "",
        host=host or "",
        database=database or "",
        idle=command == "Sleep",
        seconds=int(seconds or 0),
        statement=(statement or "")[:_LONGEST_STATEMENT],
        rows_modified=None if modified is None else modified.get(number, 0),
        table_locks=bool(locks & _TABLE_LOCKS) or globally,
        defining=bool(locks & _DEFINITION_LOCKS),
        system=user in {None, "", "system user", "event_scheduler"} or "/replica" in (name or ""),
    )


def kill_blocker(session: SqlSession, blocker: Blocker) -> str:
    """Kill a session if it still holds the lock that it was judged by (R24).

    Returns:
        As :func:`kill_session`; also where it no longer blocks.
    """
    thread, event = blocker.key
    if blocker.session is None or not session.query(_STILL, (thread, event, blocker.session)):
        return "it no longer blocks the lock"
    return kill_session(session, blocker.session)
