"""How each column is kept in a file, and the text of its value on both sides (pure).

The server hashes the rows that it has, Spark those that it reads back from the files: 64 bits of
the SHA-256 of one text, added up: rows of a table without a key may be equal, and an XOR of two of
them is nothing. What a type of Parquet cannot hold (a zero date, text without a Unicode form, an
SRID) is in one further column, a map from the column's name to a text, and the column itself is
NULL there. docs/commands/archive.md has the table of types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.checksum.render import is_lob, whole
from spirit_py.classes import dataclass, replace
from spirit_py.sql import quote_identifier
from spirit_py.table.keys import BYTE_TYPES, INTEGERS, TEXT_TYPES
from spirit_py.table.schema import SPATIAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.table.schema import Column, TableSchema

BESIDE: Final = "_mysql"
"""The column of what the others cannot hold; with underscores in front where a column has it."""
_SIZES: Final = ("tinyint", "smallint", "int", "bigint")
_WIDEST_DECIMAL: Final = 38
_LONG: Final = SPATIAL | {"json", "vector"}
#: An argument that no column outranks, so that CONCAT takes all bytes as they are.
_BYTES: Final = "_binary'' COLLATE `binary`"
HASH_DIGITS: Final = 16
"""So many hexadecimal digits of the SHA-256 of a row count."""


@dataclass(frozen=True, kw_only=True)
class StoredColumn:
    """One column: its ``spark`` type, what is selected of it, and its text on both sides.

    ``beside``: what the type cannot hold, NULL for nearly all rows; empty where there is no such
    value. ``here`` and ``there`` are the text, never NULL, in SQL of the server and of Spark.
    """

    name: str
    spark: str
    select: str
    here: str
    there: str
    beside: str = ""


def stored(column: Column, beside: str = BESIDE) -> StoredColumn:
    """Return how a column is kept; ``beside`` is the name of the further column."""
    name = quote_identifier(column.name)
    kind = column.data_type
    if kind in INTEGERS or kind in {"year", "bit"}:
        return _number(column, name)
    if kind == "decimal":
        return _decimal(column, name)
    if kind in {"float", "double"}:
        # The text of a FLOAT has six digits; that of a number would be another one in Spark.
        value = f"CAST({name} AS DOUBLE)"
        bits = f"HEX(REVERSE(SUBSTR(ST_AsWKB(POINT({value}, 0)), 6, 8)))"
        raw = f"java_method('java.lang.Double', 'doubleToRawLongBits', double({name}))"
        back = f"if({name} is null, null, lpad(hex(bigint({raw})), 16, '0'))"
        return _plain(column.name, kind, value, bits, back)
    if kind in {"date", "datetime", "timestamp"}:
        return _temporal(column, name, beside)
    if kind in SPATIAL:
        return _shape(column, name, beside)
    if kind in TEXT_TYPES or kind in {"enum", "set"}:
        return _text(column, name, beside)
    if kind in BYTE_TYPES or kind == "vector":
        return _bytes(column, name)
    if kind == "json":
        back = f"sha2(binary({name}), 256)"
        return _plain(column.name, "string", name, f"SHA2({name}, 256)", back)
    return _plain(column.name, "string", name, f"CONCAT({name})", name)


def _plain(name: str, spark: str, select: str, here: str, back: str) -> StoredColumn:
    there = f"coalesce({back}, 'N')"
    return StoredColumn(
        name=name, spark=spark, select=select, here=f"IFNULL({here}, 'N')", there=there
    )


def _number(column: Column, name: str) -> StoredColumn:
    kind, value = column.data_type, name
    if kind in {"year", "bit"}:
        value = f"CAST({name} AS UNSIGNED)"
    if kind == "year":
        spark = "smallint"
    elif kind == "bit":
        spark = "bigint" if (column.length or 1) < 64 else "decimal(20,0)"
    else:
        if "zerofill" in column.column_type:
            value = f"CAST({name} AS UNSIGNED)"
        at = _SIZES.index("int" if kind == "mediumint" else kind)
        wider = column.unsigned and kind != "mediumint"
        spark = (*_SIZES, "decimal(20,0)")[at + wider]
    return _plain(column.name, spark, value, value, f"string({name})")


def _decimal(column: Column, name: str) -> StoredColumn:
    precision, scale = column.precision or 10, column.scale or 0
    value = name
    if "zerofill" in column.column_type:
        value = f"CAST({name} AS DECIMAL({precision}, {scale}))"
    spark = f"decimal({precision},{scale})" if precision <= _WIDEST_DECIMAL else "string"
    return _plain(column.name, spark, value, value, f"string({name})")


def _temporal(column: Column, name: str, beside: str) -> StoredColumn:
    kind, text = column.data_type, f"CONCAT({name})"
    if kind != "date":
        digits = column.precision or 0
        zeros = "0" * (6 - digits)
        text = f"CONCAT({name}, '{'' if digits else '.'}{zeros}')" if zeros else text
    # Not a day of the calendar from year 1: of others FROM_DAYS returns another one, or nothing.
    odd = f"NOT (FROM_DAYS(TO_DAYS({name})) <=> DATE({name}) AND {name} >= '0001-01-01')"
    spark = {"datetime": "timestamp_ntz"}.get(kind, kind)
    pattern = "yyyy-MM-dd" if kind == "date" else "yyyy-MM-dd HH:mm:ss.SSSSSS"
    held = f"{_beside(beside)}['{_escaped(column.name)}']"
    return StoredColumn(
        name=column.name,
        spark=spark,
        select=f"IF({odd}, NULL, {text})",
        beside=f"IF({name} IS NULL, NULL, IF({odd}, {text}, NULL))",
        here=f"IFNULL({text}, 'N')",
        there=f"coalesce(date_format({name}, '{pattern}'), {held}, 'N')",
    )


def _shape(column: Column, name: str, beside: str) -> StoredColumn:
    # Not ST_AsWKB, which swaps axes and needs the definition of each SRID.
    wkb, fixed = f"SUBSTR(CAST({name} AS BINARY), 5)", column.srid or 0
    held = f"{_beside(beside)}['{_escaped(column.name)}']"
    return StoredColumn(
        name=column.name,
        spark="binary",
        select=wkb,
        beside=f"NULLIF(ST_SRID({name}), {fixed})",
        here=f"IFNULL(CONCAT(ST_SRID({name}), ':', SHA2({wkb}, 256)), 'N')",
        there=f"coalesce(concat(coalesce({held}, '{fixed}'), ':', sha2({name}, 256)), 'N')",
    )


def _text(column: Column, name: str, beside: str) -> StoredColumn:
    text = name if column.charset == "utf8mb4" else f"CONVERT({name} USING utf8mb4)"
    if is_lob(column):
        here, there = f"SHA2({text}, 256)", f"sha2(binary({name}), 256)"
    else:
        here = f"CONCAT(OCTET_LENGTH({text}), ':', {_BYTES}, {text})"
        there = f"concat(octet_length({name}), ':', {name})"
    unicode = replace(column, charset="utf8mb4")
    # utf8mb3 takes halves of surrogate pairs from ucs2, which are question marks then (measured).
    if column.charset != "utf8mb3" and whole(column, unicode):
        return _plain(column.name, "string", name, here, there)
    # Bytes that mean no character of Unicode, or one of two that mean the same.
    again = f"CAST(CONVERT({text} USING {column.charset}) AS BINARY)"
    kept = f"{again} = CAST({name} AS BINARY)"
    held = f"{_beside(beside)}['{_escaped(column.name)}']"
    return StoredColumn(
        name=column.name,
        spark="string",
        select=f"IF({kept}, {name}, NULL)",
        beside=f"IF({kept}, NULL, HEX({name}))",
        here=f"IFNULL(IF({kept}, {here}, CONCAT('X', SHA2({name}, 256))), 'N')",
        there=f"coalesce({there}, concat('X', sha2(unhex({held}), 256)), 'N')",
    )


def _bytes(column: Column, name: str) -> StoredColumn:
    if is_lob(column) or column.data_type == "vector":
        return _plain(column.name, "binary", name, f"SHA2({name}, 256)", f"sha2({name}, 256)")
    return _plain(column.name, "binary", name, f"HEX({name})", f"hex({name})")


def _beside(name: str) -> str:
    return quote_identifier(name)


def _escaped(text: str) -> str:
    """Return a text between quotes of Spark's SQL, where a backslash escapes."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


