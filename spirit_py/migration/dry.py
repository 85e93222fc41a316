"""The dry run: its measurements, and their part of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.rehearsal.rehearsal import Rehearsal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.checksum.result import ChecksumResult
    from spirit_py.migration.copied import CopiedPair
    from spirit_py.migration.run import Run


def begin_rehearsal(run: Run) -> Rehearsal:
    """Begin to measure what the migration costs the server."""
    rehearsal = Rehearsal(run.config.connection, run.config.replicas, run.stop)
    run.closing("the rehearsal's meter", rehearsal.stop)
    rehearsal.start()
    return rehearsal


def note_rehearsal(
    run: Run, rehearsal: Rehearsal, pairs: Sequence[CopiedPair], results: Sequence[ChecksumResult]
) -> None:
    """Put the figures into the report, while the new tables are still there."""
    for pair, result in zip(pairs, results, strict=True):
        rehearsal.note_lock(f"the checksum's snapshot of {pair.name}", result.lock_held_ms)
    rehearsal.measure_tables(pair.target_name for pair in pairs)
    # Under identifiers of its own the copy is not received, and so not counted.
    counted = not run.config.feed.own_writes
    own = pairs[0].feed.statistics().own_bytes if counted else None
    figures = rehearsal.stop(own_binlog_bytes=own)
    run.report.rehearsal = figures.to_dict()
    run.report.rehearsal_lines = figures.lines()
