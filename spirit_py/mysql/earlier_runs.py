"""End the sessions of an earlier run that the server still has: they must not write (R18).

A program that was killed leaves its statements running on the server. So every session of a run
holds a named lock of its run and one of each table (:mod:`spirit_py.mysql.own_sessions`); the next
run for one of these tables, which holds their advisory locks, ends the sessions of other runs
before it reads anything else.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure
from spirit_py.mysql.kill import kill_session
from spirit_py.mysql.own_sessions import of_run, sessions_on

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession

_log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.05
#: Rolling a chunk back takes no longer than writing it.
_PATIENCE: Final = 60.0


def earlier_sessions(session: SqlSession, label: str) -> list[int]:
    """Find the sessions of other runs on one of the label's tables."""
    token, *digests = label.split()
    found = sessions_on(session, digests)
    return sorted(found - of_run(session, token, found))


def end_own_statements(session: SqlSession, label: str) -> None:
    """End the statements of this run's other sessions; the sessions stay."""
    token, *digests = label.split()
    for number in of_run(session, token, sessions_on(session, digests)) - {session.id}:
        kill_session(session, number, statement=True)


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
                error_code=ErrorCode.EARLIER_SESSIONS,
            )
        ended.update(left)
        pause.wait(_POLL_SECONDS)
    if ended:
        _log.info("ended %d sessions of an earlier run", len(ended))
    return len(ended)
