"""What a run has done since it began: counts that only grow, for its records (pure)."""

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
        chunks: committed, of all runs.
        chunks_replaced: chunks that were begun again after a fault that passes.
        throttled: seconds for which work has waited, by what it waited for.
    """

    tables: tuple[str, ...] = ()
    rows_copied: int | None = None
    rows_copied_before: int | None = None
    chunks: int | None = None
    chunks_replaced: int | None = None
    throttled: Mapping[str, float] = field(default_factory=dict)
    backpressure_seconds: float | None = None
    feed_reconnects: int | None = None
    feed_bytes: int | None = None
    checksum_passes: int | None = None
    differences: int | None = None
    chunks_repaired: int | None = None
