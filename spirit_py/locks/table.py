"""Table locks whose possession can be proven, and the session that holds one (R15, R23).

A process may be frozen, or cut off from the server, while its session holds a lock on a table of
the application. The server ends a session that idles for ``wait_timeout``, and with it the lock, so
this timeout is made short before the lock is requested. It counts between two statements only
(measured: a request may wait longer; the time begins when its answer is sent). While code waits
under the lock for something else, it keeps the session alive.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py.errors import CutoverFailure, ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock, SqlSession
    from spirit_py.mysql.session import Session

LETS_GO_AFTER: Final = 4
"""Seconds of silence after which the server ends the session."""
_ANSWER_SECONDS: Final = 5
_NOT_LOCKED: Final = 1100


def open_lock_session(
    options: ConnectionOptions, *, role: str, wait: int, hold: float, database: str = ""
) -> Session:
    """Open a session that waits ``wait`` seconds for each table and holds the lock for ``hold``."""
    return connect(
        options,
        database=database,
        role=role,
        lock_wait_timeout=wait,
        read_timeout=math.ceil(wait + hold) + _ANSWER_SECONDS,
    )


def let_go_when_silent(session: SqlSession) -> None:
    """Have the server end the session after a short silence; call it right before the lock request.

    The network timeouts are for a statement that was sent in part, and an answer that is not read.
    """
    timeouts = ("wait_timeout", "net_read_timeout", "net_write_timeout")
    session.execute("SET " + ", ".join(f"SESSION {name} = {LETS_GO_AFTER}" for name in timeouts))


@dataclass(eq=False)
class TableLock:
    """``LOCK TABLES`` in one session; that session must have autocommit on.

    Args:
        session: opened with the ``lock_wait_timeout`` that bounds the wait for each table.
        tables: schema and name of each table; at least one.
        read_only: those of the tables that are locked READ: others may read but not write;
            the rest is locked WRITE.
        clock: monotonic seconds.
    """

    session: SqlSession
    tables: Sequence[tuple[str, str]]
    read_only: Collection[tuple[str, str]] = ()
    clock: Clock = time.monotonic
    #: Milliseconds that the last request waited.
    waited_ms: float = 0.0

    def acquire(self) -> None:
        """Wait for the lock; :attr:`waited_ms` says how long that took.

        Raises:
            ServerFault: 1205 after ``lock_wait_timeout``; nothing is locked then.
        """
        names = ", ".join(
            f"{quote_table(*table)} {'READ' if table in self.read_only else 'WRITE'}"
            for table in self.tables
        )
        began = self.clock()
        try:
            self.session.execute(f"LOCK TABLES {names}")
        finally:
            self.waited_ms = (self.clock() - began) * 1000

    def verify(self) -> None:
        """Prove that the session is the same and still holds its table locks.

        While a session holds table locks, and only then, a table under an alias that was not
        locked is error 1100. So one statement proves both: another session in this one's place
        would hold none. This needs no performance_schema and takes 0.1 ms.

        Raises:
            CutoverFailure: when the lock is gone.
        """
        probe = quote_table(*self.tables[0])
        try:
            self.session.query(f"SELECT 1 FROM {probe} AS spirit_py_probe LIMIT 0")
        except ServerFault as fault:
            if fault.code == _NOT_LOCKED:
                return
            raise CutoverFailure(f"the table lock was lost: {fault.message}") from fault
        name = f"session {self.session.id}"
        raise CutoverFailure(f"{name} no longer holds the table lock on {probe}")

    def release(self) -> None:
        """Release the lock.

        Raises:
            ServerFault: when the session is lost, and with it the lock.
        """
        self.session.execute("UNLOCK TABLES")
