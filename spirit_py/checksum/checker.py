"""The checksum: passes over the table until one is clean."""

from __future__ import annotations

import contextlib
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spirit_py import errors, points
from spirit_py.checksum.query import ComparisonPlan
from spirit_py.checksum.recheck import Recheck, repair
from spirit_py.checksum.result import ChecksumProgress, ChecksumResult, RowDifference, count
from spirit_py.checksum.table_pass import TablePass
from spirit_py.chunk.sizing import ChunkSizer
from spirit_py.classes import KW_ONLY, dataclass, replace
from spirit_py.events.copy import DifferencesRepaired, RowsDiffer
from spirit_py.locks.look import LockedBy
from spirit_py.mysql.connect import connect
from spirit_py.mysql.duplicates import duplicates_for
from spirit_py.mysql.retry import patiently
from spirit_py.pace import Work, await_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.checksum.query import Keys
    from spirit_py.checksum.recheck import Recopier
    from spirit_py.checksum.result import PassCoverage
    from spirit_py.checksum.snapshot import LockFigures
    from spirit_py.checksum.worker import Comparison
    from spirit_py.table.keys import KeyBound
    from spirit_py.threads import StopSwitch

T = TypeVar("T")
_log = logging.getLogger(__name__)
_OVERWRITTEN: Final = (
    "%s was equal in comparison %d, but is compared once more: a transaction larger than the memory"
    " has overwritten rows meanwhile; this ends when none comes during a comparison"
)
#: Comparisons in succession after which that is a warning.
_OVERWRITTEN_SAID: Final = frozenset({3, 10, 30, 100})


