"""What a run has done since it began: counts that only grow, and limits, for its records (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class RunTotals:
    """Counts of one run so far; what is not known is None. Seconds for times.

    Attributes:
        tables: all that the run changes, each with its schema; empty before they are known.
        rows_copied: by this run; those of earlier runs are in ``rows_copied_before``.
        chunks_replaced: chunks that were begun again after a fault that passes.
        throttled: seconds for which work has waited, by what it waited for.
        tasks: that may work now, rests counted; None where nothing is spared.
        most_tasks: that may work at most.
        cutover_tries: those that have begun.
        lock_held: seconds for which the swap held its lock; None before.
    """

    tables: tuple[str, ...] = ()
    rows_copied: int | None = None
    rows_copied_before: int | None = None
    chunks: int | None = None
    chunks_replaced: int | None = None
    throttled: Mapping[str, float] = field(default_factory=dict)
    tasks: float | None = None
    most_tasks: int | None = None
    backpressure_seconds: float | None = None
    feed_reconnects: int | None = None
    feed_bytes: int | None = None
    checksum_passes: int | None = None
    checksum_rows: int | None = None
    differences: int | None = None
    chunks_repaired: int | None = None
    cutover_tries: int | None = None
    lock_held: float | None = None
