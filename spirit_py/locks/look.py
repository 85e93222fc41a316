"""Looks for sessions in front of a table lock, before it is requested and while it waits.

Where the server's table of metadata locks is empty or hidden, open transactions on any table and
running statements that name a table are used. No instrument is enabled here.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from spirit_py.classes import dataclass, replace
from spirit_py.errors import ServerFault
from spirit_py.locks.blockers import Blocker
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import ACCESS_NEEDS_PRIVILEGE, LOCK_WAIT_TIMEOUT, access_denied, excused
from spirit_py.mysql.own_sessions import ours
from spirit_py.mysql.processlist import open_transactions, process_list, stops_writes
from spirit_py.sql import string_literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.names import Name

_log = logging.getLogger(__name__)
_LONGEST_STATEMENT: Final = 200
_ANSWER_SECONDS: Final = 5

# Metadata locks that a plain statement never takes: LOCK TABLES, FLUSH TABLES, BACKUP, DDL.
_TABLE_LOCKS: Final = frozenset({"SHARED_READ_ONLY", "SHARED_NO_READ_WRITE", "SHARED_NO_WRITE"})
_DEFINITION_LOCKS: Final = frozenset({"SHARED_UPGRADABLE", "EXCLUSIVE"})

#: Whether locks are noted, whether the asking session's are, which has some, and how many are not.
_MDL_INSTRUMENT: Final = """
SELECT ENABLED, EXISTS (SELECT 1 FROM performance_schema.threads t
  JOIN performance_schema.metadata_locks m ON m.OWNER_THREAD_ID = t.THREAD_ID
  WHERE t.PROCESSLIST_ID = CONNECTION_ID() AND m.OBJECT_TYPE = 'USER LEVEL LOCK'),
 (SELECT VARIABLE_VALUE FROM performance_schema.global_status
  WHERE VARIABLE_NAME = 'Performance_schema_metadata_lock_lost')
FROM performance_schema.setup_instruments WHERE NAME = 'wait/lock/metadata/sql/mdl'"""

# The server's compatibility matrix (manual 10.11.4, Metadata Locking; sql/mdl.cc). The lock of a
# statement that only reads a table's definition blocks no LOCK TABLES.
_NEVER_BLOCKS: Final = "('SHARED', 'SHARED_HIGH_PRIO')"
_READ_ALLOWS: Final = """('SHARED', 'SHARED_HIGH_PRIO', 'SHARED_READ', 'SHARED_READ_ONLY',
 'SHARED_UPGRADABLE', 'SHARED_NO_WRITE')"""
#: A request for one of these keeps statements waiting behind it, and ours as well.
_KEEPS_OTHERS_OUT: Final = """('EXCLUSIVE', 'SHARED_NO_READ_WRITE', 'SHARED_NO_WRITE',
 'SHARED_READ_ONLY', 'SHARED_UPGRADABLE')"""
_KEEPS_READERS_OUT: Final = "('EXCLUSIVE', 'SHARED_NO_READ_WRITE')"

_OWNER: Final = """
SELECT g.OWNER_THREAD_ID, MIN(g.OWNER_EVENT_ID), t.PROCESSLIST_ID, t.PROCESSLIST_USER,
       t.PROCESSLIST_HOST, t.PROCESSLIST_DB, t.PROCESSLIST_COMMAND, t.PROCESSLIST_TIME,
       MAX(e.DIGEST_TEXT), t.NAME, MAX(x.TIMER_WAIT) / 1e12, MAX(g.LOCK_STATUS) = 'PENDING'
FROM {locks}
LEFT JOIN performance_schema.threads t ON t.THREAD_ID = g.OWNER_THREAD_ID
LEFT JOIN performance_schema.events_statements_current e ON e.THREAD_ID = g.OWNER_THREAD_ID
LEFT JOIN performance_schema.events_transactions_current x
  ON x.THREAD_ID = g.OWNER_THREAD_ID AND x.STATE = 'ACTIVE'
WHERE {where}
GROUP BY g.OWNER_THREAD_ID, t.PROCESSLIST_ID, t.PROCESSLIST_USER, t.PROCESSLIST_HOST,
         t.PROCESSLIST_DB, t.PROCESSLIST_COMMAND, t.PROCESSLIST_TIME, t.NAME"""

_IN_FRONT_OF_WAITER: Final = _OWNER.format(
    locks=f"""performance_schema.threads w
