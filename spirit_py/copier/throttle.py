"""Throttlers: each gives a reason to wait now, or an empty string. None of them blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.contracts import FeedStatistics, Throttler


class AnyThrottler:
    """Waits as long as one of several throttlers has a reason; the first reason counts."""

    def __init__(self, *throttlers: Throttler) -> None:
        self._throttlers = throttlers

    def throttled(self) -> str:
        """Return the first reason; empty when no throttler has one."""
        return next((reason for t in self._throttlers if (reason := t.throttled())), "")


class BacklogThrottler:
    """Waits while the change feed's reader waits for room in its buffers (R19).

    The copy adds to the binlog that the feed has to read: while the feed cannot keep up with
    the application, the copy leaves it the server.

    Args:
        statistics: Gives the feed's counters, without I/O.
    """

    def __init__(self, statistics: Callable[[], FeedStatistics]) -> None:
        self._statistics = statistics

    def throttled(self) -> str:
        """Return the reason while the feed has no room for more changes."""
        now = self._statistics()
        if not now.backpressure:
            return ""
        return f"the change feed, which has {now.pending} changes to apply before it reads on"
