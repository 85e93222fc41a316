"""Values of columns: lossless literals, how they are selected, and keys by weight (R6, pure).

The *text* is what a ``SELECT`` of :func:`key_select_expressions` returns, the *value* is that of
:mod:`spirit_py.table.keys` (text and binary are bytes), the *literal* SQL that depends on no
session setting but ours. Measured on MySQL 9.7.4:

- ENUM and SET: ``k = 2`` and ``k IN (3, 4)`` use the index; ``k > 2`` and ``k > 'm'`` do not, so
  ranges are lists of numbers. ``(k, n) IN ((2, 5))`` finds nothing, without a warning: row keys
  carry the text.
- All other types: ``k > literal`` uses the index, in any character set, for invalid dates too.
- The introducers of utf8mb3, ucs2, dec8, hp8, macce and macroman give warning 1287. utf8mb3 is
  rendered as utf8mb4, and ucs2 in keys as utf16, which has no lone surrogates (error 1300). In
  ucs2, the other four, and one-byte sets with undefined characters (warning 1300) a *row* carries
  the bytes without an introducer; keys need one to be compared. Tried for all 40 character sets.

``WEIGHT_STRING(text COLLATE collation)`` has equal bytes for equal texts only, once weights of
trailing spaces are cut off. Tried for every collation (``tests/integration/test_weights.py``): not
so for ``tis620_thai_ci``, ``cp1250_czech_cs``, ``gb18030_chinese_ci`` and ``big5_chinese_ci``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, PacketTooSmall
from spirit_py.sql import binary_literal, quote_identifier, string_literal
from spirit_py.table import temporal
from spirit_py.table.keys import INTEGERS, TEMPORALS, TEXTS, KeyBound, comparable, comparable_column
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.table.keys import ComparableKey
    from spirit_py.table.schema import Column

Literal: TypeAlias = Callable[[Any], str]

_INTRODUCERS = {"utf8mb3": "_utf8mb4", "utf8": "_utf8mb4", "ucs2": "_utf16"}
_WARNED_ABOUT = frozenset({
    "ucs2", "dec8", "hp8", "macce", "macroman",
    "ascii", "cp1250", "cp1251", "cp1256", "cp1257", "geostd8", "greek", "hebrew", "swe7",
})  # fmt: skip
_SURROGATES = 0xD8
_NUMBERED = frozenset({"enum", "set", "bit"})
_QUOTED = re.compile(r"(?:(?:_\w+ )?X|TIMESTAMP)?'([^']*)'")


@dataclass(frozen=True, kw_only=True)
class ValueType:
    """How the values of one column are read from text and written as SQL.

    ``select`` makes the expression to select of the quoted column name, ``parse`` the value of its
    text. ``literal`` is for predicates and a column of the same type, a number for ENUM and SET;
    ``member_literal``, of these the member's text, for row constructors and other types.
    """

    select: str
    parse: Callable[[str], Any]
    literal: Literal
    member_literal: Literal


def introducer(charset: str) -> str:
    """Return the introducer for text of a character set, without a deprecation where possible."""
    return _INTRODUCERS.get(charset, f"_{charset}")


def row_introducer(charset: str) -> str:
    """Return the introducer for text in a row; empty where it would only cause a warning."""
    return "" if charset in _WARNED_ABOUT else f"{introducer(charset)} "


def text_literal(value: bytes, charset: str) -> str:
    """Render text given as bytes of its character set."""
    if charset == "ucs2" and any(byte & 0xF8 == _SURROGATES for byte in value[::2]):
        return f"_ucs2 X'{value.hex()}'"
    return f"{introducer(charset)} X'{value.hex()}'"


def float_literal(value: float) -> str:
    """Render a FLOAT or DOUBLE so that it is read as exactly this double."""
    text = repr(value)
    return text if "e" in text else text + "e0"


_LARGEST_FLOAT: Final = 38


def float_limit(column: Column) -> float | None:
    """Return what a FLOAT(M,D) takes at most, where the single that it stores is larger, or None.

    The column refuses a literal of that single (error 1264); that of the limit stores it.
    """
    digits, scale = column.precision or 0, column.scale
    if column.data_type != "float" or scale is None or digits - scale > _LARGEST_FLOAT:
        return None
    limit = float(f"1e{digits - scale}") - float(f"1e-{scale}")
    (single,) = struct.unpack("f", struct.pack("f", limit))
    return limit if single > limit else None


def row_float_literal(column: Column) -> Callable[[float], str]:
    """Return the function that renders a value as a literal that its own column takes."""
    limit = float_limit(column)
    if limit is None:
        return float_literal
    return lambda value: float_literal(max(-limit, min(value, limit)))


def decimal_literal(value: int, scale: int) -> str:
    """Render a DECIMAL given as an integer times 10 ** -scale."""
    if not scale:
        return str(value)
    whole, fraction = divmod(abs(value), 10**scale)
    return f"{'-' if value < 0 else ''}{whole}.{fraction:0{scale}d}"


def enum_text(ordinal: int, members: Sequence[str]) -> str:
    """Return the text of an ENUM's ordinal; 0, the error value, shows as the empty text."""
    return members[ordinal - 1] if ordinal else ""


