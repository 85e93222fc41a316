"""A pair whose new table is filled by a copy, from the beginning or where a run stopped (R17)."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from spirit_py.checksum.query import ComparisonPlan
from spirit_py.chunk.chunk import KeyRange, precedes, walk_directions
from spirit_py.chunk.lanes import LaneChunker
from spirit_py.chunk.sizing import part_rows
from spirit_py.chunk.watermark import CopiedSoFar, Rest
from spirit_py.classes import dataclass, field, replace
from spirit_py.codes import ErrorCode
from spirit_py.copier.copier import BoundaryReader, Copier, CopyOptions, TableCopy, last_copied_key
from spirit_py.copier.fence import end_earlier_chunks
from spirit_py.copier.task import JoinCopy
from spirit_py.errors import Refusal
from spirit_py.estimates import COMPARED, COMPARED_STAGED, TableShares, build_share, likely_sizes
from spirit_py.events.copy import ChecksumRestarted, ChecksumResumed, CopyBegun, CopyDone
from spirit_py.migration.facts import TableCopiedBefore
from spirit_py.migration.histograms import carry_histograms
from spirit_py.migration.pair import Pair
from spirit_py.mysql.retry import retrying
from spirit_py.table.values import bound_from_literals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.checkpoint.record import CheckpointRecord, TableProgress
    from spirit_py.checksum.checker import Checker
    from spirit_py.checksum.result import ChecksumProgress, ChecksumResult
    from spirit_py.contracts import Applier, SqlSession
    from spirit_py.feed.feed import ChangeFeed
    from spirit_py.migration.indexes.plan import DeferredIndexes, IndexPlan
    from spirit_py.migration.run import Run
    from spirit_py.table.keys import KeyBound
    from spirit_py.table.mapping import TableMapping


@dataclass(kw_only=True)
class CopiedPair(Pair):
    """One table of a migration and its new table, which is copied while changes are applied."""

    job: Run
    plan: IndexPlan
    joins: Callable[..., JoinCopy] = JoinCopy
    deferred: DeferredIndexes = field(init=False)
    built: bool = field(default=False, init=False)
    before: CopiedSoFar = field(default_factory=CopiedSoFar)
    checked_to: KeyBound | None = None
    _copier: Copier | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.deferred = self.plan.deferred if self.plan.left_out else self.plan.none

    def copy(self) -> None:
        """Copy every row that no earlier run has copied, while changes are applied."""
        run = self.job
        if self.before.finished:
            before = self.before
            run.note(TableCopiedBefore(self.source_name, before.rows, before.chunks))
            return
        reader = BoundaryReader(
            run.config.connection, stop=run.stop, tell=run.show, tables=[self.source_name]
        )
        run.closing("the chunker's session", reader.close)
        chunker = LaneChunker(
            self.mapping,
            reader.query,
            ranges=self.before.uncopied,
            part_rows=part_rows(self.mapping.source),
            copied_rows=self.before.rows,
        )
        self._copier = Copier(
            TableCopy(
                mapping=self.mapping,
                connection=run.config.there,
                joins=self.joins,
                chunker=chunker,
                query=reader.query,
                subscription=self.subscription,
                before=self.before,
            ),
            driver=run.engines.driver,
            spark=run.engines.spark,
            pace=run.pace,
            stop=run.stop,
            options=CopyOptions(own_writes=run.config.feed.own_writes),
        )
        source = self.mapping.source
        run.figures.copying(self._copier, source)
        rows, size = source.estimated_rows, sum(likely_sizes(source))
        run.tell(CopyBegun(table=self.name, rows_estimated=rows, bytes=size))
        self._copier.run()
        copied = self._copier.statistics()
        rows, chunks, seconds = copied.rows, copied.chunks, round(copied.seconds, 3)
        run.tell(CopyDone(table=self.name, rows=rows, chunks=chunks, seconds=seconds))

    def shares(self) -> TableShares:
        """Return what is left to do after the copy, by the time of that; any thread may ask."""
        names = () if self.built else self.deferred.names
        return TableShares(
            index=build_share(self.mapping.target, names, row_bytes=self.mapping.source.row_bytes),
            checksum=COMPARED_STAGED if ComparisonPlan(mapping=self.mapping).staged else COMPARED,
        )

    def speed(self) -> tuple[int, tuple[float, ...], bool]:
        """Return the rows copied, how much is at work, and whether it waits; any thread may ask."""
        pace = self.job.pace
        most = pace.tasks(self.job.engines.driver.slots)
        work = (most, -pace.rest_after(1.0), pace.part_bytes())
        if self._copier is None:
            return 0, work, True
        seen = self._copier.statistics()
        return seen.rows, work, bool(seen.throttled)

    def copied_so_far(self) -> CopiedSoFar:
        """Return what is copied in all runs. No I/O; any thread may ask."""
        before, now = self.before, self.subscription.copied()
        return replace(now, rows=before.rows + now.rows, chunks=before.chunks + now.chunks)

    def checked_up_to(self) -> tuple[str, ...]:
        """Return how far the checksum found no difference, as literals; any thread may ask.

        Empty where a resumed run may apply old images over newer rows and remove a compared row,
        where rows came in doubt since the comparison began, where the table was rebuilt or its
        server restarted, and where nobody follows who else writes to it, on another server.
        """
        unknown_later = self.doubts.since_comparison or bool(self.tables.must_compare)
        unknown_later = unknown_later or self.mapping.apart or self.outlived
        if self._checker is None or self.mapping.merging or unknown_later:
            return ()
        bound = self._checker.low_watermark
        return () if bound is None else bound.literals

    def analyze(self) -> None:
        """Renew the optimizer's statistics of the new table, with the source's histograms."""
        super().analyze()
        for trouble in self.job.step("histograms", self._carry_histograms):
            self.job.warn(f"a histogram of {self.name} is not carried over: {trouble}")

    def _size(self) -> int:
        size = super()._size()
        if self._copier is None:
            return size
        copied = self._copier.statistics()
        # Rows that were left out are read, but not hashed.
        return size * (copied.rows - copied.left_out) // max(1, copied.rows)

    def _carry_histograms(self, session: SqlSession) -> list[str]:
        if not self.mapping.apart:
            return carry_histograms(session, self.mapping)
        with self.job.session("histograms", there=True) as there:
            return carry_histograms(session, self.mapping, there)

    def _show_progress(self, seen: ChecksumProgress) -> None:
        """Do nothing: the run's figures read the progress of the comparison themselves."""

    def _run(self, checker: Checker) -> ChecksumResult:
        self.job.figures.checking(checker, self.mapping.source)
        return checker.run()

    def _compared_before(self) -> KeyBound | None:
        """Return up to where an earlier comparison counts: only if no other session wrote since."""
        target = ".".join(self.target_name)
        if self._checker is not None:
            return None
        if why := self.tables.must_compare:
            self._begin_anew(why)
            return None
        if self.outlived or self.feed.has_unread_changes(self.mapping):
            self._begin_anew(
                "the server was restarted since, or changes that are not in the"
                " binlog as rows were skipped"
            )
            return None
        if self.checked_to is None or self.mapping.merging:
            return None
        if self.feed.was_written_by_others(self.mapping):
            self._begin_anew(
                f"{target} was written to after the checkpoint of the earlier run's checksum"
            )
            return None
        self.job.tell(ChecksumResumed(table=self.name, target=target))
        return self.checked_to

    def _begin_anew(self, why: str) -> None:
        self.job.tell(ChecksumRestarted(table=self.name, reason=why))


