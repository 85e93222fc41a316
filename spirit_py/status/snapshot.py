"""A snapshot of a migration's state, and totals that never fall; None if unknown (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spirit_py.progress import MigrationProgress, counter, figure, figures_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spirit_py.phases import Phase
    from spirit_py.progress import Figure

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
    """A snapshot of a batch, with the tables under way and the counts of all."""

    described: str
    elapsed: float
    tables: tuple[MigrationStatus, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


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
