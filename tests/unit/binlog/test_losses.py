"""Losses of the feed's connection, as a person reads them at night."""

from __future__ import annotations

from spirit_py.binlog.reader import Losses
from spirit_py.events.copy import FeedFlaps, FeedLost, FeedReconnected
from spirit_py.events.event import Event, teller
from tests.kits.reporter import RecordingReporter


class Line:
    """A connection that is lost at chosen times."""

    def __init__(self) -> None:
        self.now, self.told = 0.0, RecordingReporter()
        self.losses = Losses(clock=lambda: self.now, tell=teller(self.told.event))

    def lose(self, at: float, *, away: float = 0.5) -> None:
        """Lose it, and open it again."""
        self.now = at
        self.losses.lost("Lost connection")
        self.now = at + away
        self.losses.back()

    @property
    def names(self) -> list[type[Event]]:
        """The kinds of the events so far."""
        return [type(one) for one in self.told.events]


PAIR = [FeedLost, FeedReconnected]


def test_losses_that_are_rare_are_told_one_by_one() -> None:
    """Each with its end."""
    line = Line()
    for at in (0.0, 200.0, 400.0):
        line.lose(at)
    assert line.names == PAIR * 3


def test_a_connection_that_is_lost_again_and_again_is_told_of_once_and_then_counted() -> None:
    """A summary after a minute, then after longer pauses; how often, and for how long."""
    line = Line()
    for second in range(0, 600, 2):
        line.lose(float(second))
    assert line.names[:2] == PAIR
    summaries = line.told.named(FeedFlaps)
    assert line.names[2:] == [FeedFlaps] * len(summaries)
    assert [one.fields["within"] for one in summaries] == [60.0, 120.0, 240.0]
    assert [one.fields["losses"] for one in summaries] == [29, 60, 120]
    assert summaries[0].fields["seconds"] == 14.5
    assert "29 more times in 1m00s, for 14.5s in all" in summaries[0].text


def test_the_count_is_told_though_no_loss_follows() -> None:
    """The reader looks at every packet, heartbeats among them."""
    line = Line()
    for at in (0.0, 5.0, 10.0):
        line.lose(at)
    line.now = 59.0
    line.losses.look()
    assert line.names == PAIR
    line.now = 61.0
    line.losses.look()
    line.losses.look()
    assert line.names == [*PAIR, FeedFlaps]
    assert line.told.events[-1].fields["losses"] == 2


def test_a_loss_that_lasts_is_told_and_so_is_its_end() -> None:
    """It is no count that anybody has to wait for."""
    line = Line()
    line.lose(0.0)
    line.now = 20.0
    line.losses.lost("refused")
    assert line.names == PAIR
    line.now = 31.0
    line.losses.lost("refused")
    assert line.names == [*PAIR, FeedLost]
    line.losses.lost("refused")
    line.losses.back()
    assert line.names == PAIR * 2
