"""Table locks whose possession can be proven, and the watch of one request (R15, R23).

A process may be frozen or cut off while it holds a lock. So ``wait_timeout``, after which the
server ends an idle session, is made short before the request (measured: it counts between
statements only). Code that waits under the lock keeps the session alive.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from typing import TYPE_CHECKING, Final, Self

from spirit_py.classes import KW_ONLY, dataclass
from spirit_py.errors import CutoverFailure, ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import connection_lost, login_counted
from spirit_py.mysql.kill import kill_own
from spirit_py.mysql.processlist import FRESH_SECONDS
from spirit_py.sql import quote_table
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock, SqlSession
    from spirit_py.locks.blockers import Blocker
    from spirit_py.locks.turns import Front
    from spirit_py.mysql.session import Session
    from spirit_py.threads import StopSwitch

LETS_GO_AFTER: Final = 4
"""Seconds of silence after which the server ends the session."""
_ANSWER_SECONDS: Final = 5
_NOT_LOCKED: Final = 1100


def open_lock_session(
    options: ConnectionOptions, *, role: str, wait: int, hold: float, database: str = ""
) -> Session:
    """Open a session that waits ``wait`` seconds for each table and holds the lock for ``hold``."""
    return connect(
        options,
        database=database,
        role=role,
        lock_wait_timeout=wait,
        read_timeout=math.ceil(wait + hold) + _ANSWER_SECONDS,
    )


def let_go_when_silent(session: SqlSession) -> None:
    """Have the server end the session after a short silence; call it right before the request."""
    timeouts = ("wait_timeout", "net_read_timeout", "net_write_timeout")
    session.execute("SET " + ", ".join(f"SESSION {name} = {LETS_GO_AFTER}" for name in timeouts))


@dataclass(eq=False)
class TableLock:
    """``LOCK TABLES`` in one autocommit session; tables not in ``read_only`` are locked WRITE."""

    session: SqlSession
    tables: Sequence[tuple[str, str]]
    read_only: Collection[tuple[str, str]] = ()
    clock: Clock = time.monotonic
    waited_ms: float = 0.0

    def acquire(self) -> None:
        """Wait for the lock, for :attr:`waited_ms`; ServerFault 1205 at its timeout."""
        names = ", ".join(
            f"{quote_table(*table)} {'READ' if table in self.read_only else 'WRITE'}"
            for table in self.tables
        )
        began = self.clock()
        try:
            self.session.execute(f"LOCK TABLES {names}")
        finally:
            self.waited_ms = (self.clock() - began) * 1000

    def verify(self) -> None:
        """Prove that the session is the same and still holds its table locks; else CutoverFailure.

        Only while a session holds table locks, a table under an alias that was not locked is error
        1100. This needs no performance_schema and takes 0.1 ms.
        """
        probe = quote_table(*self.tables[0])
        try:
            self.session.query(f"SELECT 1 FROM {probe} AS spirit_py_probe LIMIT 0")
        except ServerFault as fault:
            if fault.code == _NOT_LOCKED:
                return
            raise CutoverFailure(f"the table lock was lost: {fault.message}") from fault
        name = f"session {self.session.id}"
        raise CutoverFailure(f"{name} no longer holds the table lock on {probe}")

    def release(self) -> None:
        """Release the lock; ServerFault when the session is lost, and with it the lock."""
        self.session.execute("UNLOCK TABLES")


_LOG = logging.getLogger(__name__)
_LEAST_LOOKS: Final = 3
_PAUSE_SECONDS: Final = 0.5


@dataclass(eq=False)
class LockWatch:
    """A context around the lock request and the work under the lock.

    Its thread, in ``session``, tells of blockers and kills them, ends the request after ``wait``
    seconds or a stop request, and the locking session after ``hold`` unless RENAME was sent. After
    a fault it goes on in a session that ``again`` opens.
    """

    session: Session
    waiter: int
    _: KW_ONLY
    again: Callable[[], Session]
    wait: float
    hold: float
    front: Front
    stop: StopSwitch
    tell: Callable[[list[Blocker]], None] = lambda _: None
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._held_until: float | None = None
        self._finished = False
        self._ended = False
        self._cannot_look = False
        self._thread = Background("lock-watch", self._run)
        #: Those that the request was last seen to wait for.
        self.blockers: list[Blocker] = []
        #: Why the watch ended the lock request or the lock; empty when it did not.
        self.verdict = ""

    def holding(self) -> None:
        """Note that the lock is held."""
        with self._changed:
            self._held_until = self.clock() + self.hold
            self._changed.notify_all()

    def finish(self) -> bool:
        """End the watch, so that RENAME may be sent; False if it has ended the locking session.

        Also False where it was late with that: no RENAME is sent after the time of the lock.
        """
        with self._changed:
            if not self._finished and self._held_until is not None and self._left() <= 0:
                self.verdict, self._ended = self.verdict or self._held(), True
            self._finished = True
            self._changed.notify_all()
            return not self._ended

    def _left(self) -> float:
        return (self._held_until or 0.0) - self.clock()

    def _held(self) -> str:
        return f"it was held for {self.hold:g} s"

    def _run(self, _stopping: threading.Event) -> None:
        """Watch; after a fault, in another session."""
        began = self.clock()
        while True:
            try:
                if self._watch_waiting(began):
                    self._watch_holding()
                return
            except ServerFault as fault:
                _LOG.warning("cannot watch over the table lock: %s", fault.message)
            if not self._renewed():
                return

    def _renewed(self) -> bool:
        """Open another session; False where the watch is over before, or the login is refused."""
        while True:
            try:
                fresh = self.again()
            except ServerFault as fault:
                if login_counted(fault):
                    return False
            else:
                with self._changed:
                    if not self._finished:
                        self.session.take_over(fresh)
                        return True
                fresh.close()
            with self._changed:
                if self._changed.wait_for(lambda: self._finished, _PAUSE_SECONDS):
                    return False

    def _watch_waiting(self, began: float) -> bool:
        # Never shorter than it takes to see fresh sizes: see find_blockers.
        pause = max(FRESH_SECONDS, min(_PAUSE_SECONDS, self.wait / _LEAST_LOOKS))
        while True:
            timeout = max(0.0, min(pause, self.wait - (self.clock() - began)))
            with self._changed:
                self._changed.wait_for(lambda: not self._waiting(), timeout)
                if not self._waiting():
                    return not self._finished
            waited = self.clock() - began
            if self.stop.requested:
                return self._end_request("a stop was asked for")
            if waited >= self.wait:
                late = f"the table lock was not granted in {self.wait:g} s"
                return self._end_request(late)
            if not self._cannot_look:
                self._look()

    def _look(self) -> None:
        try:
            found = self.front.look(self.session, self.waiter)
        except ServerFault as fault:
            if connection_lost(fault):
                raise
            found, self._cannot_look = [], True
            _LOG.warning("cannot see the blockers of the table lock: %s", fault.message)
        if found:
            self.blockers = found
            with self._changed:
                if self._waiting():
                    self.tell(found)
            self.front.kill(self.session, permitted=self._waiting)

    def _waiting(self) -> bool:
        with self._changed:
            return not self._finished and self._held_until is None

    def _watch_holding(self) -> None:
        with self._changed:
            while not self._finished:
                left = self._left()
                if left <= 0 or self.stop.requested:
                    break
                # Short, because a stop request does not wake this condition.
                self._changed.wait(min(left, _PAUSE_SECONDS / 2))
            if self._finished:
                return
        why = "a stop was asked for" if self.stop.requested else self._held()
        self._end(why, session=True)

    def _end_request(self, why: str) -> bool:
        """End it; return whether the lock was granted all the same, at that moment."""
        self._end(why, session=False)
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting())
            return not self._finished

    def _end(self, why: str, *, session: bool) -> None:
        with self._changed:
            if self._finished or (not session and self._held_until is not None):
                return
            self.verdict = why
            self._ended = session
            # Inside the condition, so that finish() cannot say yes while the kill is under way.
            trouble = kill_own(self.session, self.waiter, statement=not session)
        if trouble:
            _LOG.warning("could not end session %d: %s", self.waiter, trouble)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()
        if self._thread.join():
            with contextlib.suppress(Exception):
                self.session.close()
