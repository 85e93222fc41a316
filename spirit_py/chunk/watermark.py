"""How far the copy has been dispatched and committed (pure; R3, R4).

Chunks are dispatched in the order of the walk and commit in any order::

    committed ...... committed | in flight | committed | in flight | not dispatched
                               ^ low watermark                     ^ high watermark

The high watermark is the upper bound of the last dispatched chunk, the low watermark that of
the longest prefix of dispatched chunks that have all committed. Beside the two bounds every
dispatch is counted, for keys that Python cannot order as the server does: a change that came
when ``n`` chunks had been dispatched may be applied once these ``n`` have committed.

Not thread-safe: the owner calls everything under its own lock.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from spirit_py.chunk.order import Directions, precedes

if TYPE_CHECKING:
    from spirit_py.chunk.chunk import Chunk, ComparableKey, KeyBound


class Place(enum.Enum):
    """An open end of the walk."""

    BEGINNING = "beginning"
    END = "end"


class WatermarkTracker:
    """The watermarks of one table's copy.

    Args:
        directions: The walk, of :func:`spirit_py.chunk.order.walk_directions`.
        resumed_above: What an earlier run has committed already: both watermarks begin there.
        keep_up_to: No key up to this one is ever :meth:`above_high`: an earlier run may have
            copied it (R17). ``Place.END`` for no key at all; ``Place.BEGINNING`` keeps nothing
            more than the high watermark does.
    """

    def __init__(
        self,
        directions: Directions,
        *,
        resumed_above: KeyBound | None = None,
        keep_up_to: ComparableKey | Place = Place.BEGINNING,
    ) -> None:
        self._directions = directions
        self._keep_up_to = keep_up_to
        start: KeyBound | Place = resumed_above or Place.BEGINNING
        self._high: KeyBound | Place = start
        self._low: KeyBound | Place = start
        #: Chunks after the low watermark in dispatch order: in flight, or committed too early.
        self._window: dict[int, Chunk] = {}
        self._early: set[int] = set()
        self._dispatched = 0
        self._settled = 0

    @property
    def high(self) -> KeyBound | Place:
        """The upper bound of the last dispatched chunk."""
        return self._high

    @property
    def low(self) -> KeyBound | Place:
        """The upper bound of the committed prefix: a later run may begin above it."""
        return self._low

    @property
    def dispatched(self) -> int:
        """How many chunks were dispatched so far; the stamp of a change that arrives now."""
        return self._dispatched

    @property
    def settled(self) -> int:
        """How many chunks the committed prefix has: stamps up to it may be applied."""
        return self._settled

    @property
    def in_flight(self) -> tuple[Chunk, ...]:
        """The dispatched chunks that have not committed, in dispatch order."""
        return tuple(c for number, c in self._window.items() if number not in self._early)

    def dispatch(self, chunk: Chunk) -> None:
        """Raise the high watermark to the chunk's upper bound.

        Raises:
            ValueError: when the chunk was dispatched before or does not follow the last one.
        """
        expected = None if isinstance(self._high, Place) else self._high.literals
        lower = None if chunk.lower is None else chunk.lower.literals
        if self._high is Place.END or lower != expected or chunk.number in self._window:
            raise ValueError(f"chunk {chunk} does not follow the high watermark {self._high}")
        self._window[chunk.number] = chunk
        self._dispatched += 1
        self._high = chunk.upper or Place.END

    def committed(self, chunk: Chunk) -> bool:
        """Note that a chunk has committed; True when the low watermark moved.

        A second report of the same chunk is ignored, because Spark may rerun a task (R18).
        """
        if chunk.number not in self._window:
            return False
        self._early.add(chunk.number)
        moved = False
        while self._window and (first := next(iter(self._window))) in self._early:
            self._low = self._window.pop(first).upper or Place.END
            self._early.remove(first)
            self._settled += 1
            moved = True
        return moved

    def above_high(self, key: ComparableKey) -> bool:
        """Return whether a later chunk will read this key, so that its change may be dropped."""
        keep = self._keep_up_to
        if isinstance(keep, Place):
            return keep is Place.BEGINNING and self._beyond(key, self._high)
        return precedes(keep, key, self._directions) and self._beyond(key, self._high)

    def held(self, key: ComparableKey) -> bool:
        """Return whether this key is inside a chunk in flight, so that its change must wait."""
        if not self._beyond(key, self._low):
            return False
        return any(
            self._inside(key, chunk)
            for number, chunk in self._window.items()
            if number not in self._early
        )

    def _inside(self, key: ComparableKey, chunk: Chunk) -> bool:
        """Return whether the key is one of the chunk's."""
        below = chunk.lower is None or self._beyond(key, chunk.lower)
        return below and not (chunk.upper is not None and self._beyond(key, chunk.upper))

    def _beyond(self, key: ComparableKey, bound: KeyBound | Place) -> bool:
        """Return whether the key comes after the bound in the walk."""
        if isinstance(bound, Place):
            return bound is Place.BEGINNING
        if bound.comparable is None:
            raise ValueError("this key is not comparable: count dispatches instead")
        return precedes(bound.comparable, key, self._directions)
