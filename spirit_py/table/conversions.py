"""Which type changes keep every value (a whitelist; manual 13, 15.1.9), and conversions (pure)."""

from __future__ import annotations

import enum
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py.sql import quote_identifier
from spirit_py.table.keys import BYTE_TYPES, TEMPORALS, TEXT_TYPES

if TYPE_CHECKING:
    from spirit_py.table.schema import Column

_INTEGERS = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_VARIABLE_BYTES = BYTE_TYPES - {"binary"}
_NUMBERS = frozenset({"decimal", "float", "double", "year"})
_MEMBERS = frozenset({"enum", "set"})
_TEXTUAL = TEXT_TYPES | BYTE_TYPES | _MEMBERS
_FRACTIONAL = frozenset({"time", "datetime", "timestamp"})
_CHARACTER_BYTES = 4
_WIDE: Final = frozenset({"ucs2", "utf16", "utf16le", "utf32"})
_EXACT: Final = ("_bin", "_cs", "_ks", "binary")
_NUMBER: Final = re.compile(r"\s*[+-]?[0-9]+\s*")


class Conversion(enum.Enum):
    """How an old value is converted to the new column, with the result of a native ALTER."""

    NONE = "none"
    """A literal of the old value is the new value."""
    BY_SERVER = "by server"
    """``INSERT ... SELECT`` of the column converts as ALTER TABLE does."""
    BY_TEXT = "by text"
    """ALTER TABLE goes through the value's text, so the SELECT must do so too."""
    REFUSED = "refused"
    """ALTER TABLE converts in a way that no SELECT does, or loses a part in silence."""


def conversion(old: Column, new: Column) -> Conversion:
    """Return how values are converted (measured on 9.7: ALTER against SELECT, for every pair)."""
    if literal_safe(old, new):
        return Conversion.NONE
    source, target = old.data_type, new.data_type
    if target == "bit" and source not in {*_INTEGERS, "bit"}:
        return Conversion.REFUSED
    if target == "year" and source in {"date", "datetime", "timestamp"}:
        return Conversion.REFUSED
    if source == "time" and target in TEMPORALS - {"time"}:
        # It gets the day of each statement: the copy's may be another than the comparison's.
        return Conversion.REFUSED
    if source == "json" and target not in TEXT_TYPES:
        return Conversion.BY_TEXT
    numeric = source in _NUMBERS or source in _INTEGERS
    if numeric and target in {"date", "datetime", "timestamp", "json", *_MEMBERS}:
        return Conversion.BY_TEXT
    if source in {"float", "double", "year"} and target in TEXT_TYPES | BYTE_TYPES:
        return Conversion.BY_TEXT
    return Conversion.BY_SERVER


def is_text(column: Column) -> bool:
    """Whether a column holds text that has a character set (ENUM and SET aside)."""
    return column.data_type in TEXT_TYPES


def has_empty_member(column: Column) -> bool:
    """Whether a column is a SET with a member without a letter, whose text the empty set has."""
    return column.data_type == "set" and "" in column.members


def lost_members(old: Column, new: Column) -> list[str]:
    """Return the members that the new ENUM or SET lacks, as its collation tells cases apart."""
    exact = (new.collation or "").endswith(_EXACT)
    kept = {member if exact else member.casefold() for member in new.members}
    return [one for one in old.members if (one if exact else one.casefold()) not in kept]


def without_lost_numbers(sql: str, old: Column, new: Column) -> str:
    """Return what to select of an ENUM or SET, so that a lost member is always an error.

    The server takes a text that is no member, but a number, as an index or a bit mask without a
    warning, in ALTER TABLE too; with characters of two or four bytes, other texts as well (9.7).
    The value 0 of an ENUM, whose text is ``''``, stays 0.
    """
    if new.data_type not in _MEMBERS:
        return sql
    wide = not _WIDE.isdisjoint({old.charset, new.charset})
    lost = [one for one in lost_members(old, new) if wide or _NUMBER.fullmatch(one)]
    if not lost:
        return sql
    length = max(map(len, new.members)) + 1
    texts = {_number_of(one, old): f"'{'?' * length}'" for one in lost}
    if old.data_type == new.data_type == "enum":
        texts[0] = f"'{'0' * length}'"
    cases = " ".join(f"WHEN {number} THEN {text}" for number, text in sorted(texts.items()))
    kept = f"CONVERT({sql} USING utf8mb4)" if wide else sql
    return f"CASE CAST({sql} AS UNSIGNED) {cases} ELSE {kept} END"


