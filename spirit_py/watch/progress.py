"""The position from which a later run misses nothing (R7, R8; pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.binlog.position import GtidFrontier, GtidSet

if TYPE_CHECKING:
    from spirit_py.binlog.events import Place
    from spirit_py.binlog.position import ServerFrontier


class Progress:
    """The position after the last complete transaction, never past an undecided XA one.

    With GTIDs the set has a gap where an undecided XA transaction was prepared: after a resume only
    that one is sent again. With files the position stays before the first undecided one.

    Args:
        start: where the stream begins.
    """

    def __init__(self, start: ServerFrontier) -> None:
        #: Everything received completely, including prepared XA transactions.
        self.received = start.copy()
        self._undecided: dict[str, tuple[Place, str]] = {}
        self._text = ""

    def advance(self, place: Place) -> None:
        """Note that a transaction is complete, or that the stream advanced between two."""
        self.received.advance(place)
        self._text = ""

    def prepared(self, xid: str, place: Place) -> None:
        """Note that an XA transaction is prepared and undecided."""
        self._undecided[xid] = (place, self.received.text())
        self.advance(place)

    def decided(self, xid: str, place: Place) -> None:
        """Note that an XA transaction is decided."""
        self._undecided.pop(xid, None)
        self.advance(place)

    @property
    def undecided(self) -> int:
        """How many XA transactions hold the position back."""
        return len(self._undecided)

    def text(self) -> str:
        """Return the opaque position."""
        if not self._text:
            self._text = self._made()
        return self._text

    def _made(self) -> str:
        if not self._undecided:
            return self.received.text()
        held = list(self._undecided.values())
        if not isinstance(self.received, GtidFrontier):
            return held[0][1]
        holes = GtidSet()
        for place, _ in held:
            holes.add(place.tsid, place.number)
        safe = self.received.copy()
        safe.gtids.subtract(holes)
        return safe.text()
