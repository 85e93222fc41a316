"""End the sessions of an earlier run that the server still has: they must not write (R18).

A program that was killed leaves its statements running on the server. So every session of a run
holds a named lock of its run and one of each table (:mod:`spirit_py.mysql.own_sessions`); the next
run for one of these tables, which holds their advisory locks, ends the sessions of other runs
before it reads anything else.

They are found in two ways. The token of an earlier run, from the figures in its checkpoint table,
leads to all of its sessions, and nobody else's: these must end. The names of a table can be taken
by anybody: who holds one is ended where this account may do that, and passed over with a warning
where it may not.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure
from spirit_py.mysql.kill import kill_session
from spirit_py.mysql.own_sessions import of_run, sessions_of_run, sessions_on
from spirit_py.mysql.processlist import whose
from spirit_py.mysql.run_label import token_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from spirit_py.contracts import SqlSession

_log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.05
#: Rolling a chunk back takes no longer than writing it.
_PATIENCE: Final = 60.0


def earlier_sessions(session: SqlSession, label: str) -> list[int]:
    """Find the sessions of other runs on one of the label's tables, by the names of the tables."""
    token, *digests = label.split()
    found = sessions_on(session, digests)
    return sorted(found - of_run(session, token, found))


def end_own_statements(session: SqlSession, label: str) -> None:
    """End the statements of this run's other sessions; the sessions stay."""
    for number in sessions_of_run(session, token_of(label)) - {session.id}:
        kill_session(session, number, statement=True)


def end_earlier_sessions(
    session: SqlSession,
    label: str,
    *,
    tokens: Collection[str] = (),
    warn: Callable[[str], None] = _log.warning,
) -> int:
    """Kill the sessions of earlier runs and wait for their end; return how many there were.

    A killed session rolls back before the server forgets it.

    Args:
        tokens: of the earlier runs, as far as they are known.
        warn: is told of a session that holds a name of a table and may not be killed.

    Raises:
        MigrationFailure: when one does not end.
        ServerFault: when the server cannot be asked.
    """
    earlier = [token for token in tokens if token != token_of(label)]
    # Looked at once: others may take the names of a table again and again.
    claimed = set(earlier_sessions(session, label))
    for number in sorted(claimed):
        if why := kill_session(session, number):
            claimed.discard(number)
            warn(
                f"{whose(session, number)}, holds a named lock that sessions of an earlier run"
                f" would hold, and stays: {why}; if it is of spirit-py, KILL it"
            )
    deadline = time.monotonic() + _PATIENCE
    pause = threading.Event()
    ended: set[int] = set()
    while left := _left(session, label, earlier, claimed):
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
    ended |= claimed
    if ended:
        _log.info("ended %d sessions of an earlier run", len(ended))
    return len(ended)


def _left(
    session: SqlSession, label: str, tokens: Collection[str], claimed: Collection[int]
) -> list[int]:
    """Return the sessions of earlier runs that have not ended."""
    found = {number for token in tokens for number in sessions_of_run(session, token)}
    # A number that holds the name no more has ended, or was given anew.
    return sorted(found | set(claimed).intersection(earlier_sessions(session, label)))
