"""Counts, bytes, durations and fractions as people read and write them (pure)."""

from __future__ import annotations

import math
import re
from typing import Final

_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|[smhd]?)\s*")
_LIMIT: Final = re.compile(r"\s*(\w+)\s*=\s*(\d+(?:\.\d+)?)\s*")
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", re.IGNORECASE)
_UNITS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def read_duration(text: str) -> float:
    """Return the seconds of ``90``, ``90s``, ``200ms``, ``30m``, ``2h`` or ``7d``.

    Raises:
        ValueError: it is no duration.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration; write for instance 90s, 200ms, 30m, 2h or 7d.")
    return float(found[1]) * _UNITS[found[2]]


def read_size(text: str) -> int:
    """Return bytes, from a number or one with a binary unit: ``500M``, ``20G``, ``1T``.

    Raises:
        ValueError: it is no size.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no size; write for instance 500M or 20G.")
    return int(float(found[1]) * (1 << 10 * " KMGT".index(found[2].upper() or " ")))


def read_limits(text: str) -> tuple[tuple[str, float], ...]:
    """Return the names and values of ``Threads_running=25,Threads_connected=500``.

    Raises:
        ValueError: one of them is no limit.
    """
    return tuple(_limit(part) for part in text.split(",") if part)


def _limit(text: str) -> tuple[str, float]:
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no limit; write for instance Threads_running=25.")
    return found[1], float(found[2])


def human_count(value: float | None) -> str:
    """Render a count with spaces between thousands; unknown as a question mark."""
    return "?" if value is None else f"{value:,.0f}".replace(",", " ")


def counted(value: float, noun: str, plural: str = "") -> str:
    """Return a count with its noun: ``1 row``, ``2 rows``.

    Args:
        plural: where it is not the noun with an s.
    """
    return f"{human_count(value)} {noun if value == 1 else plural or noun + 's'}"


def of_about(total: float | None) -> str:
    """Return what follows a count of an estimated total; empty where nothing is known of that."""
    return f" of ~{human_count(total)}" if total else ""


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
    if value is None or not math.isfinite(value):
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
    """Render a fraction as a percentage; rounded down, so that 100% is the whole."""
    if value is None:
        return "?"
    return f"{math.floor(1000 * value + 1e-9) / 10:.1f}%"
