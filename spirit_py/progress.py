"""How far a migration has come: figures that the display and ``spirit-py status`` share (pure)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MigrationProgress:
    """The figures of now; what is not known is None. Times in seconds, sizes in bytes.

    Attributes:
        table: the one that is copied or compared now.
        fraction: progress of the phase's own work, 0.0 to 1.0.
        rate: rows a second, copied or compared.
        eta: seconds until the phase's own work ends.
        pending: changes received and not yet applied.
        feed_lag: seconds between a change on the server and its receipt.
        waiting_for: what the migration waits for, for display; empty when it does not wait.
    """

    table: str
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
    buffered_bytes: int | None = None
    feed_lag: float | None = None
    waiting_for: str = ""
    note: str = ""
