"""MySQL's binary JSON, turned into SQL that makes the server store the same document (pure).

Layout: ``json_binary.h`` of the server. Small unsigned and large signed integers, decimals,
temporal and opaque values have no JSON text, and the text of most doubles is not read back
exactly by every server: these are SQL expressions (:mod:`spirit_py.table.json_document`).

Measured on 9.7.4: an opaque value takes its type code from the expression. ``X'..'`` gives
VARCHAR (15) at any length; BLOB (252), BINARY (254), BIT (16) and TIMESTAMP (7) come from
a JSON_TABLE column; MEDIUMBLOB (250) and LONGBLOB (251) from an IF() whose other branch is
that long. A value gets TINYBLOB (249) only if it is a column when it is converted to JSON, so that
conversion is inside the query over JSON_TABLE.
"""

from __future__ import annotations

import base64
import struct

from spirit_py.binlog.codec.decimals import decimal_codec
from spirit_py.errors import UnreadableChange
from spirit_py.sql import binary_literal
from spirit_py.table import json_document as documents
from spirit_py.table import temporal
from spirit_py.table.json_document import Node

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_DOUBLE, _STRING, _OPAQUE = 11, 12, 15
_LITERALS = ("null", "true", "false")
_NUMBERS = {
    5: struct.Struct("<h"), 6: struct.Struct("<H"), 7: struct.Struct("<i"),
    8: struct.Struct("<I"), 9: struct.Struct("<q"), 10: struct.Struct("<Q"),
    11: struct.Struct("<d"),
}  # fmt: skip
_UNSIGNED = frozenset({6, 8, 10})
_INLINE_SMALL, _INLINE_LARGE = frozenset({4, 5, 6}), frozenset({4, 5, 6, 7, 8})
_TIMESTAMP, _DATE, _TIME, _DATETIME, _BIT, _DECIMAL = 7, 10, 11, 12, 16, 246
_show_time = temporal.show_function("time", 6)
_show_datetime = temporal.show_function("datetime", 6)
_TINY_BLOB, _MEDIUM_BLOB, _LONG_BLOB, _BLOB, _BINARY = 249, 250, 251, 252, 254
_LONGEST_TINY = 255


def sql_expression(raw: bytes) -> str:
    """Return an SQL expression of type JSON for a document in binary form.

    An empty value, which a non-strict server stores in a new NOT NULL column, is JSON null.

    Raises:
        UnreadableChange: when the bytes are not binary JSON.
    """
    return _document(raw).document


def plain_value(raw: bytes) -> str:
    """Return the document as JSON text; temporal and opaque values as the server shows them."""
    return _document(raw).text


def _document(raw: bytes) -> Node:
    if not raw:
        return Node("null")
    try:
        return _value(raw[0], raw, 1)
    except (IndexError, KeyError, ValueError, struct.error) as error:
        raise UnreadableChange(
            f"a JSON value in a row image cannot be read: {error!r}",
            hint="the server may be newer than this program knows",
        ) from error


def _value(kind: int, data: bytes, at: int) -> Node:
    """Decode one value whose payload starts at ``at``."""
    if kind <= _LARGE_ARRAY:
        return _container(kind, data, at)
    if kind == _LITERAL:
        return Node(_LITERALS[data[at]])
    if kind == _STRING:
        start, size = _length(data, at)
        text = _slice(data, start, size).decode("utf-8")
        return documents.string(text)
    if kind == _OPAQUE:
        start, size = _length(data, at + 1)
        return _opaque(data[at], _slice(data, start, size))
    (number,) = _NUMBERS[kind].unpack_from(data, at)
    if kind == _DOUBLE:
        return documents.double(repr(number))
    return documents.integer(str(number), unsigned=kind in _UNSIGNED)


