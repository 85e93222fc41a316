"""A table's definition out of a table map that describes itself (pure).

With ``binlog_row_metadata=FULL`` a table map has names, signs, character sets, members of ENUM
and SET, and the primary key: all that is needed to read the rows, whatever has become of the
table since (``Optional_metadata_fields`` in the server's ``rows_event.h``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spirit_py.binlog.codec import tablemap as codes
from spirit_py.binlog.codec.fields import character_bytes
from spirit_py.binlog.codec.scalars import CODECS
from spirit_py.binlog.codec.tablemap import packed_integer
from spirit_py.table.schema import Column, Index, IndexPart, TableSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from spirit_py.binlog.codec.tablemap import ColumnType, TableMap

_DEFAULT_CHARSET, _COLUMN_CHARSET, _SETS, _ENUMS, _GEOMETRY = 2, 3, 5, 6, 7
_KEY, _KEY_WITH_PREFIX, _MEMBER_DEFAULT_CHARSET, _MEMBER_CHARSET = 8, 9, 10, 11
_PLAIN: Final = {
    codes.TINY: "tinyint", codes.SHORT: "smallint", codes.INT24: "mediumint",
    codes.LONG: "int", codes.LONGLONG: "bigint", codes.FLOAT: "float", codes.DOUBLE: "double",
    codes.YEAR: "year", codes.DATE: "date", codes.NEWDATE: "date", codes.JSON: "json",
    codes.VECTOR: "vector",
}  # fmt: skip
_TEMPORAL: Final = {codes.TIME2: "time", codes.DATETIME2: "datetime", codes.TIMESTAMP2: "timestamp"}
_SIGNED: Final = frozenset({
    codes.TINY, codes.SHORT, codes.INT24, codes.LONG, codes.LONGLONG, codes.FLOAT, codes.DOUBLE,
    codes.NEWDECIMAL,
})  # fmt: skip
_CHARACTER: Final = frozenset({codes.STRING, codes.VAR_STRING, codes.VARCHAR, codes.BLOB})
_SIZES: Final = {1: "tiny", 2: "", 3: "medium", 4: "long"}
_SHAPES: Final = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring",
    "multipolygon", "geomcollection",
)  # fmt: skip
_BINARY: Final = "binary"


class Collation(NamedTuple):
    """A collation and its character set."""

    charset: str
    name: str


def described(table_map: TableMap, collations: Mapping[int, Collation]) -> TableSchema | None:
    """Return the definition that a table map describes; None when it does not describe itself.

    Args:
        collations: the server's collations by number.

    None as well for members of ENUM and SET in a character set that Python does not know.
    """
    if not table_map.names:
        return None
    try:
        columns = tuple(_Described(table_map, collations).columns())
    except (IndexError, KeyError, UnicodeDecodeError, StopIteration):
        return None
    key = _key(table_map, columns)
    return TableSchema(
        schema=table_map.schema,
        name=table_map.table,
        engine="",
        columns=columns,
        indexes=(Index(name="PRIMARY", unique=True, parts=key),) if key else (),
    )


def agrees(schema: TableSchema, other: TableSchema) -> bool:
    """Return whether two definitions read the same values, under the same names, from a row."""
    return [_reading(c) for c in schema.columns] == [_reading(c) for c in other.columns]


def _reading(column: Column) -> tuple[Any, ...]:
    """Return the properties that decide how a column is read."""
    kind = {"geometrycollection": "geomcollection"}.get(column.data_type, column.data_type)
    charset = {"utf8": "utf8mb3"}.get(column.charset or "", column.charset or "")
    unsigned = column.unsigned or kind == "year"
    return column.name, kind, column.nullable, unsigned, charset, column.members


class _Described:
    """Reads the fields of the optional metadata, column by column."""

    def __init__(self, table_map: TableMap, collations: Mapping[int, Collation]) -> None:
        self._map = table_map
        self._collations = collations
        found = table_map.optional
        types = table_map.columns
        characters = sum(column.code in _CHARACTER for column in types)
        members = sum(column.code in {codes.ENUM, codes.SET} for column in types)
        self._charsets = _per_column(found, _DEFAULT_CHARSET, _COLUMN_CHARSET, characters)
        self._member_charsets = _per_column(
            found, _MEMBER_DEFAULT_CHARSET, _MEMBER_CHARSET, members
        )
        self._sets = _members(found.get(_SETS, b""))
        self._enums = _members(found.get(_ENUMS, b""))
        self._geometries = iter(_numbers(found.get(_GEOMETRY, b"")))
        self._signs = iter(_signs(table_map))

    def columns(self) -> list[Column]:
        """Return the columns in order; StopIteration where a field is too short."""
        return [self._column(*numbered) for numbered in enumerate(self._map.columns)]

    def _column(self, place: int, announced: ColumnType) -> Column:
        unsigned = announced.code in _SIGNED and next(self._signs)
        given = self._type(announced)
        shown = given.pop("column_type", given["data_type"])
        return Column(
            name=self._map.names[place],
            ordinal=place + 1,
            nullable=self._map.nullable[place],
            unsigned=unsigned,
            column_type=f"{shown} unsigned" if unsigned else shown,
            **given,
        )

    def _type(self, announced: ColumnType) -> dict[str, Any]:
        code, metadata = announced
        if code in _PLAIN:
            return {"data_type": _PLAIN[code]}
        if code in _TEMPORAL:
            shown = f"{_TEMPORAL[code]}({metadata})" if metadata else _TEMPORAL[code]
            return {"data_type": _TEMPORAL[code], "precision": metadata, "column_type": shown}
        if code == codes.NEWDECIMAL:
            precision, scale = metadata >> 8, metadata & 255
            size = {"precision": precision, "scale": scale}
            shown = f"decimal({precision},{scale})"
            return {"data_type": "decimal", "column_type": shown, **size}
        if code == codes.BIT:
            length = (metadata >> 8) * 8 + (metadata & 255)
            return {"data_type": "bit", "length": length, "column_type": f"bit({length})"}
        if code == codes.GEOMETRY:
            return {"data_type": _SHAPES[next(self._geometries)]}
        if code in {codes.ENUM, codes.SET}:
            return self._numbered(code)
        return self._text(announced)

    def _numbered(self, code: int) -> dict[str, Any]:
        """Describe ENUM or SET, whose members are in the column's character set."""
        collation = self._collations[next(self._member_charsets)]
        raw = next(self._enums if code == codes.ENUM else self._sets)
        members = tuple(member.decode(CODECS[collation.charset]) for member in raw)
        kind = "enum" if code == codes.ENUM else "set"
        quoted = ",".join("'" + member.replace("'", "''") + "'" for member in members)
        return {
            "data_type": kind,
            "members": members,
            "column_type": f"{kind}({quoted})",
            **_collated(collation),
        }

    def _text(self, announced: ColumnType) -> dict[str, Any]:
        """Describe text and binary columns; the binary collation makes the difference."""
        collation = self._collations[next(self._charsets)]
        binary = collation.charset == _BINARY
        if announced.code == codes.BLOB:
            kind = _SIZES[announced.metadata] + ("blob" if binary else "text")
            return {"data_type": kind, **({} if binary else _collated(collation))}
        length = announced.metadata // (1 if binary else character_bytes(collation.charset))
        fixed = announced.code == codes.STRING
        kind = ("binary" if fixed else "varbinary") if binary else "char" if fixed else "varchar"
        made: dict[str, Any] = {} if binary else _collated(collation)
        return {"data_type": kind, "length": length, "column_type": f"{kind}({length})", **made}


