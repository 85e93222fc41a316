"""Proofs that received transactions are visible to new readers, without GTIDs (pure; R3, R4).

A commit reaches the binlog before it becomes visible. A transaction of our own that goes
through the binlog becomes visible after every transaction before it there
(``binlog_order_commits``), so when it returns, all that had been received when it began is
visible: to every chunk dispatched from then on, not to those dispatched before.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field


@dataclass
class VisibilityProofs:
    """The proofs of one table.

    Attributes:
        begun: proofs begun so far: the stamp of a change that is received now.
    """

    begun: int = 0
    _ended: list[tuple[int, int]] = field(default_factory=list)

    def begin(self) -> int:
        """Begin a proof of everything received so far; gives its number."""
        self.begun += 1
        return self.begun

    def end(self, number: int, dispatched: int) -> None:
        """End a proof: everything stamped before it is visible to the next chunk dispatched."""
        self._ended.append((number, dispatched))

    def dispatched_at(self, stamp: int) -> int | None:
        """Return how many chunks may have read too early; None while there is no proof."""
        place = bisect_right(self._ended, stamp, key=lambda proof: proof[0])
        return self._ended[place][1] if place < len(self._ended) else None

    def prune(self, settled: int) -> None:
        """Forget proofs that say the same as a later one: all their chunks have committed."""
        done = bisect_right(self._ended, settled, key=lambda proof: proof[1])
        if done > 1:
            last = self._ended[done - 1]
            self._ended[:done] = [(last[0], 0)]
