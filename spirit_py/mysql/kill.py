"""KILL, only for sessions whose identity is proven (R24)."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py.errors import ServerFault, SpiritError
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import ACCESS_NEEDS_PRIVILEGE, NO_SUCH_THREAD
from spirit_py.mysql.own_sessions import ours

if TYPE_CHECKING:
    from collections.abc import Collection

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession

_NOT_OWNER: Final = 1095
_END_WITHIN: Final = 3
"""Seconds to connect, and for each answer, when sessions are ended."""

_PROCEDURE: Final = """
SELECT 1 FROM information_schema.ROUTINES
WHERE ROUTINE_SCHEMA = 'mysql' AND ROUTINE_NAME = 'rds_kill'"""


def kill_own(session: SqlSession, victim: int, *, statement: bool = False) -> str:
    """Kill a session that was opened by the same options as this one, and no other (R24).

    A remembered session number may be that of an application by now: a restarted server starts
    numbering again, and another server has its own numbers. So it is asked first whether the
    session holds the named lock of our origin (:mod:`spirit_py.mysql.own_sessions`). While this
    session, which reads and kills, lives, no number is used twice.

    Args:
        statement: kill what it executes, not the session.

    Returns:
        As :func:`kill_session`.
    """
    if not ours(session, [int(victim)]):
        return ""
    return kill_session(session, victim, statement=statement)


def kill_session(session: SqlSession, victim: int, *, statement: bool = False) -> str:
    """Kill a session; return the reason when that was not possible, else an empty string.

    The caller has just found it through the same session, by a named lock of ours; for a
    remembered number use :func:`kill_own`.

    A session that has gone by itself counts as killed. A session of our own account needs no
    privilege, another one's needs CONNECTION_ADMIN, or ``CALL mysql.rds_kill``.

    Args:
        statement: kill what it executes, not the session.
    """
    try:
        session.execute(f"KILL {'QUERY' if statement else 'CONNECTION'} {int(victim)}")
    except ServerFault as fault:
        if fault.code == NO_SUCH_THREAD:
            return ""
        if fault.code in {_NOT_OWNER, ACCESS_NEEDS_PRIVILEGE}:
            return _kill_managed(session, victim, statement=statement)
        return fault.text
    return ""


def _kill_managed(session: SqlSession, victim: int, *, statement: bool) -> str:
    """Kill by the procedure that Amazon RDS and Aurora have for accounts without the privilege.

    Returns:
        As :func:`kill_session`.
    """
    try:
        session.query(f"CALL mysql.rds_kill{'_query' if statement else ''}({int(victim)})")
    except ServerFault as fault:
        if fault.code == NO_SUCH_THREAD:
            return ""
        return "this user may not kill it: grant CONNECTION_ADMIN"
    return ""


def may_kill_by_procedure(session: SqlSession) -> bool:
    """Whether the server has the procedure by which :func:`kill_session` may kill."""
    return bool(session.query(_PROCEDURE))


def end_sessions(options: ConnectionOptions, victims: Collection[int]) -> None:
    """Kill sessions of our own as far as the server allows; within seconds, never raises.

    The server closes a killed session's connection at once, even while its statement continues,
    such as a commit that waits for earlier commits (measured, 9.7).
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
