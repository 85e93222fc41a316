"""The change feed goes before the copy (R19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.pace import Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.contracts import FeedStatistics


class Backlog:
    """Holds the copy back while the change feed has no room for what it reads.

    The copy adds to the binlog that the feed has to read, and the server keeps the binlog for a
    limited time. So the application's changes go first.

    Args:
        statistics: returns the feed's figures, without I/O.
    """

    name: Final = "change feed"
    holds: Final = frozenset({Work.COPY})
    every: Final = 0.0

    def __init__(self, statistics: Callable[[], FeedStatistics]) -> None:
        self._statistics = statistics

    def look(self) -> str:
        """Return how many changes are to be applied first; empty while there is room."""
        return backlog_reason(self._statistics())

    def close(self) -> None:
        """Do nothing."""


def backlog_reason(feed: FeedStatistics) -> str:
    """Return why the copy waits for the change feed (R19); empty when it does not."""
    if not feed.backpressure:
        return ""
    return (
        f"the change feed, which has {feed.pending} changes to apply before it reads on: it goes"
        " before the copy"
    )
