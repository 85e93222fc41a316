"""New columns whose default is the time: every row gets one and the same (pure; R22).

A native ALTER evaluates them at its own moment, once for the whole table. A copy takes hours and
many statements, so its writes name the value. Defaults that differ from row to row natively too
(``UUID()``, ``RAND()``, ``SYSDATE()``) are left to the server.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Column

_PLAIN: Final = re.compile(r"CURRENT_TIMESTAMP(?:\((\d)\))?", re.IGNORECASE)
#: The functions that ``SET timestamp`` fixes, as SHOW CREATE TABLE writes them.
_CLOCK: Final = re.compile(
    r"\b(?:now|curdate|curtime|utc_date|utc_time|utc_timestamp|unix_timestamp|current_date"
    r"|current_time|current_timestamp|localtime|localtimestamp)\b",
    re.IGNORECASE,
)
_BY_ROW: Final = re.compile(r"\b(?:sysdate|rand|random_bytes|uuid|uuid_short)\b|`", re.IGNORECASE)
_TEXT: Final = re.compile(r"'(?:[^'\\]|''|\\.)*'", re.DOTALL)


def of_the_moment(mapping: TableMapping) -> tuple[Column, ...]:
    """Return the new columns whose default is the same for all rows of a moment."""
    return tuple(
        column for column in _by_clock(mapping) if not _BY_ROW.search(_bare(column.default or ""))
    )


def of_each_write(mapping: TableMapping) -> tuple[Column, ...]:
    """Return the new columns whose default reads the time together with what differs by row."""
    alike = of_the_moment(mapping)
    return tuple(
        column
        for column in _by_clock(mapping)
        if column not in alike and "`" in _bare(column.default or "")
    )


def _by_clock(mapping: TableMapping) -> tuple[Column, ...]:
    """Return the plain new columns whose default reads the clock of the statement."""
    named = set(mapping.insert_names)
    return tuple(
        column
        for column in mapping.target.columns
        if column.name not in named
        and not column.generated
        and "DEFAULT_GENERATED" in column.extra.upper()
        and _CLOCK.search(_bare(column.default or ""))
    )


def _bare(expression: str) -> str:
    return _TEXT.sub("''", expression)


def plain_digits(column: Column) -> int | None:
    """Return the digits of a default that is just CURRENT_TIMESTAMP; None for an expression."""
    found = _PLAIN.fullmatch(column.default or "")
    return None if found is None else int(found[1] or 0)


def instant_literal(moment: datetime, digits: int) -> str:
    """Render an instant, cut as the clock is, for a DATETIME in any zone or a TIMESTAMP."""
    text = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    cut = text[: 19 + (digits + 1 if digits else 0)]
    return f"'{cut}+00:00'"


def from_unix(seconds: str) -> datetime:
    """Turn what ``UNIX_TIMESTAMP`` gives into an instant, to the microsecond."""
    whole, _, rest = seconds.partition(".")
    since = timedelta(seconds=int(whole), microseconds=int(f"{rest:0<6}"[:6]))
    return datetime(1970, 1, 1, tzinfo=UTC) + since
