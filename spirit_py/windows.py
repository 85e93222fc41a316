"""Times of the day in which a migration may work: ``--allow 22:00-06:00`` (pure).

A window that ends before it begins crosses midnight. It is in the time zone of the machine that
runs the program, or in the one that is written behind it (``22:00-06:00+01:00``, ``...Z``): on the
days on which a machine's clock is put forward or back, a window goes by that clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final, Self

from spirit_py.errors import UsageFault

_DAY: Final = 24 * 60
_FORM: Final = re.compile(
    r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})\s*(?:(Z)|([+-])(\d{2}):(\d{2}))?"
)


@dataclass(frozen=True, kw_only=True)
class Window:
    """One window of every day.

    Attributes:
        begin: minute of the day, 0 to 1439.
        end: minute of the day, 1 to 1440; at most ``begin`` where it crosses midnight.
        zone: its time zone; None for the machine's own.
    """

    begin: int
    end: int
    zone: tzinfo | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``22:00-06:00``, with ``Z`` or an offset (``+01:00``) behind it or without.

        Raises:
            UsageFault: it is no window, or an empty one.
        """
        found = _FORM.fullmatch(text.strip())
        if found is not None:
            hours = [int(part) for part in found.groups()[:4]]
            begin, end = hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]
            minutes = max(hours[1], hours[3])
            if begin < _DAY and 0 < (end or _DAY) <= _DAY and minutes < 60 and begin != end:
                return cls(begin=begin, end=end or _DAY, zone=_zone(*found.groups()[4:]))
        raise UsageFault(
            f"{text!r} is no window of the day",
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
        """Show the window as it is written on the command line."""
        begin, end = (f"{minute // 60:02d}:{minute % 60:02d}" for minute in (self.begin, self.end))
        return f"{begin}-{end}{_written(self.zone)}"


def parse_windows(text: str) -> tuple[Window, ...]:
    """Read windows with commas between them.

    Raises:
        UsageFault: one is no window.
    """
    return tuple(Window.parse(part) for part in text.split(","))


def _zone(
    utc: str | None, sign: str | None, hours: str | None, minutes: str | None
) -> tzinfo | None:
    """Return the time zone written behind a window; None without one."""
    if utc:
        return UTC
    if not sign or hours is None or minutes is None:
        return None
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    if offset >= timedelta(hours=15):
        raise UsageFault(
            f"{sign}{hours}:{minutes} is no offset from UTC", hint="write for instance +01:00"
        )
    return timezone(offset if sign == "+" else -offset)


def _written(zone: tzinfo | None) -> str:
    """Return a time zone as it is written behind a window."""
    if zone is None:
        return ""
    if zone is UTC:
        return "Z"
    return str(zone).removeprefix("UTC")
