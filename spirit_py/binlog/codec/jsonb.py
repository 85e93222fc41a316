"""MySQL's binary JSON, turned into SQL that makes the server store the same document (pure).

MySQL 8.0 misreads a fifth of the doubles with 16 or 17 digits in JSON text by one unit in the last
place (9.7 does not); SQL literals are exact. A double stays text only where the digits are below
2^53 and the power of ten is at most 22. Measured on 9.7.4: 300 000 literals in one JSON_ARRAY take
0.2 s (0.04 s as text); 100 levels, the most of a document, need a ``thread_stack`` of 192 KiB.

Layout: ``json_binary.h`` of the server. Small unsigned and large signed integers, decimals,
temporal and opaque values have no JSON text, and the text of most doubles is not read back
exactly by every server: these are SQL expressions (:class:`Node`).

Measured on 9.7.4: an opaque value takes its type code from the expression. ``X'..'`` gives
VARCHAR (15) at any length; BLOB (252), BINARY (254), BIT (16) and TIMESTAMP (7) come from
a JSON_TABLE column; MEDIUMBLOB (250) and LONGBLOB (251) from an IF() whose other branch is
that long. A value gets TINYBLOB (249) only if it is a column when it is converted to JSON, so that
conversion is inside the query over JSON_TABLE. BIT (16) of more than 8 bytes is what
``COALESCE(b, b)`` and the like make of a BIT column: the digits of its number.

VAR_STRING (253) is text of ucs2, utf16, utf16le and utf32 in JSON_ARRAY and the like: its bytes as
they are, all of which text of ucs2 can have. The expression asks for its own type, because another
version may make a string of it.

No other type code comes from any expression that was tried; 254 beyond 255 bytes is a SET of binary
texts. They are refused (R9), and so are names of members with surrogates, which come from ucs2: the
server takes no literal of them.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from spirit_py.binlog.codec.scalars import decimal_codec
from spirit_py.errors import UnreadableChange
from spirit_py.sql import binary_literal, string_literal
from spirit_py.table import temporal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: A whole number in JSON text is unsigned from here on, signed below (measured).
_UNSIGNED_IN_TEXT: Final = 1 << 32
_EXACT_DIGITS: Final = 1 << 53
_EXACT_POWER: Final = 22
_WORDS: Final = frozenset({"null", "true", "false"})
_LONGEST_PLAIN: Final = 9


class Node(NamedTuple):
    """A value or a document as JSON text, or as ``sql``; that is empty where the text is exact."""

    text: str
    sql: str = ""

    @property
    def argument(self) -> str:
        """The value as an argument of JSON_ARRAY and JSON_OBJECT, in few characters."""
        if self.sql:
            return self.sql
        text, first = self.text, self.text[0]
        if first == '"':
            return string_literal(json.loads(text))
        if text in _WORDS or (len(text) <= _LONGEST_PLAIN and text.lstrip("-").isdigit()):
            return text
        if first not in "[{" and not text.lstrip("-").isdigit():
            return _literal(text)
        return self._cast

    @property
    def document(self) -> str:
        """The value as an expression of type JSON."""
        if not self.sql:
            return self._cast
        return self.sql if self.text[0] in "[{" else f"JSON_EXTRACT(JSON_ARRAY({self.sql}), '$[0]')"

    @property
    def _cast(self) -> str:
        return f"CAST({string_literal(self.text)} AS JSON)"


def string(text: str) -> Node:
    """Return a string."""
    return Node(json.dumps(text, ensure_ascii=False))


def integer(number: str, *, unsigned: bool) -> Node:
    """Return a whole number of the type INTEGER or UNSIGNED INTEGER."""
    if unsigned == (int(number) >= _UNSIGNED_IN_TEXT):
        return Node(number)
    return Node(number, f"CAST({number} AS {'UN' if unsigned else ''}SIGNED)")


def double(number: str) -> Node:
    """Return a DOUBLE of as many digits as it takes to tell it from its neighbours."""
    mantissa, _, exponent = number.lower().partition("e")
    whole, point, fraction = mantissa.lstrip("-").partition(".")
    power = int(exponent or 0) - len(fraction)
    exact = int(whole + fraction) < _EXACT_DIGITS and -_EXACT_POWER <= power <= _EXACT_POWER
    return Node(number) if exact and (point or exponent) else Node(number, _literal(number))


def _literal(number: str) -> str:
    """Write a DOUBLE as a literal of SQL, which without an exponent would be a DECIMAL."""
    return number if "e" in number.lower() else f"{number}e0"


def array(items: Sequence[Node]) -> Node:
    """Return an array."""
    text = f"[{', '.join(item.text for item in items)}]"
    if not any(item.sql for item in items):
        return Node(text)
    return Node(text, f"JSON_ARRAY({', '.join(item.argument for item in items)})")


def members(keys: Iterable[str], items: Sequence[Node]) -> Node:
    """Return an object of these members; the server orders them."""
    pairs = list(zip(keys, items, strict=True))
    shown = ", ".join(f"{string(key).text}: {item.text}" for key, item in pairs)
    text = f"{{{shown}}}"
    if not any(item.sql for item in items):
        return Node(text)
    sql = ", ".join(f"{string_literal(key)}, {item.argument}" for key, item in pairs)
    return Node(text, f"JSON_OBJECT({sql})")


_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_DOUBLE, _STRING, _OPAQUE = 11, 12, 15
_LITERALS = ("null", "true", "false")
_NUMBERS = {kind: struct.Struct(f"<{code}") for kind, code in enumerate("hHiIqQd", 5)}
_UNSIGNED = frozenset({6, 8, 10})
_INLINE_SMALL, _INLINE_LARGE = frozenset({4, 5, 6}), frozenset({4, 5, 6, 7, 8})
_TIMESTAMP, _DATE, _TIME, _DATETIME, _VARCHAR, _BIT, _DECIMAL = 7, 10, 11, 12, 15, 16, 246
_show_time = temporal.show_function("time", 6)
_show_datetime = temporal.show_function("datetime", 6)
_TINY_BLOB, _MEDIUM_BLOB, _LONG_BLOB, _BLOB, _VAR_STRING, _BINARY = 249, 250, 251, 252, 253, 254
_LONGEST_TINY = _LONGEST_BINARY = 255
_LONGEST_MEDIUM = (1 << 24) - 1
_BIT_BYTES = 8
_AS_JSON = "JSON_EXTRACT(JSON_ARRAY({}), '$[0]')"
_NOT_KNOWN = "JSON_EXTRACT('this server makes no value of type code 253', '$')"
_CORRECT = (
    "correct the value, such as by JSON_SET with a VARBINARY one or other text, then start the"
    " migration again"
)
_TEMPORAL_BYTES = 8
_FIRST_TIMESTAMP, _LAST_TIMESTAMP = "1970-01-01 00:00:01", "2038-01-19 03:14:07"
_NO_DAY = "0000-00-00 "
_NO_SQL = "NULL"


def sql_expression(raw: bytes) -> str:
    """Return an SQL expression of type JSON for a document in binary form.

    An empty value, which a non-strict server stores in a new NOT NULL column, is JSON null.
    UnreadableChange where the bytes are not binary JSON, or no expression gives them.
    """
    return _document(raw, sql=True).document


def plain_value(raw: bytes) -> str:
    """Return the document as JSON text; temporal and opaque values as the server shows them."""
    return _document(raw, sql=False).text


def _document(raw: bytes, *, sql: bool) -> Node:
    if not raw:
        return Node("null")
    try:
        return _value(raw[0], raw, 1, sql)
    except UnicodeDecodeError as error:
        said = f"its JSON has a surrogate, or is not UTF-8: {error.object[:40]!r}"
        raise UnreadableChange(said, hint=_CORRECT) from error
    except (IndexError, KeyError, ValueError, struct.error) as error:
        hint = "the server may be newer than this program knows"
        raise UnreadableChange(f"its JSON value cannot be read: {error!r}", hint=hint) from error


def _value(kind: int, data: bytes, at: int, sql: bool) -> Node:
    if kind <= _LARGE_ARRAY:
        return _container(kind, data, at, sql)
    if kind == _LITERAL:
        return Node(_LITERALS[data[at]])
    if kind == _STRING:
        start, size = _length(data, at)
        return string(_slice(data, start, size).decode("utf-8"))
    if kind == _OPAQUE:
        start, size = _length(data, at + 1)
        return _opaque(data[at], _slice(data, start, size), sql)
    (number,) = _NUMBERS[kind].unpack_from(data, at)
    if kind == _DOUBLE:
        return double(repr(number))
    return integer(str(number), unsigned=kind in _UNSIGNED)


def _container(kind: int, data: bytes, start: int, sql: bool) -> Node:
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
        items.append(_value(item, data, place, sql))
        at += 1 + word
    return members(keys, items) if is_object else array(items)


def _opaque(kind: int, payload: bytes, sql: bool) -> Node:
    if kind == _DECIMAL:
        precision, scale = payload[0], payload[1]
        codec = decimal_codec(precision, scale)
        if len(payload) != 2 + codec.width:
            raise ValueError("a DECIMAL of another length")
        return _decimal(precision, scale, codec.show(payload[2:]))
    if kind in {_DATE, _TIME, _DATETIME, _TIMESTAMP}:
        if len(payload) != _TEMPORAL_BYTES:
            raise ValueError("a date or time of another length")
        return _temporal(kind, int.from_bytes(payload, "little", signed=True), sql)
    text = f'"base64:type{kind}:{base64.b64encode(payload).decode()}"'
    return Node(text, opaque_sql(kind, payload) if sql else _NO_SQL)


def _decimal(precision: int, scale: int, number: str) -> Node:
    """Render a DECIMAL; a literal keeps the stored precision where CAST would widen it."""
    natural = scale and precision == sum(character.isdigit() for character in number)
    return Node(number, number if natural else f"CAST({number} AS DECIMAL({precision},{scale}))")


def _temporal(kind: int, packed: int, sql: bool) -> Node:
    """Render a temporal value; all have microseconds but DATE."""
    if kind == _DATE:
        year, month = divmod(packed >> 46, 13)
        text = temporal.date_text(year << 9 | month << 5 | packed >> 41 & 31)
        return Node(f'"{text}"', f"CAST('{text}' AS DATE)")
    if kind == _TIME:
        text = _show_time(packed)
        return Node(f'"{text}"', f"CAST('{text}' AS TIME(6))")
    text = _show_datetime(packed)
    if kind == _TIMESTAMP:
        return Node(f'"{text}"', timestamp_sql(text) if sql else _NO_SQL)
    return Node(f'"{text}"', f"CAST('{text}' AS DATETIME(6))")


def timestamp_sql(text: str) -> str:
    """Return an SQL expression of a node's TIMESTAMP; UnreadableChange where a session has none.

    ``text`` is the local time of who wrote it. A session in '+00:00' has not all of them.
    """
    if not (_FIRST_TIMESTAMP <= text[:19] <= _LAST_TIMESTAMP or text.startswith(_NO_DAY)):
        held = f"its JSON holds the TIMESTAMP {text[:40]!r} of a session in another time zone"
        raise UnreadableChange(f"{held}, and no SQL expression gives it in '+00:00'", hint=_CORRECT)
    return _typed(f"CAST({string_literal(text)} AS DATETIME(6))", "TIMESTAMP(6)")


def opaque_sql(kind: int, payload: bytes) -> str:
    """Return an SQL expression of binary data with its type code; UnreadableChange without one."""
    literal, size = binary_literal(payload), len(payload)
    if kind == _VARCHAR:
        return literal
    if kind == _BIT and 0 < size <= _BIT_BYTES:
        return _typed(str(int.from_bytes(payload, "big")), f"BIT({8 * size})")
    # The digits of a BIT(64), as the server writes them.
    if kind == _BIT and payload.isdigit() and payload[:1] != b"0" and int(payload) < 1 << 64:
        return _typed(payload.decode(), "BIT(64)", _AS_JSON.format("COALESCE(v, v)"))
    if kind == _TINY_BLOB and size <= _LONGEST_TINY:
        return _typed(literal, "TINYBLOB", _AS_JSON.format("v"))
    if kind == _BLOB:
        return _typed(literal, "LONGBLOB")
    if kind == _BINARY and size <= _LONGEST_BINARY:
        return _typed(literal, f"BINARY({size})")
    if kind == _VAR_STRING and not size % 2:
        value = _AS_JSON.format(f"_ucs2 {literal}")
        return f"IF(JSON_TYPE({value}) = 'BLOB', {value}, {_NOT_KNOWN})"
    if kind == _LONG_BLOB:
        return f"IF(TRUE, {literal}, CAST(X'' AS BINARY(16777216)))"
    if kind == _MEDIUM_BLOB and size <= _LONGEST_MEDIUM:
        return f"IF(TRUE, {literal}, CAST(X'' AS BINARY(65536)))"
    held = f"its JSON holds binary data of type code {kind}, {size} bytes"
    raise UnreadableChange(f"{held}, and no SQL expression gives such a value", hint=_CORRECT)


def _typed(sql: str, column_type: str, result: str = "v") -> str:
    """Pass an expression through a column ``v`` of a type, which by itself takes NULL for an error.

    Such as for a TIMESTAMP that the time zone of a write (R22) leaves out in spring.
    """
    return (
        f"(SELECT {result} FROM JSON_TABLE(JSON_ARRAY({sql}), '$[*]'"
        f" COLUMNS (v {column_type} PATH '$' ERROR ON ERROR)) AS t)"
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
