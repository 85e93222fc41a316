"""How much work there is, how fast it goes, and when it ends: arithmetic for the display (pure).

What cannot be known is None. Three rules keep the figures honest:

- Work is done when it has committed or was compared; what is handed out counts as not done.
- The server's estimate of a table's rows holds until more rows than that have been found. Bounds
  that the key gives (no more rows are left than values of an integer key) hold always.
- A speed is that of the last seconds, pauses included: of a paused copy no end is known.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Final

RECENT_SECONDS: Final = 10.0
"""The time of a speed that is shown."""
STEADY_SECONDS: Final = 60.0
"""The time of the speed from which the end is computed."""
NEARLY_DONE: Final = 0.999
"""The most that is shown of work that goes on."""
#: A copy whose key leaves no room for more than this part of what is done is nearly at its end.
_SURELY_LEFT: Final = 0.05
#: A backlog that is applied in so many seconds delays nothing.
_TRIVIAL_SECONDS: Final = 2.0
#: The same in changes, where nothing was applied yet: one batch.
_TRIVIAL_CHANGES: Final = 10_000
#: Steps further apart than this do not count as one stretch of work, beyond twice the usual step.
_GAP_SECONDS: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class RowsLeft:
    """How many rows are not handed out.

    Attributes:
        most: no more than these; None where nothing says so.
        probable: about these, by a measure of the table itself; None without one.
    """

    most: int | None = None
    probable: int | None = None


NOTHING_LEFT: Final = RowsLeft(most=0, probable=0)


def probable_total(
    done: int, *, handed_out: int, left: RowsLeft, estimate: int | None
) -> int | None:
    """Return how many rows there are in all; None where that is not known.

    Args:
        done: rows of which the work is done.
        handed_out: rows for which chunks were cut that are not done.
        left: what is not handed out.
        estimate: the server's; None for none.
    """
    under_way = done + handed_out
    most = None if left.most is None else under_way + left.most
    if left.probable is not None:
        return under_way + left.probable
    if estimate is not None and estimate > done:
        return estimate if most is None else max(done, min(estimate, most))
    if left.most is not None and left.most <= max(handed_out, done * _SURELY_LEFT):
        return most
    return None


def fraction_of(done: float, total: float | None, *, ended: bool = False) -> float | None:
    """Return the part that is done; below 1 until the work has ended."""
    if ended:
        return 1.0
    if not total or total < done:
        return None
    return min(NEARLY_DONE, done / total)


class Speed:
    """The speed of a counter that grows by steps. Not thread-safe."""

    def __init__(self) -> None:
        #: (time, value) of the last steps.
        self._steps: deque[tuple[float, float]] = deque()

    def note(self, now: float, value: float) -> None:
        """Note the counter's value after a step."""
        self._steps.append((now, value))
        # The one before the window is kept: the first step in it began there.
        while len(self._steps) > 2 and self._steps[1][0] < now - STEADY_SECONDS:
            self._steps.popleft()

    def recent(self, now: float) -> float | None:
        """Return the speed of the last ten seconds; None before there is one."""
        return self._over(now, RECENT_SECONDS)

    def steady(self, now: float) -> float | None:
        """Return the speed of the last minute; None before there is one."""
        return self._over(now, STEADY_SECONDS)

    def _over(self, now: float, seconds: float) -> float | None:
        """Return the speed between the window's first step and its last.

        The time since the last step counts where it is longer than steps usually take: it is a
        pause, and not only a step that has not ended.
        """
        if len(self._steps) < 2:
            return None
        steps = [step for step in self._steps if step[0] >= now - seconds]
        (last, reached) = self._steps[-1]
        if not steps:
            return 0.0
        if len(steps) == 1:
            steps = [self._steps[-2], self._steps[-1]]
        (first, before) = steps[0]
        usual = 2 * (last - first) / (len(steps) - 1)
        until = now if now - last > max(_GAP_SECONDS, usual) else last
        return (reached - before) / max(until - first, 1e-3)


@dataclass(frozen=True, kw_only=True)
class ChangeCounts:
    """The change feed's counters at one moment: received and not dropped or deduplicated."""

    wanted: int
    applied: int


class ChangeBacklog:
    """What comes in against what is applied. Not thread-safe."""

    def __init__(self) -> None:
        self._wanted, self._applied = Speed(), Speed()
        self._last: float | None = None
        #: Changes a second, at the most.
        self._capacity: float | None = None

    def note(self, now: float, seen: ChangeCounts) -> None:
        """Note the counters; more than four times a second does nothing."""
        if self._last is not None and now - self._last < 0.25:
            return
        self._last = now
        self._wanted.note(now, seen.wanted)
        self._applied.note(now, seen.applied)
        rate = self._applied.recent(now)
        if rate:
            self._capacity = max(rate, self._capacity or 0.0)

    def received_rate(self, now: float) -> float | None:
        """Return the changes a second that come in and have to be applied."""
        return self._wanted.recent(now)

    def applied_rate(self, now: float) -> float | None:
        """Return the changes a second that are applied."""
        return self._applied.recent(now)

    def seconds(self, now: float, pending: int, *, ahead: float = 0.0) -> float | None:
        """Return how long the pending changes take once other work has ended.

        Args:
            ahead: seconds until then; what comes in meanwhile is applied as it is now.

        Returns:
            None where it is not known, because they come in as fast as they are applied.
        """
        if not self._capacity:
            return 0.0 if pending <= _TRIVIAL_CHANGES else None
        coming, going = self._wanted.steady(now) or 0.0, self._applied.steady(now) or 0.0
        then = pending + max(0.0, coming - going) * ahead
        if then <= max(_TRIVIAL_CHANGES / 10, self._capacity * _TRIVIAL_SECONDS):
            return 0.0
        spare = self._capacity - coming
        return then / spare if spare > 0 else None


def seconds_left(left: float | None, speed: float | None) -> float | None:
    """Return how long the rest takes; None where its size or the speed is not known."""
    if left is None or not speed or not math.isfinite(speed):
        return None
    return max(0.0, left) / speed


def together(*seconds: float | None) -> float | None:
    """Return the sum; None where one is not known."""
    known = [one for one in seconds if one is not None]
    return sum(known) if len(known) == len(seconds) else None
