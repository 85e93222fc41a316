"""Lanes: every worker (a task's rank) has a part of the key of its own to copy (pure).

InnoDB fills the pages of an index densely where one session inserts in the order of the key. Two
sessions that write neighbouring ranges meet at every chunk, and each meeting point leaves pages
half filled and most of an extent unused. So each worker writes in a *lane*, a range that is large
against what a meeting point costs (docs/decisions.md has the figures).

The lanes are disjoint and cover what is to be copied. At first there is one, or after a resume one
for each range that is not copied. A worker without a lane takes

1. one without a worker: it was left over, or its worker has not asked for a long time;
2. otherwise the upper part of the lane with the most rows left. The rows of the table are not
   counted beforehand, so the last lane has no end at first. It gets one where it is as long as a
   lane should be, or in the middle of what is probably left; any other lane is halved;
3. otherwise, where fewer rows than two chunks are left, the next chunk of that lane.

So a lane is divided only when another worker needs a part of it, and one worker alone has one lane.
A wrong estimate of the table's size costs some lanes more or less. Where a lane should end is
looked up in the same way as the end of a chunk. That takes a tenth of a second for a few hundred
thousand rows, during which the other workers have orders.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from spirit_py.chunk.chunk import KeyRange
from spirit_py.chunk.chunker import make_chunker
from spirit_py.estimates import RowsLeft

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.chunk.chunk import Chunk
    from spirit_py.chunk.chunker import BoundaryQuery, CompositeChunker
    from spirit_py.table.mapping import TableMapping

LANE_BYTES: Final = 128 << 20
"""Data in a lane of a large table."""
#: Where an earlier run left more ranges, their density is not measured.
_MOST_MEASURED: Final = 16
#: A rest of fewer chunks is not parted any more.
_WORTH_CHUNKS: Final = 2
#: A worker that asked for none of the last chunks, this number for each lane, is gone.
_MISSED_CHUNKS: Final = 8
_UNKNOWN_ROW_BYTES: Final = 200.0


@dataclass(eq=False)
class _Lane:
    """A lane that is not cut to its end.

    Attributes:
        chunks: cuts it.
        worker: the one that works in it; None without one.
        cut: rows that it was cut for so far.
        left: rows that are left in it at most; None as long as that is not known.
        short: fewer rows were left than seemed probable.
        asked: chunks that had been cut from all lanes when its worker asked last.
    """

    chunks: CompositeChunker
    worker: int | None = None
    cut: int = 0
    left: int | None = None
    short: bool = False
    asked: int = 0


class LaneChunker:
    """Cuts what is to be copied for several workers. Only the driver calls it, from one thread.

    Args:
        query: runs the boundary queries, see :func:`spirit_py.chunk.chunker.make_chunker`.
        ranges: what is to be copied, in the order of the walk.
        workers: how many there will probably be; a small table has a lane for each.
        part_rows: rows of a part of a chunk; None for chunks without parts.
        copied_rows: rows of the table that are not in the ranges, for the estimate.
    """

    def __init__(
        self,
        mapping: TableMapping,
        query: BoundaryQuery,
        *,
        ranges: Sequence[KeyRange] = (KeyRange(),),
        workers: int = 1,
        part_rows: int | None = None,
        copied_rows: int = 0,
    ) -> None:
        numbers = count()
        self._lanes: list[_Lane] = []
        for one in ranges:
            chunks = make_chunker(mapping, query, part_rows=part_rows, numbers=numbers)
            chunks.restart(one.lower, one.upper)
            self._lanes.append(_Lane(chunks))
        self._workers = workers
        self._part_rows = part_rows
        self._estimated_rows = max(0, mapping.source.estimated_rows - copied_rows)
        self._most_rows = LANE_BYTES / (mapping.source.row_bytes or _UNKNOWN_ROW_BYTES)
        self._cut = 0
        self._cut_rows = 0
        self._widest = 0
        #: Rows for each value of the key; None where it was not measured, or is not even.
        self._density: float | None = None

    def measure(self) -> None:
        """Count rows at some places, for :meth:`rows_left`. Asks the server."""
        if len(self._lanes) <= _MOST_MEASURED:
            found = [(lane.chunks.density(), lane.chunks.width()) for lane in self._lanes]
            known = [(one, width) for one, width in found if one is not None and width]
            if known and len(known) == len(found):
                values = sum(width for _, width in known)
                self._density = sum(one * width for one, width in known) / values

    def rows_left(self) -> RowsLeft:
        """Return how many rows are not cut. Asks nothing."""
        widths = [lane.chunks.width() for lane in self._lanes]
        values = [width for width in widths if width is not None]
        bounds = [
            min(one for one in (lane.left, width) if one is not None)
            for lane, width in zip(self._lanes, widths, strict=True)
            if not (lane.left is None and width is None)
        ]
        even = self._density is not None and len(values) == len(widths)
        return RowsLeft(
            most=sum(bounds) if len(bounds) == len(widths) else None,
            probable=int(sum(values) * (self._density or 0.0)) if even else None,
        )

    def next_chunk(
        self, rows: int, worker: int = 0, *, part_rows: int | None = None
    ) -> Chunk | None:
        """Return the next chunk of about ``rows`` rows for a worker; None when everything is cut.

        ``part_rows`` are the rows of a part of this chunk, where they are fewer than otherwise.
        """
        lane = self._lane_for(worker, rows)
        if lane is not None and part_rows is not None:
            lane.chunks.part_rows = min(part_rows, self._part_rows or part_rows)
        chunk = None if lane is None else lane.chunks.next_chunk(rows)
        if lane is None or chunk is None:
            return None
        self._cut += 1
        self._cut_rows += rows
        lane.cut += rows
        if lane.left is not None:
            lane.left = max(0, lane.left - rows)
        if lane.chunks.finished:
            self._lanes.remove(lane)
        return chunk

    def observed(self, chunk: Chunk, rows: int) -> None:
        """Note how many rows a chunk had."""
        for lane in self._lanes:
            lane.chunks.observed(chunk, rows)

    def estimated_fraction(self) -> float:
        """Return how far the cut has come, 0.0 to 1.0, an estimate."""
        if not self._lanes:
            return 1.0
        widths = [lane.chunks.width() for lane in self._lanes]
        known = [width for width in widths if width is not None]
        if len(known) < len(widths):
            return min(0.99, self._cut_rows / max(self._estimated_rows, 1))
        self._widest = max(self._widest, sum(known))
        return min(0.99, 1 - sum(known) / max(self._widest, 1))

    def _lane_for(self, worker: int, rows: int) -> _Lane | None:
        own = (lane for lane in self._lanes if lane.worker == worker)
        free = (lane for lane in self._lanes if self._is_free(lane))
        lane = next(own, None) or next(free, None)
        if lane is None:
            return self._part_of_another(worker, rows)
        lane.worker, lane.asked = worker, self._cut
        return lane

    def _is_free(self, lane: _Lane) -> bool:
        return lane.worker is None or self._cut - lane.asked > _MISSED_CHUNKS * len(self._lanes)

    def _part_of_another(self, worker: int, rows: int) -> _Lane | None:
        """Return the upper part of the longest lane; that lane itself when little of it is left."""
        while self._lanes:
            lane = max(self._lanes, key=_left)
            if _left(lane) < _WORTH_CHUNKS * rows:
                return lane
            stays = max(rows, self._stays(lane))
            at = lane.chunks.bound_after(stays)
            if at is None:
                lane.left, lane.short = stays, True
                continue
            left = None if lane.left is None else lane.left - stays
            upper = _Lane(lane.chunks.part(at), worker, left=left, asked=self._cut)
            lane.left = stays
            self._lanes.insert(self._lanes.index(lane) + 1, upper)
            return upper
        return None

    def _stays(self, lane: _Lane) -> int:
        size = min(self._most_rows, max(self._estimated_rows, self._cut_rows) / self._workers)
        stays = max(size - lane.cut, size / 2)
        left = _left(lane)
        if left == float("inf"):
            # The estimate is off by some percent of the table, which may be all that is left.
            elsewhere = sum(other.left for other in self._lanes if other.left is not None)
            left = max(self._estimated_rows - self._cut_rows - elsewhere, size / 4)
        return int(min(stays, left / 2))


def _left(lane: _Lane) -> float:
    probable = None if lane.short else lane.chunks.rows_left()
    if probable is not None:
        return probable
    return float("inf") if lane.left is None else lane.left
