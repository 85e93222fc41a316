"""Counts, bytes, durations and fractions as people read them (pure)."""

from __future__ import annotations


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
    """Render a duration as ``3d04h``, ``1h02m``, ``3m04s`` or ``5.6s``, never below zero."""
    if value is None:
        return "?"
    value = max(0.0, value)
    if value < 60:
        return f"{value:.1f}s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02d}h"
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s"


def human_percent(value: float | None) -> str:
    """Render a fraction as a percentage."""
    return "?" if value is None else f"{100 * value:.1f}%"
