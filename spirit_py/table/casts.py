"""SQL expressions that give an old value as the new column compares it (pure).

Used to look for rows that a new unique key takes for equal before anything is copied (R11). They
need not render the value exactly, only equate and part the same rows as the new column does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.sql import quote_identifier
from spirit_py.table.conversions import equality_kept, is_text

if TYPE_CHECKING:
    from spirit_py.table.mapping import ColumnPair
    from spirit_py.table.schema import Column

_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_BYTES = frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_MEMBERS = frozenset({"enum", "set"})


def value_in_new_column(pair: ColumnPair) -> str:
    """Return the old column's value as the new column would hold it."""
    old = quote_identifier(pair.old.name)
    return old if equality_kept(pair.old, pair.new) else cast_to(old, pair.old, pair.new)


def cast_to(sql: str, old: Column | None, new: Column) -> str:
    """Convert an expression to a column's type and collation.

    Args:
        old: The column that the expression reads; None for any other expression.
    """
    if is_text(new) or new.data_type in _MEMBERS:
        return as_text(sql, old, new)
    if new.data_type in _INTEGERS:
        number = f"CAST({sql} AS DECIMAL(65, 30))" if old is not None and is_text(old) else sql
        return f"CAST({number} AS {'UNSIGNED' if new.unsigned else 'SIGNED'})"
    if new.data_type in _BYTES:
        return f"CAST({sql} AS BINARY)"
    kind = {
        "decimal": f"DECIMAL({new.precision or 10}, {new.scale or 0})",
        "float": "FLOAT",
        "double": "DOUBLE",
        "date": "DATE",
        "datetime": f"DATETIME({new.precision or 0})",
        "timestamp": f"DATETIME({new.precision or 0})",
        "time": f"TIME({new.precision or 0})",
        "year": "YEAR",
        "binary": f"BINARY({new.length or 1})",
    }.get(new.data_type)
    return sql if kind is None else f"CAST({sql} AS {kind})"


def as_text(sql: str, old: Column | None, new: Column) -> str:
    """Convert an expression to the text that a column of this collation holds."""
    plain = old is None or (old.charset is None and old.data_type not in {"binary", *_BYTES})
    text = f"CAST({sql} AS CHAR)" if plain else sql
    converted = f"CONVERT({text} USING {new.charset}) COLLATE {new.collation}"
    return f"TRIM(TRAILING ' ' FROM {converted})" if new.data_type == "char" else converted
