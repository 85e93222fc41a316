"""Locks of the server: table locks that prove themselves, and named locks (R15, R18).

A session that loses its connection loses its table locks at once; its named locks go last of
all, when everything it executed has ended. So ``IS_USED_LOCK`` of a name that a session took
tells, without any privilege, whether that session can still do anything.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Final, Self

from spirit_py.errors import CutoverFailure, MigrationFailure, Refusal, ServerFault, SpiritError
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.retry import PATIENCE
from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import TracebackType

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock, SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.stop import StopSwitch

_NOT_LOCKED: Final = 1100
_KEEP_ALIVE_SECONDS: Final = 20.0
_JOIN_SECONDS: Final = 15.0


def take_named_lock(session: SqlSession, name: str, *, timeout: float = 0) -> bool:
    """Take a named lock for the life of the session; False when another session has it.

    Args:
        name: at most 64 characters, see :func:`spirit_py.table.names.lock_name`.
        timeout: seconds to wait for it, in whole seconds.
    """
    return bool(session.query("SELECT GET_LOCK(%s, %s)", (name, int(timeout)))[0][0])


def named_lock_holder(session: SqlSession, name: str) -> int | None:
    """Return the id of the session that holds a named lock, or None."""
    holder = session.query("SELECT IS_USED_LOCK(%s)", (name,))[0][0]
    return None if holder is None else int(holder)


class TableLock:
    """``LOCK TABLES`` in one session; that session must have autocommit on.

    Args:
        session: opened with the ``lock_wait_timeout`` that bounds the wait for each table.
        tables: schema and name of each table; at least one.
        read_only: those of the tables that are locked READ: others may read but not write;
            the rest is locked WRITE.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        session: SqlSession,
        tables: Sequence[tuple[str, str]],
        *,
        read_only: Collection[tuple[str, str]] = (),
        clock: Clock = time.monotonic,
    ) -> None:
        self._session = session
        self._read_only = frozenset(read_only)
        self._tables = tuple(tables)
        self._clock = clock
        self.waited_ms = 0.0

    def acquire(self) -> None:
        """Wait for the lock; :attr:`waited_ms` says how long that took.

        Raises:
            ServerFault: 1205 after ``lock_wait_timeout``; nothing is locked then.
        """
        names = ", ".join(
            f"{quote_table(*table)} {'READ' if table in self._read_only else 'WRITE'}"
            for table in self._tables
        )
        began = self._clock()
        try:
            self._session.execute(f"LOCK TABLES {names}")
        finally:
            self.waited_ms = (self._clock() - began) * 1000

    def verify(self) -> None:
        """Prove that the session is the same and still holds its table locks.

        While a session holds table locks, and only then, a table under an alias that was not
        locked is error 1100. So one statement proves both: another session in this one's place
        would hold none. This needs no performance_schema and takes 0.1 ms.

        Raises:
            CutoverFailure: when the lock is gone.
        """
        probe = quote_table(*self._tables[0])
        try:
            self._session.query(f"SELECT 1 FROM {probe} AS spirit_py_probe LIMIT 0")
        except ServerFault as fault:
            if fault.code == _NOT_LOCKED:
                return
            raise CutoverFailure(f"the table lock was lost: {fault.message}") from fault
        name = f"session {self._session.id}"
        raise CutoverFailure(f"{name} no longer holds the table lock on {probe}")

    def release(self) -> None:
        """Release the lock.

        Raises:
            ServerFault: when the session is lost, and with it the lock.
        """
        self._session.execute("UNLOCK TABLES")


class AdvisoryLock:
    """A named lock held for hours on a session of its own, so that a table has one migration.

    A thread asks the session regularly whether it still holds the lock. A lost session is
    opened again; when somebody else has taken the lock meanwhile, or the server stays away,
    the stop switch gets a :class:`~spirit_py.errors.MigrationFailure`.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        name: str,
        *,
        stop: StopSwitch,
        purpose: str,
        keep_alive: float = _KEEP_ALIVE_SECONDS,
        patience: float = PATIENCE,
    ) -> None:
        """Prepare; nothing is opened before :meth:`acquire`.

        Args:
            purpose: what the lock is for, for messages: ``migration of shop.orders``.
            keep_alive: seconds between two checks.
            patience: seconds that the server may stay away.
        """
        self._options = options
        self._name = name
        self._stop = stop
        self._purpose = purpose
        self._keep_alive = keep_alive
        self._patience = patience
        self._closing = threading.Event()
        self._session: Session | None = None
        self._thread: threading.Thread | None = None

    def acquire(self) -> None:
        """Take the lock and keep it.

        Raises:
            Refusal: when another session holds it.
            ServerFault: when the server cannot be reached.
        """
        self._session = self._take()
        self._thread = threading.Thread(target=self._keep, name="spirit-advisory-lock", daemon=True)
        self._thread.start()

    def _take(self) -> Session:
        """Open a session and take the lock in it."""
        session = connect(self._options, role="advisory", read_timeout=30, asks_for_lock=True)
        try:
            if take_named_lock(session, self._name):
                return session
            holder = named_lock_holder(session, self._name)
            raise Refusal(
                f"another {self._purpose} is running (server session {holder})",
                hint="wait for it to end, or stop it",
            )
        except BaseException:
            session.close()
            raise

    def _keep(self) -> None:
        """Ask regularly whether the lock is still ours; runs in a thread."""
        lost_at: float | None = None
        pause = self._keep_alive
        while not self._closing.wait(pause):
            try:
                if self._session is None:
                    self._session = self._take()
                elif named_lock_holder(self._session, self._name) != self._session.id:
                    raise MigrationFailure(f"the named lock of the {self._purpose} is gone")
                lost_at, pause = None, self._keep_alive
            except ServerFault as fault:
                lost_at = time.monotonic() if lost_at is None else lost_at
                pause = min(1.0, self._keep_alive)
                self._forget()
                waited = time.monotonic() - lost_at
                if disposition(fault) is not Disposition.RETRY or waited > self._patience:
                    self._give_up(fault)
                    return
            except SpiritError as error:
                self._give_up(error)
                return

    def _give_up(self, error: SpiritError) -> None:
        """Stop the migration: it is no longer the only one."""
        failure = MigrationFailure(
            f"the lock that keeps a second {self._purpose} away was lost: {error.message}",
            hint="run the same command again",
        )
        failure.__cause__ = error
        self._stop.request(failure)

    def _forget(self) -> None:
        """Close the session, whatever its state."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def close(self) -> None:
        """Release the lock; safe to call again."""
        self._closing.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(_JOIN_SECONDS)
            if thread.is_alive():
                return
        self._forget()

    def __enter__(self) -> Self:
        """Take the lock for the context."""
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the lock."""
        with contextlib.suppress(Exception):
            self.close()
