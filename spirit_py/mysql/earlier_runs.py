"""End the sessions of an earlier run that the server still has: they must not write (R18).

A program that was killed leaves its statements running on the server. So every session of a run
names in a user variable its run and the tables of that run; the next run for one of
these tables, which holds their advisory locks, ends the sessions of other runs before it reads
anything else.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py.errors import MigrationFailure
from spirit_py.mysql.kill import kill_session

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession

_log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.05
#: Rolling a chunk back takes no longer than writing it.
_PATIENCE: Final = 60.0

_SESSIONS: Final = """
SELECT t.PROCESSLIST_ID, CONVERT(v.VARIABLE_VALUE USING utf8mb4)
FROM performance_schema.user_variables_by_thread v
JOIN performance_schema.threads t ON t.THREAD_ID = v.THREAD_ID
WHERE v.VARIABLE_NAME = 'spirit_py_run' AND t.PROCESSLIST_ID IS NOT NULL"""


def earlier_sessions(session: SqlSession, label: str) -> list[int]:
    """Find the sessions of other runs on one of the label's tables."""
    own, *marks = label.split()
    return [
        int(number)
        for number, said in session.query(_SESSIONS)
        if (words := str(said).split()) and words[0] != own and not set(marks).isdisjoint(words)
    ]


def end_own_statements(session: SqlSession, label: str) -> None:
    """End the statements of this run's other sessions; the sessions stay."""
    own, *_ = label.split()
    for number, said in session.query(_SESSIONS):
        if str(said).split()[:1] == [own] and int(number) != session.id:
            kill_session(session, int(number), statement=True)


def end_earlier_sessions(session: SqlSession, label: str) -> int:
    """Kill the sessions of earlier runs and wait for their end; return how many there were.

    A killed session rolls back before the server forgets it.

    Raises:
        MigrationFailure: when one does not end.
        ServerFault: when the server cannot be asked.
    """
    deadline = time.monotonic() + _PATIENCE
    pause = threading.Event()
    ended: set[int] = set()
    while left := earlier_sessions(session, label):
        refused = {number: why for number in left if (why := kill_session(session, number))}
        if refused or time.monotonic() >= deadline:
            numbers = ", ".join(str(number) for number in left)
            raise MigrationFailure(
                f"sessions of an earlier run do not end on the server: {numbers}"
                + "".join(f"; {why}" for why in dict.fromkeys(refused.values())),
                hint="KILL them, then run the same command again",
            )
        ended.update(left)
        pause.wait(_POLL_SECONDS)
    if ended:
        _log.info("ended %d sessions of an earlier run", len(ended))
    return len(ended)
