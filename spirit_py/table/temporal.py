"""Temporal values as integers in the server's order, and their text (pure).

A value is packed as in a row image, without the sign offset (``my_time.cc``); zero dates and 31
February are kept. ``fraction`` bytes: 1 for 1 and 2 digits, 2 for 3 and 4, 3 for 5 and 6.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from functools import lru_cache, partial
from typing import Final, TypeAlias

Show: TypeAlias = Callable[[int], str]
Read: TypeAlias = Callable[[str], int]

UTC_OFFSET: Final = "+00:00"
_EPOCH: Final = date(1970, 1, 1)
_DAY: Final = 86_400
_TWO: Final = tuple(f"{number:02d}" for number in range(100))


def fraction_bytes(precision: int) -> int:
    """Bytes that hold so many fractional digits."""
    return (precision + 1) // 2


def show_function(kind: str, precision: int = 0) -> Show:
    """Return the function that shows the packed values of ``date``, ``time`` ... as text."""
    if kind == "date":
        return date_text
    make = {"time": _show_time, "datetime": _show_datetime, "timestamp": _show_timestamp}[kind]
    return make(precision)


def literal_function(kind: str, precision: int = 0) -> Show:
    """Return the function that shows packed values as a literal; a TIMESTAMP has its offset."""
    if kind == "timestamp":
        return _show_timestamp(precision, UTC_OFFSET)
    return show_function(kind, precision)


def read_function(kind: str, precision: int = 0) -> Read:
    """Return the function that packs text; the inverse of :func:`show_function`."""
    if kind == "date":
        return _read_date
    read = {"time": _read_time, "datetime": _read_datetime, "timestamp": _read_timestamp}[kind]
    return partial(read, precision=precision)


def date_text(value: int) -> str:
    """Show a packed DATE (year << 9 | month << 5 | day)."""
    return f"{value >> 9:04d}-{_TWO[value >> 5 & 15]}-{_TWO[value & 31]}"


def _show_fraction(precision: int) -> Show:
    if not precision:
        return lambda _: ""
    shape = f".%0{precision}d"
    if precision % 2:
        return lambda units: shape % (units // 10)
    return lambda units: shape % units


def _show_clock(precision: int) -> tuple[int, Show]:
    shift = 8 * fraction_bytes(precision)
    two = _TWO
    if not precision:
        return 0, lambda v: f"{two[v >> 12 & 31]}:{two[v >> 6 & 63]}:{two[v & 63]}"
    mask, fraction = (1 << shift) - 1, _show_fraction(precision)

    def clock(value: int) -> str:
        whole = value >> shift
        return (
            f"{two[whole >> 12 & 31]}:{two[whole >> 6 & 63]}:{two[whole & 63]}"
            f"{fraction(value & mask)}"
        )

    return shift, clock


def _show_datetime(precision: int) -> Show:
    shift, clock = _show_clock(precision)
    days = shift + 17
    return lambda value: f"{_packed_day(value >> days)} {clock(value)}"


def _show_time(precision: int) -> Show:
    shift = 8 * fraction_bytes(precision)
    mask, fraction = (1 << shift) - 1, _show_fraction(precision)

    def show(value: int) -> str:
        size = -value if value < 0 else value
        whole = size >> shift
        return (
            f"{'-' if value < 0 else ''}{whole >> 12:02d}:{_TWO[whole >> 6 & 63]}"
            f":{_TWO[whole & 63]}{fraction(size & mask)}"
        )

    return show


def _show_timestamp(precision: int, offset: str = "") -> Show:
    """Make the function that shows a TIMESTAMP in UTC; 0 has no zone, so no offset."""
    shift = 8 * fraction_bytes(precision)
    mask, fraction = (1 << shift) - 1, _show_fraction(precision)
    zero = "0000-00-00 00:00:00" + fraction(0)

    def show(value: int) -> str:
        if not value:
            return zero
        day, rest = divmod(value >> shift, _DAY)
        minutes, second = divmod(rest, 60)
        return (
            f"{_epoch_day(day)} {_TWO[minutes // 60]}:{_TWO[minutes % 60]}:{_TWO[second]}"
            f"{fraction(value & mask)}{offset}"
        )

    return show


@lru_cache(maxsize=8192)
def _packed_day(value: int) -> str:
    year, month = divmod(value >> 5, 13)
    return f"{year:04d}-{_TWO[month]}-{_TWO[value & 31]}"


@lru_cache(maxsize=8192)
def _epoch_day(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).isoformat()


def _read_date(text: str) -> int:
    year, month, day = text.split("-")
    return int(year) << 9 | int(month) << 5 | int(day)


def _read_datetime(text: str, precision: int) -> int:
    day_text, _, clock = text.partition(" ")
    year, month, day = day_text.split("-")
    seconds, fraction = _read_clock(clock, precision)
    days = (int(year) * 13 + int(month)) << 5 | int(day)
    return (days << 17 | seconds) << 8 * fraction_bytes(precision) | fraction


def _read_time(text: str, precision: int) -> int:
    seconds, fraction = _read_clock(text.lstrip("-"), precision)
    size = seconds << 8 * fraction_bytes(precision) | fraction
    return -size if text.startswith("-") else size


def _read_timestamp(text: str, precision: int) -> int:
    day_text, _, clock = text.removesuffix(UTC_OFFSET).partition(" ")
    if day_text == "0000-00-00":
        return 0
    packed, fraction = _read_clock(clock, precision)
    seconds = (packed >> 12) * 3600 + (packed >> 6 & 63) * 60 + (packed & 63)
    seconds += (date.fromisoformat(day_text) - _EPOCH).days * _DAY
    return seconds << 8 * fraction_bytes(precision) | fraction


def _read_clock(text: str, precision: int) -> tuple[int, int]:
    clock, _, digits = text.partition(".")
    hour, minute, second = clock.split(":")
    packed = int(hour) << 12 | int(minute) << 6 | int(second)
    return packed, int(digits.ljust(2 * fraction_bytes(precision), "0")) if precision else 0