def takes_numbers(old: Column, new: Column) -> bool:
    """Return whether numbers, or text of digits, become members that have these numbers."""
    numbers = {*_INTEGERS, *_NUMBERS, *TEXT_TYPES, *BYTE_TYPES, "bit", "json"}
    return new.data_type in _MEMBERS and old.data_type in numbers


def _number_of(member: str, column: Column) -> int:
    place = column.members.index(member)
    return place + 1 if column.data_type == "enum" else 1 << place


def is_timestamp(column: Column) -> bool:
    """Whether a column holds instants, whose text depends on a time zone."""
    return column.data_type == "timestamp"


def depends_on_zone(old: Column, new: Column) -> bool:
    """Whether the session's time zone decides the new value: of an instant, of text with an offset.

    Text such as ``2026-05-01 12:00:00+02:00`` becomes local time, of a DATE and a TIME too.
    """
    if is_timestamp(old) != is_timestamp(new):
        return True
    return old.data_type in _TEXTUAL and new.data_type in TEMPORALS


def null_becomes_now(old: Column, new: Column) -> bool:
    """Whether a server may store the current time for NULL, without a warning.

    It does so where ``explicit_defaults_for_timestamp`` is OFF.
    """
    return is_timestamp(new) and old.nullable and not new.nullable


def literal_safe(old: Column, new: Column) -> bool:
    """Return whether a literal stores the old value, if the new column can hold it."""
    if old.type_identity == new.type_identity:
        return True
    if old.data_type in _INTEGERS:
        return new.data_type in _INTEGERS
    if old.data_type in TEXT_TYPES:
        # A CHAR drops trailing blanks and tabs without a note.
        kept = new.data_type != "char" or _text_fits(old, new)
        return new.data_type in TEXT_TYPES and old.charset == new.charset and kept
    if old.data_type in BYTE_TYPES:
        return new.data_type in BYTE_TYPES
    if old.data_type != new.data_type:
        return False
    if old.data_type == "decimal":
        return (new.scale or 0) >= (old.scale or 0)
    if old.data_type in _MEMBERS:
        return old.charset == new.charset and new.members[: len(old.members)] == old.members
    if old.data_type in _FRACTIONAL:
        return (new.precision or 0) >= (old.precision or 0)
    return old.data_type == "bit" or (old.data_type == "vector" and _longer(old, new))


def narrowed(old: Column, new: Column) -> bool:
    """Return whether the new column cannot hold every value of the old one.

    Strict mode makes such a value an error, never another value (measured on 9.7 for each kind of
    type), but for :func:`cuts_blanks`.
    """
    if not literal_safe(old, new):
        return False
    if old.data_type in _INTEGERS:
        return not _integer_fits(old, new)
    if old.data_type in TEXT_TYPES:
        return not _text_fits(old, new)
    if old.data_type == "decimal":
        return not _decimal_fits(old, new)
    return not _longer(old, new)


def rounds(old: Column, new: Column) -> bool:
    """Return whether the server rounds or cuts values of the old column without a warning.

    Measured on 9.7 for numbers and times; a note, as for DECIMAL with fewer digits, is a warning.
    """
    if literal_safe(old, new):
        return False
    source, target = old.data_type, new.data_type
    digits = (old.precision or 0) if source in _FRACTIONAL else (old.scale or 0)
    if target in _FRACTIONAL:
        whole = {"date", "year", *_INTEGERS}
        if target == "time" and source in {"date", "datetime", "timestamp"}:
            return True
        return source not in whole and (source not in _FRACTIONAL or digits > (new.precision or 0))
    if target in _INTEGERS or target == "year":
        exact = source in {*_INTEGERS, *_FRACTIONAL, *_MEMBERS, "decimal", "bit", "year", "date"}
        return not exact or digits > 0
    if target == "float":
        return _INTEGERS.get(source, 8) > _INTEGERS["smallint"] and source != "year"
    if target == "double":
        whole_float = source == "float" and new.scale is None
        return _INTEGERS.get(source, 8) > _INTEGERS["int"] and source != "year" and not whole_float
    return False


def merges(old: Column, new: Column) -> bool:
    """Return whether a conversion may make one value of several, without an error."""
    source, target = old.data_type, new.data_type
    if target in _TEXTUAL - _MEMBERS:
        padded = source != target and target in {"char", "binary"}
        return source in {"float", "double", "json"} or (
            padded and source in TEXT_TYPES | BYTE_TYPES
        )
    if target in _MEMBERS | {"json"}:
        return is_text(old)
    return target in {*_INTEGERS, *_NUMBERS, *TEMPORALS} and not literal_safe(old, new)


