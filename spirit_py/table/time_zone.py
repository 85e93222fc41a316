"""Whether a write depends on the session's time zone (pure; R22).

Measured on 9.7 in a zone that repeats an hour: a TIMESTAMP literal with an offset stores its very
instant; ``INSERT ... SELECT`` of a TIMESTAMP, a comparison of one with any literal and a join over
one go through local time, and take one of the two instants for the other. So values that are
written carry the offset, a SELECT for a write renders them (:func:`instant_text`), and rows are
not looked up by a TIMESTAMP in such a session.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.table.expressions import column_names, evaluated_expressions, without_names
from spirit_py.table.keys import TEMPORALS

if TYPE_CHECKING:
    from collections.abc import Collection

    from spirit_py.table.schema import TableSchema

#: Every function, type and unit that reads or returns a date or a time has one of these in its
#: name. A superfluous word costs a SET around a write; a missing one leads to a wrong value.
_TEMPORAL: Final = re.compile(
    r"date|time|now|day|hour|minute|second|week|month|quarter|year|zone|interval", re.IGNORECASE
)
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
    """Return whether writing a row of the new table may depend on the time zone.

    Args:
        fresh: columns that a write leaves to their defaults.
    """
    if any(column.generated and column.data_type in TEMPORALS for column in target.columns):
        return True
    return any(reads_time(target, text) for text in evaluated_expressions(target, fresh))


def reads_time(target: TableSchema, expression: str) -> bool:
    """Return whether an expression computes with times, or reads a column that holds them."""
    if _TEMPORAL.search(without_names(expression)):
        return True
    return any(
        target.has_column(name) and target.column(name).data_type in TEMPORALS
        for name in column_names(expression)
    )