@dataclass(eq=False)
class Checker:
    """Compares source and new table, and repairs if it has an applier; :meth:`run` once.

    ``resume_above``: an earlier run's :attr:`low_watermark`. ``on_progress`` must not block.
    """

    what: Comparison
    _: KW_ONLY
    applier: Recopier | None = None
    on_progress: Callable[[ChecksumProgress], None] | None = None
    resume_above: KeyBound | None = None

    def __post_init__(self) -> None:
        self._mapping = mapping = self.what.mapping
        self._options = self.what.options
        #: :meth:`ChangeSource.overwrites` of what :meth:`run` has proven to be equal.
        self.proven = 0
        self._sizer = ChunkSizer(self._options.target_seconds, first_rows=self._options.first_rows)
        #: How far the checksum is; for any thread.
        self.progress = ChecksumProgress()
        #: The figures so far, also after a failure.
        self.result = ChecksumResult()
        self._current: TablePass | None = None
        if self.what.target is not None and not ComparisonPlan(mapping=mapping).aligned:
            raise errors.NotComparable(
                f"the key of {mapping.source.name} is ordered differently on the other server",
                hint="compare tables whose key columns have the same collation",
            )

    @property
    def low_watermark(self) -> KeyBound | None:
        """The key up to which the pass is done and clean, or None; any thread may ask.

        It advances when a snapshot is closed (docs/verification.md has the proof).
        """
        return None if self._current is None else self._current.clean_up_to

    def settle_open(self, stop: StopSwitch) -> bool:
        """Return whether a run that was stopped may have met rows that really differ."""
        return self._current is not None and self._current.settle_open(stop)

    def run(self) -> ChecksumResult:
        """Compare and repair until a whole pass is clean; without an applier do one pass.

        Raises `DuplicateForUnique`, `StillDifferent`, `StoredOtherwise` when only generated values
        differ, and `ChecksumFailure` when a table could not be read as a whole.
        """
        began = time.monotonic()
        try:
            self._until_clean()
        finally:
            self.result = replace(self.result, seconds=time.monotonic() - began)
        return self.result

    def _until_clean(self) -> None:
        number = overwritten = 0
        while number < self._options.max_passes:
            before = self._overwrites()
            coverage, found = self._pass(number + 1)
            found = self._patiently(partial(self._confirmed, coverage, found))
            self._book(coverage, found)
            if coverage.differences:
                self.what.tell(
                    RowsDiffer(
                        table=self.what.name,
                        rows=coverage.differences,
                        passes=self.result.passes,
                        examples=[str(one) for one in found[: self._options.examples]],
                    )
                )
            if self.applier is None:
                return
            if not coverage.differences:
                if self.what.feed is not None:
                    self.what.feed.compared(self._mapping)
                if before == self._overwrites():
                    self.proven = before
                    return
                overwritten += 1
                said = _log.warning if overwritten in _OVERWRITTEN_SAID else _log.info
                said(_OVERWRITTEN, self.what.name, overwritten)
                continue
            number += 1
            self._refuse_duplicates(found)
            if self.what.feed is not None:
                self._refuse_stored_otherwise(found, coverage.differences)
            if number == self._options.max_passes:
                break
            treated = self._patiently(partial(self._repair, self.applier, found, coverage))
            if not treated:
                break
            self.what.tell(
                DifferencesRepaired(table=self.what.name, rows=treated, passes=self.result.passes)
            )
        # Between other tables a repair may help: the target's may be those stored otherwise.
        self._refuse_stored_otherwise(found, coverage.differences)
        raise errors.StillDifferent(
            f"{self.what.name} and {self._mapping.target.name} still differ in"
            f" {coverage.differences} rows after {number} passes",
            hint="the copy is dropped: run the same command again"
            + (", without --no-repair" if self._options.max_passes == 1 else ""),
            details=tuple(str(example) for example in found[: self._options.examples]),
        )

    def _overwrites(self) -> int:
        feed = self.what.feed
        return 0 if feed is None or not self._mapping.merging else feed.overwrites(self._mapping)

    def _pass(self, number: int) -> tuple[PassCoverage, list[RowDifference]]:
        above = self.resume_above if number == 1 else None
        self.progress = ChecksumProgress(
            passes=number, whole=above is None, waiting_for=self.progress.waiting_for
        )
        self._show()
        self._current = TablePass(
            self.what, self._sizer, above=above, show=self._show, on_snapshot=self._note_snapshot
        )
        found = self._current.run()
        self._show(ended=True, handed_out=0, doing="")
        self.result = replace(self.result, rows_counted=self._current.counted)
        return found

    def _patiently(self, work: Callable[[], T]) -> T:
        return patiently(
            work,
            self.what.source,
            self.what.stop,
            tell=self._wait_for,
            hiccups=(errors.FeedFailure,),
            locked=LockedBy.of(self.what.source, self._mapping, self.what.target),
        )

    def _confirmed(
        self, coverage: PassCoverage, found: Sequence[RowDifference]
    ) -> list[RowDifference]:
        if not self._options.recheck_pauses or not found:
            return list(found)
        look = Recheck(
            self.what.join, self._options.recheck_pauses, stop=self.what.stop, show=self._show
        )
        left = look.confirm(found)
        coverage.counts += count(left) - count(found)
        self.result = replace(self.result, in_motion=self.result.in_motion + len(found) - len(left))
        self._show(differences=coverage.differences)
        return left

    def _book(self, coverage: PassCoverage, found: Sequence[RowDifference]) -> None:
        so_far = self.result
        self.result = replace(
            so_far,
            passes=so_far.passes + 1,
            chunks=so_far.chunks + coverage.chunks,
            rows=coverage.rows,
            differences=so_far.differences + coverage.differences,
            counts=so_far.counts + coverage.counts,
            left=coverage.counts,
            unlisted=max(so_far.unlisted, coverage.differences - len(found)),
            examples=(*so_far.examples, *found)[: self._options.examples],
        )

    def _refuse_duplicates(self, found: Sequence[RowDifference]) -> None:
        if not self._mapping.tightened:
            return
        duplicates = self._patiently(self._duplicates)
        if duplicates:
            names = ", ".join(index.name for index in self._mapping.tightened)
            raise errors.DuplicateForUnique(
                f"{self.what.name} has rows that the new UNIQUE key ({names}) cannot"
                f" hold together: {len(found)} rows differ",
                hint="remove the duplicates, then run the same command again: it resumes; or"
                " leave the UNIQUE key out",
                details=duplicates,
            )

    def _duplicates(self) -> tuple[str, ...]:
        mapping = self._mapping
        with connect(self.what.source, role="duplicates") as session:
            return tuple(
                f"{index.name}: {duplicate}"
                for index in mapping.tightened
                for duplicate in duplicates_for(
                    session, mapping, index, seen=lambda _: self.what.stop.check()
                )
            )

    def _refuse_stored_otherwise(self, found: Sequence[RowDifference], rows: int) -> None:
        """Stop when only generated columns differ: to copy such a row again changes nothing."""
        computed = {pair.old.name for pair in self._mapping.computed}
        shown = found[: self._options.examples]
        names = {name for difference in shown for name in difference.columns}
        if not names or not all(d.columns and computed.issuperset(d.columns) for d in shown):
            return
        raise errors.StoredOtherwise(
            f"{self.what.name} stores other values in generated columns"
            f" ({', '.join(sorted(names))}) than the server computes now, in {rows} rows: sessions"
            " of another time zone or other settings wrote them",
            hint="a native ALTER that copies the rows would recompute them; with"
            " --recompute-generated this one does, or write these rows again in a session with the"
            " server's own settings, then run the same command again",
            details=tuple(str(difference) for difference in shown),
        )

    def _repair(
        self, applier: Recopier, found: Sequence[RowDifference], coverage: PassCoverage
    ) -> int:
        what = self.what
        await_turn(what.pace, Work.REPAIR, pause=what.stop.pause, show=self._wait_for)
        points.reach("checksum.repair")
        self._show(doing="repairing them")
        for difference in found[: self._options.examples]:
            mended = "deleted there" if difference.kind == "extra" else "copied again"
            _log.warning("%s: %s; %s", self._mapping.target.full_name, difference, mended)
        try:
            treated = repair(applier, self.what.feed, self._mapping, found, self._unmatched)
        except errors.ValueLost as error:
            error.details = error.details or tuple(map(str, found[: self._options.examples]))
            raise
        self.result = replace(
            self.result, repaired_chunks=self.result.repaired_chunks + coverage.differing_chunks
        )
        return treated

    def _unmatched(self, keys: Keys) -> list[RowDifference]:
        with contextlib.closing(self.what.join(0)) as reader:
            return reader.unmatched(keys)

    def _note_snapshot(self, figures: LockFigures, gathered: float) -> None:
        self.result = replace(
            self.result,
            snapshots=self.result.snapshots + 1,
            locks=self.result.locks + bool(figures.held_ms),
            lock_wait_ms=max(self.result.lock_wait_ms, figures.waited_ms),
            lock_held_ms=max(self.result.lock_held_ms, figures.held_ms),
            gather_seconds=self.result.gather_seconds + gathered,
            one_moment=self.result.one_moment and figures.one_moment,
        )

    def _wait_for(self, what: str) -> None:
        self._show(waiting_for=what)

    def _show(self, **changes: Any) -> None:
        self.progress = replace(self.progress, **changes)
        if self.on_progress is not None:
            self.on_progress(self.progress)
