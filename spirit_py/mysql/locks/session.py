"""The session that holds a table lock, for checksum, comparison, cutover and revert (R23).

A process may be frozen, or cut off from the server, while its session holds a lock on a table of
the application. The server ends a session that idles for ``wait_timeout``, and with it the lock:
so that time is short from before the request for the lock on. It counts between two statements
only (measured: a request may wait longer; the time begins when its answer is sent). What has to
wait under the lock for something else keeps the session alive meanwhile.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from spirit_py.mysql.connect import connect

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.session import Session

LETS_GO_AFTER: Final = 4
"""Seconds of silence after which the server ends the session."""
_ANSWER_SECONDS: Final = 5


def open_lock_session(
    options: ConnectionOptions, *, role: str, wait: int, hold: float, database: str = ""
) -> Session:
    """Open a session for a table lock.

    Args:
        wait: seconds that each table may be waited for.
        hold: seconds for which the lock may be held.
    """
    return connect(
        options,
        database=database,
        role=role,
        lock_wait_timeout=wait,
        read_timeout=math.ceil(wait + hold) + _ANSWER_SECONDS,
    )


def let_go_when_silent(session: SqlSession) -> None:
    """Have the server end the session when it hears nothing; right before the lock request.

    The network timeouts are for a statement that was sent in part, and an answer that nobody
    reads.
    """
    timeouts = ("wait_timeout", "net_read_timeout", "net_write_timeout")
    session.execute("SET " + ", ".join(f"SESSION {name} = {LETS_GO_AFTER}" for name in timeouts))
