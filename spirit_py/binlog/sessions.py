"""A session that threads use in turns, and that can be ended while one of them waits."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from spirit_py.errors import FeedFailure, ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import connection_lost
from spirit_py.mysql.sockets import CuttableSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session


class LentSession:
    """A session, opened when it is first needed, and again when it was lost."""

    def __init__(self, connection: ConnectionOptions, *, role: str, read_timeout: int) -> None:
        self._connection = connection
        self._role = role
        self._read_timeout = read_timeout
        self._turn = threading.Lock()
        self._held = CuttableSession()
        self._ended = False

    @contextlib.contextmanager
    def lend(self) -> Iterator[Session]:
        """Lend the session; waits while another thread has it.

        Raises:
            FeedFailure: it was ended.
        """
        with self._turn:
            session = self._opened()
            try:
                yield session
            except ServerFault as fault:
                if connection_lost(fault):
                    self._held.close()
                raise

    def _opened(self) -> Session:
        if self._held.session is not None and not self._held.session.alive():
            self._held.close()
        session = self._held.session or self._held.take(
            connect(self._connection, role=self._role, read_timeout=self._read_timeout)
        )
        if self._ended:
            self._held.close()
            raise FeedFailure("the change feed is closed")
        return session

    def end(self) -> int:
        """End the session for good, and the statement that waits in it.

        Returns:
            The session to kill, because the server may still execute; 0 for none.
        """
        self._ended = True
        if self._turn.acquire(blocking=False):
            self._held.close()
            self._turn.release()
            return 0
        return self._held.cut()
