"""Figures of several parts, as one."""

from __future__ import annotations

from spirit_py.progress import FeedStatistics, Retention


def test_what_several_feeds_have_received_is_added():
    """Counts are sums; of the rest the worst one counts."""
    gone = Retention(kept=10.0, age=0.0, gone=True)
    late = Retention(kept=100.0, age=95.0)
    first = FeedStatistics(
        received=5, pending=2, lag_seconds=0.5, parked="the swap", retention=late
    )
    second = FeedStatistics(
        received=7, reconnects=1, lag_seconds=3.0, parked="the swap", trouble="no answer"
    )
    both = FeedStatistics.together([first, second])
    assert (both.received, both.pending, both.reconnects) == (12, 2, 1)
    assert (both.lag_seconds, both.parked, both.trouble) == (3.0, "the swap", "no answer")
    assert both.retention is late
    third = FeedStatistics(retention=gone, backpressure=True)
    all_three = FeedStatistics.together([first, second, third])
    assert all_three.retention is gone
    assert all_three.backpressure
    for_ever = FeedStatistics(retention=Retention(kept=None, age=0.0))
    assert FeedStatistics.together([for_ever, first]).retention is late


def test_one_feed_is_as_it_is():
    """Nothing is added to it."""
    alone = FeedStatistics(received=5)
    assert FeedStatistics.together([alone]) is alone
