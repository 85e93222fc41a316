"""Table map events: the columns of the rows events that follow them, and definitions (pure).

Layouts: ``Table_map_event`` and ``Optional_metadata_fields`` in the server's ``rows_event.h``.
Bodies are given without the 19 bytes of the common event header and without the checksum.

With ``binlog_row_metadata=FULL`` a table map has names, signs, character sets, members of ENUM
and SET, and the primary key: all that is needed to read the rows, whatever has become of the
table since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spirit_py.binlog.codec.scalars import CODECS, character_bytes
from spirit_py.classes import dataclass, field
from spirit_py.errors import UnreadableChange
from spirit_py.table.schema import Column, Index, IndexPart, TableSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

TINY, SHORT, LONG, FLOAT, DOUBLE, TIMESTAMP = 1, 2, 3, 4, 5, 7
LONGLONG, INT24, DATE, TIME, DATETIME, YEAR, NEWDATE = 8, 9, 10, 11, 12, 13, 14
VARCHAR, BIT = 15, 16
TIMESTAMP2, DATETIME2, TIME2, TYPED_ARRAY = 17, 18, 19, 20
VECTOR, JSON, NEWDECIMAL, ENUM, SET, BLOB = 242, 245, 246, 247, 248, 252
VAR_STRING, STRING, GEOMETRY = 253, 254, 255

#: Bytes of metadata for each type code (``Field::do_save_field_metadata``).
_METADATA_BYTES = {
    FLOAT: 1, DOUBLE: 1, BLOB: 1, GEOMETRY: 1, JSON: 1, VECTOR: 1,
    TIMESTAMP2: 1, DATETIME2: 1, TIME2: 1,
    VARCHAR: 2, VAR_STRING: 2, STRING: 2, BIT: 2, NEWDECIMAL: 2, ENUM: 2, SET: 2,
}  # fmt: skip
_SIGNEDNESS, _COLUMN_NAMES = 1, 4


class ColumnType(NamedTuple):
    """Type code and metadata as the server wrote them; STRING's real type is taken out of them."""

    code: int
    metadata: int


@dataclass(frozen=True, kw_only=True)
class TableMap:
    """A parsed table map; ``names`` are empty unless ``binlog_row_metadata`` is FULL.

    ``signedness``: a bit for each numeric column, first column highest, set for unsigned; None
    where the event does not have it. Newer servers count YEAR as numeric, older do not.
    ``optional``: the fields of the optional metadata, undecoded, by their type.
    """

    schema: str
    table: str
    columns: tuple[ColumnType, ...]
    nullable: tuple[bool, ...]
    signedness: bytes | None = None
    names: tuple[str, ...] = ()
    optional: Mapping[int, bytes] = field(default_factory=dict)


def parse_table_map(body: bytes) -> TableMap:
    """Parse the body of a TABLE_MAP_EVENT; UnreadableChange if cut short, or of unknown types."""
    try:
        return _parse(body)
    except (IndexError, KeyError, ValueError) as error:
        hint = "the server may be newer than this program knows"
        raise UnreadableChange(f"a table map event cannot be read: {error!r}", hint=hint) from error


def _parse(body: bytes) -> TableMap:
    schema, at = _short_text(body, 8)
    table, at = _short_text(body, at)
    count, at = packed_integer(body, at)
    codes = body[at : at + count]
    size, at = packed_integer(body, at + count)
    columns = _columns(codes, body[at : at + size])
    at += size
    null_bytes = (count + 7) // 8
    bits = int.from_bytes(body[at : at + null_bytes], "little")
    if len(body) < at + null_bytes:
        raise IndexError("cut short")
    optional = {}
    at += null_bytes
    while at < len(body):
        length, start = packed_integer(body, at + 1)
        optional[body[at]] = body[start : start + length]
        at = start + length
    names = optional.get(_COLUMN_NAMES, b"")
    return TableMap(
        schema=schema,
        table=table,
        columns=columns,
        nullable=tuple(bool(bits >> i & 1) for i in range(count)),
        signedness=optional.get(_SIGNEDNESS),
        names=tuple(name.decode("utf-8") for name in _read(names, _counted)),
        optional=optional,
    )


def packed_integer(data: bytes, at: int) -> tuple[int, int]:
    """Read a length-encoded integer; return it and the place after it."""
    first = data[at]
    if first < 251:
        return first, at + 1
    width = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width


def _short_text(data: bytes, at: int) -> tuple[str, int]:
    """Read a text with a length byte before and a zero byte after it."""
    end = at + 1 + data[at]
    return data[at + 1 : end].decode("utf-8"), end + 1