def merged_by_cast(old: Column, new: Column) -> bool:
    """Return whether :func:`cast_to` makes one value of those of which the conversion makes one.

    Not exactly, or not without a warning (measured on 9.7): of members, of times from anything
    else, of a day in a time zone or from fractions of a second, which an ALTER rounds and a CAST
    cuts, of a FLOAT as bytes, of bytes as a number, or above the largest signed number. CAST knows
    no scale of a FLOAT, and before 8.0.22 no YEAR; documents have types that their text has not.
    """
    source, target = old.data_type, new.data_type
    of_day = is_timestamp(old) and target not in {"datetime", "timestamp"}
    of_day = of_day or (target == "date" and bool(old.precision))
    if target == "year" or (target in TEMPORALS and (source not in TEMPORALS or of_day)):
        return False
    large = target == "bigint" and new.unsigned
    if source in {"float", "double"} and (target in BYTE_TYPES or large):
        return False
    if source == "json" or (source in BYTE_TYPES and target in {*_INTEGERS, *_NUMBERS}):
        return False
    if target in {"float", "double"} and new.scale is not None:
        return False
    return merges(old, new) and target not in _MEMBERS


def cuts_blanks(old: Column, new: Column) -> bool:
    """Return whether a literal's trailing blanks, tabs too, may be cut with no more than a note."""
    return narrowed(old, new) and is_text(old)


def equality_kept(old: Column, new: Column) -> bool:
    """Return whether equal new values were equal in the old column, so that ranges are the same."""
    if not literal_safe(old, new) or old.collation != new.collation:
        return False
    if old.data_type in TEXT_TYPES:
        pads = new.data_type == "char" and old.data_type != "char"
        return not pads or old.pad_space is True
    if old.data_type in BYTE_TYPES:
        kept = old.data_type == "binary" and old.length == new.length
        return new.data_type != "binary" or kept
    return True


def values_stay_apart(old: Column, new: Column) -> bool:
    """Return whether different values stay different, so that a unique key holds (R11).

    Wider than :func:`equality_kept`: a BINARY that becomes wider adds zeros to every value.
    """
    if old.data_type == new.data_type == "binary":
        return True
    longer = max(old.length or 0, new.length or 0)
    return equality_kept(old, new if new.length is None else replace(new, length=longer))


def key_usable(old: Column, new: Column) -> bool:
    """Return whether a literal of the old value finds its row through the new column."""
    return literal_safe(old, new) or (is_text(old) and is_text(new))


def value_in_new_column(old: Column, new: Column) -> str:
    """Return the old column's value as the new column compares it, if not exactly (R11)."""
    name = quote_identifier(old.name)
    return name if equality_kept(old, new) else cast_to(name, old, new)


def cast_to(sql: str, old: Column | None, new: Column) -> str:
    """Convert an expression to a column's type and collation; it may read the column ``old``."""
    if is_text(new) or new.data_type in _MEMBERS:
        return as_text(sql, old, new)
    if new.data_type in _INTEGERS:
        number = f"CAST({sql} AS DECIMAL(65, 30))" if old is not None and is_text(old) else sql
        return f"CAST({number} AS {'UNSIGNED' if new.unsigned else 'SIGNED'})"
    if new.data_type in _VARIABLE_BYTES:
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
        "json": "JSON",
    }.get(new.data_type)
    return sql if kind is None else f"CAST({sql} AS {kind})"


def as_text(sql: str, old: Column | None, new: Column) -> str:
    """Convert an expression to the text that a column of this collation holds."""
    plain = old is None or (old.charset is None and old.data_type not in BYTE_TYPES)
    text = f"CAST({sql} AS CHAR)" if plain else sql
    converted = f"CONVERT({text} USING {new.charset}) COLLATE {new.collation}"
    return f"TRIM(TRAILING ' ' FROM {converted})" if new.data_type == "char" else converted


def _integer_fits(old: Column, new: Column) -> bool:
    wide, narrow = _INTEGERS[new.data_type], _INTEGERS[old.data_type]
    if old.unsigned and not new.unsigned:
        return wide > narrow
    return wide >= narrow and old.unsigned == new.unsigned


def _text_fits(old: Column, new: Column) -> bool:
    """CHAR and VARCHAR are as long in characters as their length says, the others in bytes."""
    counted = {"char", "varchar"}
    in_bytes = old.data_type in counted and new.data_type not in counted
    return (new.length or 0) >= (old.length or 0) * (_CHARACTER_BYTES if in_bytes else 1)


def _decimal_fits(old: Column, new: Column) -> bool:
    old_digits = (old.precision or 0) - (old.scale or 0)
    new_digits = (new.precision or 0) - (new.scale or 0)
    return new_digits >= old_digits and (old.unsigned or not new.unsigned)


def _longer(old: Column, new: Column) -> bool:
    return (new.length or 0) >= (old.length or 0)
