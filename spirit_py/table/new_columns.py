"""The values of existing rows in a new column, as after a native ALTER (pure; R22).

A NOT NULL column without a default gets the type's implicit default (manual 13.6, measured on 9.7),
which a strict INSERT must name. Defaults of the clock or the session: docs/decisions.md.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from spirit_py.sql import string_literal
from spirit_py.table.keys import BYTE_TYPES, INTEGERS, TEXT_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Column

#: The implicit default as a literal, by data type; spatial types and vector have none.
IMPLICIT = (
    dict.fromkeys((*INTEGERS, "decimal", "float", "double", "year"), "0")
    | dict.fromkeys((*TEXT_TYPES, *BYTE_TYPES, "set"), "''")
    | {
        "bit": "b'0'", "enum": "1", "json": "'null'", "date": "'0000-00-00'", "time": "'00:00:00'",
        "datetime": "'0000-00-00 00:00:00'", "timestamp": "'0000-00-00 00:00:00'",
    }
)  # fmt: skip
_PLAIN: Final = re.compile(r"CURRENT_TIMESTAMP(?:\((\d)\))?", re.IGNORECASE)
#: Functions of the clock (``SET timestamp``) and of the session, as SHOW CREATE TABLE writes them.
_OF_STATEMENT: Final = re.compile(
    r"\b(?:now|curdate|curtime|utc_date|utc_time|utc_timestamp|unix_timestamp|current_date"
    r"|current_time|current_timestamp|localtime|localtimestamp"
    r"|connection_id|ps_current_thread_id|current_role|roles_graphml|database|schema)\b",
    re.IGNORECASE,
)
_DATED: Final = ("date", "datetime", "timestamp")
_TIME: Final = re.compile("time", re.IGNORECASE)
_BY_ROW: Final = re.compile(r"\b(?:sysdate|rand|random_bytes|uuid|uuid_short)\b|`", re.IGNORECASE)
_TEXT: Final = re.compile(r"'(?:[^'\\]|''|\\.)*'", re.DOTALL)
_TEXT_OR_SCHEMA: Final = re.compile(
    rf"(?P<text>{_TEXT.pattern})|\b(?:database|schema)\(\)", re.IGNORECASE | re.DOTALL
)


def needs_fill(column: Column) -> bool:
    """Return whether a strict INSERT must name the column."""
    given = column.default is not None or column.default_computed
    return not (column.nullable or column.generated or column.auto_increment or given)


def numbered(mapping: TableMapping) -> Column | None:
    """Return the new column whose values the server gives to the rows; None for none."""
    carried = set(mapping.insert_names)
    fresh = (one for one in mapping.target.columns if one.auto_increment)
    return next((one for one in fresh if one.name not in carried), None)


def value_of_fresh_column(column: Column, fills: dict[str, str]) -> str:
    """Return the value that existing rows get in a column that the statement adds."""
    if column.name in fills:
        return fills[column.name]
    if column.default_computed:
        return f"({column.default})"
    return "NULL" if column.default is None else string_literal(column.default)


def of_the_moment(mapping: TableMapping) -> tuple[Column, ...]:
    """Return new columns whose default a native ALTER evaluates once for all rows."""
    once = (found for found in _computed(mapping) if not _BY_ROW.search(found[1]))
    return tuple(
        column
        for column, text in once
        if _OF_STATEMENT.search(text) or (column.data_type in _DATED and _TIME.search(text))
    )


def of_each_write(mapping: TableMapping) -> tuple[Column, ...]:
    """Return the new columns whose default reads the clock or the session, and other columns."""
    found = (one for one in _computed(mapping) if _OF_STATEMENT.search(one[1]) and "`" in one[1])
    return tuple(column for column, _ in found)


def _computed(mapping: TableMapping) -> Iterator[tuple[Column, str]]:
    named = set(mapping.insert_names)
    for column in mapping.target.columns:
        if column.name not in named and not column.generated and column.default_computed:
            yield column, _TEXT.sub("''", column.default or "")


def in_schema(expression: str, schema: str) -> str:
    """Return an expression as a session evaluates it whose default schema is this one."""
    literal = string_literal(schema)
    return _TEXT_OR_SCHEMA.sub(lambda found: found["text"] or literal, expression)


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
    """Turn a result of ``UNIX_TIMESTAMP`` into an instant, to the microsecond."""
    whole, _, rest = seconds.partition(".")
    since = timedelta(seconds=int(whole), microseconds=int(f"{rest:0<6}"[:6]))
    return datetime(1970, 1, 1, tzinfo=UTC) + since
