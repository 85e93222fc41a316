"""Asks the server for the weights of changes' keys, in batches (R6).

Changes whose keys are compared by weight wait in binlog order (:class:`.buffer.ChangeBuffer`). One
thread asks for the weights of the first few thousand, and hands these on to the partitions, in
order. So neither the reader nor the dispatcher waits for the answer. Changes are received, counted
and pending before; a question that fails changes nothing, and is asked again.

Each text is asked for once in a batch. The answer costs server and driver about a microsecond for a
key of 36 characters, where a whole change costs 40 (measured).
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.binlog.stream import Stream
    from spirit_py.contracts import Clock
    from spirit_py.feed.subscription import Subscriptions, TableSubscription
    from spirit_py.stop import StopSwitch

BATCH_ROWS: Final = 4000
"""Changes that get their weights together."""
_GATHER: Final = 0.02
"""Seconds in which more changes may come, so that few questions are asked."""
_POLL: Final = 0.2


class Weigher:
    """The thread that asks for weights, and the calls that wait for it.

    Args:
        mutex: the mutex of the feed's lock; nothing here waits for the server under it.
        ended: set when nothing may be applied any more; ``stop`` requests the same.
    """

    def __init__(
        self,
        *,
        mutex: threading.RLock,
        subscriptions: Subscriptions,
        stream: Stream,
        ended: threading.Event,
        stop: StopSwitch,
        clock: Clock,
    ) -> None:
        #: Notified, under the mutex, of changes whose keys have no weights yet.
        self.arrived = threading.Condition(mutex)
        self._handed_on = threading.Condition(mutex)
        self._subscriptions = subscriptions
        self._stream = stream
        self._ended = ended
        self._stop = stop
        self._clock = clock
        self._urgent = threading.Event()

    def run(self, stopping: threading.Event) -> None:
        """Body of the thread: weigh batch after batch; ends at once where nothing is weighed."""
        if all(each.weights is None for each in self._subscriptions.values()):
            return
        while not stopping.is_set():
            with self.arrived:
                if not self._waiting():
                    self.arrived.wait(1.0)
                    continue
                ready = any(len(each.buffer.unweighed) >= BATCH_ROWS for each in self._waiting())
            if not ready:
                self._urgent.wait(_GATHER)
            self._urgent.clear()
            for subscription in self._waiting():
                self._weigh(subscription)

    def _waiting(self) -> Sequence[TableSubscription]:
        return [each for each in self._subscriptions.values() if each.buffer.unweighed]

    def _weigh(self, subscription: TableSubscription) -> None:
        """Weigh the first changes of a table."""
        weights, buffer = subscription.weights, subscription.buffer
        assert weights is not None  # noqa: S101 - for the type checker
        with self.arrived:
            keys = buffer.first_unweighed(BATCH_ROWS)
        distinct = list(dict.fromkeys(keys))
        known = dict(zip(distinct, self._stream.weigh(weights, distinct), strict=True))
        with self.arrived:
            buffer.take_weights([known[key] for key in keys])
            self._handed_on.notify_all()

    def wake(self) -> None:
        """Wake every thread that waits; called under the feed's lock."""
        self.arrived.notify_all()
        self._handed_on.notify_all()

    def finish(self, subscriptions: Sequence[TableSubscription], seconds: float = math.inf) -> bool:
        """Wait until every change that was received before the call is in a partition.

        Returns:
            Whether that is so; False after ``seconds``, or when nothing is to be applied any more.
        """
        deadline = self._clock() + seconds
        with self._handed_on:
            goals = [(each.buffer, each.buffer.entered) for each in subscriptions]
            while True:
                goals = [(b, goal) for b, goal in goals if b.entered - len(b.unweighed) < goal]
                left = deadline - self._clock()
                if not goals or left <= 0 or self._ended.is_set() or self._stop.requested:
                    return not goals
                self._urgent.set()
                self._handed_on.wait(min(left, _POLL))