def _container(kind: int, data: bytes, start: int) -> Node:
    """Decode an array or object; offsets inside count from its own start."""
    large, is_object = kind in {_LARGE_OBJECT, _LARGE_ARRAY}, kind <= _LARGE_OBJECT
    word = 4 if large else 2
    inline = _INLINE_LARGE if large else _INLINE_SMALL
    count = int.from_bytes(data[start : start + word], "little")
    _slice(data, start, int.from_bytes(_slice(data, start + word, word), "little"))
    at = start + 2 * word
    keys = []
    for _ in range(count if is_object else 0):
        offset = int.from_bytes(data[at : at + word], "little")
        size = int.from_bytes(data[at + word : at + word + 2], "little")
        keys.append(_slice(data, start + offset, size).decode("utf-8"))
        at += word + 2
    items = []
    for _ in range(count):
        item = data[at]
        place = at + 1
        if item not in inline:
            place = start + int.from_bytes(data[place : place + word], "little")
        items.append(_value(item, data, place))
        at += 1 + word
    return documents.members(keys, items) if is_object else documents.array(items)


def _opaque(kind: int, payload: bytes) -> Node:
    """Render a value that JSON text cannot represent."""
    if kind == _DECIMAL:
        precision, scale = payload[0], payload[1]
        return _decimal(precision, scale, decimal_codec(precision, scale).show(payload[2:]))
    if kind in {_DATE, _TIME, _DATETIME, _TIMESTAMP}:
        return _temporal(kind, int.from_bytes(payload, "little", signed=True))
    shown = f'"base64:type{kind}:{base64.b64encode(payload).decode()}"'
    return Node(shown, opaque_sql(kind, payload))


def _decimal(precision: int, scale: int, number: str) -> Node:
    """Render a DECIMAL; a literal keeps the stored precision where CAST would widen it."""
    natural = scale and precision == sum(character.isdigit() for character in number)
    sql = number if natural else f"CAST({number} AS DECIMAL({precision},{scale}))"
    return Node(number, sql)


def _temporal(kind: int, packed: int) -> Node:
    """Render a temporal value; all have microseconds but DATE."""
    if kind == _DATE:
        year, month = divmod(packed >> 46, 13)
        text = temporal.date_text(year << 9 | month << 5 | packed >> 41 & 31)
        return Node(f'"{text}"', f"CAST('{text}' AS DATE)")
    if kind == _TIME:
        text = _show_time(packed)
        return Node(f'"{text}"', f"CAST('{text}' AS TIME(6))")
    text = _show_datetime(packed)
    sql = f"CAST('{text}' AS DATETIME(6))"
    if kind == _TIMESTAMP:
        sql = _typed(sql, "TIMESTAMP(6)")
    return Node(f'"{text}"', sql)


def opaque_sql(kind: int, payload: bytes) -> str:
    """Return an SQL expression of binary data that gets its type code back."""
    literal = binary_literal(payload)
    if kind == _BIT:
        return _typed(str(int.from_bytes(payload, "big")), f"BIT({8 * max(len(payload), 1)})")
    if kind == _TINY_BLOB and len(payload) <= _LONGEST_TINY:
        return _typed(literal, "TINYBLOB", "JSON_EXTRACT(JSON_ARRAY(v), '$[0]')")
    if kind in {_TINY_BLOB, _BLOB}:
        return _typed(literal, "LONGBLOB")
    if kind == _BINARY and payload:
        return _typed(literal, f"BINARY({len(payload)})")
    if kind == _LONG_BLOB:
        return f"IF(TRUE, {literal}, CAST(X'' AS BINARY(16777216)))"
    if kind == _MEDIUM_BLOB:
        return f"IF(TRUE, {literal}, CAST(X'' AS BINARY(65536)))"
    return literal


def _typed(sql: str, column_type: str, result: str = "v") -> str:
    """Pass an expression through a column ``v`` of a type."""
    return (
        f"(SELECT {result} FROM JSON_TABLE(JSON_ARRAY({sql}), '$[*]'"
        f" COLUMNS (v {column_type} PATH '$')) AS t)"
    )


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Read a length of seven bits a byte; return the place after it and the length."""
    size = shift = 0
    while True:
        byte = data[at]
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at, size
        shift += 7


def _slice(data: bytes, start: int, size: int) -> bytes:
    """Return a part of the data, which must be there in full."""
    part = data[start : start + size]
    if len(part) < size:
        raise IndexError("cut short")
    return part
