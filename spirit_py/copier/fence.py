"""End chunk sessions on the server: an abandoned chunk must not write later (R18)."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.copier.chunk_sql import copying_slots
from spirit_py.errors import CopyFailure
from spirit_py.locks.named import named_lock_holder
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import kill_session
from spirit_py.mysql.own_sessions import slot_holders
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping

_log = logging.getLogger(__name__)

_END_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05


def end_earlier_chunks(connection: ConnectionOptions, mapping: TableMapping) -> None:
    """End this run's sessions that may still copy; raise `CopyFailure` if one stays."""
    table = mapping.source.full_name
    slots = copying_slots(mapping, connection.origin)
    with connect(connection, role="fence") as session:
        ended = _end(session, lambda: slot_holders(session, slots), of=table)
    if ended:
        _log.info("ended %s that still copied", counted(len(ended), "session"))


def end_chunks(connection: ConnectionOptions, locks: Sequence[str], *, of: str) -> None:
    """Kill the sessions that hold these locks, in order, and wait until they have ended.

    A killed session rolls back first and releases its named lock last, so a free lock proves that
    nothing more will be written. Raises `CopyFailure` if one stays.
    """
    with connect(connection, role="fence") as session:

        def holders() -> set[int]:
            held = [named_lock_holder(session, lock) for lock in locks]
            return {holder for holder in held if holder is not None}

        _end(session, holders, of=of)


def _end(session: SqlSession, holders: Callable[[], set[int]], *, of: str) -> set[int]:
    deadline = time.monotonic() + _END_SECONDS
    pause = threading.Event()
    ended: set[int] = set()
    while left := holders():
        ended |= left
        for holder in left:
            kill_session(session, holder)
        if time.monotonic() > deadline:
            raise CopyFailure(
                f"{len(left)} chunk sessions of {of} do not end on the server",
                hint="look for sessions with @spirit_py_role = 'chunk' and KILL them",
                error_code=ErrorCode.EARLIER_SESSIONS,
            )
        pause.wait(_POLL_SECONDS)
    return ended
