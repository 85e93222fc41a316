"""The dry run: what it measures beside the run, and what it tells in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.rehearsal.rehearsal import Rehearsal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.checksum.result import ChecksumResult
    from spirit_py.migration.copied import CopiedPair
    from spirit_py.migration.run import Run


def begin_rehearsal(run: Run) -> Rehearsal:
    """Make the meter, and let it begin where this is a dry run."""
    rehearsal = Rehearsal(run.config.connection, run.config.replicas, run.stop)
    if run.config.dry_run:
        run.closing("the rehearsal's meter", lambda: _ignore(rehearsal.stop()))
        rehearsal.start()
    return rehearsal


def note_rehearsal(
    run: Run, rehearsal: Rehearsal, works: Sequence[CopiedPair], results: Sequence[ChecksumResult]
) -> None:
    """Put the figures into the report, while the new tables are still there."""
    for work, result in zip(works, results, strict=True):
        rehearsal.note_lock(f"the checksum's snapshot of {work.name}", result.lock_held_ms)
    rehearsal.measure_tables(
        (work.mapping.target.schema, work.mapping.target.name) for work in works
    )
    # Under identifiers of its own the copy is not received, and nobody could count it.
    counted = not run.config.feed.own_writes
    own = works[0].feed.statistics().own_bytes if counted else None
    figures = rehearsal.stop(own_binlog_bytes=own)
    run.report.rehearsal = figures.to_dict()
    run.report.rehearsal_lines = figures.lines()


def _ignore(_figures: object) -> None:
    """Drop what nobody asked for."""