def _collated(collation: Collation) -> dict[str, str]:
    return {"charset": collation.charset, "collation": collation.name}


def _per_column(found: Mapping[int, bytes], default: int, listed: int, count: int) -> Iterator[int]:
    """Return the collation of each column, from a list or from a default with exceptions."""
    if listed in found:
        return iter(_numbers(found[listed]))
    numbers = _numbers(found.get(default, b"\0"))
    exceptions = dict(zip(numbers[1::2], numbers[2::2], strict=True))
    return iter([exceptions.get(at, numbers[0]) for at in range(count)])


def _numbers(data: bytes) -> list[int]:
    return list(_read(data, packed_integer))


def _members(data: bytes) -> Iterator[list[bytes]]:
    """Read the members of each column: a count, then texts with their lengths."""

    def one(raw: bytes, at: int) -> tuple[list[bytes], int]:
        count, at = packed_integer(raw, at)
        texts = []
        for _ in range(count):
            size, at = packed_integer(raw, at)
            texts.append(raw[at : at + size])
            at += size
        return texts, at

    return iter(list(_read(data, one)))


def _read(data: bytes, one: Callable[[bytes, int], tuple[Any, int]]) -> Iterator[Any]:
    at = 0
    while at < len(data):
        value, at = one(data, at)
        yield value


def _signs(table_map: TableMap) -> list[bool]:
    """Return for each numeric column, YEAR aside, whether it is unsigned.

    Newer servers give YEAR a bit, always set; older ones give it none.
    """
    raw = table_map.signedness or b""
    bits = [bool(byte >> (7 - at) & 1) for byte in raw for at in range(8)]
    kinds = [c.code for c in table_map.columns if c.code in _SIGNED or c.code == codes.YEAR]
    with_year = list(zip(kinds, bits, strict=False))
    if all(bit for code, bit in with_year if code == codes.YEAR) and len(bits) >= len(kinds):
        return [bit for code, bit in with_year if code != codes.YEAR]
    return bits


def _key(table_map: TableMap, columns: tuple[Column, ...]) -> tuple[IndexPart, ...]:
    found = table_map.optional
    if _KEY in found:
        return tuple(IndexPart(column=columns[at].name) for at in _numbers(found[_KEY]))
    numbers = _numbers(found.get(_KEY_WITH_PREFIX, b""))
    return tuple(
        IndexPart(column=columns[at].name, prefix=prefix or None)
        for at, prefix in zip(numbers[::2], numbers[1::2], strict=True)
    )
