"""How many rows a chunk should have, and how many of them one transaction (pure).

The size follows the target time by the p90 of the last ten chunks. It grows quickly while the time
is far below the target, and then slowly, because the next rows may be wider. A chunk that took five
times the target shrinks the next one at once.

A chunk is written in several transactions. A commit writes its whole binlog cache under the lock
for which every other commit waits, so one of 50 000 rows makes the commits of applications wait
(docs/decisions.md has the figures).
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from spirit_py.pace import PART_BYTES

if TYPE_CHECKING:
    from spirit_py.table.schema import TableSchema

FIRST_ROWS = 10_000
FLOOR_ROWS = 10
CEILING_ROWS = 100_000
FAST_GROWTH = 3.0
GROWTH = 1.5
PANIC_FACTOR = 5.0
PANIC_SHRINK = 10
WINDOW = 10
FEWEST_PART_ROWS = 200
MOST_PART_ROWS = 10_000
#: Where the server has no estimate.
_UNKNOWN_PART_ROWS = 1_000
#: Transactions in the first chunk, at most: its rows may be wide.
_FIRST_PARTS = 4


def part_rows(table: TableSchema, part_bytes: int = PART_BYTES) -> int:
    """Return the rows that one transaction should write, by the average length of a row."""
    if table.row_bytes is None:
        return max(FEWEST_PART_ROWS, _UNKNOWN_PART_ROWS * part_bytes // PART_BYTES)
    return max(FEWEST_PART_ROWS, min(MOST_PART_ROWS, int(part_bytes / table.row_bytes)))


def divided(rows: int, part: int | None) -> list[int]:
    """Divide rows into the fewest parts of at most ``part`` rows, of nearly one size."""
    number = math.ceil(rows / part) if part else 1
    return [rows * (place + 1) // number - rows * place // number for place in range(number)]


class ChunkSizer:
    """Computes the rows of the next chunk from every finished chunk.

    Args:
        target_seconds: How long one chunk should take.
        first_rows: Size of the first chunks, until one has been measured.
        part_rows: rows of a transaction; the first chunks have a few of these at most.
    """

    def __init__(
        self,
        target_seconds: float,
        *,
        first_rows: int = FIRST_ROWS,
        part_rows: int = CEILING_ROWS,
    ) -> None:
        self._target = target_seconds
        self._rows = _clamp(min(first_rows, _FIRST_PARTS * part_rows))
        #: (seconds a row, seconds) of the last chunks that were large enough to measure the speed.
        self._recent: deque[tuple[float, float]] = deque(maxlen=WINDOW)

    @property
    def rows(self) -> int:
        """Rows that the next chunk should have."""
        return self._rows

    def aim(self, seconds: float) -> None:
        """Change how long one chunk should take; a shorter time counts at once."""
        if seconds < self._target and self._recent:
            self._rows = _clamp(min(self._rows, int(seconds / self._slow_row_seconds())))
        self._target = seconds

    def _slow_row_seconds(self) -> float:
        return max(_p90([each for each, _ in self._recent]), 1e-9)

    @property
    def row_seconds(self) -> float:
        """The last chunks' seconds a row, at their quickest; 0 before the first."""
        return min((each for each, _ in self._recent), default=0.0)

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
            return
        if rows * 2 < target_rows and seconds < self._target:
            return
        self._recent.append((seconds / max(rows, 1), seconds))
        wanted = self._target / self._slow_row_seconds()
        growth = FAST_GROWTH if wanted > self._rows * FAST_GROWTH else GROWTH
        # Every chunk may grow by one factor, but several are in flight at once: at most two factors
        # above the size that was measured, one for those that run already and one for the next.
        self._rows = _clamp(int(min(wanted, self._rows * growth, target_rows * growth**2)))


def _clamp(rows: int) -> int:
    return max(FLOOR_ROWS, min(CEILING_ROWS, rows))


def _p90(values: list[float]) -> float:
    return sorted(values)[math.ceil(len(values) * 0.9) - 1]
