"""Gathers the parts' figures: into snapshots while it runs, into the report at the end."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from spirit_py.migration.now import Shown
from spirit_py.migration.waiting import Waiting
from spirit_py.phases import Phase, PhaseLog
from spirit_py.status.totals import RunTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spirit_py.checksum.checker import Checker
    from spirit_py.contracts import ChangeSource, Clock
    from spirit_py.copier.copier import Copier
    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.migration.rest import TableShares
    from spirit_py.mysql.tables.identity import Name
    from spirit_py.status.report import MigrationReport
    from spirit_py.status.snapshot import MigrationStatus
    from spirit_py.table.schema import TableSchema
    from spirit_py.throttle.throttles import Throttles

_SHOWN_DIFFERENCES = 10


class Figures:
    """Holds the parts that have figures, from when they exist.

    Attributes:
        report: filled by :meth:`complete`; some figures are entered by other modules before.
        phase_entered: called with the phase that ended, the one that begins, and the seconds spent
            in the former.
        estimates: the server's estimates of the sources' rows, by schema and name.
        built: part of the indexes of one table that is built; None where the server does not show
            it.
        shares: returns the work on each table that comes after its copy, by the time of that.
        paused: returns whether the operator wants the work to stand still now.
        planned: the phases that the run goes through if it must copy.
        checkpoint_age: returns the seconds since the last checkpoint; None before the first.
        binlog_left: seconds for which the server keeps what a stopped run would read first.
    """

    def __init__(self, report: MigrationReport, *, clock: Clock = time.monotonic) -> None:
        self.report = report
        self.estimates: dict[Name, int] = {}
        self.built: float | None = None
        self.shares: Callable[[], Mapping[Name, TableShares]] = dict
        self.paused: Callable[[], bool] = lambda: False
        self.phase_entered: Callable[[Phase, Phase, float], None] = lambda *_: None
        self.planned: tuple[Phase, ...] = ()
        self.checkpoint_age: Callable[[], float | None] = lambda: None
        self.binlog_left: float | None = None
        self.source: ChangeSource | None = None
        self.throttles: Throttles | None = None
        self.copiers: list[tuple[TableSchema, Copier]] = []
        self.checkers: list[tuple[TableSchema, Checker]] = []
        #: When the last clean comparison of each table ended.
        self._clean_at: dict[str, float] = {}
        #: Rows and chunks of tables that earlier runs have copied as a whole.
        self.copied_before: dict[Name, tuple[int, int]] = {}
        self._clock = clock
        self._began = clock()
        self.phases = PhaseLog(entered_at=self._began)
        self._waiting = Waiting(clock)
        self._shown = Shown(self, clock)

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self.phases.current

    @property
    def waiting_for(self) -> str:
        """What the current phase waits for, for the display."""
        return self._waiting.what

    @waiting_for.setter
    def waiting_for(self, what: str) -> None:
        self._waiting.show(what)

    @property
    def waited(self) -> float | None:
        """Seconds for which it has waited; None where it does not."""
        return self._waiting.seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return self._clock() - self._began

    def copying(self, copier: Copier, table: TableSchema) -> None:
        """Note that a table is being copied."""
        self.copiers.append((table, copier))

    def checking(self, checker: Checker, table: TableSchema) -> None:
        """Note that a table is being compared, perhaps once more."""
        self.checkers.append((table, checker))

    def clean(self, table: TableSchema) -> None:
        """Note that a comparison of a table has ended with a clean pass."""
        self._clean_at[f"{table.schema}.{table.name}"] = self._clock()

    @property
    def differences_under_way(self) -> int:
        """Differences that the last comparison has found so far."""
        if not self.checkers:
            return 0
        checker = self.checkers[-1][1]
        return max(checker.progress.differences, checker.result.differences)

    def enter(self, phase: Phase) -> None:
        """Go to the next phase."""
        now, before = self._clock(), self.phase
        seconds = now - self.phases.entered_at
        self.phases.enter(phase, now)
        self._waiting.end()
        self.built = None
        self.phase_entered(before, phase, seconds)

    def snapshot(self) -> MigrationStatus:
        """Take a snapshot of all parts. No I/O; any thread may ask."""
        return replace(self._shown.snapshot(), totals=totals_of(self))

    def complete(self) -> None:
        """Fill the report from the parts as they are now."""
        report, now = self.report, self._clock()
        report.phases = {name: round(spent, 3) for name, spent in self.phases.seconds(now).items()}
        report.seconds = round(self.elapsed, 3)
        copied = [copier.statistics() for _, copier in self.copiers]
        before = list(self.copied_before.values())
        report.rows_copied = sum(one.rows for one in copied) + sum(rows for rows, _ in before)
        report.rows_copied_by_spark = sum(one.spark_rows for one in copied)
        report.chunks = sum(one.chunks for one in copied) + sum(chunks for _, chunks in before)
        if self.throttles is not None:
            waited = self.throttles.seconds()
            report.throttled_seconds = {name: round(spent, 1) for name, spent in waited.items()}
            if (shares := self.throttles.shares()) is not None:
                report.least_tasks, report.median_tasks = (round(one, 2) for one in shares)
        if self.source is not None:
            self._complete_feed(self.source)
        if self.checkers:
            self._complete_checksum()

    def _complete_feed(self, source: ChangeSource) -> None:
        seen = source.statistics()
        report = self.report
        report.changes_received = seen.received
        report.changes_applied = seen.applied
        report.changes_deduplicated = seen.deduplicated
        report.changes_dropped_above_high_watermark = seen.dropped_above_high_watermark
        report.peak_buffered_bytes = seen.peak_buffered_bytes
        report.backpressure_seconds = round(seen.backpressure_seconds, 3)
        report.feed_reconnects = seen.reconnects

    def _complete_checksum(self) -> None:
        """Add up the comparisons; the rows are those of each table's last one."""
        report = self.report
        results = [checker.result for _, checker in self.checkers]
        last = {table.name: checker.result for table, checker in self.checkers}
        report.checksum_passes = sum(result.passes for result in results)
        report.checksum_rows = sum(result.rows for result in last.values())
        report.checksum_lock_held_ms = round(max(result.lock_held_ms for result in results), 3)
        report.differences_found = sum(result.differences for result in results)
        report.chunks_repaired = sum(result.repaired_chunks for result in results)
        examples = [str(one) for result in results for one in result.examples]
        report.difference_examples = examples[:_SHOWN_DIFFERENCES]

    def note_cutover(self, result: CutoverResult) -> None:
        """Keep the duration and the steps of the swap."""
        report = self.report
        report.cutover_attempts = result.attempts
        report.checksum_age_seconds = round(self._clock() - min(self._clean_at.values()), 3)
        report.lock_wait_ms = round(result.lock_wait_ms, 3)
        report.lock_held_ms = round(result.lock_held_ms, 3)
        report.cutover_steps_ms = {name: round(ms, 3) for name, ms in result.steps_ms.items()}
        report.attached = list(result.attached)
        report.sessions_killed = list(result.killed)
        report.snapshot_guard = result.guard
        report.snapshots_before_swap = list(result.snapshots)
        report.final_position = result.position


