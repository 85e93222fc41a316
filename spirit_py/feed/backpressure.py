"""Bounded memory: the dispatcher waits while the buffers are full (R19)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from spirit_py.errors import SpiritError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from spirit_py.contracts import Clock, Retention

_LOG = logging.getLogger(__name__)

LOOK_EVERY: Final = 5.0
"""Seconds between two looks at how far the source's history reaches, while parked."""


class Parking:
    """Where the reader waits, and the figures of that. ``lock`` is the feed's.

    While it waits the source's history grows, and the source keeps only so much of it.

    Args:
        limit: bytes in the buffers at which to wait.
        buffered: bytes in the buffers.
        queued: bytes on their way to the buffers.
        press: set when something must be applied to make room.
        over: tells whether waiting has no sense any more.
        ask: asks the source how far its history reaches; it may block and fail.
    """

    def __init__(
        self,
        *,
        lock: threading.Condition,
        limit: int,
        buffered: Callable[[], int],
        queued: Callable[[], int],
        press: threading.Event,
        over: Callable[[], bool],
        ask: Callable[[], Retention | None],
        clock: Clock,
    ) -> None:
        self._lock = lock
        self._limit = limit
        self._buffered = buffered
        self._queued = queued
        self._press = press
        self._over = over
        self._ask = ask
        self._clock = clock
        self._since: float | None = None
        self._seconds = 0.0
        self._retention: Retention | None = None
        self.peak = 0

    @property
    def parked(self) -> bool:
        """Whether the reader waits now."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """How long it has waited, in all."""
        since = self._since
        return self._seconds + (self._clock() - since if since is not None else 0.0)

    @property
    def retention(self) -> Retention | None:
        """How far the source's history reached at the last look; None while not parked."""
        return self._retention if self.parked else None

    def pressed(self) -> bool:
        """Return whether the buffers are so full that applying cannot wait for its turn."""
        return self.parked or self._buffered() >= self._limit // 2

    def wait(self) -> None:
        """Wait until the buffers are below the limit."""
        with self._lock:
            self.peak = max(self.peak, self._buffered() + self._queued())
            if self.pressed():
                self._press.set()
            if self._buffered() < self._limit:
                return
            self._since = self._clock()
            while self._buffered() >= self._limit and not self._over():
                self._press.set()
                self._lock.wait(1.0)
            self._seconds = self.seconds
            self._since = self._retention = None

    def look(self, ended: threading.Event) -> None:
        """Body of a thread: look at the history from time to time while parked."""
        while not ended.wait(LOOK_EVERY):
            if not self.parked:
                continue
            try:
                self._retention = self._ask()
            except SpiritError as error:
                _LOG.debug("no look at the binlog's retention: %s", error)
