"""Asks the server for the weights of keys, in a session of its own (R6)."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, Final

from spirit_py.binlog.sessions import LentSession
from spirit_py.errors import FeedFailure, ServerFault
from spirit_py.mysql.faults import Disposition, disposition, server_away
from spirit_py.mysql.retry import Patience

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock
    from spirit_py.table.keys import ComparableKey
    from spirit_py.table.weights import KeyWeights

_ROOM: Final = 512 << 10
"""Bytes of one question at most, where the server takes as many."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0
_TRIES: Final = 12
"""Questions that fail, while the server is there, before the feed does."""


class ServerWeights:
    """A session that weighs keys; opened when it is first needed, and again when it was lost.

    Args:
        closing: ends every pause.
        read_timeout: seconds after which the connection counts as lost.
    """

    def __init__(
        self,
        connection: ConnectionOptions,
        closing: threading.Event,
        *,
        read_timeout: int,
        clock: Clock = time.monotonic,
    ) -> None:
        self._lent = LentSession(connection, role="feed-weights", read_timeout=read_timeout)
        self._closing = closing
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
        patience = Patience(clock=self._clock)
        tries = passing = 0
        while True:
            try:
                return self._ask(weights, keys)
            except ServerFault as fault:
                if disposition(fault) is not Disposition.RETRY:
                    raise
                away = server_away(fault)
                passing += not away
                if (away and patience.over()) or passing >= _TRIES:
                    raise
            longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**tries)
            if self._closing.wait(longest * random.uniform(0.5, 1.0)):
                raise FeedFailure("the change feed is closed")
            tries += 1

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
        """End the session for good; see :meth:`LentSession.end`."""
        return self._lent.end()
