"""How far a migration has come: figures (None if unknown), and totals that never fall (pure)."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, Final, Literal

from spirit_py.classes import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spirit_py.phases import Phase

Kind = Literal["gauge", "counter"]
Joined = Literal["sum", "most", "only"]

_FIGURE: Final = "figure"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What is known of a figure beside its value.

    Attributes:
        metric: its name for Prometheus, without prefix and without ``_total``.
        curve: its name in the history of a run.
        joined: how those of several tables make one; ``only`` where they make none.
        row: of the display and the log; empty where other code words it.
        said: a template of fields; where one of them is not known, ``unknown``.
        late: a value beyond this is worth a colour.
    """

    help: str
    metric: str = ""
    kind: Kind = "gauge"
    curve: str = ""
    joined: Joined = "sum"
    row: str = ""
    said: str = ""
    unknown: str = ""
    late: float = math.inf


def figure(help_: str = "", metric: str = "", *, default: Any = None, **more: Any) -> Any:
    """Declare a figure; as of :class:`Figure`. One that is not known is None."""
    return field(default=default, metadata={_FIGURE: Figure(help=help_, metric=metric, **more)})


def counter(help_: str, metric: str, **more: Any) -> Any:
    """Declare a figure that only grows."""
    return figure(help_, metric, kind="counter", **more)


def figures_of(cls: type) -> Iterator[tuple[str, Figure]]:
    """Yield the figures that a class declares, with the names of their fields."""
    for one in fields(cls):
        if declared := one.metadata.get(_FIGURE):
            yield one.name, declared