def follow(
    run: Run,
    mapping: TableMapping,
    feed: ChangeFeed,
    applier: Applier,
    *,
    record: CheckpointRecord | None,
    plan: IndexPlan,
    joins: Callable[..., JoinCopy] = JoinCopy,
) -> CopiedPair:
    """Follow a table; with the record of an earlier run, from where that run stopped.

    No session of that run may still write to the new table when its last key is read: any row up
    to that key may have been deleted in the source since. ``joins`` makes what opens the session of
    a task of the copy.
    """
    pair = partial(
        CopiedPair,
        job=run,
        mapping=mapping,
        feed=feed,
        applier=applier,
        stop=run.stop,
        plan=plan,
        joins=joins,
        max_passes=1 if run.config.no_repair else Pair.max_passes,
    )
    if record is None:
        return pair(subscription=feed.add_subscription(mapping))
    progress = record.of(mapping.source.schema, mapping.source.name, run.config.shard)
    uncopied = _uncopied(mapping, progress)
    retrying(run.stop)(end_earlier_chunks, run.config.there, mapping)
    rests = run.step("last key", partial(_rests, mapping=mapping, uncopied=uncopied), there=True)
    return pair(
        subscription=feed.add_subscription(mapping, rests=rests),
        before=CopiedSoFar(uncopied=uncopied, rows=progress.rows_copied, chunks=progress.chunks),
        checked_to=_bound(mapping, progress.checked_up_to),
    )


def _uncopied(mapping: TableMapping, progress: TableProgress) -> tuple[KeyRange, ...]:
    """Read back the ranges that are not copied; Refusal where they are invalid or out of order."""
    ranges = tuple(
        KeyRange(lower=_bound(mapping, one.lower), upper=_bound(mapping, one.upper))
        for one in progress.uncopied
    )
    ends = [end for one in ranges for end in (one.lower, one.upper) if end is not None]
    known = [end.comparable for end in ends if end.comparable is not None]
    directions = walk_directions(mapping.key)
    if not all(precedes(one, other, directions) for one, other in pairwise(known)):
        raise _damaged(mapping, "the ranges that are not copied overlap")
    return ranges


def _rests(session: SqlSession, mapping: TableMapping, uncopied: Sequence[KeyRange]) -> list[Rest]:
    return [
        Rest(lower=one.lower, upper=one.upper, keep_up_to=last_copied_key(session, mapping, one))
        for one in uncopied
    ]


def _bound(mapping: TableMapping, literals: tuple[str, ...]) -> KeyBound | None:
    if not literals:
        return None
    try:
        return bound_from_literals(mapping.key_columns, literals)
    except ValueError as error:
        raise _damaged(mapping, str(error)) from error


def _damaged(mapping: TableMapping, why: str) -> Refusal:
    return Refusal(
        f"the checkpoint of {mapping.source.full_name} is damaged: {why}",
        hint="drop what is left with spirit-py cleanup, then start the migration again",
        error_code=ErrorCode.CHECKPOINT_UNREADABLE,
    )
