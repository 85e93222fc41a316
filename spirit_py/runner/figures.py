"""Gathers the parts' figures: into snapshots while it runs, into the report at the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from spirit_py.phases import Phase, PhaseLog
from spirit_py.status.snapshot import MigrationStatus, human_bytes, human_seconds

if TYPE_CHECKING:
    from spirit_py.checksum.checker import Checker
    from spirit_py.checksum.result import ChecksumResult
    from spirit_py.contracts import ChangeSource, Clock, FeedStatistics
    from spirit_py.copier.copier import Copier
    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.status.report import MigrationReport

_SHOWN_DIFFERENCES = 10


class Figures:
    """Holds the parts that have figures, as they come to life.

    Attributes:
        report: filled by :meth:`complete` and by whoever knows a figure first.
        waiting_for: what the current phase waits for, in words.
        rows_total: the server's estimate of the source's rows.
    """

    def __init__(self, report: MigrationReport, *, clock: Clock = time.monotonic) -> None:
        self.report = report
        self.waiting_for = ""
        self.rows_total: int | None = None
        self.source: ChangeSource | None = None
        self.copier: Copier | None = None
        self.checker: Checker | None = None
        self._clock = clock
        self._began = clock()
        self._phases = PhaseLog(entered_at=self._began)

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self._phases.current

    def enter(self, phase: Phase) -> None:
        """Go to the next phase."""
        self._phases.enter(phase, self._clock())
        self.waiting_for = ""

    def snapshot(self) -> MigrationStatus:
        """Take a snapshot of all parts. No I/O."""
        now = self._clock()
        shown: dict[str, Any] = {
            "table": f"{self.report.schema}.{self.report.table}",
            "phase": self.phase,
            "elapsed": now - self._began,
            "phase_elapsed": now - self._phases.entered_at,
            "waiting_for": self.waiting_for,
            "rows_total": self.rows_total,
        }
        return MigrationStatus(**{**shown, **self._feed(), **self._work(now)})

    def _feed(self) -> dict[str, Any]:
        """Give the change feed's part of a snapshot."""
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
            "note": _parked_note(seen) if seen.parked else "",
        }

    def _work(self, now: float) -> dict[str, Any]:
        """Give the part of a snapshot that the current phase's own work fills."""
        if self.phase is Phase.COPY and self.copier is not None:
            copied = self.copier.statistics()
            rate = copied.rows_per_second
            remaining = None if self.rows_total is None else max(0, self.rows_total - copied.rows)
            return {
                "rows": copied.rows,
                "fraction": copied.fraction,
                "rate": rate,
                "eta": remaining / rate if rate and remaining is not None else None,
                "chunk_rows": copied.chunk_rows,
                "chunk_seconds": copied.chunk_seconds_p90,
                "waiting_for": copied.throttled or self.waiting_for,
            }
        if self.phase is Phase.CHECKSUM and self.checker is not None:
            compared = self.checker.progress
            spent = now - self._phases.entered_at
            rate = compared.rows / spent if spent > 0 else None
            done = compared.fraction
            eta = spent * (1 - done) / done if compared.passes == 1 and done > 0 else None
            return {
                "rows": compared.rows,
                "fraction": done,
                "rate": rate,
                "eta": eta,
                "note": f"pass {compared.passes}, {compared.differences} differences",
                "waiting_for": compared.waiting_for or self.waiting_for,
            }
        return {}

    def complete(self) -> None:
        """Fill the report from the parts as they are now."""
        report, now = self.report, self._clock()
        report.phases = {name: round(spent, 3) for name, spent in self._phases.seconds(now).items()}
        report.seconds = round(now - self._began, 3)
        if self.copier is not None:
            copied = self.copier.statistics()
            report.rows_copied, report.chunks = copied.rows, copied.chunks
        if self.source is not None:
            self._complete_feed(self.source)
        if self.checker is not None:
            self._complete_checksum(self.checker.result)

    def _complete_feed(self, source: ChangeSource) -> None:
        seen = source.statistics()
        report = self.report
        report.changes_received = seen.received
        report.changes_applied = seen.applied
        report.changes_deduplicated = seen.deduplicated
        report.changes_dropped_above_high_watermark = seen.dropped_above_high_watermark
        report.peak_buffered_bytes = seen.peak_buffered_bytes
        report.parked_seconds = round(seen.parked_seconds, 3)
        report.feed_reconnects = seen.reconnects

    def _complete_checksum(self, result: ChecksumResult) -> None:
        report = self.report
        report.checksum_passes, report.checksum_rows = result.passes, result.rows
        report.checksum_lock_held_ms = round(result.lock_held_ms, 3)
        report.differences_found = result.differences
        report.chunks_repaired = result.repaired_chunks
        report.difference_examples = [str(one) for one in result.examples[:_SHOWN_DIFFERENCES]]

    def note_cutover(self, result: CutoverResult) -> None:
        """Keep what the swap took."""
        report = self.report
        report.cutover_attempts = result.attempts
        report.lock_wait_ms = round(result.lock_wait_ms, 3)
        report.lock_held_ms = round(result.lock_held_ms, 3)
        report.cutover_steps_ms = {name: round(ms, 3) for name, ms in result.steps_ms.items()}
        report.sessions_killed = list(result.killed)
        report.final_position = result.position


def _parked_note(seen: FeedStatistics) -> str:
    """Say that the reader waits, and how long it may (R19)."""
    text = "the reader is parked on its memory limit"
    reach = seen.retention
    if reach is None:
        return text
    if reach.gone:
        return f"{text}; the server has purged the binlog file that it reads"
    unread = f"{human_bytes(reach.unread_bytes)} of binlog unread"
    if reach.left is None:
        return f"{text}; {unread}, which the server keeps"
    return f"{text}; {unread}, which the server keeps for {human_seconds(reach.left)} more"
