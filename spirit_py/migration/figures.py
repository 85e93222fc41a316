"""Gathers the parts' figures: into snapshots while it runs, into the report at the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from spirit_py.phases import Phase, PhaseLog
from spirit_py.status.snapshot import MigrationStatus
from spirit_py.units import human_bytes, human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.checksum.checker import Checker
    from spirit_py.contracts import ChangeSource, Clock, FeedStatistics
    from spirit_py.copier.copier import Copier
    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.status.report import MigrationReport
    from spirit_py.table.schema import TableSchema
    from spirit_py.throttle.throttles import Throttles

_SHOWN_DIFFERENCES = 10


class Figures:
    """Holds the parts that have figures, from when they exist.

    Attributes:
        report: filled by :meth:`complete`; some figures are entered by other modules before.
        waiting_for: what the current phase waits for, for the display.
        rows_total: the server's estimate of the source's rows.
        phase_entered: called with the phase that ended, the one that begins, and the seconds spent
            in the former.
        built: part of the deferred indexes that is built; None where the server does not show it.
    """

    def __init__(self, report: MigrationReport, *, clock: Clock = time.monotonic) -> None:
        self.report = report
        self.waiting_for = ""
        self.rows_total: int | None = None
        self.built: float | None = None
        self.phase_entered: Callable[[Phase, Phase, float], None] = lambda *_: None
        self.source: ChangeSource | None = None
        self.throttles: Throttles | None = None
        self._copiers: list[tuple[TableSchema, Copier]] = []
        self._checkers: list[tuple[TableSchema, Checker]] = []
        #: When the last clean comparison of each table ended.
        self._clean_at: dict[str, float] = {}
        #: Rows and chunks of tables that earlier runs have copied.
        self._before = (0, 0)
        self._clock = clock
        self._began = clock()
        self._phases = PhaseLog(entered_at=self._began)

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self._phases.current

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return self._clock() - self._began

    def copying(self, copier: Copier, table: TableSchema) -> None:
        """Note that a table is being copied."""
        self._copiers.append((table, copier))

    def copied_before(self, rows: int, chunks: int) -> None:
        """Note a table of which an earlier run has copied everything."""
        self._before = (self._before[0] + rows, self._before[1] + chunks)

    def checking(self, checker: Checker, table: TableSchema) -> None:
        """Note that a table is being compared, perhaps once more."""
        self._checkers.append((table, checker))

    def clean(self, table: TableSchema) -> None:
        """Note that a comparison of a table has ended with a clean pass."""
        self._clean_at[f"{table.schema}.{table.name}"] = self._clock()

    @property
    def differences_under_way(self) -> int:
        """Differences that the last comparison has found so far."""
        if not self._checkers:
            return 0
        checker = self._checkers[-1][1]
        return max(checker.progress.differences, checker.result.differences)

    def enter(self, phase: Phase) -> None:
        """Go to the next phase."""
        now, before = self._clock(), self.phase
        seconds = now - self._phases.entered_at
        self._phases.enter(phase, now)
        self.waiting_for = ""
        self.phase_entered(before, phase, seconds)

    def snapshot(self) -> MigrationStatus:
        """Take a snapshot of all parts. No I/O."""
        now = self._clock()
        shown: dict[str, Any] = {
            "table": f"{self.report.schema}.{self.report.table}",
            "phase": self.phase,
            "elapsed": self.elapsed,
            "phase_elapsed": now - self._phases.entered_at,
            "waiting_for": self.waiting_for,
            "rows_total": self.rows_total,
            "pace": "" if self.throttles is None else self.throttles.described(),
        }
        return MigrationStatus(**{**shown, **self._feed(), **self._work(now)})

    def _feed(self) -> dict[str, Any]:
        """Return the change feed's part of a snapshot."""
        if self.source is None:
            return {}
        seen = self.source.statistics()
        return {
            "pending": seen.pending,
            "received": seen.received,
            "applied": seen.applied,
            "deduplicated": seen.deduplicated,
            "dropped": seen.dropped_above_high_watermark,
            "buffered_bytes": seen.buffered_bytes,
            "feed_lag": seen.lag_seconds,
            "note": _backpressure_note(seen) if seen.backpressure else "",
        }

    def _work(self, now: float) -> dict[str, Any]:
        """Return the fields of a snapshot that depend on the current phase."""
        if self.phase is Phase.COPY and self._copiers:
            return self._copy_shown()
        if self.phase is Phase.INDEX:
            return {"fraction": self.built}
        if self.phase in {Phase.CHECKSUM, Phase.SENTINEL} and self._checkers:
            return self._checksum_shown(now)
        return {}

    def _copy_shown(self) -> dict[str, Any]:
        """Return the progress of the copy of all tables, and the speed of the current one."""
        table = self._copiers[-1][0]
        seen = [one.statistics() for _, one in self._copiers]
        copied, rows = seen[-1], sum(one.rows for one in seen)
        rate, fraction, total = copied.rows_per_second, copied.fraction, self.rows_total
        if len(self.report.tables) > 1 and total:
            before = sum(done.estimated_rows for done, _ in self._copiers[:-1])
            fraction = min(1.0, (before + fraction * table.estimated_rows) / total)
        remaining = None if total is None else max(0, total - rows)
        return {
            "table": f"{table.schema}.{table.name}",
            "rows": rows,
            "fraction": fraction,
            "rate": rate,
            "eta": remaining / rate if rate and remaining is not None else None,
            "chunk_rows": copied.chunk_rows,
            "chunk_seconds": copied.chunk_seconds_p90,
            "waiting_for": copied.throttled or self.waiting_for,
        }

    def _checksum_shown(self, now: float) -> dict[str, Any]:
        """Return the progress of the comparison of the current table."""
        table, checker = self._checkers[-1]
        compared = checker.progress
        if self.phase is Phase.SENTINEL and checker.result.seconds:
            passes = sum(one.result.passes for _, one in self._checkers)
            return {"note": f"{passes} checksum passes, the last one clean"}
        alone = len(self._checkers) == 1
        shown = compared.shown(now - self._phases.entered_at, alone=alone)
        shown["table"] = f"{table.schema}.{table.name}"
        shown["waiting_for"] = compared.waiting_for or self.waiting_for
        return shown

    def complete(self) -> None:
        """Fill the report from the parts as they are now."""
        report, now = self.report, self._clock()
        report.phases = {name: round(spent, 3) for name, spent in self._phases.seconds(now).items()}
        report.seconds = round(self.elapsed, 3)
        copied = [copier.statistics() for _, copier in self._copiers]
        report.rows_copied = sum(one.rows for one in copied) + self._before[0]
        report.rows_copied_by_spark = sum(one.spark_rows for one in copied)
        report.chunks = sum(one.chunks for one in copied) + self._before[1]
        if self.throttles is not None:
            waited = self.throttles.seconds()
            report.throttled_seconds = {name: round(spent, 1) for name, spent in waited.items()}
            if (shares := self.throttles.shares()) is not None:
                report.least_tasks, report.median_tasks = (round(one, 2) for one in shares)
        if self.source is not None:
            self._complete_feed(self.source)
        if self._checkers:
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
        results = [checker.result for _, checker in self._checkers]
        last = {table.name: checker.result for table, checker in self._checkers}
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


def _backpressure_note(seen: FeedStatistics) -> str:
    """Return the message that the reader waits, and for how long the binlog is kept (R19)."""
    text = "the reader waits: the buffers of changes are full"
    reach = seen.retention
    if reach is None:
        return text
    if reach.gone:
        return f"{text}; the server has purged the binlog file that it reads"
    unread = f"{human_bytes(reach.unread_bytes)} of binlog unread"
    if reach.left is None:
        return f"{text}; {unread}, which the server keeps"
    return f"{text}; {unread}, which the server keeps for {human_seconds(reach.left)} more"
