"""Sessions of the feed for queries: one that threads share, one for weights of keys (R6)."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from spirit_py.errors import FeedFailure, ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import connection_lost
from spirit_py.mysql.retry import retrying
from spirit_py.mysql.session import CuttableSession
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock
    from spirit_py.mysql.session import Session
    from spirit_py.table.keys import ComparableKey
    from spirit_py.table.weights import KeyWeights


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
        """Lend the session; waits while another thread has it. FeedFailure after :meth:`end`."""
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
        """End the session for good; return the one to kill, because it may still execute, or 0."""
        self._ended = True
        if self._turn.acquire(blocking=False):
            self._held.close()
            self._turn.release()
            return 0
        return self._held.cut()


_ROOM: Final = 512 << 10
"""Bytes of one question at most, where the server takes as many."""
_TRIES: Final = 12
"""Questions that fail, while the server is there, before the feed does."""


class ServerWeights:
    """A session that weighs keys; opened when it is first needed, and again when it was lost."""

    def __init__(
        self,
        connection: ConnectionOptions,
        *,
        read_timeout: int,
        closing: StopSwitch | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._lent = LentSession(connection, role="feed-weights", read_timeout=read_timeout)
        self._closing = closing or StopSwitch()
        self._clock = clock
        self._room = 0

    def weigh(
        self, weights: KeyWeights, keys: Sequence[tuple[Any, ...]]
    ) -> Sequence[ComparableKey]:
        """Return the comparable forms of keys, in order.

        Raises:
            ServerFault: the server refuses, or was away for too long.
            FeedFailure: the feed is closed.
        """
        retrier = retrying(self._closing, attempts=_TRIES, first_pause=0.1, clock=self._clock)
        try:
            found: Sequence[ComparableKey] = retrier(self._ask, weights, keys)
        except ServerFault:
            # The session that was ended is lost: that is no fault of the server.
            self._closing.check()
            raise
        return found

    def _ask(self, weights: KeyWeights, keys: Sequence[tuple[Any, ...]]) -> Sequence[ComparableKey]:
        found: list[ComparableKey] = []
        with self._lent.lend() as session:
            if not self._room:
                packet = int(session.value("SELECT @@SESSION.max_allowed_packet"))
                self._room = min(_ROOM, packet - 1024)
            for part, question in weights.questions(keys, self._room):
                found += weights.weighed(part, session.query(question))
        return found

    def end(self) -> int:
        """End the session for good, and every pause; see :meth:`LentSession.end`."""
        self._closing.request(FeedFailure("the change feed is closed"))
        return self._lent.end()
