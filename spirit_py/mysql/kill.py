"""KILL, only for sessions whose identity is proven (R24), such as those of an earlier run (R18).

The next run for a table ends sessions of earlier runs first, found by named locks
(:mod:`spirit_py.mysql.own_sessions`): all of an earlier run's token must end; holders of a table's
names, which anybody can take, are ended where the account may do that, else warned of.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, ServerFault, SpiritError
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import ACCESS_NEEDS_PRIVILEGE, NO_SUCH_THREAD
from spirit_py.mysql.own_sessions import of_run, ours, sessions_of_run, slot_holders, token_of
from spirit_py.mysql.processlist import whose
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession

_NOT_OWNER: Final = 1095
_END_WITHIN: Final = 3
"""Seconds to connect, and for each answer, when sessions are ended."""

_PROCEDURE: Final = """
SELECT 1 FROM information_schema.ROUTINES
WHERE ROUTINE_SCHEMA = 'mysql' AND ROUTINE_NAME = 'rds_kill'"""


def kill_own(session: SqlSession, victim: int, *, statement: bool = False) -> str:
    """Do :func:`kill_session` if the number, perhaps another's by now, is still of ours (R24)."""
    if not ours(session, [int(victim)]):
        return ""
    return kill_session(session, victim, statement=statement)


def kill_session(session: SqlSession, victim: int, *, statement: bool = False) -> str:
    """Kill a session; return the reason when that was not possible, else an empty string.

    The caller has just found it through this session, by a named lock of ours; otherwise use
    :func:`kill_own`. Another account's needs CONNECTION_ADMIN, or ``CALL mysql.rds_kill``.
    ``statement``: kill what it executes only.
    """
    try:
        session.execute(f"KILL {'QUERY' if statement else 'CONNECTION'} {int(victim)}")
    except ServerFault as fault:
        if fault.code not in {_NOT_OWNER, ACCESS_NEEDS_PRIVILEGE}:
            return "" if fault.code == NO_SUCH_THREAD else fault.text
    else:
        return ""
    try:
        session.query(f"CALL mysql.rds_kill{'_query' if statement else ''}({int(victim)})")
    except ServerFault as fault:
        if fault.code != NO_SUCH_THREAD:
            # The server says the same where only SYSTEM_USER is missing (measured on 9.7).
            return (
                "this user may not kill it: grant CONNECTION_ADMIN (RDS: EXECUTE ON PROCEDURE"
                " mysql.rds_kill), and SYSTEM_USER where the other account has that"
            )
    return ""


def may_kill_by_procedure(session: SqlSession) -> bool:
    """Whether the server has the procedure by which :func:`kill_session` may kill."""
    return bool(session.query(_PROCEDURE))


def end_sessions(options: ConnectionOptions, victims: Collection[int]) -> None:
    """Kill sessions of our own as far as the server allows; within seconds, never raises.

    The server closes the connection at once, even while a commit waits (measured, 9.7).
    """
    if not victims:
        return
    soon = replace(options, connect_timeout=min(options.connect_timeout, _END_WITHIN))
    with (
        contextlib.suppress(SpiritError),
        connect(soon, role="kill", read_timeout=_END_WITHIN) as session,
    ):
        for victim in victims:
            kill_own(session, victim)


def end_lost(session: SqlSession, options: ConnectionOptions, victims: Collection[int]) -> None:
    """Kill a run's sessions whose answers were lost, and wait until none executes anything (R18).

    For some seconds at most: what one of them does after that is found by the next run. Where the
    server was restarted since then, other sessions may have their numbers, and none is killed.
    """
    if all(number < session.id for number in victims):
        token = token_of(options.label)
        kill_until_gone(session, lambda: of_run(session, token, victims), _LOST_SECONDS)


def kill_until_gone(
    session: SqlSession,
    holders: Callable[[], Collection[int]],
    seconds: float,
    *,
    may_refuse: bool = True,
) -> tuple[set[int], list[int], list[str]]:
    """Kill again and again until none is left; return all, those left at last, and why.

    Some are left after so long, or once a KILL was refused that may not be.
    """
    deadline, pause = time.monotonic() + seconds, threading.Event()
    found: set[int] = set()
    while left := sorted(holders()):
        found.update(left)
        refused = [why for number in left if (why := kill_session(session, number))]
        if (refused and not may_refuse) or time.monotonic() >= deadline:
            return found, left, refused
        pause.wait(_POLL_SECONDS)
    return found, [], []


_log = logging.getLogger(__name__)

#: A statement that waits for a lock ends when it is killed.
_LOST_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.05
#: Rolling a chunk back takes no longer than writing it.
_PATIENCE: Final = 60.0


def earlier_sessions(session: SqlSession, label: str) -> list[int]:
    """Find the sessions of other runs on the label's tables, by names that anybody may take."""
    token, *digests = label.split()
    found = {number for digest in digests for number in slot_holders(session, digest)}
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
    """Kill earlier runs' sessions, wait for their rollback and end; return how many there were.

    ``warn`` gets holders of a table's name that may not be killed. Raises a MigrationFailure when
    one does not end, or a ServerFault.
    """
    earlier = [token for token in tokens if token != token_of(label)]
    # Looked at once: others may take the names of a table again and again.
    claimed = set(earlier_sessions(session, label))
    for number in sorted(claimed):
        if why := kill_session(session, number):
            claimed.discard(number)
            warn(
                f"{whose(session, number)}, holds a named lock of an earlier run, and"
                f" was not killed: {why}; if it is a session of spirit-py, KILL it"
            )

    def holders() -> set[int]:
        found = {number for token in earlier for number in sessions_of_run(session, token)}
        # A number that holds the name no more has ended, or was given anew.
        return found | claimed.intersection(earlier_sessions(session, label))

    ended, left, refused = kill_until_gone(session, holders, _PATIENCE, may_refuse=False)
    if left:
        raise MigrationFailure(
            f"sessions of an earlier run do not end on the server: {', '.join(map(str, left))}"
            + "".join(f"; {why}" for why in dict.fromkeys(refused)),
            hint="KILL them (RDS: CALL mysql.rds_kill), then run the same command again",
            error_code=ErrorCode.EARLIER_SESSIONS,
        )
    ended |= claimed
    if ended:
        _log.info("ended %s of an earlier run", counted(len(ended), "session"))
    return len(ended)
