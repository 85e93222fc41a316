"""How long the later parts of a run take, as shares of the time of copying the same rows (pure).

Measured shares, for times that are shown as "about" before there is anything better: a build shows
its own progress, and a comparison its own speed, soon after they have begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.table.schema import FIXED_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.table.schema import Index, IndexPart, TableSchema

COMPARED: Final = 0.2
"""Time of comparing a row in both tables by that of copying it."""
COMPARED_STAGED: Final = 0.6
"""The same where the server converts the values once more to compare them."""
#: Parts of the time of a row, in units that the machine gives. Measured on 9.7 (100 000 rows of
#: 280, 460 and 1270 bytes, eleven indexes in turns, the better of two rounds): a row is copied in
#: 25 units and 0.024 for each of its bytes. An index's entry takes 4.5, and 0.004 for each byte of
#: the row that is read, and 0.13 for each byte of the entry that is sorted and written.
_COPIED, _COPIED_BYTE = 25.0, 0.024
_ENTRY, _READ_BYTE, _SORTED_BYTE = 4.5, 0.004, 0.13
#: Comparing the weights of a collation takes longer than comparing bytes.
_WEIGHED: Final = 1.3
_USUAL_ROW: Final = 200.0
_USUAL_TEXT: Final = 24.0
#: Of the types without a fixed width these are short, or nearly so.
_FIXED: Final = FIXED_BYTES | {"decimal": 6, "enum": 2, "set": 4, "bit": 4}


def build_share(table: TableSchema, names: Iterable[str], *, row_bytes: float | None) -> float:
    """Return the time of building indexes by that of copying the rows without them.

    Args:
        table: the new definition.
        row_bytes: average bytes of a row; None where that is not known.
    """
    size = row_bytes or _USUAL_ROW
    copied = _COPIED + _COPIED_BYTE * size
    found = [index for name in names if (index := table.index(name)) is not None]
    return sum(_ENTRY + _READ_BYTE * size + _entry(table, index) for index in found) / copied


def _entry(table: TableSchema, index: Index) -> float:
    """Return the time of sorting and writing an entry, in units."""
    primary = table.primary_key
    parts = (*index.parts, *(primary.parts if primary is not None else ()))
    return sum(_part(table, part) for part in parts)


def _part(table: TableSchema, part: IndexPart) -> float:
    if part.column is None or not table.has_column(part.column):
        return _SORTED_BYTE * _USUAL_TEXT
    column = table.column(part.column)
    known = _FIXED.get(column.data_type)
    if known is not None:
        return _SORTED_BYTE * known
    most = part.prefix or column.length or _USUAL_TEXT
    # Of a text that may be long, the length is seldom used up.
    text = most if column.data_type in {"char", "binary"} else min(most, _USUAL_TEXT + most / 8)
    by_bytes = column.collation is None or column.collation.endswith("_bin")
    return _SORTED_BYTE * text * (1.0 if by_bytes else _WEIGHED)
