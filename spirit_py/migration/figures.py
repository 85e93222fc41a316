"""The owner of a run's state, and what the parts of a migration have counted."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from spirit_py.migration.state import State, apply
from spirit_py.phases import PhaseLog
from spirit_py.progress import FeedStatistics, RunTotals
from spirit_py.units import human_bytes, human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spirit_py.checksum.checker import Checker
    from spirit_py.contracts import ChangeSource, Clock
    from spirit_py.copier.copier import Copier
    from spirit_py.estimates import TableShares
    from spirit_py.events.event import Event
    from spirit_py.migration.facts import Fact
    from spirit_py.status.report import MigrationReport
    from spirit_py.table.names import Name
    from spirit_py.table.schema import TableSchema
    from spirit_py.throttle.throttles import Throttles

_SHOWN_DIFFERENCES = 10
TABLE_LOCK: Final = "table lock"
"""What work has waited for while others held up a lock, beside the names of the throttlers."""


class WithShares(Protocol):
    """A table that is copied; see :class:`spirit_py.migration.copied_pair.CopiedPair`."""

    @property
    def source_name(self) -> Name:
        """Schema and name of the source."""

    def shares(self) -> TableShares:
        """Return the work that is left after the copy."""


class Figures:
    """Holds the parts that have figures, from when they exist."""

    def __init__(self, journal: Journal, *, paused: Callable[[], bool] = lambda: False) -> None:
        self.journal = journal
        self.paused = paused
        #: The change feeds by their servers, what holds the copy back, and the copied tables.
        self.feeds: dict[str, ChangeSource] = {}
        self.throttles: Throttles | None = None
        self.pairs: Sequence[WithShares] = ()
        #: Each table that was copied or compared, in this order; a comparison may be repeated.
        self.copiers: list[tuple[TableSchema, Copier]] = []
        self.checkers: list[tuple[TableSchema, Checker]] = []
        #: The table that is archived: rows written, of about how many, and what is done then.
        self.archived: tuple[TableSchema, int, int | None, str] | None = None

    @property
    def state(self) -> State:
        """The state of the run."""
        return self.journal.state

    @property
    def shares(self) -> Mapping[Name, TableShares]:
        """The work on each table that comes after its copy, by the time of that."""
        return {pair.source_name: pair.shares() for pair in self.pairs}

    def following(self, source: ChangeSource, server: str) -> None:
        """Note the change feed of a server, given by its address."""
        self.feeds[server] = source

    def received(self) -> FeedStatistics | None:
        """Return what all change feeds have received so far; None before there is one."""
        feeds = tuple(self.feeds.values())
        return FeedStatistics.together([one.statistics() for one in feeds]) if feeds else None

    def sparing(self, throttles: Throttles) -> None:
        """Note what holds the copy back."""
        self.throttles = throttles

    def archiving(self, table: TableSchema, rows: int, total: int | None, doing: str) -> None:
        """Note how many of a table's rows are written to an archive, or what follows that."""
        self.archived = (table, rows, total, doing)

    def migrating(self, pairs: Sequence[WithShares]) -> None:
        """Note the tables that are copied."""
        self.pairs = pairs

    def copying(self, copier: Copier, table: TableSchema) -> None:
        """Note that a table is being copied."""
        self.copiers.append((table, copier))

    def in_flight(self) -> bool:
        """Return whether chunks, or counts, of the last copy or comparison run. No I/O."""
        copies = [copier.statistics().in_flight for _, copier in self.copiers[-1:]]
        return any(copies + [checker.progress.outstanding for _, checker in self.checkers[-1:]])

    def checking(self, checker: Checker, table: TableSchema) -> None:
        """Note that a table is being compared, perhaps once more."""
        self.checkers.append((table, checker))

    @property
    def differences_under_way(self) -> int:
        """Differences that the last comparison has found so far."""
        if not self.checkers:
            return 0
        checker = self.checkers[-1][1]
        return max(checker.progress.differences, checker.result.differences)

    def counted(self) -> dict[str, Any]:
        """Return what the parts have counted, by the names of the report. No I/O."""
        copied = [copier.statistics() for _, copier in self.copiers]
        before = list(self.state.copied_before.values())
        counted: dict[str, Any] = {
            "rows_copied": sum(one.rows for one in copied) + sum(rows for rows, _ in before),
            "rows_copied_by_spark": sum(one.spark_rows for one in copied),
            "rows_left_out": sum(one.left_out for one in copied),
            "chunks": sum(one.chunks for one in copied) + sum(chunks for _, chunks in before),
        }
        if waited := self.waited():
            counted["throttled_seconds"] = {name: round(one, 1) for name, one in waited.items()}
        if self.throttles is not None and (shares := self.throttles.shares()) is not None:
            least, median = (round(one, 2) for one in shares)
            counted |= {"least_tasks": least, "median_tasks": median}
        if (seen := self.received()) is not None:
            counted |= {
                "changes_received": seen.received,
                "changes_applied": seen.applied,
                "changes_deduplicated": seen.deduplicated,
                "changes_dropped_above_high_watermark": seen.dropped_above_high_watermark,
                "peak_buffered_bytes": seen.peak_buffered_bytes,
                "backpressure_seconds": round(seen.backpressure_seconds, 3),
                "feed_reconnects": seen.reconnects,
            }
        if self.checkers:
            counted |= self._of_checksum()
        return counted

    def waited(self) -> dict[str, float]:
        """Return for how many seconds work has waited, by what held it back. No I/O."""
        waited = {} if self.throttles is None else self.throttles.seconds()
        held_up = self.state.held_up_seconds
        return waited | ({TABLE_LOCK: held_up} if held_up else {})

    def held_back_by(self) -> str:
        """Return what holds work back now; empty where nothing does. No I/O."""
        throttled = "" if self.throttles is None else self.throttles.waiting_for()[0]
        return "; ".join(filter(None, (throttled, self.state.held_up)))

    def _of_checksum(self) -> dict[str, Any]:
        """Add up the comparisons; the rows are those of each table's last one."""
        results = [checker.result for _, checker in self.checkers]
        last = {
            (table.schema, table.name, checker.what.target): checker.result
            for table, checker in self.checkers
        }
        examples = [str(one) for result in results for one in result.examples]
        return {
            "checksum_passes": sum(result.passes for result in results),
            "checksum_rows": sum(result.rows for result in last.values()),
            "checksum_lock_held_ms": round(max(result.lock_held_ms for result in results), 3),
            "differences_found": sum(result.differences for result in results),
            "chunks_repaired": sum(result.repaired_chunks for result in results),
            "difference_examples": examples[:_SHOWN_DIFFERENCES],
        }