JOIN performance_schema.metadata_locks p
  ON p.OWNER_THREAD_ID = w.THREAD_ID AND p.LOCK_STATUS = 'PENDING'
JOIN performance_schema.metadata_locks g
  ON g.OBJECT_TYPE = p.OBJECT_TYPE AND g.OBJECT_SCHEMA <=> p.OBJECT_SCHEMA
 AND g.OBJECT_NAME <=> p.OBJECT_NAME AND g.LOCK_STATUS = 'GRANTED'
 AND g.OWNER_THREAD_ID <> p.OWNER_THREAD_ID AND g.LOCK_TYPE <> 'INTENTION_EXCLUSIVE'
 AND NOT (g.OBJECT_TYPE = 'TABLE' AND g.LOCK_TYPE IN {_NEVER_BLOCKS})
 AND NOT (p.LOCK_TYPE = 'SHARED_READ_ONLY' AND g.LOCK_TYPE IN {_READ_ALLOWS})""",
    where="w.PROCESSLIST_ID = %s",
)

#: Who waits for a table until nobody reads it any more, with every later statement behind.
_LOCKED_OUT: Final = _OWNER.format(
    locks="performance_schema.metadata_locks g",
    where=f"""g.OBJECT_TYPE = 'TABLE' AND g.LOCK_STATUS = 'PENDING'
AND g.LOCK_TYPE IN {_KEEPS_READERS_OUT}
AND (g.OBJECT_SCHEMA, g.OBJECT_NAME) IN ({{}})""",
)

#: Whose lock, held or waited for, keeps statements of others waiting, at least those that write.
_KEEPS_OUT: Final = _OWNER.format(
    locks="performance_schema.metadata_locks g",
    where="""t.PROCESSLIST_ID <> CONNECTION_ID()
AND (g.OBJECT_TYPE IN ('GLOBAL', 'COMMIT') AND g.LOCK_TYPE = 'SHARED'
 OR g.OBJECT_TYPE = 'TABLE' AND (g.OBJECT_SCHEMA, g.OBJECT_NAME) IN ({})
AND g.LOCK_TYPE IN
 ('EXCLUSIVE', 'SHARED_NO_READ_WRITE', 'SHARED_NO_WRITE', 'SHARED_READ_ONLY'))""",
)

#: And what keeps DDL waiting besides.
_KEEPS_DEFINITIONS: Final = _KEEPS_OUT.replace(
    "(g.OBJECT_TYPE IN",
    "(g.OBJECT_TYPE LIKE 'BACKUP%' AND g.LOCK_TYPE = 'SHARED' OR g.OBJECT_TYPE IN",
)

#: A statement behind which every write of the server waits.
_FOR_ALL: Final = """
SELECT PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_TIME, PROCESSLIST_INFO
FROM performance_schema.threads
WHERE PROCESSLIST_COMMAND = 'Query'
AND PROCESSLIST_STATE IN
 ('Waiting for global read lock', 'Waiting for table flush', 'Waiting for commit lock')
AND (PROCESSLIST_INFO LIKE '%FLUSH%' OR PROCESSLIST_INFO LIKE '%read_only%')
ORDER BY PROCESSLIST_TIME DESC"""

_WAITED_FOR: Final = """
SELECT p.OBJECT_SCHEMA, p.OBJECT_NAME FROM performance_schema.threads w
JOIN performance_schema.metadata_locks p
  ON p.OWNER_THREAD_ID = w.THREAD_ID AND p.LOCK_STATUS = 'PENDING' AND p.OBJECT_TYPE = 'TABLE'
