"""Sessions of the applier, each fenced: a lost session cannot write late (R18).

When a connection is lost its statement may still run on the server, and its older rows would
overwrite newer ones. So every worker holds a named lock of its own; the session that follows
a lost one must get the lock first, which the server gives up only when the lost one is gone.
"""

from __future__ import annotations

import contextlib
import queue
import secrets
import threading
from typing import TYPE_CHECKING, Final

from spirit_py.errors import MigrationFailure, ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import LOCK_WAIT_TIMEOUT, connection_lost
from spirit_py.mysql.kill import end_sessions
from spirit_py.mysql.wire import Wire
from spirit_py.sql import string_literal
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session

_FENCE_SECONDS: Final = 30
_READ_TIMEOUT: Final = 300
"""Seconds after which a statement's connection counts as lost; locks are waited for far less."""


class Worker:
    """One fenced session, opened when it is needed."""

    def __init__(self, options: ConnectionOptions, fence: str) -> None:
        self._options = options
        self._fence = fence
        self._session: Session | None = None
        self._wire: Wire | None = None
        self._guard = threading.Lock()
        self._lost_id = 0

    def session(self) -> Session:
        """Give the open session.

        Raises:
            ServerFault: transient when the session before still runs.
        """
        if self._session is None:
            session = connect(self._options, role="apply", read_timeout=_READ_TIMEOUT)
            try:
                self._enter(session)
            except BaseException:
                session.close()
                raise
            with self._guard:
                self._session, self._wire = session, Wire(session)
        return self._session

    def _enter(self, session: Session) -> None:
        """Wait until the session before this one is gone."""
        if self._lost_id:
            with contextlib.suppress(ServerFault):
                session.execute(f"KILL {self._lost_id}")
        got = session.value(f"SELECT GET_LOCK({string_literal(self._fence)}, {_FENCE_SECONDS})")
        if got != 1:
            raise ServerFault(
                LOCK_WAIT_TIMEOUT,
                f"session {self._lost_id} of the applier still runs",
                where="apply session",
            )
        self._lost_id = 0

    def lose(self) -> None:
        """Note that the session is lost, or not to be trusted."""
        if self._session is not None:
            self._lost_id = self._session.id
            self.close()

    def cut(self) -> int:
        """Break the connection while its statement runs, as another thread.

        Returns:
            The session to kill, because the server still executes; 0 without one.
        """
        with self._guard:
            if self._session is None or self._wire is None:
                return 0
            self._wire.cut()
            return self._session.id

    def close(self) -> None:
        """Close the session."""
        with self._guard:
            if self._session is not None:
                self._session.close()
            if self._wire is not None:
                self._wire.close()
            self._session = self._wire = None


class Workers:
    """A pool of workers; as many sessions as are used at the same time."""

    def __init__(self, options: ConnectionOptions, count: int) -> None:
        self._options = options
        self._ended = False
        token = secrets.token_hex(8)
        self._workers = [Worker(options, lock_name("apply", token, n)) for n in range(count)]
        self._free: queue.LifoQueue[Worker] = queue.LifoQueue()
        for worker in reversed(self._workers):
            self._free.put(worker)

    @contextlib.contextmanager
    def borrow(self) -> Iterator[Worker]:
        """Lend a worker; waits while all are lent. A fault costs it its session."""
        worker = self._free.get()
        try:
            if self._ended:
                raise MigrationFailure("the applier is closed")
            yield worker
        except ServerFault as fault:
            if connection_lost(fault):
                worker.lose()
            raise
        except BaseException:
            worker.lose()
            raise
        finally:
            if self._ended:
                worker.close()
            self._free.put(worker)

    def interrupt(self) -> None:
        """End the statements that run now, and start no others."""
        self._ended = True
        idle = self._idle()
        busy = [number for w in self._workers if w not in idle and (number := w.cut())]
        end_sessions(self._options, busy)

    def _idle(self) -> list[Worker]:
        with self._free.mutex:
            return list(self._free.queue)

    def close(self) -> None:
        """End running statements, and close every session."""
        self.interrupt()
        for worker in self._idle():
            worker.close()
