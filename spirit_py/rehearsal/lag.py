"""How far a replica is behind, from two independent sources (pure).

*Marks* are positions of the source at known times. A replica that has not reached a mark is behind
by at least the mark's age. That holds for any cause and needs only our clock, but is only as
precise as the marks are frequent. *Timestamps* in the replica's performance_schema are exact for
each transaction, but cover only received transactions, by the clocks of two machines. Neither
exceeds the true lag, so the larger one counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_MARKS = 4096


class Mark(NamedTuple):
    """Everything that the source had committed at a moment.

    Attributes:
        at: seconds of the caller's monotonic clock.
        place: a GTID set, or file and offset; only compared by the server.
    """

    at: float
    place: str


class Marks:
    """The marks that one replica has not reached yet, oldest first."""

    def __init__(self) -> None:
        self._waiting: list[Mark] = []
        self._newest = ""

    def add(self, mark: Mark) -> None:
        """Add a mark, unless the position is that of the last one."""
        if mark.place and mark.place != self._newest:
            self._newest = mark.place
            self._waiting.append(mark)
            if len(self._waiting) > _MOST_MARKS:
                # The oldest gives the lag; every second of the others is enough.
                del self._waiting[1::2]

    def age(self, now: float, reached: Callable[[str], bool]) -> float:
        """Return the age of the oldest mark that is not reached; 0.0 when all are.

        Args:
            reached: asks the replica.
        """
        while self._waiting and reached(self._waiting[0].place):
            del self._waiting[0]
        return now - self._waiting[0].at if self._waiting else 0.0
