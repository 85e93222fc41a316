"""A snapshot of a migration's state, for the operator.

What is not known is None and is shown as unknown, never as zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spirit_py.phases import Phase


@dataclass(frozen=True, kw_only=True)
class MigrationStatus:
    """A snapshot. Times in seconds, sizes in bytes.

    Attributes:
        fraction: progress of the phase's own work, 0.0 to 1.0.
        rate: rows a second, copied or compared.
        eta: seconds until the phase's own work ends.
        pending: changes received and not yet applied.
        feed_lag: seconds between a change on the server and its receipt.
        waiting_for: what the migration waits for, for display; empty when it does not wait.
        pace: how much the work takes of a server that others use; empty where nothing is spared.
        path: the phases that this run goes through; empty for those of a migration.
    """

    table: str
    phase: Phase
    elapsed: float
    phase_elapsed: float
    rows: int | None = None
    rows_total: int | None = None
    fraction: float | None = None
    rate: float | None = None
    eta: float | None = None
    chunk_rows: int | None = None
    chunk_seconds: float | None = None
    pending: int | None = None
    received: int | None = None
    applied: int | None = None
    deduplicated: int | None = None
    dropped: int | None = None
    buffered_bytes: int | None = None
    feed_lag: float | None = None
    waiting_for: str = ""
    pace: str = ""
    note: str = ""
    path: tuple[Phase, ...] = ()
