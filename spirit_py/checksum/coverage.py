"""The part of the table that a pass has compared, to prove that a pass is complete (pure).

A pass is cut into segments, each read in one snapshot; a segment counts only as a whole. Its
chunks must follow each other without a gap, each must be answered once, and their rows must
add up to what an independent count of the segment's range found in the same snapshot.

The count is independent because it is not divided as the chunks are: a row that no chunk holds,
because a bound is written or compared wrongly, is missing on both sides alike, so that the hashes
agree. It is divided all the same, for as many tasks as there are, but at few of the chunks' bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spirit_py.checksum.result import Counts
from spirit_py.chunk.chunk import Chunk
from spirit_py.errors import ChecksumFailure

if TYPE_CHECKING:
    from spirit_py.chunk.chunk import KeyBound

BOUNDS_FOR_EACH: Final = 4
"""Bounds between chunks for each one at which a count is divided."""
_MOST_BOUNDS: Final = 256
"""Bounds that a segment remembers, evenly spread."""


@dataclass
class PassCoverage:
    """What one pass has compared so far.

    Attributes:
        lower: everything up to this bound is compared; None before the first segment's end.
        complete: the last segment reached the end of the table.
        rows: rows of the source.
        chunks: chunks compared.
        differing_chunks: chunks with a difference.
        counts: differing rows, by kind.
    """

    lower: KeyBound | None = None
    complete: bool = False
    rows: int = 0
    chunks: int = 0
    differing_chunks: int = 0
    counts: Counts = field(default_factory=Counts)
    segment: Segment = field(default_factory=lambda: Segment(None))

    def begin_segment(self) -> None:
        """Begin a segment above the compared range; an unfinished segment is discarded."""
        self.segment = Segment(self.lower)

    @property
    def differences(self) -> int:
        """Differing rows of all kinds."""
        return self.counts.total

    def end_segment(
        self,
        source_rows: int,
        target_rows: int,
        *,
        aligned: bool,
        counted: bool = True,
        below: int = 0,
    ) -> int:
        """Take over the segment; return the new table's rows beyond those compared.

        Args:
            source_rows: an independent count of the source in the segment's range.
            target_rows: the same of the new table; when not ``aligned``, of all of it at the end
                of the pass, and 0 before.
            aligned: whether ranges of the key hold the same rows on both sides; otherwise the
                new table may have rows that no chunk saw.
            counted: whether the two counts were taken in the snapshot of every chunk.
            below: the source's rows below the last segment, in its snapshot; when not
                ``aligned``. The new table has as many, but for those that were missing.

        Raises:
            ChecksumFailure: when the segment did not read every row.
        """
        segment = self.segment
        matched = segment.target_rows + max(0, below - self.counts.missing)
        segment.verify(source_rows, target_rows, aligned=aligned, counted=counted)
        self.lower = segment.upper
        self.complete = segment.upper is None
        self.rows += segment.source_rows
        self.chunks += segment.answered
        self.differing_chunks += segment.differing_chunks
        self.counts += segment.counts
        return max(0, target_rows - matched)


@dataclass
class Segment:
    """The chunks of one snapshot. ``upper`` is None until a chunk is dispatched, and at the end."""

    lower: KeyBound | None
    upper: KeyBound | None = None
    dispatched: int = 0
    answered: int = 0
    at_end: bool = False
    source_rows: int = 0
    target_rows: int = 0
    differing_chunks: int = 0
    counts: Counts = field(default_factory=Counts)
    _open: set[int] = field(default_factory=set)
    #: Bounds between chunks, every so many.
    _bounds: list[KeyBound] = field(default_factory=list)
    _every: int = BOUNDS_FOR_EACH

    def spans(self, parts: int) -> list[Chunk]:
        """Divide the range that the segment has dispatched for a count.

        Returns:
            At most so many ranges without a gap; fewer when there are few chunks.
        """
        parts = max(1, min(parts, len(self._bounds) + 1))
        inner = [self._bounds[place * len(self._bounds) // parts] for place in range(1, parts)]
        lowers, uppers = [self.lower, *inner], [*inner, self.upper]
        return [
            Chunk(number=place, lower=lower, upper=upper, target_rows=0)
            for place, (lower, upper) in enumerate(zip(lowers, uppers, strict=True))
        ]

    def dispatch(self, chunk: Chunk) -> None:
        """Note that a chunk was handed out.

        Raises:
            ChecksumFailure: when it does not follow the last one.
        """
        before = self.upper if self.dispatched else self.lower
        if self.at_end or _literals(chunk.lower) != _literals(before):
            raise ChecksumFailure(f"chunk {chunk} does not follow the one before it")
        self._open.add(chunk.number)
        self.dispatched += 1
        self.upper = chunk.upper
        self.at_end = chunk.upper is None
        self._remember(chunk.lower)

    def _remember(self, bound: KeyBound | None) -> None:
        """Remember some of the bounds between chunks; of many, fewer."""
        behind = self.dispatched - 1
        if bound is None or not behind or behind % self._every:
            return
        self._bounds.append(bound)
        if len(self._bounds) > _MOST_BOUNDS:
            del self._bounds[::2]
            self._every *= 2

    def answer(self, number: int, source_rows: int, target_rows: int, counts: Counts) -> None:
        """Note what was found in a chunk.

        Raises:
            ChecksumFailure: when the chunk was not handed out, or is answered a second time.
        """
        if number not in self._open:
            raise ChecksumFailure(f"chunk {number} was compared without having been asked for")
        self._open.remove(number)
        self.answered += 1
        self.source_rows += source_rows
        self.target_rows += target_rows
        self.counts += counts
        self.differing_chunks += counts.total > 0

    def verify(self, source_rows: int, target_rows: int, *, aligned: bool, counted: bool) -> None:
        """Prove that every chunk was compared, and every row of the range read, on both sides."""
        if not self.answered or self._open:
            raise ChecksumFailure(
                f"the checksum compared {self.answered} of {self.dispatched} chunks"
            )
        if not counted:
            return
        if source_rows != self.source_rows:
            raise ChecksumFailure(
                f"the chunks held {self.source_rows} rows of the source, a count {source_rows}",
                hint="CHECK TABLE the source: an index may be damaged",
            )
        if aligned and target_rows != self.target_rows:
            raise ChecksumFailure(
                f"the chunks held {self.target_rows} rows of the new table, a count {target_rows}",
                hint="CHECK TABLE the new table: an index may be damaged",
            )


def _literals(bound: KeyBound | None) -> tuple[str, ...] | None:
    """Return a bound's literals, by which bounds are compared."""
    return None if bound is None else bound.literals
