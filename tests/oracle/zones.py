"""Two time zones with daylight saving, written into the server where it has none of its own."""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.mysql import Database

_UTC = dt.UTC
_YEARS = range(1990, 2038)
_SUNDAY = 6


def _sunday(year: int, month: int, first: int, hour: int) -> int:
    """Return the Unix time of the first Sunday on or after a day, at an hour in UTC."""
    day = dt.datetime(year, month, first, hour, tzinfo=_UTC)
    return int((day + dt.timedelta(days=(_SUNDAY - day.weekday()) % 7)).timestamp())


def _changes(name: str) -> list[tuple[int, int]]:
    """Return when the clock is put forward (type 1) and back (type 0)."""
    if name == "Test/Berlin":
        pairs = [(_sunday(y, 3, 25, 1), _sunday(y, 10, 25, 1)) for y in _YEARS]
    else:
        pairs = [(_sunday(y, 3, 8, 7), _sunday(y, 11, 1, 6)) for y in _YEARS]
    return [change for forth, back in pairs for change in ((forth, 1), (back, 0))]


@contextlib.contextmanager
def zones(db: Database) -> Iterator[None]:
    """Have ``Test/Berlin`` and ``Test/NewYork`` on the server while the context is open."""
    db.execute("SET SESSION sql_log_bin = 0")
    zones = {"Test/Berlin": 3600, "Test/NewYork": -5 * 3600}
    numbers: list[int] = []
    try:
        for name, offset in zones.items():
            db.execute("INSERT INTO mysql.time_zone (Use_leap_seconds) VALUES ('N')")
            number = int(db.query("SELECT LAST_INSERT_ID()")[0][0])
            numbers.append(number)
            db.execute("INSERT INTO mysql.time_zone_name VALUES (%s, %s)", (name, number))
            for kind, extra in ((0, 0), (1, 3600)):
                db.execute(
                    "INSERT INTO mysql.time_zone_transition_type VALUES (%s, %s, %s, %s, %s)",
                    (number, kind, offset + extra, kind, f"T{kind}"),
                )
            rows = ", ".join(f"({number}, {at}, {kind})" for at, kind in _changes(name))
            db.execute(f"INSERT INTO mysql.time_zone_transition VALUES {rows}")
        yield
    finally:
        for number in numbers:
            for table in ("", "_name", "_transition", "_transition_type"):
                db.execute(f"DELETE FROM mysql.time_zone{table} WHERE Time_zone_id = {number}")
        db.execute("SET SESSION sql_log_bin = 1")