@dataclass(frozen=True, kw_only=True)
class MigrationProgress:
    """The figures of now; what is not known is None. Times in seconds, sizes in bytes.

    ``docs/display.md`` says how each is measured. Rates are changes a second; ``rows`` are of all
    tables, committed work only; ``run_eta_parts`` have the current phase first;
    ``deduplicated_part`` is the part of received changes that later ones replaced; ``parked`` says
    why no change is applied now; ``binlog_older`` are bytes before the place of a resume.
    """

    table: str
    elapsed: float = figure("Seconds since the run began.", "elapsed_seconds", default=MISSING)
    phase_elapsed: float = figure(
        "Seconds since the phase began.", "phase_elapsed_seconds", default=MISSING
    )
    rows: int | None = None
    rows_total: int | None = figure(
        "Rows of the source table, as the server estimates.", "table_rows"
    )
    fraction: float | None = figure(
        "Part of the phase's own work that is done, 0 to 1.", "progress_ratio",
        curve="fraction", joined="only",
    )  # fmt: skip
    rate: float | None = figure(
        "Rows that are copied or compared each second.", "rows_per_second", curve="rate"
    )
    byte_rate: float | None = figure(
        "The same in bytes of the table.", "bytes_per_second", curve="bytes"
    )
    eta: float | None = figure(
        "Seconds until the phase's own work ends and the changes that wait are applied.",
        "eta_seconds",
    )
    run_eta: float | None = figure(
        "Estimated seconds until the swap, a deferred swap, or the end of a"
        " rehearsal, without waits for others.",
        "run_eta_seconds",
    )
    run_eta_until: str = ""
    run_eta_parts: dict[str, float | None] = field(default_factory=dict)
    chunk_rows: int | None = figure("Target rows of the next chunk.", "chunk_rows")
    chunk_seconds: float | None = figure(
        "Seconds of a chunk, 90th percentile of the last ones.", "chunk_seconds",
        curve="chunk", joined="most",
    )  # fmt: skip
    tasks: int | None = figure("Tasks that may work at the same time now.", "tasks", curve="tasks")
    tasks_most: int | None = figure("Tasks that may work at the same time at most.", "tasks_limit")
    throttled: str = ""
    pace: str = ""
    pending: int | None = figure(
        "Changes received and not yet applied.", "pending_changes", curve="pending"
    )
    buffered_bytes: int | None = figure(
        "Memory of the changes that are not yet applied.", "buffered_bytes", curve="buffered"
    )
    feed_lag: float | None = figure(
        "Seconds between a change on the server and its receipt, by the clocks of both machines.",
        "feed_lag_seconds",
        curve="lag", joined="most",
        row="changes", said="{feed_lag:duration} behind", unknown="lag unknown", late=10.0,
    )  # fmt: skip
    apply_sessions: int | None = figure(
        "Sessions that may apply changes at the same time now.", "apply_sessions",
        curve="apply_sessions",
    )  # fmt: skip
    received_rate: float | None = figure(
        row="changes", said="{received_rate:count}/s in, {applied_rate:count}/s applied"
    )
    applied_rate: float | None = None
    deduplicated_part: float | None = figure(
        row="changes", said="{deduplicated_part:percent} deduplicated"
    )
    parked: str = ""
    binlog_left: float | None = figure(
        "Seconds until the server may purge the binlog from which a stopped run"
        " would resume; absent where it never does.",
        "binlog_left_seconds",
    )
    binlog_unread: int | None = figure(
        "Bytes of the binlog after what was read last.", "binlog_unread_bytes"
    )
    binlog_older: int | None = None
    checkpoint_age: float | None = figure(
        "Seconds since the last checkpoint.", "checkpoint_age_seconds",
        row="checkpoint", said="{checkpoint_age:duration} ago",
    )  # fmt: skip
    waiting_for: str = ""
    waited: float | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How far a source's history reaches from the place that is read (R19).

    ``kept`` and ``age`` are in seconds, ``kept`` None for ever; ``unread_bytes`` and
    ``older_bytes`` are those after and before that place; ``gone``: it is no longer in the history.
    """

    kept: float | None
    age: float
    unread_bytes: int = 0
    older_bytes: int = 0
    gone: bool = False

    @property
    def left(self) -> float | None:
        """Seconds until the source may drop the place; None for never."""
        return None if self.kept is None else max(0.0, self.kept - self.age)

    def urgency(self) -> tuple[bool, float]:
        """Return a key by which the source that is lost, or lost first, comes first."""
        return not self.gone, math.inf if self.left is None else self.left


@dataclass(frozen=True, kw_only=True)
class FeedStatistics:
    """Counters of a change source since its start. Bytes and counts; seconds for times.

    ``received_bytes`` include ``skipped_bytes`` of other tables, and these ``own_bytes``, rows of
    the new tables written by us. So many ``apply_sessions`` may work now. ``parked`` says why no
    change is applied now, ``trouble`` why the source is not connected. ``behind_seconds``: by how
    much the place to resume from is older than the one that is read.
    """

    received: int = 0
    applied: int = 0
    deduplicated: int = 0
    dropped_above_high_watermark: int = 0
    pending: int = 0
    buffered_bytes: int = 0
    peak_buffered_bytes: int = 0
    backpressure_seconds: float = 0.0
    backpressure: bool = False
    parked: str = ""
    trouble: str = ""
    retention: Retention | None = None
    reconnects: int = 0
    received_bytes: int = 0
    skipped_bytes: int = 0
    own_bytes: int = 0
    apply_sessions: int = 0
    lag_seconds: float | None = None
    read_position: str = ""
    behind_seconds: float | None = None

    @classmethod
    def together(cls, each: Sequence[FeedStatistics]) -> FeedStatistics:
        """Return those of several sources: counts are added, of the rest the worst one counts."""
        if len(each) == 1:
            return each[0]
        counts = {
            one.name: sum(getattr(seen, one.name) for seen in each)
            for one in fields(cls)
            if one.type in {"int", "float"}
        }
        reach = [seen.retention for seen in each if seen.retention is not None]
        lags = [seen.lag_seconds for seen in each if seen.lag_seconds is not None]
        return cls(
            **counts,
            backpressure=any(seen.backpressure for seen in each),
            parked="; ".join(dict.fromkeys(seen.parked for seen in each if seen.parked)),
            trouble="; ".join(dict.fromkeys(seen.trouble for seen in each if seen.trouble)),
            retention=min(reach, key=Retention.urgency, default=None),
            lag_seconds=max(lags, default=None),
            read_position=", ".join(seen.read_position for seen in each),
        )


HISTORY_SECONDS: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class RunTotals:
    """Counts of one run that only grow; None if unknown; ``throttled`` are seconds by cause."""

    tables: tuple[str, ...] = ()
    rows_copied: int | None = counter(
        "Rows that this process has copied.", "copied_rows", curve="rows"
    )
    rows_copied_before: int | None = figure(
        "Rows that earlier runs of the migration had copied.", "earlier_copied_rows"
    )
    chunks: int | None = counter(
        "Chunks that this process has copied.", "copied_chunks", curve="chunks"
    )
    chunks_replaced: int | None = counter(
        "Chunks that were repeated after a temporary error.", "replaced_chunks"
    )
    throttled: Mapping[str, float] = field(default_factory=dict)
    backpressure_seconds: float | None = counter(
        "Seconds for which the reader waited because the buffers of changes were full.",
        "feed_backpressure_seconds",
    )
    feed_reconnects: int | None = counter(
        "Times that the feed had to connect again.", "feed_reconnects"
    )
    feed_bytes: int | None = counter(
        "Bytes of the binlog that the feed has received.", "feed_received_bytes", curve="feed"
    )
    checksum_passes: int | None = counter(
        "Comparisons of a whole table that have ended.", "checksum_passes"
    )
    differences: int | None = counter("Rows in which the tables differed.", "differences")
    chunks_repaired: int | None = counter(
        "Chunks with a difference that was repaired.", "repaired_chunks"
    )


@dataclass(frozen=True, kw_only=True)
class MigrationStatus(MigrationProgress):
    """A snapshot of one migration.

    ``passed`` are phases with seconds, ``path`` those of this run (empty for the usual ones),
    ``history`` rows a second, the newest last, ``HISTORY_SECONDS`` apart.
    """

    phase: Phase
    received: int | None = counter(
        "Changes of rows that the feed has received.", "received_changes", curve="received"
    )
    applied: int | None = counter(
        "Changes that are applied to the new table.", "applied_changes", curve="applied"
    )
    deduplicated: int | None = counter(
        "Changes superseded by a later one of the same row.",
        "deduplicated_changes",
        curve="deduplicated",
    )
    dropped: int | None = counter(
        "Changes dropped because the copy had not read their rows yet.", "dropped_changes"
    )
    passed: tuple[tuple[Phase, float], ...] = ()
    path: tuple[Phase, ...] = ()
    to_come: tuple[Phase, ...] = ()
    totals: RunTotals | None = None
    history: tuple[float, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All tables that the run changes; before they are known, the one at work, if any."""
        known = self.totals.tables if self.totals is not None else ()
        return known or tuple(filter(None, (self.table.strip("."),)))

    @property
    def figures(self) -> Iterator[tuple[Figure, float]]:
        """The figures that are known, with those of the totals."""
        for holder in (self, self.totals):
            for name, one in figures_of(type(holder)) if holder is not None else ():
                if (value := getattr(holder, name)) is not None:
                    yield one, float(value)


