"""Which received transactions a new reader of the source may not see yet (pure; R3, R4).

A commit reaches the binlog before it becomes visible. With GTIDs a chunk waits for what the
:class:`VisibilityGate` names. Without, :class:`VisibilityProofs` say what may be applied: a
transaction of our own that goes through the binlog becomes visible after every transaction before
it there (``binlog_order_commits``), so when it returns, all that had been received when it began is
visible: to every chunk dispatched from then on, not to those dispatched before.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spirit_py.binlog.position import GtidSet

if TYPE_CHECKING:
    from spirit_py.binlog.events import Place


class VisibilityGate:
    """What the chunks of a copy must wait for. Not thread-safe.

    A chunk waits for every transaction received when it is dispatched and not proven visible;
    a chunk that commits proves these visible. Waiting for all of them, not only for those
    whose rows were dropped, also keeps a chunk from writing an older row over a change that
    was applied before the chunk read.
    """

    def __init__(self, *, has_gtids: bool) -> None:
        self.has_gtids = has_gtids
        self._unproven = GtidSet()

    def received(self, place: Place) -> None:
        """Note a transaction whose rows are about to be taken in, or that is complete."""
        if self.has_gtids and place.tsid:
            self._unproven.add(place.tsid, place.number)

    def unproven(self) -> str:
        """Return the set to wait for; empty when there is nothing to wait for."""
        return str(self._unproven)

    def prove(self, gtids: str) -> None:
        """Note that a set of transactions is visible to every new reader."""
        if gtids:
            self._unproven.subtract(GtidSet.parse(gtids))


@dataclass
class VisibilityProofs:
    """The proofs of one table.

    Attributes:
        begun: proofs begun so far: the stamp of a change that is received now.
    """

    begun: int = 0
    _ended: list[tuple[int, int]] = field(default_factory=list)

    def begin(self) -> int:
        """Begin a proof of everything received so far; return its number."""
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
        """Forget proofs that a later one implies: all their chunks have committed."""
        done = bisect_right(self._ended, settled, key=lambda proof: proof[1])
        if done > 1:
            last = self._ended[done - 1]
            self._ended[:done] = [(last[0], 0)]
