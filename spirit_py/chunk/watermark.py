"""The watermarks of a copy: what of the key is dispatched and committed (pure; R3, R4, R17).

In each lane (:mod:`spirit_py.chunk.lanes`) chunks are dispatched in the order of the walk, up to
its *high watermark*; above it is the lane's *rest*. The tracker keeps only the rests and the chunks
in flight. Dispatches are also counted, for keys that Python cannot order as the server does: a
change that came after ``n`` may be applied once these have committed. Not thread-safe.
"""

from __future__ import annotations

import enum
import operator
from bisect import bisect_left
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar

from spirit_py.chunk.chunk import Chunk, KeyRange, precedes, same_bound
from spirit_py.classes import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.chunk.chunk import Directions
    from spirit_py.table.keys import ComparableKey, KeyBound

RangeT = TypeVar("RangeT", bound=KeyRange)


class OpenEnd(enum.Enum):
    """An open end of the walk."""

    BEGINNING = "beginning"
    END = "end"


@dataclass(frozen=True, kw_only=True)
class Rest(KeyRange):
    """The part of a lane in which no chunk was dispatched.

    Changes of keys up to ``keep_up_to`` (``OpenEnd.END``: all) are not left to the copy: an earlier
    run may have copied them (R17).
    """

    keep_up_to: ComparableKey | OpenEnd = OpenEnd.BEGINNING


@dataclass(frozen=True, kw_only=True)
class CopiedSoFar:
    """How much is copied, over all runs; ``uncopied`` ranges do not touch, in the walk's order."""

    uncopied: tuple[KeyRange, ...] = (KeyRange(),)
    rows: int = 0
    chunks: int = 0

    @property
    def finished(self) -> bool:
        """Whether every row that existed is copied."""
        return not self.uncopied


class WatermarkTracker:
    """The watermarks of one table's copy; they decide which keys may be dropped or are held.

    ``rests`` is what is to be copied; ``dispatched`` is the stamp of a change that arrives now.
    """

    def __init__(self, directions: Directions, rests: Sequence[Rest] = (Rest(),)) -> None:
        self._before = partial(precedes, directions=directions) if any(directions) else operator.lt
        self._uncommitted: list[Rest | Chunk] = list(rests)
        self._in_flight: dict[int, int] = {}
        self._index()
        self.dispatched = 0
        self.chunks = 0
        self.rows = 0

    @property
    def settled(self) -> int:
        """Number of first dispatches that have all committed: stamps that may go."""
        return next(iter(self._in_flight.values()), self.dispatched)

    def dispatch(self, chunk: Chunk) -> None:
        """Raise the watermark of the chunk's lane to its upper bound; ValueError if in no rest."""
        place = self._rest_of(chunk)
        rest = self._uncommitted[place]
        parts: list[Rest | Chunk] = [chunk]
        if not same_bound(rest.lower, chunk.lower):
            parts.insert(0, replace(rest, upper=chunk.lower))
        if not same_bound(chunk.upper, chunk.lane_end):
            parts.append(replace(rest, lower=chunk.upper, upper=chunk.lane_end))
        if not same_bound(chunk.lane_end, rest.upper):
            parts.append(replace(rest, lower=chunk.lane_end))
        self._uncommitted[place : place + 1] = parts
        self._in_flight[chunk.number] = self.dispatched
        self.dispatched += 1
        self._index()

    def committed(self, chunk: Chunk, rows: int = 0) -> None:
        """Record a commit; a second report is ignored, because Spark may rerun a task (R18)."""
        if self._in_flight.pop(chunk.number, None) is None:
            return
        self._uncommitted = [
            one for one in self._uncommitted if isinstance(one, Rest) or one.number != chunk.number
        ]
        self.chunks += 1
        self.rows += rows
        self._index()

    def copied(self) -> CopiedSoFar:
        """Return what has committed, with what was copied before."""
        ranges: list[KeyRange] = []
        for one in self._uncommitted:
            if ranges and same_bound(ranges[-1].upper, one.lower):
                ranges[-1] = KeyRange(lower=ranges[-1].lower, upper=one.upper)
            else:
                ranges.append(KeyRange(lower=one.lower, upper=one.upper))
        return CopiedSoFar(uncopied=tuple(ranges), rows=self.rows, chunks=self.chunks)

    def above_high(self, key: ComparableKey) -> bool:
        """Return whether a later chunk reads this key, so its change may be dropped."""
        rest = self._rests.around(key)
        if rest is None:
            return False
        keep = rest.keep_up_to
        return keep is OpenEnd.BEGINNING or (keep is not OpenEnd.END and self._before(keep, key))

    def held(self, key: ComparableKey) -> bool:
        """Return whether this key is inside a chunk in flight, so that its change must wait."""
        return self._chunks.around(key) is not None

    def _index(self) -> None:
        ranges = self._uncommitted
        self._rests = _Ranges([one for one in ranges if isinstance(one, Rest)], self._before)
        self._chunks = _Ranges([one for one in ranges if isinstance(one, Chunk)], self._before)

    def _rest_of(self, chunk: Chunk) -> int:
        rests = [(i, one) for i, one in enumerate(self._uncommitted) if isinstance(one, Rest)]
        around = [(i, one) for i, one in rests if self._in(one, chunk)]
        goes_on = (i for i, one in around if same_bound(one.lower, chunk.lower))
        parts = (i for i, one in around if same_bound(one.upper, chunk.lane_end))
        place = next(chain(goes_on, parts), None)
        if place is None or chunk.number in self._in_flight:
            left = ", ".join(str(one) for _, one in rests)
            raise ValueError(f"chunk {chunk} does not follow a high watermark; left are {left}")
        return place

    def _in(self, rest: Rest, chunk: Chunk) -> bool:
        uppers = ((chunk.upper, chunk.lane_end), (chunk.lane_end, rest.upper))
        return (
            rest.lower is None
            or (chunk.lower is not None and not self._precedes(chunk.lower, rest.lower))
        ) and all(
            end is None or (upper is not None and not self._precedes(end, upper))
            for upper, end in uppers
        )

    def _precedes(self, one: KeyBound, other: KeyBound) -> bool:
        if one.comparable is None or other.comparable is None:
            return False
        return self._before(one.comparable, other.comparable)


class _Ranges(Generic[RangeT]):
    def __init__(
        self, ranges: Sequence[RangeT], before: Callable[[ComparableKey, ComparableKey], bool]
    ) -> None:
        self._ranges = ranges
        self._before = before

    def around(self, key: ComparableKey) -> RangeT | None:
        before = self._before
        place = bisect_left(
            self._ranges,
            True,
            key=lambda one: one.upper is None or not before(_comparable(one.upper), key),
        )
        if place == len(self._ranges):
            return None
        found = self._ranges[place]
        lower = found.lower
        return found if lower is None or before(_comparable(lower), key) else None


def _comparable(bound: KeyBound) -> ComparableKey:
    if bound.comparable is None:
        raise ValueError("this key is not comparable: count dispatches instead")
    return bound.comparable
