"""Every metric: its name, its kind, and where its value is in a snapshot (pure).

Names follow Prometheus' conventions: the program's name first, base units (seconds, bytes) last,
and ``_total`` behind counters. A value that is not known is left out, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.status.snapshot import MigrationStatus
    from spirit_py.status.totals import RunTotals

Kind = Literal["gauge", "counter", "info"]
PREFIX: Final = "spirit_py_"


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """A metric.

    Attributes:
        name: as it is read, with prefix and suffix.
        labels: beside ``table``, which all have but those of the process.
        of_process: there is one of it, whatever tables there are.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    of_process: bool = False


@dataclass(frozen=True, kw_only=True)
class FigureSpec(MetricSpec):
    """A metric with one value for each table, which a snapshot has."""

    value: Callable[[MigrationStatus], float | None]


def _gauge(name: str, text: str, value: Callable[[MigrationStatus], float | None]) -> FigureSpec:
    return FigureSpec(name=PREFIX + name, kind="gauge", help=text, value=value)


def _counter(name: str, text: str, value: Callable[[MigrationStatus], float | None]) -> FigureSpec:
    return FigureSpec(name=f"{PREFIX}{name}_total", kind="counter", help=text, value=value)


def _total(value: Callable[[RunTotals], float | None]) -> Callable[[MigrationStatus], float | None]:
    """Return what looks a value up in the totals of a snapshot, where it has any."""
    return lambda seen: None if seen.totals is None else value(seen.totals)


BUILD: Final = MetricSpec(
    name=PREFIX + "build_info", kind="info", help="The program's version.", labels=("version",),
    of_process=True,
)  # fmt: skip
STARTED: Final = MetricSpec(
    name=PREFIX + "start_timestamp_seconds", kind="gauge", of_process=True,
    help="When the process began to work, Unix time.",
)  # fmt: skip
PHASE: Final = MetricSpec(
    name=PREFIX + "phase", kind="gauge", labels=("phase",),
    help="1 for the phase in which the migration is, 0 for the others on its way.",
)  # fmt: skip
WAITING: Final = MetricSpec(
    name=PREFIX + "waiting", kind="gauge",
    help="1 while the work waits for something, which the log and ctl status name.",
)  # fmt: skip
PROGRESSED: Final = MetricSpec(
    name=PREFIX + "last_progress_timestamp_seconds", kind="gauge",
    help="When rows, changes or the phase last moved on, Unix time.",
)  # fmt: skip
THROTTLED: Final = MetricSpec(
    name=PREFIX + "throttled_seconds_total", kind="counter", labels=("reason",),
    help="Seconds for which work has waited, by what it waited for.",
)  # fmt: skip
CUTOVER_TRIES: Final = MetricSpec(
    name=PREFIX + "cutover_tries_total", kind="counter",
    help="Tries of the swap that have ended, the one that swapped included.",
)  # fmt: skip
LOCK_HELD: Final = MetricSpec(
    name=PREFIX + "lock_held_seconds", kind="gauge",
    help="For how long the swap held its lock; absent before the swap.",
)  # fmt: skip
OUTCOME: Final = MetricSpec(
    name=PREFIX + "outcome", kind="gauge", labels=("outcome",),
    help="1 once the table's run has ended, by how: done, rehearsed, failed, refused, unknown,"
    " interrupted, reverse replication lost; of checksum also equal, repaired, different.",
)  # fmt: skip
RUN_OUTCOME: Final = MetricSpec(
    name=PREFIX + "run_outcome", kind="gauge", labels=("outcome",), of_process=True,
    help="The same of the whole command, also where it was refused before a table was known.",
)  # fmt: skip
ENDED: Final = MetricSpec(
    name=PREFIX + "end_timestamp_seconds", kind="gauge",
    help="When it ended, Unix time; absent before.",
)  # fmt: skip
BATCH_TABLES: Final = MetricSpec(
    name=PREFIX + "batch_tables", kind="gauge", labels=("state",), of_process=True,
    help="Tables of a batch: done, running, failed, or left to do.",
)  # fmt: skip

