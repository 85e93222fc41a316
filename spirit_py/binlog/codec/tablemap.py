"""Table map events: the columns of the rows events that follow them (pure).

Layout (``Table_map_event`` in the server's ``rows_event.h``): table id (6 bytes), flags (2),
schema and table name (length, text, zero byte), column count, one type code a column,
metadata, null bits, optional metadata. Bodies are given without the 19 bytes of the common
event header and without the checksum.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from spirit_py.errors import UnreadableChange

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """A column of a table map: type code and metadata, both as the server wrote them.

    For STRING the real type (STRING, ENUM or SET) has been taken out of the metadata.
    """

    code: int
    metadata: int


@dataclass(frozen=True, kw_only=True)
class TableMap:
    """A parsed table map.

    Attributes:
        nullable: for each column whether it may be NULL.
        signedness: a bit for each numeric column, first column highest, set for unsigned; None
            where the event does not have it. Newer servers count YEAR as numeric, older do not.
        names: column names; empty unless ``binlog_row_metadata`` is FULL.
        optional: the fields of the optional metadata, undecoded, by their type.
    """

    table_id: int
    schema: str
    table: str
    columns: tuple[ColumnType, ...]
    nullable: tuple[bool, ...]
    signedness: bytes | None = None
    names: tuple[str, ...] = ()
    optional: Mapping[int, bytes] = field(default_factory=dict)


def parse_table_map(body: bytes) -> TableMap:
    """Parse the body of a TABLE_MAP_EVENT.

    Raises:
        UnreadableChange: when the body is cut short or holds an unknown type code.
    """
    try:
        return _parse(body)
    except (IndexError, KeyError, ValueError) as error:
        raise UnreadableChange(
            f"a table map event cannot be read: {error!r}",
            hint="the server may be newer than this program knows",
        ) from error


def _parse(body: bytes) -> TableMap:
    """Parse, letting index and key errors out."""
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
    optional = dict(_optional_fields(body, at + null_bytes))
    return TableMap(
        table_id=int.from_bytes(body[:6], "little"),
        schema=schema,
        table=table,
        columns=columns,
        nullable=tuple(bool(bits >> i & 1) for i in range(count)),
        signedness=optional.get(_SIGNEDNESS),
        names=_names(optional.get(_COLUMN_NAMES, b"")),
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
    """Pair type codes with their metadata."""
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
            code, value = _string_type(*raw)
        columns.append(ColumnType(code, value))
    return tuple(columns)


def _string_type(first: int, second: int) -> tuple[int, int]:
    """Take real type and length out of a STRING's metadata.

    Lengths of 256 bytes and more have their two upper bits, inverted, in bits 4 and 5 of the
    type byte (``Field_string::do_save_field_metadata``).
    """
    if first in {ENUM, SET}:
        return first, second
    return first | 0x30, second | (first & 0x30 ^ 0x30) << 4


def _optional_fields(body: bytes, at: int) -> list[tuple[int, bytes]]:
    fields = []
    while at < len(body):
        length, start = packed_integer(body, at + 1)
        fields.append((body[at], body[start : start + length]))
        at = start + length
    return fields


def _names(data: bytes) -> tuple[str, ...]:
    names, at = [], 0
    while at < len(data):
        length, start = packed_integer(data, at)
        at = start + length
        names.append(data[start:at].decode("utf-8"))
    return tuple(names)
