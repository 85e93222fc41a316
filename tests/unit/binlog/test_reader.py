"""Connections that break: a pause behind each loss, and an end where nothing comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.binlog.connection import StreamLost
from spirit_py.binlog.reader import BinlogReader, Losses
from spirit_py.errors import FeedFailure
from spirit_py.events.copy import FeedFlaps, FeedLost, FeedReconnected
from spirit_py.events.event import teller
from tests.kits.reporter import RecordingReporter

if TYPE_CHECKING:
    from collections.abc import Callable


class Stop:
    """A stop event on whose pauses time passes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.ended = False

    def is_set(self) -> bool:
        """Whether reading must end."""
        return self.ended

    def wait(self, seconds: float) -> bool:
        """Let time pass."""
        self.pauses.append(seconds)
        self.now += seconds
        return self.ended


class Parser:
    """Stands at a place, and breaks the stream where it is told to."""

    def __init__(self, breaks: Callable[[int], bool]) -> None:
        self.place: Any = 0
        self.complete = None
        self._breaks = breaks

    def reopened(self) -> None:
        """Take note of nothing."""

    def feed(self, event: bytes) -> None:
        """Take an event, which is its own place."""
        if self._breaks(event[0]):
            raise StreamLost("a wrong checksum")
        self.place = event[0]


class Connection:
    """Sends numbered events from a number on."""

    def __init__(self, first: int) -> None:
        self._next = first

    def read(self) -> list[bytes]:
        """Return the next event."""
        self._next += 1
        return [bytes([self._next - 1])]

    def close(self) -> None:
        """Nothing to close."""


def reader_of(stop: Stop, parser: Parser) -> BinlogReader:
    """Return a reader whose connections begin behind the parser's place."""
    connect: Any = lambda: Connection(parser.place + 1)  # noqa: E731
    given: Any = {"parser": parser, "stop": stop}
    return BinlogReader(connect=connect, give_up=600.0, clock=lambda: stop.now, **given)


def test_an_event_that_always_breaks_the_stream_makes_no_loop_without_pauses() -> None:
    """Right behind events that are read each time: pauses grow, and the stream fails at last."""
    stop = Stop()
    parser = Parser(lambda number: number == 5)
    reader = reader_of(stop, parser)
    told = RecordingReporter()
    reader.losses = Losses(clock=lambda: stop.now, tell=teller(told.event))
    reader.connect = lambda: Connection(3)  # type: ignore[assignment,return-value]
    with pytest.raises(FeedFailure, match="wrong checksum"):
        reader.run(lambda: None)
    assert len(stop.pauses) < 100
    assert stop.pauses[8] > 10 * stop.pauses[0]
    assert stop.now > 600.0
    lost = [event.fields["reason"] for event in told.named(FeedLost)]
    assert len(lost) == len(told.named(FeedReconnected))
    assert set(lost) == {"a wrong checksum"}
    counted = [int(str(event.fields["losses"])) for event in told.named(FeedFlaps)]
    assert len(counted) in (3, 4)
    assert len(stop.pauses) / 2 < len(lost) + sum(counted) <= len(stop.pauses) + 1


def test_a_stream_that_comes_on_is_not_given_up() -> None:
    """A connection that breaks behind every event still brings everything, with short pauses."""
    stop = Stop()
    broken: set[int] = set()

    def breaks(number: int) -> bool:
        first = number not in broken
        broken.add(number)
        stop.ended = number == 100
        stop.now += 300.0
        return first

    parser = Parser(breaks)
    reader_of(stop, parser).run(lambda: None)
    assert parser.place >= 99
    assert max(stop.pauses) <= 0.2
