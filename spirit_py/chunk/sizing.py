"""How many rows a chunk should have, and how many of them one transaction (pure).

The size follows the target time by the p90 of the last ten chunks; one of five times the target
shrinks the next at once. Commits of applications wait for a large one (docs/decisions.md).
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
"""Rows of a transaction at least, where their length is not known."""
MOST_PART_ROWS = 10_000
_UNKNOWN_PART_ROWS = 1_000
#: A table of one page: it is small, or was when its statistics were made.
_PAGE_BYTES = 64 << 10
#: Transactions in the first chunk, at most: its rows may be wide.
_FIRST_PARTS = 4


def part_rows(table: TableSchema, part_bytes: int = PART_BYTES) -> int:
    """Return the rows that one transaction should write, by the average length of a row."""
    average = table.unzipped_row_bytes
    if average is None:
        return max(FEWEST_PART_ROWS, _UNKNOWN_PART_ROWS * part_bytes // PART_BYTES)
    fewest = FEWEST_PART_ROWS if table.data_bytes <= _PAGE_BYTES else 1
    return max(fewest, min(MOST_PART_ROWS, int(part_bytes / average)))


def divided(rows: int, part: int | None) -> list[int]:
    """Divide rows into the fewest parts of at most ``part`` rows, of nearly one size."""
    number = math.ceil(rows / part) if part else 1
    return [rows * (place + 1) // number - rows * place // number for place in range(number)]


class ChunkSizer:
    """Computes the rows of the next chunk from every finished chunk; first it is ``first_rows``."""

    def __init__(
        self, target_seconds: float, *, first_rows: int = FIRST_ROWS, part_rows: int = CEILING_ROWS
    ) -> None:
        self._target = target_seconds
        #: Rows that the next chunk should have.
        self.rows = _clamp(min(first_rows, _FIRST_PARTS * part_rows))
        #: (seconds a row, seconds), of the last chunks that were large enough.
        self._recent: deque[tuple[float, float]] = deque(maxlen=WINDOW)

    def aim(self, seconds: float) -> None:
        """Change how long one chunk should take; a shorter time counts at once."""
        if seconds < self._target and self._recent:
            self.rows = _clamp(min(self.rows, int(seconds / self._slow_row_seconds())))
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
        """Learn from a chunk; one of far fewer rows than asked for counts only if slow."""
        if seconds > self._target * PANIC_FACTOR:
            self._recent.clear()
            self._recent.append((seconds / max(rows, 1), seconds))
            self.rows = _clamp(min(self.rows, target_rows // PANIC_SHRINK))
            return
        if rows * 2 < target_rows and seconds < self._target:
            return
        self._recent.append((seconds / max(rows, 1), seconds))
        wanted = self._target / self._slow_row_seconds()
        growth = FAST_GROWTH if wanted > self.rows * FAST_GROWTH else GROWTH
        # Several chunks are in flight: at most two growth factors above the measured size.
        self.rows = _clamp(int(min(wanted, self.rows * growth, target_rows * growth**2)))


def _clamp(rows: int) -> int:
    return max(FLOOR_ROWS, min(CEILING_ROWS, rows))


def _p90(values: list[float]) -> float:
    return sorted(values)[math.ceil(len(values) * 0.9) - 1]
