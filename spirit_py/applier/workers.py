"""Sessions of the applier, each fenced, and what an error of one of them means (R10, R18).

The statement of a lost connection may still run, and overwrite newer rows. So a worker's session
holds a named lock, which the next one must get first. After a batch is given up, nothing is written
until its session is gone, because another worker may apply the rows.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spirit_py.classes import dataclass, field
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, PacketTooSmall, ServerFault, ValueLost
from spirit_py.locks.named import release_named_lock, take_from_lost_session
from spirit_py.mysql import faults
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import end_sessions
from spirit_py.mysql.lost_values import (
    DEPRECATED,
    VALUE_ERRORS,
    numbers_used_up,
    read_complaint,
    telling,
)
from spirit_py.mysql.session import CuttableSession
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.table.mapping import TableMapping

T = TypeVar("T")
_take: Final = partial(
    take_from_lost_session, said="a lost session of the applier still runs", where="apply session"
)
_READ_TIMEOUT: Final = 300
"""Seconds after which a statement's connection counts as lost; locks are waited for far less."""


@dataclass(eq=False)
class Worker:
    """One fenced session, opened when it is needed; ``lost``: an earlier one may still run.

    ``before`` is called with the session before it writes anything, ``check`` before each try.
    """

    options: ConnectionOptions
    fence: str
    before: Callable[[SqlSession], None]
    check: Callable[[], None]
    lost: bool = field(default=False, init=False)
    _held: CuttableSession = field(default_factory=CuttableSession, init=False)

    @property
    def opened(self) -> bool:
        """Whether it has a session."""
        return self._held.session is not None

    def session(self) -> Session:
        """Return the open session; transient ServerFault while the session before it still runs."""
        if self._held.session is not None:
            return self._held.session
        session = connect(self.options, role="apply", read_timeout=_READ_TIMEOUT)
        try:
            _take(session, self.fence, lost=self.lost)
        except BaseException:
            session.close()
            raise
        self.lost = False
        return self._held.take(session)

    def run(self, work: Callable[[SqlSession], T]) -> T:
        """Do work in the session; a fault that makes it useless costs the session."""
        self.check()
        try:
            session = self.session()
            self.before(session)
            return work(session)
        except ServerFault as fault:
            if faults.connection_lost(fault):
                self.lose()
            raise
        except BaseException:
            self.lose()
            raise

    def lose(self) -> None:
        """Note that the session is lost, or not to be trusted."""
        if self._held.session is not None:
            self.lost = True
            self.close()

    def cut(self) -> int:
        """Break the connection, as another thread; return the session to kill, or 0."""
        return self._held.cut()

    def close(self) -> None:
        """Close the session."""
        self._held.close()


class _Refused(Exception):
    """The server refuses a further session, and others are open."""


class Workers:
    """A pool of workers; as many sessions as are used at the same time."""

    def __init__(self, options: ConnectionOptions, count: int) -> None:
        self.options = options
        self._ended = False
        token = secrets.token_hex(8)
        self._left: set[str] = set()
        self._left_lock = threading.Lock()
        fences = [lock_name("apply", token, n) for n in range(count)]
        self._workers = [Worker(options, f, self.require_alone, self._check) for f in fences]
        self._free = list(self._workers)
        self._returned = threading.Condition()

    def run(self, work: Callable[[SqlSession], T], again: Callable[..., Any]) -> T:
        """Do work with a worker; ``again`` tries again what may go well then.

        Where the server refuses a further session, the work waits for one that is open.
        """
        opened = False
        while True:
            with self.borrow(opened=opened) as worker:
                try:
                    result: T = again(self._attempt, worker, work)
                    return result
                except _Refused:
                    opened = True

    def _attempt(self, worker: Worker, work: Callable[[SqlSession], T]) -> T:
        try:
            return worker.run(work)
        except ServerFault as fault:
            refused = not worker.opened and faults.refuses_sessions(fault)
            if refused and any(one.opened for one in self._workers):
                raise _Refused from fault
            raise

    @contextlib.contextmanager
    def borrow(self, *, opened: bool = False) -> Iterator[Worker]:
        """Lend a worker for a batch; waits while all are lent.

        Those with a session come first; if ``opened``, no other one while there is any.
        """
        with self._returned:
            while (worker := self._found(opened=opened)) is None:
                self._returned.wait()
            self._free.remove(worker)
        try:
            yield worker
        finally:
            if worker.lost:
                with self._left_lock:
                    self._left.add(worker.fence)
            if self._ended:
                worker.close()
            with self._returned:
                self._free.append(worker)
                self._returned.notify_all()

    def _found(self, *, opened: bool) -> Worker | None:
        found = next((one for one in reversed(self._free) if one.opened), None)
        if found is None and not (opened and any(one.opened for one in self._workers)):
            found = self._free[0] if self._free else None
        return found

    def _check(self) -> None:
        if self._ended:
            raise MigrationFailure("the applier is closed", error_code=ErrorCode.DEFECT)

    def require_alone(self, session: SqlSession) -> None:
        """Wait until no session of a batch that was given up is left; transient fault if one is."""
        with self._left_lock:
            left = sorted(self._left)
        for fence in left:
            _take(session, fence)
            release_named_lock(session, fence)
            with self._left_lock:
                self._left.discard(fence)

    def interrupt(self) -> None:
        """End the statements that run now, and start no others."""
        self._ended = True
        idle = self._idle()
        busy = [number for w in self._workers if w not in idle and (number := w.cut())]
        end_sessions(self.options, busy)

    def _idle(self) -> list[Worker]:
        with self._returned:
            return list(self._free)

    def close(self) -> None:
        """End running statements, and close every session."""
        self.interrupt()
        for worker in self._idle():
            worker.close()


TRUNCATED: Final = 1265
UNDEFINED_CHARACTER: Final = 1300
"""A byte that its character set does not define: in a key's literal it is compared all the same."""


def judge_warnings(
    session: SqlSession, mapping: TableMapping, *, allowed: Iterable[int] = (DEPRECATED,)
) -> None:
    """Raise for any warning of the last statement that is not allowed."""
    for level, code, text in telling(session, mapping.recomputed):
        if code in faults.PACKET_TOO_SMALL:
            raise PacketTooSmall(
                f"a changed row of {mapping.source.full_name} has a value that"
                f" is too large: {text} ({level.lower()} {code})",
                hint=faults.RAISE_PACKET,
            )
        if code not in set(allowed):
            raise value_lost(mapping, f"{level.lower()} {code}: {text}")


def judge_fault(fault: ServerFault, mapping: TableMapping) -> Exception:
    """Return the error to raise for a fault of an applied statement."""
    if fault.code in VALUE_ERRORS:
        return value_lost(mapping, f"error {fault.code}: {fault.text}")
    return numbers_used_up(fault, mapping) or fault


def value_lost(mapping: TableMapping, text: str) -> ValueLost:
    """Build the error that names the column; whoever knows the row adds its key."""
    column, _ = read_complaint(text)
    about = f"column {column} of " if column else ""
    return ValueLost(
        f"a changed row does not fit into {about}{mapping.target.full_name}: {text}",
        hint="change the row in the source, then run the same command again: it resumes; or"
        " choose a column type that holds it, with --start-afresh",
    )