WHERE w.PROCESSLIST_ID = %s"""

_HELD: Final = """
SELECT OWNER_THREAD_ID, OBJECT_TYPE, LOCK_TYPE FROM performance_schema.metadata_locks
WHERE LOCK_STATUS = 'GRANTED' AND OWNER_THREAD_ID IN ({})"""

_READ_LOCK: Final = """
SELECT t.PROCESSLIST_ID FROM performance_schema.metadata_locks g
JOIN performance_schema.threads t ON t.THREAD_ID = g.OWNER_THREAD_ID
WHERE g.OBJECT_TYPE = 'GLOBAL' AND g.LOCK_TYPE = 'SHARED' AND g.LOCK_STATUS = 'GRANTED'"""

# The time is that of the server's own zone, whatever the session's is.
_AGE: Final = """GREATEST(0, TIMESTAMPDIFF(SECOND,
       trx_started, CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')))"""

_MODIFIED: Final = f"""
SELECT trx_mysql_thread_id, trx_rows_modified, trx_started, {_AGE}
FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id IN ({{}})"""

# Transactions of the server itself have no session.
_OPEN: Final = f"""
SELECT trx_mysql_thread_id, trx_id, trx_rows_modified, {_AGE}
FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id NOT IN (0, CONNECTION_ID())"""


_BACKUP: Final = "BACKUP"


@dataclass(frozen=True, kw_only=True)
class LockRequest:
    """The locks to be requested; ``defines``: LOCK INSTANCE FOR BACKUP would keep them waiting.

    A request for no table that ``defines`` is that of the first one to be made.

    ``guessed``: those of the tables that the server may not lock. ``opened``: further ones, which
    only need not be locked against readers, nor be about to be.
    """

    tables: Sequence[Name]
    read_only: Collection[Name] = ()
    defines: bool = False
    guessed: Collection[Name] = ()
    opened: Collection[Name] = ()

    def including(
        self, *, written: Iterable[Name], read: Iterable[Name], guessed: Collection[Name]
    ) -> LockRequest:
        """Return the request with tables that the server locks by itself besides."""
        more_read = [table for table in read if table not in self.tables]
        more = [table for table in written if table not in self.tables] + more_read
        return replace(
            self,
            tables=[*self.tables, *more],
            read_only=[*self.read_only, *more_read],
            guessed=[table for table in more if table in guessed],
        )


def why_locks_are_unseen(session: SqlSession) -> str:
    """Return why the server does not show its metadata locks; empty when it does."""
    if not int(session.query("SELECT @@GLOBAL.performance_schema")[0][0]):
        return "performance_schema is OFF"
    enabled = excused(lambda: session.query(_MDL_INSTRUMENT), None, access_denied)
    if enabled is None:
        return "this account may not read performance_schema"
    if not enabled or enabled[0][0] != "YES":
        return "the instrument wait/lock/metadata/sql/mdl is disabled"
    _, seen, lost = enabled[0]
    if int(lost or 0):
        had = f"{lost} of them had no room since the server began"
        return f"{had} (performance_schema_max_metadata_locks)"
    return "" if seen else "performance_schema does not show those of this session"


def global_read_lock(session: SqlSession) -> str:
    """Return whose lock keeps all sessions from writing; empty where none is seen."""
    found = excused(lambda: session.query(_READ_LOCK), [], access_denied)
    if not found:
        return ""
    holder = f"session {found[0][0]} (FLUSH TABLES WITH READ LOCK)"
    return f"the global read lock of {holder}: no session may write"


def find_blockers(session: SqlSession, waiter: int) -> list[Blocker]:
    """Find the sessions whose granted metadata locks the session ``waiter`` waits for.

    ``rows_modified`` is out of date if called more often than every
    :data:`~spirit_py.mysql.processlist.FRESH_SECONDS`. ServerFault 1142 without performance_schema.
    """
    return _described(session, session.query(_IN_FRONT_OF_WAITER, (waiter,)))


def waited_for(session: SqlSession, waiter: int) -> set[Name]:
    """Return the tables whose metadata locks the session ``waiter`` waits for."""
    return {(str(schema), str(name)) for schema, name in session.query(_WAITED_FOR, (waiter,))}


def find_in_front(session: SqlSession, request: LockRequest) -> list[Blocker]:
    """Find others that a request would wait for now; may raise as :func:`find_blockers`.

    Whoever uses only guessed tables is not certain to be in front, so no look may end it: a request
    that waits for it shows that it is.
    """
    sure = [table for table in request.tables if table not in request.guessed]
    found = _in_front(session, replace(request, tables=sure))
    if request.guessed:
        known = {one.key[0] for one in found}
        guessed = LockRequest(tables=[*request.guessed], read_only=request.read_only)
        more = [one for one in _in_front(session, guessed) if one.key[0] not in known]
        found += [replace(one, certain=False) for one in more]
    return found


def _in_front(session: SqlSession, request: LockRequest) -> list[Blocker]:
    parts = [_locks_on(table, request) for table in request.tables]
    parts += [f"{_is(table)} AND LOCK_TYPE IN {_KEEPS_READERS_OUT}" for table in request.opened]
    writes = request.defines or set(request.tables) != set(request.read_only)
    shared = ["OBJECT_TYPE = 'GLOBAL'"] * writes
    # LOCK TABLES FOR BACKUP of Percona Server is a type of its own.
    shared += [f"OBJECT_TYPE LIKE '{_BACKUP}%'"] * request.defines
    if shared:
        parts.append(f"({' OR '.join(shared)}) AND LOCK_TYPE = 'SHARED'")
    locks = " UNION ALL ".join(
        f"SELECT OWNER_THREAD_ID, OWNER_EVENT_ID, LOCK_STATUS FROM"
        f" performance_schema.metadata_locks WHERE {part}"
        for part in parts
    )
    where = "t.PROCESSLIST_ID IS NULL OR t.PROCESSLIST_ID <> CONNECTION_ID()"
    return _described(session, session.query(_OWNER.format(locks=f"({locks}) g", where=where)))


def waits_for_all(session: SqlSession) -> tuple[str, int]:
    """Return who waits for a global lock, and for how many seconds; empty where none is seen."""
    found = excused(lambda: session.query(_FOR_ALL), (), access_denied)
    waiting = next((row for row in found if stops_writes(str(row[-1]))), None)
    if waiting is None:
        return "", 0
    number, user, host, seconds, statement = waiting
    return f"session {number} of {user}@{host}, which waits for {statement!r}", int(seconds)


def find_locked_out(session: SqlSession, tables: Iterable[Name]) -> list[Blocker]:
    """Find sessions that wait until no one reads one of the tables; none where that is unseen."""
    return _of_tables(session, _LOCKED_OUT, tables)


def _of_tables(session: SqlSession, sql: str, tables: Iterable[Name]) -> list[Blocker]:
    names = ", ".join(f"({', '.join(map(string_literal, table))})" for table in tables)
    names = names or "(NULL, NULL)"
    query = partial(session.query, sql.format(names))
    return _described(session, excused(query, (), access_denied))


def keeps_definitions(session: SqlSession) -> str:
    """Return whose backup, or global lock, keeps DDL waiting now; empty where none is seen."""
    found = _of_tables(session, _KEEPS_DEFINITIONS, ())
    return next((f"the end of a lock on the whole server: {one}" for one in found), "")


def require_definable(session: SqlSession) -> None:
    """Raise the fault 1205 at once where DDL would wait so: others wait for what it has by then."""
    if who := keeps_definitions(session):
        raise ServerFault(LOCK_WAIT_TIMEOUT, f"waiting for {who}", where=f"session {session.id}")


class LockedBy:
    """Looks whether others hold or want a lock of one of some tables, or of all of the server.

    Called after error 1205, which a row's lock gives as well: only what is seen is waited for. The
    log names the first that is found. ``defines``: also a backup's lock, which keeps DDL waiting.
    """

    def __init__(
        self, *asked: tuple[ConnectionOptions, Sequence[Name]], defines: bool = False
    ) -> None:
        self._asked = asked
        self._sql = _KEEPS_DEFINITIONS if defines else _KEEPS_OUT
        self._told = False

    @classmethod
    def of(
        cls,
        connection: ConnectionOptions,
        mapping: TableMapping,
        target: ConnectionOptions | None = None,
    ) -> Self:
        """Return the look at a table's locks and at those of its new table, on its own server."""
        old, new = ((one.schema, one.name) for one in (mapping.source, mapping.target))
        if target is None:
            return cls((connection, [old, new]))
        return cls((connection, [old]), (target, [new]))

    def __call__(self) -> str:
        """Return whose lock ends the wait; empty where none is seen or it cannot be looked up."""
        for connection, tables in self._asked:
            try:
                with connect(connection, role="lock-look", read_timeout=_ANSWER_SECONDS) as session:
                    found = _of_tables(session, self._sql, tables)
            except ServerFault:
                continue
            if others := [one for one in found if not one.own]:
                names = " and ".join(".".join(table) for table in tables) or "the whole server"
                text = f"the end of a lock on {names}: {others[0]}"
                if not self._told:
                    self._told = True
                    _log.warning("waiting for %s", text)
                return text
        return ""


def _locks_on(table: Name, request: LockRequest) -> str:
    allowed = _READ_ALLOWS if table in request.read_only else _NEVER_BLOCKS
    return (
        f"{_is(table)} AND (LOCK_STATUS = 'GRANTED' AND LOCK_TYPE NOT IN {allowed}"
        f" OR LOCK_STATUS = 'PENDING' AND LOCK_TYPE IN {_KEEPS_OTHERS_OUT})"
    )


def _is(table: Name) -> str:
    schema, name = map(string_literal, table)
    return f"OBJECT_TYPE = 'TABLE' AND OBJECT_SCHEMA = {schema} AND OBJECT_NAME = {name}"


def _described(session: SqlSession, rows: Sequence[tuple[Any, ...]]) -> list[Blocker]:
    if not rows:
        return []
    threads = ", ".join(str(int(row[0])) for row in rows)
    held: dict[int, set[tuple[str, str]]] = {}
    for thread, kind, lock in session.query(_HELD.format(threads)):
        held.setdefault(thread, set()).add((kind, lock))
    sessions = [int(row[2]) for row in rows if row[2] is not None]
    opened = _transactions(session, sessions)
    found = [_blocker(row, held.get(row[0], set()), opened) for row in rows]
    own = ours(session, sessions)
    return [replace(each, own=True) if each.session in own else each for each in found]


def _transactions(session: SqlSession, ids: list[int]) -> dict[int, tuple[int, str, int]] | None:
    """Return by session the rows changed, the transaction's begin and age; None where unreadable.

    The age is for where performance_schema notes no transactions of that session: by local time, it
    is an hour too long after a change to summer time.
    """
    if not ids:
        return {}
    sql = _MODIFIED.format(", ".join(map(str, ids)))
    asked = partial(open_transactions, session, sql, tries=1)
    rows = excused(asked, None, {ACCESS_NEEDS_PRIVILEGE})
    if rows is None:
        return None
    return {one: (int(rows), str(at), int(age or 0)) for one, rows, at, age in rows}


def _blocker(
    row: tuple[Any, ...], held: set[tuple[str, str]], opened: dict[int, tuple[int, str, int]] | None
) -> Blocker:
    thread, event, number, user, host, database, command, seconds, statement, name, age, asks = row
    locks = {lock for kind, lock in held if kind == "TABLE"}
    shared = {kind for kind, lock in held if lock == "SHARED"}
    modified, began, old = (None, "", 0) if opened is None else opened.get(number, (0, "", 0))
    globally = any(kind == "GLOBAL" or kind.startswith(_BACKUP) for kind in shared)
    return Blocker(
        key=(int(thread), int(event or 0)),
        session=None if number is None else int(number),
        user=user or "",
        host=host or "",
        database=database or "",
        idle=command == "Sleep",
        seconds=int(seconds or 0),
        open_seconds=float(old if age is None else age),
        statement=(statement or "")[:_LONGEST_STATEMENT],
        rows_modified=modified,
        began=began,
        table_locks=bool(locks & _TABLE_LOCKS) or globally,
        defining=bool(locks & _DEFINITION_LOCKS) or bool(asks),
        # With terminology_use_previous, as before 8.0.26, an applier is a slave (measured on 9.7).
        system=user in {None, "", "system user", "event_scheduler"}
        or any(word in (name or "") for word in ("/replica", "/slave")),
        requesting=bool(asks),
    )


def find_possible(session: SqlSession, request: LockRequest) -> list[Blocker]:
    """Find sessions that may be in front of a request, where metadata locks cannot be seen.

    Own sessions are left out. Without PROCESS only the account's own statements are seen. A backup
    has no transaction: a request for no table finds nobody.
    """
    if not request.tables:
        return []
    seen = excused(lambda: open_transactions(session, _OPEN), None, access_denied) or []
    #: Id, rows changed and age of every open transaction by session; empty if unseen.
    transactions = {int(row[0]): (int(row[1]), int(row[2]), int(row[3] or 0)) for row in seen}
    names = [name.lower() for _, name in request.tables]
    found = []
    for row in process_list(session):
        number, user, host, database, command, seconds, _, info, *_ = row
        # A statement without a transaction, such as DDL that waits for its own lock.
        text = str(info or "").lower() if command in {"Query", "Execute"} else ""
        named = number != session.id and any(name in text for name in names)
        if number not in transactions and not named:
            continue
        event, rows, age = transactions.get(number, (0, 0, 0))
        found.append(
            Blocker(
                key=(int(number), int(event)),
                session=int(number),
                user=user or "",
                host=host or "",
                database=database or "",
                idle=command == "Sleep",
                seconds=max(0, int(seconds or 0)),
                open_seconds=float(age),
                rows_modified=int(rows),
                system=user in {"system user", "event_scheduler"},
                certain=False,
            )
        )
    own = ours(session, [each.session for each in found if each.session is not None])
    return [each for each in found if each.session not in own]
