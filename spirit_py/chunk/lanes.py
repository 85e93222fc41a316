"""Lanes: every worker has a part of the key of its own to copy (pure); see docs/decisions.md.

A worker without a lane takes one without a worker; or the upper part of the lane with the most rows
left; or its next chunk, where less than two chunks are left. Finding an end takes a tenth of a
second for a few hundred thousand rows.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from spirit_py.chunk.chunk import KeyRange
from spirit_py.chunk.chunker import make_chunker
from spirit_py.classes import dataclass
from spirit_py.estimates import RowsLeft

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.chunk.chunk import Chunk
    from spirit_py.chunk.chunker import BoundaryQuery, CompositeChunker
    from spirit_py.table.mapping import TableMapping

LANE_BYTES: Final = 128 << 20
#: With more ranges of an earlier run, density is not measured.
_MOST_MEASURED: Final = 16
#: A rest of fewer chunks is not divided.
_WORTH_CHUNKS: Final = 2
#: A worker that asked for none of the last chunks, this number for each lane, is gone.
_MISSED_CHUNKS: Final = 8
_UNKNOWN_ROW_BYTES: Final = 200.0


@dataclass(eq=False)
class _Lane:
    """A lane that is not cut to its end; ``worker`` and ``left`` (rows at most) may be unknown.

    ``asked``: chunks cut from all lanes when its worker asked last; ``short``: it had fewer rows
    than estimated.
    """

    chunks: CompositeChunker
    worker: int | None = None
    cut: int = 0
    left: int | None = None
    short: bool = False
    asked: int = 0


class LaneChunker:
    """Cuts ``ranges``, in the order of the walk, for several workers; one thread of the driver."""

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
        """Return how many rows are not cut; no I/O."""
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
        self,
        rows: int,
        worker: int = 0,
        *,
        part_rows: int | None = None,
        workers: int | None = None,
    ) -> Chunk | None:
        """Return a worker's next chunk of about ``rows`` rows; None when everything is cut.

        ``part_rows`` and ``workers`` as they are now: later ones halve the longest lane.
        """
        self._workers = workers or self._workers
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
        gone = self._cut - _MISSED_CHUNKS * len(self._lanes)
        free = (lane for lane in self._lanes if lane.worker is None or lane.asked < gone)
        lane = next(own, None) or next(free, None)
        if lane is None:
            return self._part_of_another(worker, rows)
        lane.worker, lane.asked = worker, self._cut
        return lane

    def _part_of_another(self, worker: int, rows: int) -> _Lane | None:
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
            # The estimate is off by some percent of the table, perhaps by all that is left.
            elsewhere = sum(other.left for other in self._lanes if other.left is not None)
            left = max(self._estimated_rows - self._cut_rows - elsewhere, size / 4)
        return int(min(stays, left / 2))


def _left(lane: _Lane) -> float:
    probable = None if lane.short else lane.chunks.rows_left()
    if probable is not None:
        return probable
    return float("inf") if lane.left is None else lane.left
