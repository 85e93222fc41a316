"""Throttler for a global lock that waits, and with it every write of the server.

``FLUSH TABLES WITH READ LOCK``, with which backups begin, and ``SET GLOBAL read_only`` wait for
running statements, SELECT too, while no other session may write (measured, 9.7): 5.5 s behind a
SELECT of ours of 6 s, and behind an ADD INDEX until its end. ``FLUSH TABLES`` alone keeps others
from the tables that are in use. So nothing new begins then, and a statement of this run that is
still in front after :data:`OURS_SECONDS` is ended (R23); it is made again afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.errors import ServerFault
from spirit_py.events.run import Warned
from spirit_py.mysql.faults import access_denied
from spirit_py.mysql.kill import kill_session
from spirit_py.mysql.own_sessions import sessions_of_run
from spirit_py.mysql.run_label import token_of
from spirit_py.throttle.own_session import own_session
from spirit_py.throttle.throttler import ALL_WORK

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.events.event import Tell

#: For which a global lock may wait, and a statement of ours may run meanwhile.
OURS_SECONDS: Final = 2
_WAITING: Final = """
SELECT PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_TIME, PROCESSLIST_INFO
FROM performance_schema.threads
WHERE PROCESSLIST_COMMAND = 'Query'
AND PROCESSLIST_STATE IN
 ('Waiting for global read lock', 'Waiting for table flush', 'Waiting for commit lock')
AND (PROCESSLIST_INFO LIKE 'FLUSH %%' OR PROCESSLIST_INFO LIKE 'SET %%read_only%%')
ORDER BY PROCESSLIST_TIME DESC"""
_RUNNING: Final = """
SELECT PROCESSLIST_ID, PROCESSLIST_TIME FROM performance_schema.threads
WHERE PROCESSLIST_COMMAND = 'Query' AND PROCESSLIST_TIME >= %s
AND COALESCE(PROCESSLIST_STATE, '') NOT LIKE 'Waiting%%'
AND COALESCE(PROCESSLIST_STATE, '') <> 'User lock'
AND PROCESSLIST_ID <> CONNECTION_ID()"""


class GlobalLockThrottler:
    """Waits while a global lock waits, and ends what this run has in front of it.

    Args:
        tell: reports what was ended, and for whom.
    """

    name: Final = "global read lock"
    holds: Final = ALL_WORK
    every: Final = 1.0

    def __init__(self, connection: ConnectionOptions, tell: Tell) -> None:
        self._token = token_of(connection.label)
        self._tell = tell
        self._session = own_session(connection, "throttle-global")

    def look(self) -> str:
        """Return who waits for a global lock; nobody where the account may not see that.

        The privilege is not required, so that an account without it does not wait for ever.

        Raises:
            ServerFault: the server did not answer.
        """
        return self._session.ask(self._look)

    def _look(self, session: SqlSession) -> str:
        try:
            found = session.query(_WAITING)
        except ServerFault as fault:
            if not access_denied(fault):
                raise
            return ""
        if not found:
            return ""
        number, user, host, seconds, statement = found[0]
        who = f"session {number} of {user}@{host}, which waits for {statement!r}"
        if int(seconds) >= OURS_SECONDS:
            self._end_ours(session, who)
        return f"the global lock of {who}"

    def _end_ours(self, session: SqlSession, who: str) -> None:
        running = dict(session.query(_RUNNING, (OURS_SECONDS,)))
        for number in sorted(sessions_of_run(session, self._token) & set(running)):
            trouble = kill_session(session, number, statement=True)
            done = f"could not be ended: {trouble}" if trouble else "is ended, and made again later"
            self._tell(
                Warned(
                    said=f"every write of the server waits behind {who}: the statement of session"
                    f" {number}, of this run, which runs for {running[number]} s, {done}"
                )
            )

    def close(self) -> None:
        """Close the session; safe to call again."""
        self._session.close()
