"""Which keys Python may compare and order as the server does (R6, pure).

The comparable form of a key is a tuple with one typed value a column, never a joined string:

========================  =====================================================
column                    value
========================  =====================================================
integers, YEAR, BIT       int
ENUM, SET                 int: ordinal, bit mask (the order of their index)
DECIMAL                   int: the value times 10 ** scale
temporal types            int: packed as the server packs it (:mod:`.temporal`)
BINARY                    bytes, padded with zero bytes to the column's length
VARBINARY                 bytes
text, utf8mb4_0900_bin    bytes of the text (UTF-8 keeps the order of code points)
========================  =====================================================

Every other collation equates texts that differ (case, accents, trailing spaces). Python may
compare such keys by the server's own weights (:mod:`spirit_py.table.weights`), which take the
place of the text. FLOAT and DOUBLE compare -0.0 with 0.0 and a literal with its rounding: those
keys stay in binlog order, undropped (R3, R4), and so do texts without usable weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.table.schema import Column

INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
TEMPORALS = frozenset({"date", "time", "datetime", "timestamp"})
_EXACT = INTEGERS | TEMPORALS | {"decimal", "year", "bit", "enum", "set", "binary", "varbinary"}
TEXTS = frozenset({"char", "varchar"})
_EXACT_COLLATIONS = frozenset({"utf8mb4_0900_bin"})

KeyLiterals: TypeAlias = tuple[str, ...]
"""One SQL literal for each column of the chunk key; safe to put in SQL text and lossless."""

ComparableKey: TypeAlias = tuple[Any, ...]
"""Typed values of a key that Python orders and compares exactly as the server does (R6)."""


@dataclass(frozen=True, kw_only=True)
class KeyBound:
    """A position in key order.

    Attributes:
        literals: the key as SQL literals, for predicates; a number for ENUM and SET.
        comparable: the key as Python values; None when Python cannot order it as the server.
    """

    literals: KeyLiterals
    comparable: ComparableKey | None = None


def comparable_column(column: Column) -> bool:
    """Return whether Python's equality and order of this column's key values are the server's."""
    if column.data_type in TEXTS:
        return column.collation in _EXACT_COLLATIONS
    return column.data_type in _EXACT


def comparable(columns: Sequence[Column]) -> bool:
    """Return whether keys over these columns may be deduplicated and ordered in Python (R6).

    The order is ascending by value for every part; :mod:`spirit_py.chunk.chunk` reverses the
    comparison of descending parts.
    """
    return bool(columns) and all(comparable_column(column) for column in columns)
