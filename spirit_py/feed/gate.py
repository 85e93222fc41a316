"""Which received transactions a new reader of the source may not see yet (pure; R3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.binlog.position import GtidSet

if TYPE_CHECKING:
    from spirit_py.binlog.events import Place


class VisibilityGate:
    """What the chunks of a copy must wait for. Not thread-safe.

    A chunk waits for every transaction received when it is dispatched and not proven visible;
    a chunk that commits proves what it waited for. Waiting for all of them, not only for those
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
