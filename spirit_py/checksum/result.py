"""What a checksum finds, and the proof that a pass has compared the whole table (pure).

docs/verification.md has the proof. A segment is what one snapshot reads; it counts as a whole.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from spirit_py.chunk.chunk import Chunk, same_bound
from spirit_py.chunk.sizing import FIRST_ROWS
from spirit_py.classes import dataclass, field
from spirit_py.errors import ChecksumFailure
from spirit_py.estimates import RowsLeft, probable_total
from spirit_py.events.copy import ChecksumDone
from spirit_py.locks.blockers import LockPolicy
from spirit_py.units import human_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.table.keys import KeyBound

_TEXT_LITERAL = re.compile(r"_(?:utf8mb4|ascii) X'((?:[0-9a-f]{2})*)'")

DifferenceKind = Literal["missing", "extra", "changed"]


@dataclass(frozen=True, kw_only=True)
class RowDifference:
    """One row that is ``missing``, ``extra`` or ``changed``; ``key`` is ``(literal, ...)``.

    ``columns`` are those that differ; empty when not looked at.
    """

    key: str
    kind: DifferenceKind
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f" in {', '.join(self.columns)}" if self.columns else ""
        return f"row {shown_key(self.key)} is {self.kind}{where}"


def shown_key(key: str) -> str:
    """Return a key for people: text as text."""
    return _TEXT_LITERAL.sub(_readable, key)


def _readable(literal: re.Match[str]) -> str:
    return repr(bytes.fromhex(literal.group(1)).decode("utf-8", "backslashreplace"))


@dataclass(frozen=True)
class Counts:
    """How many rows differ, by kind."""

    missing: int = 0
    extra: int = 0
    changed: int = 0

    @property
    def total(self) -> int:
        """Differing rows of all kinds."""
        return self.missing + self.extra + self.changed

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.missing + other.missing, self.extra + other.extra, self.changed + other.changed
        )

    def __sub__(self, other: Counts) -> Counts:
        return Counts(
            self.missing - other.missing, self.extra - other.extra, self.changed - other.changed
        )

    def __str__(self) -> str:
        counts = (self.missing, "missing"), (self.extra, "extra"), (self.changed, "changed")
        return ", ".join(f"{human_count(rows)} {kind}" for rows, kind in counts)


def count(found: Iterable[RowDifference]) -> Counts:
    """Count rows by kind."""
    kinds = Counter(difference.kind for difference in found)
    return Counts(kinds["missing"], kinds["extra"], kinds["changed"])


@dataclass(frozen=True, kw_only=True)
class ChecksumOptions:
    """Limits of a checksum; times in seconds.

    ``tasks`` read at the same time; 0 for as many as Spark has slots. ``max_repairs``: differing
    rows that a task lists in a snapshot, which are repaired; more is a systematic fault.
    ``recheck_pauses``: before each further look at differing rows. Without ``lock`` the snapshots
    may be of different moments, and rows cannot be counted again; only where no feed applies
    changes. ``rolling``: in snapshots of about a second and without a lock, where a feed applies
    changes and a range of the key has the same rows in both tables.
    """

    tasks: int = 0
    target_seconds: float = 1.0
    first_rows: int = FIRST_ROWS
    locking: LockPolicy = field(default_factory=LockPolicy)
    lock_hold: float = 10.0
    yield_seconds: float = 3600.0
    max_passes: int = 3
    max_repairs: int = 100_000
    examples: int = 10
    lock: bool = True
    rolling: bool = False
    recheck_pauses: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ChecksumProgress:
    """The progress of a checksum; ``passes`` counts from 1.

    ``rows`` have been compared, those that only the target has with them; ``handed_out`` are in
    chunks that are not answered; ``outstanding``: a task was asked for one, for a count or for rows
    that only the target has, and has not answered; ``whole``: the pass began at the table's
    beginning; ``ended``: all is compared and counted; ``doing``: what is done beside comparing the
    source's chunks.
    """

    passes: int = 0
    rows: int = 0
    handed_out: int = 0
    outstanding: bool = False
    left: RowsLeft = field(default_factory=RowsLeft)
    whole: bool = True
    ended: bool = False
    differences: int = 0
    waiting_for: str = ""
    doing: str = ""

    def total(self, estimate: int | None) -> int | None:
        """Return the rows of this pass, as far as known; ``estimate``: rows of the table."""
        if self.ended:
            return self.rows
        return probable_total(
            self.rows,
            handed_out=self.handed_out,
            left=self.left,
            estimate=estimate if self.whole else None,
        )

    @property
    def note(self) -> str:
        """The pass, and what it has found."""
        if not self.passes:
            return ""
        doing = f", {self.doing}" if self.doing else ""
        return f"pass {self.passes}, {self.differences} differences{doing}"


@dataclass(frozen=True, kw_only=True)
class ChecksumResult:
    """The figures of a checksum, for the report.

    ``rows`` are the source's in the last pass, which left the differing rows in ``left``;
    ``unlisted``: of one pass, those that were too many to be looked at once more or repaired in it.
    ``differences`` are of all passes, by kind in ``counts``; rows ``in_motion`` differed and were
    equal at a recheck. ``rows_counted``: a count in the same snapshots proved that all rows were
    compared. ``one_moment``: every snapshot showed both tables at the same moment; ``locks`` were
    taken for them.
    """

    passes: int = 0
    chunks: int = 0
    rows: int = 0
    differences: int = 0
    counts: Counts = Counts()
    left: Counts = Counts()
    unlisted: int = 0
    in_motion: int = 0
    rows_counted: bool = True
    one_moment: bool = True
    repaired_chunks: int = 0
    examples: tuple[RowDifference, ...] = ()
    snapshots: int = 0
    locks: int = 0
    lock_wait_ms: float = 0.0
    lock_held_ms: float = 0.0
    gather_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def remaining(self) -> int:
        """The rows that differ in the last pass."""
        return self.left.total

    def event(self, **more: Any) -> ChecksumDone:
        """Return the event of the end of a comparison."""
        return ChecksumDone(
            rows=self.rows,
            passes=self.passes,
            differences=self.differences,
            repaired_chunks=self.repaired_chunks,
            lock_held_ms=round(self.lock_held_ms, 1),
            seconds=round(self.seconds, 3),
            **more,
        )


@dataclass
class PassCoverage:
    """What one pass has compared so far, up to ``lower``; ``complete`` at the end of the table."""

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
        """Add the segment; return the new table's rows beyond those compared.

        Raises `ChecksumFailure` when the segment did not read every row.

        Args:
            source_rows: an independent count in the segment's range.
            target_rows: the same; when not ``aligned`` of the whole table at the end, and 0 before.
            aligned: ranges of the key hold the same rows on both sides.
            counted: both counts were taken in the snapshot of every chunk.
            below: the source's rows below the last segment, in its snapshot; when not ``aligned``.
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

    def dispatch(self, chunk: Chunk) -> None:
        """Record that a chunk was handed out; refuse one that does not follow the last."""
        before = self.upper if self.dispatched else self.lower
        if self.at_end or not same_bound(chunk.lower, before):
            raise ChecksumFailure(f"chunk {chunk} does not follow the one before it")
        self._open.add(chunk.number)
        self.dispatched += 1
        self.upper = chunk.upper
        self.at_end = chunk.upper is None

    def answer(self, number: int, source_rows: int, target_rows: int, counts: Counts) -> None:
        """Record what was found in a chunk; refuse one not handed out, or a second answer."""
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
