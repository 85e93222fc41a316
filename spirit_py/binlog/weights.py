"""Asks the server for the weights of keys, in a session of its own (R6)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from spirit_py.binlog.sessions import LentSession
from spirit_py.errors import FeedFailure, ServerFault
from spirit_py.mysql.retry import retrying
from spirit_py.stop import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock
    from spirit_py.table.keys import ComparableKey
    from spirit_py.table.weights import KeyWeights

_ROOM: Final = 512 << 10
"""Bytes of one question at most, where the server takes as many."""
_TRIES: Final = 12
"""Questions that fail, while the server is there, before the feed does."""


class ServerWeights:
    """A session that weighs keys; opened when it is first needed, and again when it was lost.

    Args:
        read_timeout: seconds after which the connection counts as lost.
        closing: requested by :meth:`end`; it ends every pause.
    """

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
