"""What the threads of a change feed share: a state under one lock, and a bounded store (R19).

Three cursors of the store grow, ``put >= get >= ack``; a rollback moves get back to ack.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from spirit_py.classes import KW_ONLY, InitVar, dataclass, field
from spirit_py.events.copy import BackpressureBegun, BackpressureEnded
from spirit_py.events.event import Tell, untold
from spirit_py.feed.ledger import VisibilityGate
from spirit_py.feed.subscription import Subscriptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.binlog.events import Event, Stream
    from spirit_py.contracts import Clock
    from spirit_py.progress import Retention
    from spirit_py.threads import StopSwitch


@dataclass(kw_only=True, eq=False)
class Shared:
    """The state of a feed; nothing waits for the server under ``lock``.

    ``mutex`` is that of ``lock``. ``ended`` is set when the feed is closed, ``wanted`` to have
    changes applied soon.
    """

    stream: Stream
    stop: StopSwitch
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self.mutex = threading.RLock()
        self.lock = threading.Condition(self.mutex)
        self.subscriptions = Subscriptions()
        self.gate = VisibilityGate(has_gtids=self.stream.has_gtids)
        self.ended = threading.Event()
        self.wanted = threading.Event()

    @property
    def over(self) -> bool:
        """Whether nothing more is applied."""
        return self.ended.is_set() or self.stop.requested


T = TypeVar("T")


@dataclass(kw_only=True, eq=False)
class EventStore(Generic[T]):
    """A ring of events for one putting and one getting thread; capacity: a power of two."""

    weigh: Callable[[T], int]
    is_boundary: Callable[[T], bool]
    capacity: InitVar[int] = 1 << 14
    max_bytes: int = 32 << 20

    def __post_init__(self, capacity: int) -> None:
        if capacity & (capacity - 1):
            raise ValueError("the capacity of the ring is a power of two")
        self._mask = capacity - 1
        self._events: list[T | None] = [None] * capacity
        self._weights = [0] * capacity
        self._changed = threading.Condition()
        self._put = self._get = self._ack = 0
        self._boundary = 0
        #: Weight of the events that are not acknowledged.
        self.bytes = 0
        self._reader_waits = False
        #: Whether the store is closed.
        self.closed = False

    def put(self, event: T) -> bool:
        """Add an event; waits while the ring is full. False when the store is closed."""
        weight = self.weigh(event)
        with self._changed:
            if self._full():
                # Meanwhile a transaction larger than the ring may be got in pieces.
                self._reader_waits = True
                self._changed.notify_all()
                while self._full() and not self.closed:
                    self._changed.wait()
                self._reader_waits = False
            if self.closed:
                return False
            slot = self._put & self._mask
            self._events[slot] = event
            self._weights[slot] = weight
            self.bytes += weight
            self._put += 1
            if self.is_boundary(event):
                self._boundary = self._put
                self._changed.notify_all()
            return True

    def _full(self) -> bool:
        return self._put - self._ack > self._mask or (
            self.bytes >= self.max_bytes and self._put > self._ack
        )

    def get(self, limit: int, timeout: float | None = None) -> list[T]:
        """Return up to ``limit`` events, whole transactions if they fit; none after ``timeout``."""
        with self._changed:
            ready = self._changed.wait_for(
                lambda: self.closed or self._until() > self._get, timeout
            )
            if not ready or self.closed:
                return []
            first = self._get
            self._get = min(self._until(), first + limit)
            mask = self._mask
            return [self._events[i & mask] for i in range(first, self._get)]  # type: ignore[misc]

    def _until(self) -> int:
        if self._boundary > self._get:
            return self._boundary
        return self._put if self._reader_waits else self._get

    def ack(self) -> None:
        """Note that everything got so far was taken over; makes room."""
        with self._changed:
            for cursor in range(self._ack, self._get):
                slot = cursor & self._mask
                self.bytes -= self._weights[slot]
                self._events[slot] = None
            self._ack = self._get
            self._changed.notify_all()

    def rollback(self) -> None:
        """Go back to the last acknowledged event: later ones are returned again by :meth:`get`."""
        with self._changed:
            self._get = self._ack
            self._changed.notify_all()

    def close(self) -> None:
        """End every waiting call; later puts are refused."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()


_log = logging.getLogger(__name__)

ASK_EVERY: Final = 5.0
"""Seconds between two queries of the source's retention while the reader waits."""
_ASK_SELDOM: Final = 30.0
_TELL_AFTER: Final = 1.0


@dataclass(eq=False)
class Backpressure:
    """The dispatcher's wait for room in the buffers, and its figures, in bytes."""

    shared: Shared
    _: KW_ONLY
    limit: int
    store: EventStore[Event]
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
        return self._seconds + (self.shared.clock() - since if since is not None else 0.0)

    def relieve(self) -> None:
        """Have changes applied soon where the buffers are so full that it cannot wait."""
        if self.waiting or self.shared.subscriptions.bytes >= self.limit // 2:
            self.shared.wanted.set()

    def wait(self) -> None:
        """Wait until the buffers are below the limit."""
        with self.shared.lock:
            self.peak = max(self.peak, self.shared.subscriptions.bytes + self.store.bytes)
            self.relieve()
            if self.shared.subscriptions.bytes < self.limit:
                return
            self._since = began = self.shared.clock()
        told = False
        while not self._has_room():
            if not told and self.shared.clock() - began >= _TELL_AFTER:
                told = True
                self.tell(BackpressureBegun(buffered_bytes=self.shared.subscriptions.bytes))
        if told:
            seconds = self.shared.clock() - began
            self.tell(BackpressureEnded(seconds=round(seconds, 3)))

    def _has_room(self) -> bool:
        with self.shared.lock:
            if self.shared.subscriptions.bytes >= self.limit and not self.store.closed:
                self.shared.wanted.set()
                self.shared.lock.wait(_TELL_AFTER)
                return False
            self._seconds = self.seconds
            self._since = None
            return True

    def ask_retention(self) -> None:
        """Ask how far the source's history reaches: seldom, unless the reader waits."""
        now = self.shared.clock()
        if not self.waiting and now - self._asked_at < _ASK_SELDOM:
            return
        self._asked_at = now
        try:
            found = self.shared.stream.retention()
        except Exception as error:  # it is only shown: no reason to end the feed
            _log.debug("the source does not say how long it keeps its history: %s", error)
        else:
            self.retention = found
