"""Values that every row gets in a new column; those of NOT NULL ones without a default (pure).

A native ALTER gives existing rows the type's implicit default (manual 13.6, measured on 9.7),
while a strict INSERT that leaves such a column out is an error. So writes name the value, as they
name that of a default that is the time (:mod:`spirit_py.table.clock_defaults`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spirit_py.table.schema import Column

_ZERO = dict.fromkeys(
    ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "year"), "0"
)
_EMPTY = dict.fromkeys(
    (
        *("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "set"),
        *("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
    ),
    "''",
)
_IMPLICIT = (
    _ZERO
    | _EMPTY
    | {
        "bit": "b'0'",
        "enum": "1",
        "json": "'null'",
        "date": "'0000-00-00'",
        "datetime": "'0000-00-00 00:00:00'",
        "timestamp": "'0000-00-00 00:00:00'",
        "time": "'00:00:00'",
    }
)


@dataclass(frozen=True, kw_only=True)
class Fill:
    """A column of the new table that every row gets the same value for.

    Attributes:
        sql: the value as an SQL literal.
    """

    column: Column
    sql: str


def needs_fill(column: Column) -> bool:
    """Return whether a strict INSERT must name the column."""
    return not (
        column.nullable
        or column.generated
        or column.auto_increment
        or column.default is not None
        or "DEFAULT_GENERATED" in column.extra.upper()
    )


def implicit_default(column: Column) -> str | None:
    """Get the type's implicit default as a literal; None where there is none (spatial, vector)."""
    return _IMPLICIT.get(column.data_type)
