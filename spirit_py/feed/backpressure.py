"""Backpressure: the dispatcher waits while the buffers are full, and so does the reader (R19).

Meanwhile the source's binlog grows, and the source keeps it for a limited time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spirit_py.events.copy import BackpressureBegun, BackpressureEnded
from spirit_py.events.event import Tell, untold

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from spirit_py.binlog.events import Event
    from spirit_py.contracts import Clock, Retention
    from spirit_py.feed.store import EventStore
    from spirit_py.feed.subscription import Subscriptions

_log = logging.getLogger(__name__)

ASK_EVERY: Final = 5.0
"""Seconds between two queries of the source's retention while the reader waits."""
_ASK_SELDOM: Final = 30.0
_TELL_AFTER: Final = 1.0


@dataclass(kw_only=True, eq=False)
class Backpressure:
    """The dispatcher's wait for room in the buffers, and its figures.

    Args:
        lock: the feed's; notified whenever something was applied.
        limit: bytes in the buffers at which to wait.
        store: the event store before the buffers; once it is closed, nothing waits any more.
        press: set when changes must be applied to make room.
        ask: asks the source how far its history reaches; may block and fail.
        tell: reports a wait that lasts.

    Attributes:
        peak: bytes in buffers and store at most.
        retention: how far the source's history reached when it was last asked; None before.
    """

    lock: threading.Condition
    limit: int
    subscriptions: Subscriptions
    store: EventStore[Event]
    press: threading.Event
    ask: Callable[[], Retention | None]
    clock: Clock
    tell: Tell = untold
    peak: int = field(default=0, init=False)
    retention: Retention | None = field(default=None, init=False)
    _since: float | None = field(default=None, init=False)
    _seconds: float = field(default=0.0, init=False)
    _asked_at: float = field(default=float("-inf"), init=False)

    @property
    def waiting(self) -> bool:
        """Whether the dispatcher waits now."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """How long it has waited, in all."""
        since = self._since
        return self._seconds + (self.clock() - since if since is not None else 0.0)

    def pressing(self) -> bool:
        """Whether the buffers are so full that applying cannot wait for its turn."""
        return self.waiting or self.subscriptions.bytes >= self.limit // 2

    def wait(self) -> None:
        """Wait until the buffers are below the limit."""
        with self.lock:
            self.peak = max(self.peak, self.subscriptions.bytes + self.store.bytes)
            if self.pressing():
                self.press.set()
            if self.subscriptions.bytes < self.limit:
                return
            self._since = began = self.clock()
        told = False
        while not self._has_room():
            if not told and self.clock() - began >= _TELL_AFTER:
                told = True
                self._tell_begun()
        if told:
            self._tell_ended(self.clock() - began)

    def _has_room(self) -> bool:
        """Return whether there is room, or nothing is waited for any more; waits for a moment."""
        with self.lock:
            if self.subscriptions.bytes >= self.limit and not self.store.closed:
                self.press.set()
                self.lock.wait(_TELL_AFTER)
                return False
            self._seconds = self.seconds
            self._since = None
            return True

    def _tell_begun(self) -> None:
        held = self.subscriptions.bytes
        self.tell(BackpressureBegun(buffered_bytes=held))

    def _tell_ended(self, seconds: float) -> None:
        self.tell(BackpressureEnded(seconds=round(seconds, 3)))

    def ask_retention(self) -> None:
        """Ask how far the source's history reaches: seldom, unless the reader waits."""
        now = self.clock()
        if not self.waiting and now - self._asked_at < _ASK_SELDOM:
            return
        self._asked_at = now
        try:
            found = self.ask()
        except Exception as error:  # it is only shown: no reason to end the feed
            _log.debug("the source does not say how long it keeps its history: %s", error)
        else:
            self.retention = found