def totals_of(figures: Figures) -> RunTotals:
    """Return the totals; what a part that is not there yet would count is not known. No I/O."""
    report, seen = figures.state.report, figures.received()
    counted: dict[str, Any] = {"tables": tuple(report.tables), "throttled": figures.waited()}
    copied = [copier.statistics() for _, copier in figures.copiers]
    before = list(figures.state.copied_before.values())
    if copied or before:
        rows = sum(one.rows for one in copied) + sum(rows for rows, _ in before)
        counted["rows_copied"] = max(0, rows - report.rows_copied_before)
        counted["rows_copied_before"] = report.rows_copied_before
        counted["chunks"] = sum(one.chunks for one in copied)
        counted["chunks_replaced"] = sum(one.replaced_chunks for one in copied)
    if seen is not None:
        counted["backpressure_seconds"] = seen.backpressure_seconds
        counted["feed_reconnects"] = seen.reconnects
        counted["feed_bytes"] = seen.received_bytes
    results = [checker.result for _, checker in figures.checkers]
    if results:
        counted["checksum_passes"] = sum(one.passes for one in results)
        counted["differences"] = sum(one.differences for one in results)
        counted["chunks_repaired"] = sum(one.repaired_chunks for one in results)
    return RunTotals(**counted)


def feed_figures(seen: FeedStatistics) -> dict[str, Any]:
    """Return the figures of a change feed, by the names of a snapshot."""
    reach = seen.retention if seen.retention is not None and not seen.retention.gone else None
    return {
        "pending": seen.pending,
        "received": seen.received,
        "applied": seen.applied,
        "deduplicated": seen.deduplicated,
        "dropped": seen.dropped_above_high_watermark,
        "buffered_bytes": seen.buffered_bytes,
        "feed_lag": seen.lag_seconds,
        "apply_sessions": seen.apply_sessions,
        "deduplicated_part": seen.deduplicated / seen.received if seen.received else None,
        "parked": seen.parked,
        "binlog_unread": reach.unread_bytes if reach is not None else None,
        "binlog_older": reach.older_bytes if reach is not None else None,
        "note": backpressure_note(seen) if seen.backpressure else "",
    }


def backpressure_note(seen: FeedStatistics) -> str:
    """Return the message that the reader waits, and for how long the binlog is kept (R19)."""
    text = "the reader waits: the buffers of changes are full"
    reach = seen.retention
    if reach is None:
        return text
    if reach.gone:
        return f"{text}; the server has purged the binlog file that it reads"
    unread = f"{human_bytes(reach.unread_bytes)} of binlog unread"
    if reach.left is None:
        return f"{text}; {unread}"
    return f"{text}; {unread}, which the server keeps for {human_seconds(reach.left)} more"


class Journal:
    """Holds the state, and replaces it after each thing that happened. Thread-safe."""

    def __init__(
        self, report: MigrationReport, *, clock: Clock = time.monotonic, **first: Any
    ) -> None:
        self.clock = clock
        self._changing = threading.Lock()
        began = clock()
        #: What is so now.
        self.state = State(report=report, began=began, phases=PhaseLog(entered_at=began), **first)

    def note(self, happened: Event | Fact) -> None:
        """Take something in; IllegalTransition as of :func:`spirit_py.migration.state.apply`."""
        with self._changing:
            self.state = apply(self.state, happened, self.clock())
