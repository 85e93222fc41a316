"""Which keys Python may compare and order as the server does (R6, pure).

The comparable form is a tuple with a value for each column: int for integers, YEAR, BIT, for ENUM
and SET (ordinal, mask), DECIMAL (times 10 ** scale) and temporal types (packed, :mod:`.temporal`);
bytes for BINARY (zero-padded), VARBINARY and utf8mb4_0900_bin. Other collations equate different
texts: their keys are compared by weights (:mod:`spirit_py.table.values`). FLOAT, DOUBLE and texts
without usable weights stay in binlog order (R3, R4): -0.0 equals 0.0, and literals are rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from spirit_py.classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.table.schema import Column

INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
TEMPORALS = frozenset({"date", "time", "datetime", "timestamp"})
_EXACT = INTEGERS | TEMPORALS | {"decimal", "year", "bit", "enum", "set", "binary", "varbinary"}
TEXTS = frozenset({"char", "varchar"})
TEXT_TYPES = TEXTS | {"tinytext", "text", "mediumtext", "longtext"}
BYTE_TYPES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_EXACT_COLLATIONS = frozenset({"utf8mb4_0900_bin"})

KeyLiterals: TypeAlias = tuple[str, ...]

ComparableKey: TypeAlias = tuple[Any, ...]
"""A key that Python orders and compares exactly as the server does (R6)."""


@dataclass(frozen=True, kw_only=True)
class KeyBound:
    """A position in key order; ``comparable`` is None where Python cannot order the key."""

    literals: KeyLiterals
    comparable: ComparableKey | None = None


def comparable_column(column: Column) -> bool:
    """Return whether Python's equality and order of this column's key values are the server's."""
    if column.data_type in TEXTS:
        return column.collation in _EXACT_COLLATIONS
    return column.data_type in _EXACT


def comparable(columns: Sequence[Column]) -> bool:
    """Return whether keys may be deduplicated and ordered, ascending, in Python (R6)."""
    return bool(columns) and all(comparable_column(column) for column in columns)
