"""Adds up what the parts of a migration have done so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from spirit_py.status.totals import RunTotals

if TYPE_CHECKING:
    from spirit_py.checksum.checker import Checker
    from spirit_py.contracts import ChangeSource
    from spirit_py.copier.copier import Copier
    from spirit_py.status.report import MigrationReport
    from spirit_py.table.schema import TableSchema
    from spirit_py.throttle.throttles import Throttles


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
