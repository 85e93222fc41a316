"""The text of one column's values in the hash: equal for equal values only (pure).

docs/verification.md has the forms. One binary argument that no column outranks (COLLATE binary; not
a _binary literal) makes CONCAT take all bytes as they are; a CAST of each would cost a tenth of the
comparison. FLOAT itself prints six digits. Measured on 9.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from spirit_py.sql import node_types
from spirit_py.table.keys import BYTE_TYPES, INTEGERS, TEXT_TYPES
from spirit_py.table.schema import SPATIAL

if TYPE_CHECKING:
    from spirit_py.table.schema import Column

Place: TypeAlias = Literal["alone", "row", "end"]

_COLON: Final = "_binary':' COLLATE `binary`"
#: The most that a DECIMAL has.
_DIGITS: Final = 65
_FLOATS: Final = frozenset({"float", "double"})
_NUMBERED: Final = frozenset({"enum", "set", "bit", "year"})
_FRACTIONAL: Final = frozenset({"time", "datetime", "timestamp"})
_SHORT_TEXT: Final = frozenset({"char", "varchar", "tinytext"})
_SHORT_BYTES: Final = frozenset({"binary", "varbinary", "tinyblob"})

#: Character sets in which every code is in Unicode, and those of all Unicode.
_IN_UNICODE: Final = frozenset(
    {
        *("ascii", "latin1", "latin2", "latin5", "latin7", "cp850", "cp852", "cp866"),
        *("koi8r", "koi8u", "keybcs2", "macce", "macroman", "utf8mb3"),
    }
)
_UNICODE: Final = frozenset({"utf8mb4", "utf16", "utf16le", "utf32"})
#: Character sets in which a byte 3F is not always a question mark.
_WIDE: Final = frozenset({"ucs2", "utf16", "utf16le", "utf32"})


def alike(old: Column, new: Column) -> bool:
    """Return whether :func:`field` renders ``old``'s values as ``new`` would hold them."""
    if old.type_identity == new.type_identity:
        return True
    kind, other = old.data_type, new.data_type
    if kind in INTEGERS:
        return other in INTEGERS
    if kind in _FLOATS:
        return other in {kind, "double"} and "(" not in new.column_type
    if kind in TEXT_TYPES:
        return other in TEXT_TYPES and (other != "char" or kind == "char")
    if kind in BYTE_TYPES:
        return other in BYTE_TYPES and other != "binary"
    if kind != other:
        return kind in SPATIAL and other == "geometry" and new.srid in {None, old.srid}
    if kind == "decimal":
        own, scale = old.scale or 0, new.scale or 0
        return scale >= own and (old.precision or 0) - own + scale <= _DIGITS
    if kind in {"enum", "set"}:
        return new.members[: len(old.members)] == old.members
    if kind in _FRACTIONAL:
        return (new.precision or 0) >= (old.precision or 0)
    return kind in {"bit", "vector"} or (kind in SPATIAL and new.srid in {None, old.srid})


def field(
    column: Column,
    name: str,
    stored_as: Column,
    *,
    hashed: bool | None = None,
    place: Place = "alone",
) -> str:
    """Render the expression for a column's part of the row text; never NULL.

    Takes the form of ``stored_as``, the new table's column. ``hashed``: take the SHA-256; None:
    where either column is a LOB. In a ``row`` it may be several arguments of CONCAT, which is
    faster.
    """
    if hashed is None:
        hashed = is_lob(column) or is_lob(stored_as)
    if is_short(column) and not hashed:
        text = _short(column, name, stored_as, end=place == "end")
        if place != "alone" and not column.nullable and whole(column, stored_as):
            return text
        text = f"CONCAT({text})"
    else:
        text = _value(column, name, stored_as)
    if column.data_type in TEXT_TYPES:
        text = unless_lost(column, name, stored_as, text)
    return f"IFNULL({text}, 'N')" if column.nullable else text


def whole(old: Column, new: Column) -> bool:
    """Return whether the new column's character set has every character of the old one's."""
    one, other = old.charset, new.charset
    if one is None or other is None or one == other:
        return True
    return other in _UNICODE and one in _IN_UNICODE


def unless_lost(old: Column, name: str, new: Column, text: str) -> str:
    """Render ``text``, or a value that equals no other where the character set loses some."""
    if whole(old, new):
        return text
    behind = _question_marks(f"CONVERT({name} USING {new.charset})", new)
    return f"IF({behind} <> {_question_marks(name, old)}, {unfit(name)}, {text})"


def unfit(name: str) -> str:
    """Render the part of the row text for a value that the new column cannot hold."""
    return f"CONCAT('X', SHA2({name}, 256))"


def _question_marks(text: str, column: Column) -> str:
    if column.charset in _WIDE:
        text = f"CONVERT({text} USING utf8mb4)"
    octets = f"CAST({text} AS BINARY)"
    return f"(OCTET_LENGTH({octets}) - OCTET_LENGTH(REPLACE({octets}, X'3F', X'')))"


def is_lob(column: Column) -> bool:
    """Return whether a column's values may be too large to be put into the row text."""
    kind = column.data_type
    return kind in TEXT_TYPES - _SHORT_TEXT or kind in BYTE_TYPES - _SHORT_BYTES


def is_short(column: Column) -> bool:
    """Return whether a column's values are text or binary within the row text."""
    return column.data_type in _SHORT_TEXT or column.data_type in _SHORT_BYTES


def _short(column: Column, name: str, stored_as: Column, *, end: bool) -> str:
    converted = _converted(column, name, stored_as)
    length = "" if end else f"OCTET_LENGTH({converted}), "
    return f"{length}{_COLON}, {converted}"


def _converted(column: Column, name: str, stored_as: Column) -> str:
    other = stored_as.charset
    return name if column.charset == other or other is None else f"CONVERT({name} USING {other})"


def _value(column: Column, name: str, stored_as: Column) -> str:
    kind = column.data_type
    if kind in INTEGERS:
        # Without it, ZEROFILL pads the text.
        return f"CAST({name} AS UNSIGNED)" if "zerofill" in column.column_type else name
    if kind == "decimal":
        return _decimal(column, name, stored_as)
    if kind in _FLOATS:
        return f"CAST({name} AS DOUBLE)"
    if kind in _NUMBERED:
        return f"CAST({name} AS UNSIGNED)"
    if kind == "date":
        return name
    if kind in _FRACTIONAL:
        return _fractional(column, name, stored_as)
    if kind in TEXT_TYPES or kind in BYTE_TYPES:
        return f"SHA2({_converted(column, name, stored_as)}, 256)"
    if kind == "json":
        return f"CONCAT(SHA2({name}, 256), {node_types(name, 'SHA2({}, 256)')})"
    return f"SHA2({name}, 256)"


def _decimal(column: Column, name: str, stored_as: Column) -> str:
    scale = stored_as.scale or 0
    if (column.scale or 0) == scale and "zerofill" not in column.column_type:
        return name
    digits = max((column.precision or 0) - (column.scale or 0), (stored_as.precision or 0) - scale)
    return f"CAST({name} AS DECIMAL({min(_DIGITS, digits + scale)}, {scale}))"


def _fractional(column: Column, name: str, stored_as: Column) -> str:
    own, other = column.precision or 0, stored_as.precision or 0
    if own >= other:
        return name
    return f"CONCAT({name}, '{'' if own else '.'}{'0' * (other - own)}')"
