"""Reads a binlog stream over as many connections as it takes (R12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tenacity import (
    RetryError,
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    stop_when_event_set,
    wait_random_exponential,
)
from tenacity.nap import sleep_using_event

from spirit_py.change import wire
from spirit_py.change.binlog import BinlogConnection, StreamLost
from spirit_py.errors import FeedFailure

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from spirit_py.change.stream import BinlogEvents

GIVE_UP: Final = 600.0
"""Seconds after which a server that cannot be reached is a failure."""


class BinlogReader:
    """Reads the stream until it is told to stop; the body of the reader thread.

    Args:
        connect: opens a dump behind the last complete transaction.
        parser: takes the bytes.
        stop: set when reading must end.
        give_up: seconds after which a server that cannot be reached is a failure.
    """

    def __init__(
        self,
        *,
        connect: Callable[[], BinlogConnection],
        parser: BinlogEvents,
        stop: threading.Event,
        give_up: float = GIVE_UP,
    ) -> None:
        self._connect = connect
        self.parser = parser
        self._stop = stop
        self._give_up = give_up
        self.connection: BinlogConnection | None = None
        self._first = b""
        self.last_loss = self.trouble = ""
        self.reconnects = 0

    def open(self) -> None:
        """Open a connection and wait for its first event, which says where the stream is.

        Only with that does the server say that it cannot, or may not, send the stream.
        """
        connection = self._connect()
        try:
            self._first = connection.read()
        except BaseException:
            connection.close()
            raise
        self.connection = connection

    def run(self, heard: Callable[[], None]) -> None:
        """Read and parse; after a loss open again, with growing pauses while that fails.

        Args:
            heard: told of every packet.

        Raises:
            SpiritError: what the stream cannot go on after.
        """
        while not self._stop.is_set():
            attempts = Retrying(
                retry=retry_if_exception_type(StreamLost),
                stop=stop_after_delay(self._give_up) | stop_when_event_set(self._stop),
                wait=wait_random_exponential(multiplier=0.1, max=15),
                sleep=sleep_using_event(self._stop),
            )
            try:
                attempts(self._read_until_lost, heard)
            except RetryError as error:
                if self._stop.is_set():
                    return
                raise FeedFailure(
                    f"the change feed lost its server for {self._give_up:.0f} s: {self.last_loss}",
                    hint="when the server is back, run the same command again",
                ) from error

    def _read_until_lost(self, heard: Callable[[], None]) -> None:
        """Read over one connection. Returns when it is lost after it was of use.

        Raises:
            StreamLost: when it is lost before a single event.
        """
        useful = 0
        try:
            if self.connection is None:
                self.open()
                self.reconnects += 1
                self.parser.reopened()
            self.trouble = ""
            connection = self.connection
            assert connection is not None  # noqa: S101 - for the type checker
            while not self._stop.is_set():
                event, self._first = self._first or connection.read(), b""
                heard()
                self.parser.feed(event)
                # The first few events only say where the stream is.
                useful += event[4] not in {wire.ROTATE, wire.FORMAT_DESCRIPTION}
        except StreamLost as error:
            self.last_loss = self.trouble = str(error)
            if self.connection is not None:
                self.connection.close()
                self.connection = None
            if not useful or self._stop.is_set():
                raise
