"""The state of a migration at one moment, as an operator asks for it.

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
        waiting_for: what the migration waits for, in words; empty when it waits for nothing.
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
    note: str = ""
    path: tuple[Phase, ...] = ()


def human_count(value: float | None) -> str:
    """Render a count with spaces between thousands; unknown as a question mark."""
    return "?" if value is None else f"{value:,.0f}".replace(",", " ")


def human_bytes(value: float | None) -> str:
    """Render bytes with a binary unit."""
    if value is None:
        return "?"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def human_seconds(value: float | None) -> str:
    """Render a duration as ``1h02m``, ``3m04s`` or ``5.6s``."""
    if value is None:
        return "?"
    if value < 60:
        return f"{value:.1f}s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s"


def human_percent(value: float | None) -> str:
    """Render a fraction as a percentage."""
    return "?" if value is None else f"{100 * value:.1f}%"
