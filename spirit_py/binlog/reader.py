"""Reads a binlog stream, and opens a new connection after each loss (R12)."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spirit_py.binlog.connection import BinlogConnection, StreamLost
from spirit_py.binlog.losses import Losses
from spirit_py.errors import FeedSilent
from spirit_py.mysql.retry import PATIENCE, Patience

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from spirit_py.binlog.parser import BinlogParser
    from spirit_py.contracts import Clock

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 15.0
_STEADY: Final = 60.0
"""Seconds after which a connection counts as stable, even without events."""


@dataclass(kw_only=True, eq=False)
class BinlogReader:
    """Reads the stream until ``stop`` is set; the body of the reader thread.

    Args:
        connect: opens a dump after the last complete transaction.
        parser: takes the bytes.
        stop: set when reading must end.
        give_up: seconds without a new event, counted from a loss, after which the stream has
            failed.
        losses: reports them, and their ends.
    """

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
        """Open a connection and wait for its first events, which have the file and offset.

        Before these the server does not report that it cannot, or may not, send the stream.
        """
        connection = self.connect()
        try:
            self._first = connection.read()
        except BaseException:
            connection.close()
            raise
        self.connection = connection

    def run(self, heard: Callable[[], None]) -> None:
        """Read and parse; after a loss open again, after a pause that grows without progress.

        There is a pause after every loss: an event that breaks the stream each time, after one that
        is read without a fault, must not cause a loop without pauses.

        Args:
            heard: called whenever something came.

        Raises:
            SpiritError: a fault that ends the stream.
        """
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
                    raise FeedSilent(
                        f"the change feed lost its server for {self.give_up:.0f} s:"
                        f" {self.last_loss}",
                        hint="when the server is back, run the same command again",
                    ) from error
                self.stop.wait(_pause(tries))
                tries += 1

    def _read_until_lost(self, heard: Callable[[], None]) -> None:
        """Read over one connection until it is lost, or until the end.

        Raises:
            StreamLost: when it is lost.
        """
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
    """Return the random seconds to wait before another connection."""
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries, 16))
    return longest * random.uniform(0.5, 1.0)