def _columns(codes: bytes, metadata: bytes) -> tuple[ColumnType, ...]:
    columns, at = [], 0
    for number in codes:
        code = number
        width = 3 if code == TYPED_ARRAY else _METADATA_BYTES.get(code, 0)
        raw = metadata[at : at + width]
        if len(raw) < width:
            raise IndexError("metadata cut short")
        at += width
        if code in {STRING, ENUM, SET, NEWDECIMAL}:
            value = raw[0] << 8 | raw[1]
        else:
            value = int.from_bytes(raw, "little")
        if code == STRING:
            code, value = raw
            if code not in {ENUM, SET}:
                # The two upper bits of a length, inverted, are in bits 4 and 5 of the type byte
                # (``Field_string::do_save_field_metadata``).
                code, value = code | 0x30, value | (code & 0x30 ^ 0x30) << 4
        columns.append(ColumnType(code, value))
    return tuple(columns)


def _counted(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = packed_integer(data, at)
    return data[at : at + size], at + size


_DEFAULT_CHARSET, _COLUMN_CHARSET, _SETS, _ENUMS, _GEOMETRY = 2, 3, 5, 6, 7
_KEY, _KEY_WITH_PREFIX, _MEMBER_DEFAULT_CHARSET, _MEMBER_CHARSET = 8, 9, 10, 11
_PLAIN: Final = {
    TINY: "tinyint", SHORT: "smallint", INT24: "mediumint", LONG: "int", LONGLONG: "bigint",
    FLOAT: "float", DOUBLE: "double", YEAR: "year", DATE: "date", NEWDATE: "date",
    JSON: "json", VECTOR: "vector",
}  # fmt: skip
_TEMPORAL: Final = {TIME2: "time", DATETIME2: "datetime", TIMESTAMP2: "timestamp"}
_SIGNED: Final = frozenset({TINY, SHORT, INT24, LONG, LONGLONG, FLOAT, DOUBLE, NEWDECIMAL})
_CHARACTER: Final = frozenset({STRING, VAR_STRING, VARCHAR, BLOB})
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

    None as well for members of ENUM and SET in a character set that Python does not know.
    """
    if not table_map.names:
        return None
    try:
        columns = tuple(_Described(table_map, collations).columns())
    except (IndexError, KeyError, UnicodeDecodeError, StopIteration):
        return None
    key = _key(table_map, columns)
    indexes = (Index(name="PRIMARY", unique=True, parts=key),) if key else ()
    schema, name = table_map.schema, table_map.table
    return TableSchema(schema=schema, name=name, engine="", columns=columns, indexes=indexes)


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
    def __init__(self, table_map: TableMap, collations: Mapping[int, Collation]) -> None:
        self._map = table_map
        self._collations = collations
        found = table_map.optional
        types = table_map.columns
        characters = sum(column.code in _CHARACTER for column in types)
        members = sum(column.code in {ENUM, SET} for column in types)
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
        if code == NEWDECIMAL:
            precision, scale = metadata >> 8, metadata & 255
            size = {"precision": precision, "scale": scale}
            shown = f"decimal({precision},{scale})"
            return {"data_type": "decimal", "column_type": shown, **size}
        if code == BIT:
            length = (metadata >> 8) * 8 + (metadata & 255)
            return {"data_type": "bit", "length": length, "column_type": f"bit({length})"}
        if code == GEOMETRY:
            return {"data_type": _SHAPES[next(self._geometries)]}
        return self._numbered(code) if code in {ENUM, SET} else self._text(announced)

    def _numbered(self, code: int) -> dict[str, Any]:
        """Describe ENUM or SET, whose members are in the column's character set."""
        collation = self._collations[next(self._member_charsets)]
        raw = next(self._enums if code == ENUM else self._sets)
        members = tuple(member.decode(CODECS[collation.charset]) for member in raw)
        kind = "enum" if code == ENUM else "set"
        quoted = ",".join("'" + member.replace("'", "''") + "'" for member in members)
        shown = f"{kind}({quoted})"
        return {"data_type": kind, "members": members, "column_type": shown, **_collated(collation)}

    def _text(self, announced: ColumnType) -> dict[str, Any]:
        """Describe text and binary columns; the binary collation makes the difference."""
        collation = self._collations[next(self._charsets)]
        binary = collation.charset == _BINARY
        if announced.code == BLOB:
            kind = _SIZES[announced.metadata] + ("blob" if binary else "text")
            return {"data_type": kind, **({} if binary else _collated(collation))}
        length = announced.metadata // (1 if binary else character_bytes(collation.charset))
        fixed = announced.code == STRING
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
            text, at = _counted(raw, at)
            texts.append(text)
        return texts, at

    return iter(list(_read(data, one)))


def _read(data: bytes, one: Callable[[bytes, int], tuple[Any, int]]) -> Iterator[Any]:
    at = 0
    while at < len(data):
        value, at = one(data, at)
        yield value


def _signs(table_map: TableMap) -> list[bool]:
    """Return the signs without those of YEAR: newer servers give it a bit, always set."""
    raw = table_map.signedness or b""
    bits = [bool(byte >> (7 - at) & 1) for byte in raw for at in range(8)]
    kinds = [c.code for c in table_map.columns if c.code in _SIGNED or c.code == YEAR]
    with_year = list(zip(kinds, bits, strict=False))
    if all(bit for code, bit in with_year if code == YEAR) and len(bits) >= len(kinds):
        return [bit for code, bit in with_year if code != YEAR]
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
