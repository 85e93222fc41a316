"""When the copy waits, and for what."""

from __future__ import annotations

from spirit_py.progress import FeedStatistics
from spirit_py.throttle.throttler import backlog_throttler


def test_the_copy_waits_while_the_feed_has_no_room():
    """A reader that waits for room is a reason; a mere backlog is none."""
    full = FeedStatistics(pending=7, backpressure=True)
    assert "7 changes" in backlog_throttler(lambda: full).look()
    assert backlog_throttler(lambda: FeedStatistics(pending=7)).look() == ""