class Counted(Protocol):
    """What counts; :class:`spirit_py.migration.figures.Figures` describes it."""

    report: MigrationReport
    source: ChangeSource | None
    throttles: Throttles | None
    copiers: list[tuple[TableSchema, Copier]]
    checkers: list[tuple[TableSchema, Checker]]
    copied_before: dict[tuple[str, str], tuple[int, int]]


def totals_of(figures: Counted) -> RunTotals:
    """Return the totals; what a part that is not there yet would count is not known. No I/O."""
    report, source, throttles = figures.report, figures.source, figures.throttles
    counted: dict[str, Any] = {"tables": tuple(report.tables)}
    copied = [copier.statistics() for _, copier in figures.copiers]
    before = list(figures.copied_before.values())
    if copied or before:
        rows = sum(one.rows for one in copied) + sum(rows for rows, _ in before)
        counted["rows_copied"] = max(0, rows - report.rows_copied_before)
        counted["rows_copied_before"] = report.rows_copied_before
        counted["chunks"] = sum(one.chunks for one in copied)
        counted["chunks_replaced"] = sum(one.replaced_chunks for one in copied)
    if source is not None:
        seen = source.statistics()
        counted["backpressure_seconds"] = seen.backpressure_seconds
        counted["feed_reconnects"] = seen.reconnects
        counted["feed_bytes"] = seen.received_bytes
    results = [checker.result for _, checker in figures.checkers]
    if results:
        counted["checksum_passes"] = sum(one.passes for one in results)
        counted["differences"] = sum(one.differences for one in results)
        counted["chunks_repaired"] = sum(one.repaired_chunks for one in results)
    if throttles is not None:
        counted["throttled"] = throttles.seconds()
    return RunTotals(**counted)
