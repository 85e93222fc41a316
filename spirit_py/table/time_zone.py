"""What a write evaluates in the session's time zone, or as a date (pure; R22).

Measured on 9.7 in a zone that repeats an hour: a TIMESTAMP literal with an offset stores its very
instant; ``INSERT ... SELECT`` of a TIMESTAMP, a comparison of one with any literal and a join over
one go through local time, and take one of the two instants for the other. So values that are
written carry the offset, a SELECT for a write renders them (:func:`instant_text`), and rows are
not looked up by a TIMESTAMP in such a session.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.table.keys import TEMPORALS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from spirit_py.table.mapping import ColumnPair
    from spirit_py.table.schema import TableSchema

#: Every function, type and unit whose value is or reads a date or a time has one of these in its
#: name. A word too many costs a SET around a write; one too few writes another value.
_TEMPORAL: Final = re.compile(
    r"date|time|now|day|hour|minute|second|week|month|quarter|year|zone|interval", re.IGNORECASE
)
_DATED: Final = TEMPORALS | {"year"}
_NAME: Final = re.compile(r"`((?:[^`]|``)+)`")
_CHECK: Final = re.compile(r"^  (?:CONSTRAINT `(?:[^`]|``)+` )?CHECK \((.*)$", re.MULTILINE)
_MOMENT: Final = re.compile(r"(?:now|current_timestamp)(?:\(\d?\))?", re.IGNORECASE)
_FIXED: Final = re.compile(r"[+-]\d\d:\d\d|(?:Etc/)?(?:UTC|GMT|UCT|Zulu)", re.IGNORECASE)


def repeats_hours(time_zone: str) -> bool:
    """Return whether a clock of this zone may show one local time twice."""
    return _FIXED.fullmatch(time_zone) is None


def instant_text(sql: str) -> str:
    """Render a TIMESTAMP column as text in UTC with its offset, whatever the session's zone.

    Only ``UNIX_TIMESTAMP`` of a column reads the stored instant.
    """
    text = f"'1970-01-01 00:00:00' + INTERVAL UNIX_TIMESTAMP({sql}) SECOND"
    return f"IF(UNIX_TIMESTAMP({sql}) = 0, '0000-00-00 00:00:00', CONCAT({text}, '+00:00'))"


def evaluated_in_zone(target: TableSchema, fresh: Collection[str]) -> bool:
    """Return whether writing a row of the new table may evaluate what depends on the time zone.

    Args:
        fresh: columns that a write leaves to their defaults.
    """
    if any(column.generated and column.data_type in TEMPORALS for column in target.columns):
        return True
    return any(_reads_time(target, text) for text in expressions(target, fresh))


def makes_dates(target: TableSchema, pairs: Collection[ColumnPair]) -> bool:
    """Return whether writing a row of the new table may make a date of something else.

    The server's modes say which dates there are: in expressions, and where another type becomes
    a date or a time. A column that is one already is no reason, nor is the time of a default.
    """
    if any(
        pair.old.data_type != pair.new.data_type in _DATED and pair.old.data_type not in TEMPORALS
        for pair in pairs
    ):
        return True
    if any(column.generated and column.data_type in _DATED for column in target.columns):
        return True
    carried = {pair.new.name for pair in pairs}
    fresh = {column.name for column in target.columns if column.name not in carried}
    found = (text for text in expressions(target, fresh) if not _MOMENT.fullmatch(text))
    return any(_reads_time(target, text) for text in found)


def expressions(target: TableSchema, fresh: Collection[str]) -> Iterator[str]:
    """Yield the text of every expression that a write may evaluate."""
    for column in target.columns:
        if column.generated:
            yield column.generation_expression
        elif column.name in fresh and "DEFAULT_GENERATED" in column.extra.upper():
            yield column.default or ""
    for index in target.indexes:
        yield from (part.expression for part in index.parts if part.expression)
    yield from _CHECK.findall(target.create_sql)


def _reads_time(target: TableSchema, expression: str) -> bool:
    """Return whether an expression computes with times, or reads a column that holds them."""
    if _TEMPORAL.search(_NAME.sub("``", expression)):
        return True
    names = (name.replace("``", "`") for name in _NAME.findall(expression))
    return any(
        target.has_column(name) and target.column(name).data_type in TEMPORALS for name in names
    )