@dataclass(frozen=True, kw_only=True)
class StoredTable:
    """All columns of a table, and the name of the further one, empty where none is needed.

    ``wide``: a value may be too long for many rows to be in memory at once.
    """

    columns: tuple[StoredColumn, ...]
    beside: str
    wide: bool = False

    @classmethod
    def of(cls, table: TableSchema, names: Sequence[str] = ()) -> StoredTable:
        """Return how a table is kept, or the columns of these names only."""
        name = BESIDE
        while table.has_column(name):
            name = f"_{name}"
        wanted = [table.column(one) for one in names] or list(table.columns)
        columns = tuple(stored(column, name) for column in wanted)
        beside = name if any(one.beside for one in columns) else ""
        wide = any(is_lob(one) or one.data_type in _LONG for one in wanted)
        return cls(columns=columns, beside=beside, wide=wide)

    @property
    def selected(self) -> tuple[str, ...]:
        """What is selected: the columns, and the further one as ``number=text;...`` or NULL."""
        parts = [
            f"CONCAT('{at}=', {one.beside})" for at, one in enumerate(self.columns) if one.beside
        ]
        more = [f"NULLIF(CONCAT_WS(';', {', '.join(parts)}), '')"] if self.beside else []
        return (*(one.select for one in self.columns), *more)

    @property
    def row_hash(self) -> str:
        """The hash of a row in SQL of the server, as a number."""
        texts = ", ',', ".join(one.here for one in self.columns)
        digits = f"LEFT(SHA2(CONCAT({_BYTES}, {texts}), 256), {HASH_DIGITS})"
        return f"CAST(CONV({digits}, 16, 10) AS UNSIGNED)"

    @property
    def read_hash(self) -> str:
        """The same of a row that is read back, in SQL of Spark."""
        texts = ", ',', ".join(one.there for one in self.columns)
        digits = f"substr(sha2(binary(concat({texts})), 256), 1, {HASH_DIGITS})"
        return f"cast(conv({digits}, 16, 10) as decimal(20, 0))"