def enum_key_text(ordinal: int, members: Sequence[str]) -> str:
    """Return the text of an ENUM's ordinal in a key.

    Raises MigrationFailure for 0 where the empty text is a member as well: both have one literal.
    """
    if not ordinal and "" in members:
        raise MigrationFailure(
            "an ENUM key holds the error value 0 and has the empty text as a member",
            hint="correct the rows whose ENUM value is 0 before the migration",
            error_code=ErrorCode.NO_USABLE_KEY,
        )
    return enum_text(ordinal, members)


def set_members(mask: int, members: Sequence[str]) -> str:
    """Return the text of a SET's bit mask."""
    return ",".join(member for bit, member in enumerate(members) if mask >> bit & 1)


def key_select_expressions(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return an expression for each key column whose text, as the server sends it, is lossless."""
    return tuple(value_type(c).select.format(name=quote_identifier(c.name)) for c in columns)


def bound_from_row(columns: Sequence[Column], row: Sequence[object]) -> KeyBound:
    """Build the bound from a row selected with :func:`key_select_expressions`."""
    return bound_from_key(columns, key_from_row(columns, row))


def key_from_row(columns: Sequence[Column], row: Sequence[object]) -> tuple[Any, ...]:
    """Return the key's values from a row selected with :func:`key_select_expressions`."""
    return tuple(value_type(c).parse(_text(v)) for c, v in zip(columns, row, strict=True))


def bound_from_key(columns: Sequence[Column], key: tuple[Any, ...]) -> KeyBound:
    """Build the bound from the key's values, such as those of a row image."""
    literals = tuple(value_type(c).literal(v) for c, v in zip(columns, key, strict=True))
    return KeyBound(literals=literals, comparable=key if comparable(columns) else None)


def bound_from_literals(columns: Sequence[Column], literals: Sequence[str]) -> KeyBound:
    """Build the bound from stored literals; raises ValueError for what this module never writes."""
    if len(literals) != len(columns):
        names = ", ".join(column.name for column in columns)
        raise ValueError(f"{counted(len(literals), 'value')} cannot be a key of ({names})")
    texts = (found[1] if (found := _QUOTED.fullmatch(text)) else text for text in literals)
    values = tuple(value_type(c).parse(text) for c, text in zip(columns, texts, strict=True))
    bound = bound_from_key(columns, values)
    if bound.literals != tuple(literals):
        raise ValueError(f"not a key of ({', '.join(column.name for column in columns)})")
    return bound


def key_sql(columns: Sequence[Column], key: tuple[Any, ...]) -> str:
    """Render the key's values as ``(literal, ...)`` for ``(columns) IN (...)``."""
    literals = (value_type(c).member_literal(v) for c, v in zip(columns, key, strict=True))
    return f"({', '.join(literals)})"


def row_key_sql(columns: Sequence[Column], row: Sequence[object]) -> str:
    """Render a row selected with :func:`key_select_expressions` as :func:`key_sql` does."""
    return key_sql(columns, key_from_row(columns, row))


@lru_cache(maxsize=1024)
def value_type(column: Column) -> ValueType:
    """Return how the column's values are read and written; raise for what cannot be a key."""
    kind = column.data_type
    if kind in INTEGERS or kind in {"year", "bit"}:
        return _plain("{name} + 0" if kind in _NUMBERED else "{name}", int, str)
    if kind in {"enum", "set"}:
        return _numbered(column)
    if kind in TEMPORALS:
        return _temporal(column)
    if kind == "decimal":
        literal = partial(decimal_literal, scale=column.scale or 0)
        return _plain("{name}", lambda text: int(text.replace(".", "")), literal)
    if kind in {"float", "double"}:
        return _plain("{name} + 0e0", float, float_literal)
    if column.charset is not None:
        return _plain("HEX({name})", bytes.fromhex, partial(text_literal, charset=column.charset))
    if kind in {"binary", "varbinary"}:
        return _plain("HEX({name})", bytes.fromhex, binary_literal)
    raise MigrationFailure(
        f"column {column.name} of type {kind} cannot be part of a key",
        error_code=ErrorCode.NO_USABLE_KEY,
    )


def _plain(select: str, parse: Callable[[str], Any], literal: Literal) -> ValueType:
    return ValueType(select=select, parse=parse, literal=literal, member_literal=literal)


def _numbered(column: Column) -> ValueType:
    enum = column.data_type == "enum"
    text = enum_key_text if enum else set_members
    return ValueType(
        # The sum of a SET is a DOUBLE, which is written with a power of ten from 10^15 on.
        select="{name} + 0" if enum else "CAST({name} AS UNSIGNED)",
        parse=int,
        literal=str,
        member_literal=lambda value: string_literal(text(value, column.members)),
    )


def _temporal(column: Column) -> ValueType:
    precision = column.precision or 0
    show = temporal.literal_function(column.data_type, precision)
    read = temporal.read_function(column.data_type, precision)
    # With an offset, a plain text in IN is compared as text in a session of another time zone.
    kind = "TIMESTAMP" if column.data_type == "timestamp" else ""
    return _plain("{name}", read, lambda value: f"{kind}'{show(value)}'")


def _text(item: object) -> str:
    return item.decode("ascii") if isinstance(item, bytes) else str(item)


class RenderedRow(NamedTuple):
    """One row image as SQL, in pair order; ``staged`` where no literal writes a value (ENUM 0)."""

    sql: str
    staged: bool = False


class KeyedChange(NamedTuple):
    """One change as SQL; ``row`` is None for a delete, ``fresh``: no row has the key before."""

    key: str
    row: RenderedRow | None
    fresh: bool = False


CHARSETS: Final = frozenset(
    {"ascii", "latin1", "ucs2", "utf16", "utf16le", "utf32", "utf8", "utf8mb3", "utf8mb4"}
)
_SPACES: Final = {"ucs2": b"\0 ", "utf16": b"\0 ", "utf16le": b" \0", "utf32": b"\0\0\0 "}
_SPACE_ROW: Final = -1


def weighable(columns: Sequence[Column]) -> bool:
    """Return whether keys over these columns are comparable once their texts are weighed."""
    return bool(columns) and all(comparable_column(c) or _weighed(c) for c in columns)


def _weighed(column: Column) -> bool:
    text = column.data_type in TEXTS and not comparable_column(column)
    return text and column.charset in CHARSETS and column.pad_space is not None


class KeyWeights:
    """The questions for the weights of one table's keys, whose columns are :func:`weighable`."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._places = [place for place, column in enumerate(columns) if _weighed(column)]
        texts = [columns[place] for place in self._places]
        self._charsets = [str(column.charset) for column in texts]
        self._padded = [bool(column.pad_space) for column in texts]
        selected = ", ".join(
            f"WEIGHT_STRING({_in_charset(f'column_{number}', column)} COLLATE {column.collation})"
            for number, column in enumerate(texts, 1)
        )
        spaces = [_SPACES.get(charset, b" ") for charset in self._charsets]
        self._head = f"SELECT column_0, {selected} FROM (VALUES {self._row(_SPACE_ROW, spaces)}"

    def questions(
        self, keys: Sequence[tuple[Any, ...]], room: int
    ) -> Iterator[tuple[Sequence[tuple[Any, ...]], str]]:
        """Yield queries of ``room`` bytes for the weights of keys; one key may exceed it."""
        frame = len(self._query(()))
        first, size = 0, frame
        rows: list[str] = []
        for at, key in enumerate(keys):
            row = f", {self._row(at - first, [key[place] for place in self._places])}"
            if rows and size + len(row) > room:
                yield keys[first:at], self._query(rows)
                first, size, rows = at, frame, []
                row = f", {self._row(0, [key[place] for place in self._places])}"
            rows.append(row)
            size += len(row)
        if rows:
            yield keys[first:], self._query(rows)

    def _row(self, number: int, texts: Sequence[bytes]) -> str:
        return f"ROW({number}, {', '.join(map(_literal, texts, self._charsets))})"

    def _query(self, rows: Sequence[str]) -> str:
        return f"{self._head}{''.join(rows)}) AS weighed"

    def weighed(
        self, keys: Sequence[tuple[Any, ...]], answer: Sequence[tuple[Any, ...]]
    ) -> list[ComparableKey]:
        """Return the comparable forms of the keys of a question, from its answer.

        Raises PacketTooSmall where the server has no room for a weight: such keys would be equal.
        """
        weights = {number: found for number, *found in answer}
        spaces = weights.pop(_SPACE_ROW)
        if self._places == [0] and len(keys[0]) == 1:
            pad = spaces[0] if self._padded[0] else b""
            return [(_cut(weights[number][0], pad),) for number in range(len(keys))]
        return [self._replaced(key, weights[at], spaces) for at, key in enumerate(keys)]

    def _replaced(
        self, key: tuple[Any, ...], weights: Sequence[bytes | None], spaces: Sequence[bytes]
    ) -> ComparableKey:
        found = list(key)
        parts = zip(self._places, weights, spaces, self._padded, strict=True)
        for place, weight, space, padded in parts:
            found[place] = _cut(weight, space if padded else b"")
        return tuple(found)


def _literal(text: bytes, charset: str) -> str:
    return f"_ucs2 X'{text.hex()}'" if charset == "ucs2" else text_literal(text, charset)


def _in_charset(sql: str, column: Column) -> str:
    charset = str(column.charset)
    wider = charset != "ucs2" and introducer(charset) != f"_{charset}"
    return f"CONVERT({sql} USING {charset})" if wider else sql


def _cut(weight: bytes | None, pad: bytes) -> bytes:
    if weight is None:
        raise PacketTooSmall(
            "the weight of a changed row's key may be larger than max_allowed_packet",
            hint="SET GLOBAL max_allowed_packet=1048576 or more, then run the same command again",
        )
    if not pad or not weight.endswith(pad):
        return weight
    end = len(weight)
    while end and weight[end - len(pad) : end] == pad:
        end -= len(pad)
    return weight[:end]
