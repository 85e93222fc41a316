"""How many rows the next chunk should have, from how long the last ones took (pure).

The p90 of the last ten chunks is steered to the target time. Growth is slow, because the next
rows may be wider; a chunk that took five times the target shrinks the next one at once.
"""

from __future__ import annotations

import math
from collections import deque

FIRST_ROWS = 1_000
FLOOR_ROWS = 10
CEILING_ROWS = 100_000
GROWTH = 1.5
PANIC_FACTOR = 5.0
PANIC_SHRINK = 10
WINDOW = 10


class ChunkSizer:
    """Computes the rows of the next chunk from every finished chunk.

    Args:
        target_seconds: How long one chunk should take.
        first_rows: Size of the first chunks, until one has been measured.
    """

    def __init__(self, target_seconds: float, *, first_rows: int = FIRST_ROWS) -> None:
        self._target = target_seconds
        self._rows = _clamp(first_rows)
        #: (seconds a row, seconds) of the last chunks that were large enough to measure the speed.
        self._recent: deque[tuple[float, float]] = deque(maxlen=WINDOW)
        self._more_wanted = True
        #: Chunks in succession that were too small for that.
        self._silent = 0

    @property
    def rows(self) -> int:
        """Rows that the next chunk should have."""
        return self._rows

    @property
    def growing(self) -> bool:
        """Whether the next finished chunk will probably allow larger ones.

        While that is so, a chunk that is cut early is smaller than it could be.
        """
        return self._more_wanted and self._silent < WINDOW

    @property
    def p90(self) -> float | None:
        """The p90 of the last chunks' seconds; None before the first."""
        return _p90([seconds for _, seconds in self._recent]) if self._recent else None

    def finished(self, *, target_rows: int, rows: int, seconds: float) -> None:
        """Learn from a chunk that was cut for ``target_rows``, held ``rows`` and took ``seconds``.

        A chunk of far fewer rows than asked for (a gap in the keys, the end of the table) does not
        count, unless it was slow as well.
        """
        if seconds > self._target * PANIC_FACTOR:
            self._recent.clear()
            self._recent.append((seconds / max(rows, 1), seconds))
            self._rows = _clamp(min(self._rows, target_rows // PANIC_SHRINK))
            self._more_wanted = False
            return
        if rows * 2 < target_rows and seconds < self._target:
            self._silent += 1
            return
        self._silent = 0
        self._recent.append((seconds / max(rows, 1), seconds))
        wanted = self._target / max(_p90([each for each, _ in self._recent]), 1e-9)
        # Every chunk may grow by one factor, but several are in flight at once: at most two factors
        # above the size that was measured, one for those that run already and one for the next.
        self._rows = _clamp(int(min(wanted, self._rows * GROWTH, target_rows * GROWTH**2)))
        self._more_wanted = int(wanted) > self._rows < CEILING_ROWS


def _clamp(rows: int) -> int:
    return max(FLOOR_ROWS, min(CEILING_ROWS, rows))


def _p90(values: list[float]) -> float:
    """Return the smallest value that at least nine tenths of the values do not exceed."""
    return sorted(values)[math.ceil(len(values) * 0.9) - 1]