@dataclass(frozen=True, kw_only=True)
class BatchStatus:
    """A snapshot of a batch, with the tables under way and the counts of all.

    With ``servers`` it is that of a fleet: counts are of servers, and a table's name begins with
    that of its server, and a space.
    """

    described: str
    elapsed: float
    tables: tuple[MigrationStatus, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    servers: bool = False


def under_way(seen: MigrationStatus | BatchStatus) -> tuple[MigrationStatus, ...]:
    """Return the snapshots of the tables that are under way."""
    return seen.tables if isinstance(seen, BatchStatus) else (seen,)


class Growth:
    """Adds up by how much counters grow, by name."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, float]] = {}
        #: The sums so far.
        self.totals: dict[str, float] = {}

    def add(self, owner: str, counters: Mapping[str, float]) -> None:
        """Add what an owner's counters have grown; one that is smaller than before began again."""
        before = self._seen.setdefault(owner, {})
        for name, value in counters.items():
            last = before.get(name, 0.0)
            grown = value - last if value >= last else value
            self.totals[name] = self.totals.get(name, 0.0) + grown
            before[name] = value

    def keep(self, owners: set[str]) -> None:
        """Forget the owners that are not among these; what they have added stays."""
        for gone in self._seen.keys() - owners:
            del self._seen[gone]
