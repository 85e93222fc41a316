"""Reads a binlog stream, and opens a new connection after each loss (R12).

A loss soon after one that was logged is only counted, and the count is logged after a minute, then
after pauses that double up to ten minutes. A loss that lasts is always logged.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

from spirit_py.binlog.connection import BinlogConnection, StreamLost
from spirit_py.classes import dataclass, field
from spirit_py.errors import FeedSilent
from spirit_py.events.copy import FeedFlaps, FeedLost, FeedReconnected
from spirit_py.events.event import Tell, untold
from spirit_py.mysql.retry import PATIENCE, Patience

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from spirit_py.binlog.parser import BinlogParser
    from spirit_py.contracts import Clock

_FIRST_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 600.0
#: A loss that lasts so long is always logged.
_LASTS_SECONDS: Final = 10.0


@dataclass(kw_only=True)
class Losses:
    """Reports the losses of one connection; used by one thread. ``tell`` may be set later."""

    clock: Clock = time.monotonic
    tell: Tell = untold
    _lost_at: float | None = field(default=None, init=False)
    _told: bool = field(default=False, init=False)
    #: Until when losses are only counted, and for how long.
    _quiet_until: float = field(default=float("-inf"), init=False)
    _quiet: float = field(default=_FIRST_SECONDS, init=False)
    _counted: int = field(default=0, init=False)
    _away: float = field(default=0.0, init=False)
    _reason: str = field(default="", init=False)

    def lost(self, reason: str) -> None:
        """Note that the connection was lost, or could not be opened again."""
        self.look()
        now, self._reason = self.clock(), reason
        if self._lost_at is None:
            self._lost_at, self._told = now, False
            if now < self._quiet_until:
                self._counted += 1
                return
            steady = now - self._quiet_until > self._quiet
            self._begin_quiet(_FIRST_SECONDS if steady else self._quiet)
        elif self._told or now - self._lost_at < _LASTS_SECONDS:
            return
        else:
            self._counted -= 1
        self._told = True
        self.tell(FeedLost(reason=reason))

    def back(self) -> None:
        """Note that it is open again."""
        if self._lost_at is None:
            return
        seconds, self._lost_at = self.clock() - self._lost_at, None
        if not self._told:
            self._away += seconds
            return
        self.tell(FeedReconnected(seconds=round(seconds, 3)))

    def look(self) -> None:
        """Report how many losses were counted, when it is time; called often."""
        if not self._counted or self.clock() < self._quiet_until:
            return
        losses, seconds, within = self._counted, round(self._away, 3), round(self._quiet, 3)
        self.tell(FeedFlaps(losses=losses, seconds=seconds, within=within, reason=self._reason))
        self._counted, self._away = 0, 0.0
        self._begin_quiet(min(_LONGEST_SECONDS, 2 * self._quiet))

    def _begin_quiet(self, seconds: float) -> None:
        self._quiet = seconds
        self._quiet_until = self.clock() + seconds


_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 15.0
_STEADY: Final = 60.0
"""Seconds after which a connection counts as stable, even without events."""


@dataclass(kw_only=True, eq=False)
class BinlogReader:
    """Reads the stream until ``stop``; fails ``give_up`` seconds after a loss without progress."""

    connect: Callable[[], BinlogConnection]
    parser: BinlogParser
    stop: threading.Event
    give_up: float = PATIENCE
    clock: Clock = time.monotonic
    losses: Losses = field(default_factory=Losses)
    connection: BinlogConnection | None = field(default=None, init=False)
    last_loss: str = field(default="", init=False)
    trouble: str = field(default="", init=False)
    reconnects: int = field(default=0, init=False)
    _first: Sequence[memoryview] = field(default=(), init=False)

    def open(self) -> None:
        """Open a connection and wait for its first events: until then no refusal is reported."""
        connection = self.connect()
        try:
            self._first = connection.read()
        except BaseException:
            connection.close()
            raise
        self.connection = connection

    def run(self, heard: Callable[[], None]) -> None:
        """Read and parse; after each loss pause, longer without progress, and open again."""
        patience = Patience(self.give_up, clock=self.clock)
        tries, reached = 0, None
        while not self.stop.is_set():
            began = self.clock()
            try:
                self._read_until_lost(heard)
            except StreamLost as error:
                self._lose(error)
                if self.parser.place != reached or self.clock() - began > _STEADY:
                    tries, reached = 0, self.parser.place
                    patience.answered()
                if patience.over():
                    lost = f"the change feed lost its server for {self.give_up:.0f} s"
                    hint = "when the server is back, run the same command again"
                    raise FeedSilent(f"{lost}: {self.last_loss}", hint=hint) from error
                self.stop.wait(_pause(tries))
                tries += 1

    def _read_until_lost(self, heard: Callable[[], None]) -> None:
        if self.connection is None:
            self.open()
            self.reconnects += 1
            self.parser.reopened()
            self.losses.back()
        self.trouble = ""
        connection = self.connection
        assert connection is not None  # noqa: S101 - for the type checker
        while not self.stop.is_set():
            events, self._first = self._first or connection.read(), ()
            heard()
            self.losses.look()
            for event in events:
                self.parser.feed(event)

    def _lose(self, error: StreamLost) -> None:
        self.last_loss = self.trouble = str(error)
        if not self.stop.is_set():
            self.losses.lost(str(error))
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def _pause(tries: int) -> float:
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries, 16))
    return longest * random.uniform(0.5, 1.0)
