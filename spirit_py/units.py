"""Counts, bytes, durations, fractions, times, addresses and diffs as people read them (pure)."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final, Literal, NamedTuple, Self

from spirit_py.classes import dataclass
from spirit_py.errors import CONTROL, UsageFault
from spirit_py.errors import one_line as one_line  # noqa: PLC0414 - most import it from here

MAX_PORT: Final = 65535
_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|[smhd]?)\s*")
_LIMIT: Final = re.compile(r"\s*(\w+)\s*=\s*(\d+(?:\.\d+)?)\s*")
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", re.IGNORECASE)
_MOST: Final = 1e18
_UNITS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def in_lines(text: str) -> str:
    """Return text of several lines, each escaped as :func:`one_line` does."""
    return "\n".join(map(one_line, text.split("\n")))


def in_json(text: str) -> str:
    """Return JSON in which such characters are escaped as JSON does: the same document."""
    import json

    return CONTROL.sub(
        lambda found: found[0] if found[0] == "\n" else json.dumps(found[0])[1:-1], text
    )


def read_duration(text: str) -> float:
    """Return the seconds of ``90``, ``90s``, ``200ms``, ``30m``, ``2h``, ``7d``; or ValueError."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a duration; write for example 90s, 200ms, 30m or 2h.")
    return _finite(found[1]) * _UNITS[found[2]]


def _finite(text: str) -> float:
    """Return a number that a float can hold, with a unit, too; or ValueError."""
    number = float(text)
    if number > _MOST:
        raise ValueError("the number is too large.")
    return number


def read_size(text: str) -> int:
    """Return bytes of a number, or one with a binary unit: ``500M``, ``20G``; or ValueError."""
    found = _SIZE.fullmatch(text)
    if found is None or ("." in found[1] and not found[2]):
        raise ValueError(f"{text!r} is not a size; write for instance 500M or 20G.")
    return int(_finite(found[1]) * (1 << 10 * " KMGT".index(found[2].upper() or " ")))


def read_limits(text: str) -> tuple[tuple[str, float], ...]:
    """Return the limits of ``Threads_running=25,Threads_connected=500``; or ValueError."""
    return tuple(_limit(part) for part in text.split(",") if part)


def _limit(text: str) -> tuple[str, float]:
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a limit; write for instance Threads_running=25.")
    return found[1], _finite(found[2])


def human_count(value: float | None) -> str:
    """Render a count with spaces between thousands; unknown as a question mark."""
    return "?" if value is None else f"{value:,.0f}".replace(",", " ")


def counted(value: float, noun: str, plural: str = "") -> str:
    """Return a count with its noun: ``1 row``, ``2 rows``."""
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


def duration(value: float | None) -> str:
    """Render a duration; from ten seconds on without a fraction, which nobody reads there."""
    if value is not None and 10 <= value < 60:
        return f"{value:.0f}s"
    return human_seconds(value)


def to_the_second(moment: str) -> str:
    """Render a moment of ISO 8601 in UTC without its fraction of a second."""
    return f"{moment[:19].replace('T', ' ')} UTC"


def human_percent(value: float | None) -> str:
    """Render a fraction as a percentage; rounded down, so that 100% is the whole."""
    return "?" if value is None else f"{math.floor(1000 * value + 1e-9) / 10:.1f}%"


_DAY: Final = 24 * 60
_FORM: Final = re.compile(
    r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})\s*(?:(Z)|([+-])(\d{2}):(\d{2}))?"
)


@dataclass(frozen=True, kw_only=True)
class Window:
    """One window of every day, in minutes by the clock of ``zone`` (None: the machine's).

    It crosses midnight where ``end`` is at most ``begin``.
    """

    begin: int
    end: int
    zone: tzinfo | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``22:00-06:00``, perhaps with ``Z`` or ``+01:00`` behind it; raises UsageFault."""
        found = _FORM.fullmatch(text.strip())
        if found is not None:
            hours = [int(part) for part in found.groups()[:4]]
            begin, end = hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]
            minutes = max(hours[1], hours[3])
            if begin < _DAY and 0 < (end or _DAY) <= _DAY and minutes < 60 and begin != end:
                return cls(begin=begin, end=end or _DAY, zone=_zone(*found.groups()[4:]))
        raise UsageFault(
            f"{text!r} is not a time window",
            hint="write for instance --allow 22:00-06:00, or --allow 22:00-06:00+01:00",
        )

    def is_open(self, now: datetime) -> bool:
        """Return whether a moment, which has a time zone, is in the window."""
        minute = self._minute(now)
        if self.begin < self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end

    def opens_in(self, now: datetime) -> float:
        """Return the seconds until the window begins next, by the clock on the wall."""
        local = now.astimezone(self.zone)
        into = local.second + local.microsecond / 1e6
        return (self.begin - self._minute(now)) % _DAY * 60.0 - into

    def _minute(self, now: datetime) -> int:
        local = now.astimezone(self.zone)
        return local.hour * 60 + local.minute

    def __str__(self) -> str:
        begin, end = (f"{minute // 60:02d}:{minute % 60:02d}" for minute in (self.begin, self.end))
        zone = str(self.zone or "").removeprefix("UTC")
        return f"{begin}-{end}{'Z' if self.zone is UTC else zone}"


def parse_windows(text: str) -> tuple[Window, ...]:
    """Read windows with commas between them; raises UsageFault."""
    return tuple(Window.parse(part) for part in text.split(","))


def _zone(
    utc: str | None, sign: str | None, hours: str | None, minutes: str | None
) -> tzinfo | None:
    if utc:
        return UTC
    if not sign or hours is None or minutes is None:
        return None
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    if offset >= timedelta(hours=15):
        what = f"{sign}{hours}:{minutes} is not an offset from UTC"
        raise UsageFault(what, hint="write for instance +01:00")
    return timezone(offset if sign == "+" else -offset)


Mark = Literal["same", "removed", "added", "gap"]
_AROUND: Final = 1


class DiffLine(NamedTuple):
    """One line; ``gap`` stands for lines that are the same and are not shown."""

    mark: Mark
    text: str


def diff_of(old: str, new: str) -> list[DiffLine]:
    """Return the changed lines with one around; a comma at the end of a line is no difference."""
    import difflib

    before, after = old.splitlines(), new.splitlines()
    bare = [[line.rstrip(",") for line in text] for text in (before, after)]
    matcher = difflib.SequenceMatcher(None, bare[0], bare[1], autojunk=False)
    lines: list[DiffLine] = []
    for number, group in enumerate(matcher.get_grouped_opcodes(_AROUND)):
        if number:
            lines.append(DiffLine("gap", "  ..."))
        for tag, first, last, start, end in group:
            if tag != "equal":
                lines += [DiffLine("removed", line) for line in before[first:last]]
            mark: Mark = "same" if tag == "equal" else "added"
            lines += [DiffLine(mark, line) for line in after[start:end]]
    return lines


def finite(value: Any) -> Any:
    """Return a value with None for each number in it that JSON has not: infinite, or no number."""
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def host_and_port(text: str) -> tuple[str, int | None]:
    """Split ``host``, ``host:port``, ``[v6]:port`` or a bare IPv6 address, or raise UsageFault."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
    elif text.count(":") == 1:
        host, colon, port = text.partition(":")
    else:
        return text, None
    valid = port.isdecimal() and 0 < int(port) <= MAX_PORT
    if not host or colon not in {"", ":"} or bool(colon) is not valid:
        raise UsageFault(f"{text!r} is not a host and port", hint="write host or host:port")
    return host, int(port) if port else None
