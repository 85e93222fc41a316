"""The options and the result of a checksum (pure)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from spirit_py.chunk.sizing import FIRST_ROWS
from spirit_py.estimates import RowsLeft, probable_total
from spirit_py.locks.blockers import LockPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable

_TEXT_LITERAL = re.compile(r"_(?:utf8mb4|ascii) X'((?:[0-9a-f]{2})*)'")

DifferenceKind = Literal["missing", "extra", "changed"]


@dataclass(frozen=True, kw_only=True)
class RowDifference:
    """One row that is not the same on both sides.

    Attributes:
        key: ``(literal, ...)`` of the key's columns, as the applier takes it.
        kind: ``missing`` in the new table, ``extra`` in it, or ``changed``.
        columns: names of the source's columns that differ; empty when not looked at.
    """

    key: str
    kind: DifferenceKind
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return what differs, in a line for the operator."""
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
        """Add, kind by kind."""
        return Counts(
            self.missing + other.missing, self.extra + other.extra, self.changed + other.changed
        )

    def __sub__(self, other: Counts) -> Counts:
        """Take away, kind by kind."""
        return Counts(
            self.missing - other.missing, self.extra - other.extra, self.changed - other.changed
        )

    def __str__(self) -> str:
        return f"{self.missing} missing, {self.extra} extra, {self.changed} changed"


def count(found: Iterable[RowDifference]) -> Counts:
    """Count rows by kind."""
    kinds = Counter(difference.kind for difference in found)
    return Counts(kinds["missing"], kinds["extra"], kinds["changed"])


@dataclass(frozen=True, kw_only=True)
class ChecksumOptions:
    """Limits of a checksum.

    Attributes:
        tasks: sessions that read at the same time; 0 for as many as Spark has slots.
        target_seconds: how long one chunk should take, both sides together.
        first_rows: rows of the first chunks, until one is measured.
        locking: when the table lock is requested, and for how long.
        lock_hold: seconds after which a lock that is still held is given up, and asked for again.
        yield_seconds: age at which a snapshot is closed and a new one taken.
        max_passes: passes over the table, the last of which must be clean.
        max_repairs: differing rows that one pass repairs at most; more is a systematic fault.
        examples: rows shown.
        lock: take the table lock for the moment of the snapshots. Without it, and with more
            than one task, the tasks' snapshots may be of slightly different moments: each
            chunk is still compared within one, but the rows cannot be counted again. Only
            where no feed applies changes.
        recheck_pauses: seconds to wait before each further look at the rows that differ; rows
            that are equal then are in motion and no difference. Empty where the snapshot is
            known to be of one moment, as with a feed.
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
    recheck_pauses: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ChecksumProgress:
    """The progress of a checksum.

    Attributes:
        passes: the pass that runs, from 1; 0 before the first.
        rows: rows of the source compared in this pass.
        handed_out: rows in chunks that are handed out and not compared.
        left: what of this pass is not handed out.
        whole: the pass began at the beginning of the table, not where an earlier run's ended.
        ended: every row of the pass is compared and counted.
        differences: differing rows found in this pass.
        waiting_for: what it waits for, for display; empty while it compares.
    """

    passes: int = 0
    rows: int = 0
    handed_out: int = 0
    left: RowsLeft = field(default_factory=RowsLeft)
    whole: bool = True
    ended: bool = False
    differences: int = 0
    waiting_for: str = ""

    def total(self, estimate: int | None) -> int | None:
        """Return the rows of this pass, as far as that is known by now.

        Args:
            estimate: rows of the table, counted or estimated.
        """
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
        return f"pass {self.passes}, {self.differences} differences" if self.passes else ""


@dataclass(frozen=True, kw_only=True)
class ChecksumResult:
    """The figures of a checksum, for the report.

    Attributes:
        passes: passes over the whole table; the last one was clean unless repair is off.
        chunks: chunks compared in all passes.
        rows: rows of the source in the last pass.
        differences: differing rows found in all passes.
        counts: the same by kind.
        remaining: differing rows of the last pass; 0 after a clean one.
        in_motion: rows that differed in a snapshot and were equal at a recheck.
        rows_counted: whether the rows compared were proven to be all rows, by a count of their
            own in the same snapshot; only without a lock may it be false.
        one_moment: whether every snapshot showed both tables at the same moment.
        repaired_chunks: chunks with a difference that was repaired.
        examples: the first differing rows.
        snapshots: snapshots taken; each took the table lock once.
        lock_wait_ms: longest wait for the table lock.
        lock_held_ms: longest time that the table lock was held.
        gather_seconds: time until the tasks of each snapshot had come together.
        seconds: wall time.
    """

    passes: int = 0
    chunks: int = 0
    rows: int = 0
    differences: int = 0
    counts: Counts = Counts()
    remaining: int = 0
    in_motion: int = 0
    rows_counted: bool = True
    one_moment: bool = True
    repaired_chunks: int = 0
    examples: tuple[RowDifference, ...] = ()
    snapshots: int = 0
    lock_wait_ms: float = 0.0
    lock_held_ms: float = 0.0
    gather_seconds: float = 0.0
    seconds: float = 0.0
