"""A gang reads one segment: the chunks and counts that its tasks are asked for, and the answers.

The driver cuts chunks while the gang reads, two outstanding for each task. In a rolling pass four
chunks are a piece: one task reads them in a snapshot of its own, and counts their rows in it again.
In one snapshot the rows of every few chunks are counted behind them, so that a segment that others
wait for ends soon.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from spirit_py.checksum.query import SOURCE, TARGET
from spirit_py.checksum.result import Counts
from spirit_py.chunk.chunk import Chunk, encode_chunk
from spirit_py.classes import dataclass
from spirit_py.errors import ChecksumFailure, ServerFault
from spirit_py.estimates import RowsLeft
from spirit_py.mysql.faults import LOCK_WAIT_TIMEOUT
from spirit_py.pace import PART_BYTES, AtWork, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spirit_py.checksum.query import Side
    from spirit_py.checksum.result import PassCoverage, RowDifference
    from spirit_py.checksum.worker import Comparison
    from spirit_py.chunk.chunker import CompositeChunker
    from spirit_py.chunk.sizing import ChunkSizer
    from spirit_py.spark.gang import Gang
    from spirit_py.table.keys import KeyBound

    _Order: TypeAlias = tuple[Mapping[str, Any], Callable[[Mapping[str, Any]], None]]

_OUTSTANDING: Final = 2
#: Of smaller chunks the messages take more time than the comparison.
_LEAST_PIECE: Final = 1 / 8
#: A snapshot is kept for so long while nothing may be compared.
_HOLD_SECONDS: Final = 10.0
#: And for so long while a table lock waits for it, with the statements behind that; a look for one.
_LOCK_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 1.0
#: Chunks of one snapshot whose rows are counted together.
_COUNTED_CHUNKS: Final = 8
#: Of a rolling pass: chunks that one snapshot reads, how long one takes, and how long a segment.
_PIECE_CHUNKS: Final = 4
_SHORT_SECONDS: Final = 0.25
_ROLLING_SECONDS: Final = 300.0


@dataclass(eq=False)
class SegmentReading:
    """The segment that ``coverage`` has begun, read once by :meth:`read`.

    ``most_rows`` of a chunk are asked for. ``answered`` is called with what differs in a chunk, and
    returns whether the segment shall end. ``show`` takes fields of :class:`ChecksumProgress`,
    ``locked_out`` returns who waits for a lock that what is read keeps from it.
    """

    what: Comparison
    sizer: ChunkSizer
    coverage: PassCoverage
    chunker: CompositeChunker
    rolling: bool
    most_rows: Callable[[], float]
    answered: Callable[[Chunk, Sequence[str], Counts], bool]
    show: Callable[..., None]
    locked_out: Callable[[], str]

    def __post_init__(self) -> None:
        self._segment = self.coverage.segment
        self._at_work = AtWork()
        self._tasks = 0
        self._held_by = ""
        self._held_since = 0.0
        self._locked_out, self._look_at = "", 0.0
        self._handed_out = 0
        self._outstanding = False
        self._ending = False
        #: What is done beside the chunks that are handed out.
        self._beside = ""
        self._counted: dict[Side, int] = {SOURCE: 0, TARGET: 0}
        #: The source's rows below this segment, when the key's order changed.
        self.below = 0

    def read(self, gang: Gang[list[RowDifference]], *, aligned: bool) -> Mapping[Side, int]:
        """Hand out chunks and counts; return the rows counted on each side."""
        try:
            return self._read(gang, aligned=aligned)
        finally:
            self._note_outstanding(now=False)

    def _read(self, gang: Gang[list[RowDifference]], *, aligned: bool) -> Mapping[Side, int]:
        self._tasks = gang.size
        if self.rolling:
            pieces = self._rolling_pieces()
        else:
            pieces = ([order] for order in self._counted_chunks(aligned=aligned))
        asked: dict[tuple[int, int], Callable[[Mapping[str, Any]], None]] = {}
        #: What is left of the piece that each task reads.
        begun: list[deque[_Order]] = [deque() for _ in range(gang.size)]
        ended = False
        while not ended or asked or any(begun):
            busy = sum(bool(gang.outstanding(rank)) for rank in range(gang.size))
            self._at_work.count(busy, time.monotonic())
            self._note_outstanding(now=bool(asked) or any(begun))
            rank = self._next_rank(gang, begun, ended=ended)
            if rank is None:
                for answer in gang.collect():
                    asked.pop((answer.rank, answer.number))(json.loads(answer.text))
                continue
            if not begun[rank]:
                begun[rank].extend(next(pieces, ()))
                ended = not begun[rank]
            if begun[rank]:
                text, take = begun[rank].popleft()
                rest = {"rest": self.what.pace.rest_after(1.0)}
                asked[rank, gang.post(rank, json.dumps({**text, **rest}))] = take
        return self._counted

    def _note_outstanding(self, *, now: bool) -> None:
        if now != self._outstanding:
            self._outstanding = now
            self.show(outstanding=now)

    def _next_rank(
        self, gang: Gang[list[RowDifference]], begun: Sequence[deque[_Order]], *, ended: bool
    ) -> int | None:
        """Return the task that gets the next order: a snapshot that is open must be read."""
        for rank, left in enumerate(begun):
            if left and gang.outstanding(rank) < _OUTSTANDING:
                return rank
        if ended or self._held():
            return None
        idlest = min(range(self.what.pace.tasks(gang.size)), key=gang.outstanding)
        return idlest if gang.outstanding(idlest) < _OUTSTANDING else None

    def _held(self) -> bool:
        """Return whether no chunk may be handed out now; after a while that ends the segment."""
        locked_out = self._who_is_locked_out()
        reason = locked_out or self.what.pace.reason(Work.CHECKSUM)
        if reason != self._held_by:
            self.show(waiting_for=reason)
        now = time.monotonic()
        if reason and not self._held_by:
            self._held_since = now
        self._held_by = reason
        if reason and now - self._held_since > (_LOCK_SECONDS if locked_out else _HOLD_SECONDS):
            self._ending = True
        return bool(reason) and not self._ending

    def _who_is_locked_out(self) -> str:
        if time.monotonic() >= self._look_at:
            self._locked_out = self.locked_out()
            self._look_at = time.monotonic() + _LOOK_SECONDS
        return self._locked_out

    def _rolling_pieces(self) -> Iterator[list[_Order]]:
        """Cut pieces, each with a snapshot of its own, in which its rows are counted again."""
        chunks = self._chunks()
        while piece := list(islice(chunks, _PIECE_CHUNKS)):
            span = piece[0].lower, piece[-1].upper
            yield [
                ({"do": "snapshot", "short": True}, _nothing),
                *map(self._asked, piece),
                self._count(SOURCE, *span),
                self._count(TARGET, *span),
                ({"do": "release"}, _nothing),
            ]

    def _asked(self, chunk: Chunk) -> _Order:
        return {"do": "compare", "chunk": encode_chunk(chunk)}, partial(self._compared, chunk)

    def _chunks(self) -> Iterator[Chunk]:
        segment, options = self._segment, self.what.options
        self.show(doing="")
        longest, most = options.yield_seconds, math.inf
        if self.rolling:
            longest, most = min(longest, _ROLLING_SECONDS), _SHORT_SECONDS
        end = time.monotonic() + longest
        while not segment.at_end and (
            not segment.dispatched or (not self._ending and time.monotonic() < end)
        ):
            self.sizer.aim(min(most, options.target_seconds * self._piece))
            try:
                chunk = self.chunker.next_chunk(int(min(self.sizer.rows, self.most_rows())))
            except ServerFault as fault:
                if self.rolling or not segment.dispatched or fault.code != LOCK_WAIT_TIMEOUT:
                    raise
                # The key is read in another session: behind a lock that waits for this snapshot.
                return
            if chunk is None:
                raise ChecksumFailure("the chunks ended before the end of the table")
            segment.dispatch(chunk)
            self._handed_out += chunk.target_rows
            yield chunk

    def _counted_chunks(self, *, aligned: bool) -> Iterator[_Order]:
        segment, chunks = self._segment, self._chunks()
        sides: tuple[Side, ...] = (SOURCE, TARGET) if aligned else (SOURCE,)
        lower = segment.lower
        while last := next(chunks, None):
            yield self._asked(last)
            for last in islice(chunks, _COUNTED_CHUNKS - 1):
                yield self._asked(last)
            if segment.at_end:
                self._beside = "counting the rows again"
                if not self._handed_out:
                    self.show(doing=self._beside)
            for side in sides:
                yield self._count(side, lower, last.upper)
            lower = last.upper
        if segment.at_end and not aligned:
            yield self._count(TARGET, None, None)
            if segment.lower is not None:
                yield self._count(SOURCE, None, segment.lower)[0], self._counted_below

    def _count(self, side: Side, lower: KeyBound | None, upper: KeyBound | None) -> _Order:
        span = Chunk(number=0, lower=lower, upper=upper, target_rows=0)
        order = {"do": "count", "side": side, "chunk": encode_chunk(span)}
        return order, partial(self._add_rows, side)

    def _add_rows(self, side: Side, said: Mapping[str, Any]) -> None:
        self._counted[side] += int(said["rows"])

    def _counted_below(self, said: Mapping[str, Any]) -> None:
        self.below = int(said["rows"])

    @property
    def _piece(self) -> float:
        """The part of the full size that a chunk has, so that others get the CPU."""
        return max(_LEAST_PIECE, self.what.pace.part_bytes() / PART_BYTES)

    def _compared(self, chunk: Chunk, said: Mapping[str, Any]) -> None:
        rows, seconds, counts = said["source"], said["seconds"], Counts(**said["counts"])
        self._ending |= self.answered(chunk, said["differing"] if self.rolling else (), counts)
        # Rows that differ in a rolling pass are looked at again before they count.
        found = Counts() if self.rolling else counts
        self._segment.answer(chunk.number, rows, said["target"], found)
        self.sizer.finished(
            target_rows=chunk.target_rows, rows=rows or said["target"], seconds=seconds
        )
        done = self._at_work.done(rows, seconds, time.monotonic() - seconds)
        self.what.pace.done(Work.CHECKSUM, done, self._tasks)
        self.chunker.observed(chunk, rows)
        self._handed_out -= chunk.target_rows
        self._show_compared(only_target=said["target"] and not rows)

    def _show_compared(self, *, only_target: bool) -> None:
        going_on = "reading rows that only the target has" if only_target else ""
        found = self.coverage.counts + self._segment.counts
        rows = self.coverage.rows + self._segment.source_rows + found.extra
        self.show(
            rows=rows,
            handed_out=self._handed_out,
            left=self._left(rows),
            doing=going_on if self._handed_out else self._beside,
            differences=found.total,
        )

    def _left(self, rows: int) -> RowsLeft:
        if self.chunker.finished:
            # The last chunks are rarely as large as they were meant: an estimate may know better.
            return RowsLeft(most=0)
        # No values are left where the target goes on; of those of a key few rows may be kept.
        if not (width := self.chunker.width()) or self.what.mapping.keep is not None:
            return RowsLeft()
        if self.what.feed is None:
            width = max(width, self.what.mapping.target.estimated_rows - rows - self._handed_out)
        return RowsLeft(most=width)


def _nothing(_said: Mapping[str, Any]) -> None:
    """Take an answer that says nothing."""
