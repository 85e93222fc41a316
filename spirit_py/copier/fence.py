"""A team of the copy, and how its sessions are ended: an abandoned chunk must not write (R18)."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, field
from spirit_py.codes import ErrorCode
from spirit_py.copier.chunk_sql import chunk_lock, copying_slots
from spirit_py.errors import CopyFailure, ServerFault
from spirit_py.locks.named import named_lock_holder, release_named_lock
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import kill_until_gone
from spirit_py.mysql.own_sessions import slot_holders
from spirit_py.spark.gang import end_members
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.copier.task import ChunkOrder, JoinCopy
    from spirit_py.spark.gang import Gang, GangEngine
    from spirit_py.table.mapping import TableMapping

_log = logging.getLogger(__name__)

_END_SECONDS: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class CopyOrder:
    """A chunk to copy, its probable seconds, and how often it was handed out before."""

    order: ChunkOrder
    seconds: float = 0.0
    tries: int = 0

    @property
    def number(self) -> int:
        """The chunk's number."""
        return self.order.chunk.number


@dataclass
class Team:
    """A gang, the driver's session for it, its orders by chunk number, and when each rank began."""

    engine: GangEngine
    licence: str
    control: SqlSession
    gang: Gang[None]
    closing: contextlib.ExitStack
    opened: float = field(default_factory=time.monotonic)
    asked: dict[int, tuple[int, CopyOrder]] = field(default_factory=dict)
    began: dict[int, float] = field(default_factory=dict)
    #: The crew's rank of its first task.
    first: int = 0
    #: The crew's tasks that its engine can have.
    slots: int = 1

    @property
    def end(self) -> int:
        """The crew's rank behind its last task."""
        return self.first + self.gang.size

    def give_up(self) -> None:
        """Let none of its tasks begin a further chunk."""
        self.gang.dismiss()
        with contextlib.suppress(ServerFault):
            release_named_lock(self.control, self.licence)


def end_earlier_chunks(connection: ConnectionOptions, mapping: TableMapping) -> None:
    """End this run's sessions that may still copy; raise `CopyFailure` if one stays."""
    table = mapping.source.full_name
    slots = copying_slots(mapping, connection.origin)
    with connect(connection, role="fence") as session:
        ended = _end(session, lambda: slot_holders(session, slots), of=table)
    if ended:
        _log.info("ended %s that still copied", counted(len(ended), "session"))


def end_teams(join: JoinCopy, teams: Iterable[Team]) -> None:
    """Wait until nothing of these gangs can write (R18)."""
    end_members((session for team in teams for session in team.gang.sessions), join.reach)
    chunks = [order.order.chunk for team in teams for _, order in team.asked.values()]
    # Licences first, then the locks of chunks.
    locks = [
        *(team.licence for team in teams),
        *(chunk_lock(join.mapping, chunk, join.connection.origin) for chunk in chunks),
    ]
    _end_chunks(join.connection, locks, of=join.mapping.source.full_name)


def _end_chunks(connection: ConnectionOptions, locks: Sequence[str], *, of: str) -> None:
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
    ended, left, _ = kill_until_gone(session, holders, _END_SECONDS)
    if left:
        raise CopyFailure(
            f"{len(left)} chunk sessions of {of} do not end on the server",
            hint="look for sessions with @spirit_py_role = 'chunk' and KILL them",
            error_code=ErrorCode.EARLIER_SESSIONS,
        )
    return ended
