"""When the copy waits for the change feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.contracts import FeedStatistics


class BacklogThrottler:
    """Makes the copy wait while the change feed's buffers are full (R19).

    The copy adds to the binlog that the feed has to read: while the feed cannot keep up with
    the application, the copy leaves it the server.

    Args:
        statistics: returns the feed's counters, without I/O.
    """

    def __init__(self, statistics: Callable[[], FeedStatistics]) -> None:
        self._statistics = statistics

    def throttled(self) -> str:
        """Return the reason while the feed's reader waits; empty otherwise."""
        now = self._statistics()
        if not now.backpressure:
            return ""
        return f"the change feed, which has {now.pending} changes to apply before it reads on"