FIGURES: Final[tuple[FigureSpec, ...]] = (
    _gauge("elapsed_seconds", "Seconds since the run began.", lambda s: s.elapsed),
    _gauge("phase_elapsed_seconds", "Seconds since the phase began.", lambda s: s.phase_elapsed),
    _gauge("table_rows", "Rows of the source table, as the server estimates.",
           lambda s: s.rows_total),
    _gauge("progress_ratio", "Part of the phase's own work that is done, 0 to 1.",
           lambda s: s.fraction),
    _gauge("rows_per_second", "Rows that are copied or compared each second.", lambda s: s.rate),
    _gauge("bytes_per_second", "The same in bytes of the table.", lambda s: s.byte_rate),
    _gauge("eta_seconds", "Seconds until the phase's own work ends and the changes that wait are"
           " applied.", lambda s: s.eta),
    _gauge("run_eta_seconds", "About so many seconds until the swap, a deferred swap, or the end of"
           " a rehearsal, if nobody else is waited for.", lambda s: s.run_eta),
    _counter("copied_rows", "Rows that this process has copied.",
             _total(lambda t: t.rows_copied)),
    _gauge("earlier_copied_rows", "Rows that earlier runs of the migration had copied.",
           _total(lambda t: t.rows_copied_before)),
    _counter("copied_chunks", "Chunks that this process has copied.", _total(lambda t: t.chunks)),
    _counter("replaced_chunks", "Chunks that were begun again after a fault that passes.",
             _total(lambda t: t.chunks_replaced)),
    _gauge("chunk_seconds", "Seconds of a chunk, 90th percentile of the last ones.",
           lambda s: s.chunk_seconds),
    _gauge("chunk_rows", "Rows at which the next chunk aims.", lambda s: s.chunk_rows),
    _gauge("tasks", "Tasks that may work at a time now.", lambda s: s.tasks),
    _gauge("tasks_limit", "Tasks that may work at a time at most.", lambda s: s.tasks_most),
    _gauge("feed_lag_seconds", "Seconds between a change on the server and its receipt.",
           lambda s: s.feed_lag),
    _gauge("binlog_left_seconds", "For how long the server keeps the place of the binlog at which a"
           " stopped run would carry on; absent where it keeps it for ever.",
           lambda s: s.binlog_left),
    _gauge("binlog_unread_bytes", "Bytes of the binlog after what was read last.",
           lambda s: s.binlog_unread),
    _gauge("checkpoint_age_seconds", "Seconds since the last checkpoint.",
           lambda s: s.checkpoint_age),
    _counter("received_changes", "Changes of rows that the feed has received.",
             lambda s: s.received),
    _counter("applied_changes", "Changes that are applied to the new table.", lambda s: s.applied),
    _counter("deduplicated_changes", "Changes that a later one of the same row made needless.",
             lambda s: s.deduplicated),
    _counter("dropped_changes", "Changes of rows that the copy had still to read.",
             lambda s: s.dropped),
    _gauge("pending_changes", "Changes received and not yet applied.", lambda s: s.pending),
    _gauge("buffered_bytes", "Memory of the changes that are not yet applied.",
           lambda s: s.buffered_bytes),
    _counter("feed_received_bytes", "Bytes of the binlog that the feed has received.",
             _total(lambda t: t.feed_bytes)),
    _counter("feed_backpressure_seconds", "Seconds for which the reader waited because the buffers"
             " of changes were full.", _total(lambda t: t.backpressure_seconds)),
    _counter("feed_reconnects", "Times that the feed had to connect again.",
             _total(lambda t: t.feed_reconnects)),
    _counter("checksum_passes", "Comparisons of a whole table that have ended.",
             _total(lambda t: t.checksum_passes)),
    _counter("differences", "Rows in which the tables differed.", _total(lambda t: t.differences)),
    _counter("repaired_chunks", "Chunks with a difference that was repaired.",
             _total(lambda t: t.chunks_repaired)),
)  # fmt: skip

METRICS: Final[tuple[MetricSpec, ...]] = (
    BUILD, STARTED, PHASE, WAITING, PROGRESSED, *FIGURES, THROTTLED, CUTOVER_TRIES, LOCK_HELD,
    OUTCOME, ENDED, RUN_OUTCOME, BATCH_TABLES,
)  # fmt: skip
"""All of them, in the order in which they are exposed."""
