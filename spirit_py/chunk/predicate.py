"""The text of range predicates over a chunk key (pure).

A row comparison is written out as ``a > x OR (a = x AND b > y)``: the range optimizer of
MySQL reads it as ranges of the index, while for the row constructor ``(a, b) > (x, y)`` it
scans from the beginning (measured on 9.7 in ``tests/integration/test_chunker.py``: 116 index
reads against 8001). It does not read ``>`` on ENUM and SET either, so for these the values
that come after or before are listed by number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.sql import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.chunk.chunk import Directions, KeyBound, KeyRange
    from spirit_py.table.schema import Column

#: A SET of more members has too many values to list; its chunks are right, but not fast.
_LISTED_SET_MEMBERS = 10


def above(
    columns: Sequence[Column],
    bound: KeyBound,
    directions: Directions,
    names: Sequence[str] | None = None,
) -> str:
    """Render "comes after the bound": exclusive. See :func:`chunk_predicate`."""
    return _side(columns, bound, directions, names, before=False)


def up_to(
    columns: Sequence[Column],
    bound: KeyBound,
    directions: Directions,
    names: Sequence[str] | None = None,
) -> str:
    """Render "comes before the bound, or is it": inclusive. See :func:`chunk_predicate`."""
    return _side(columns, bound, directions, names, before=True)


def chunk_predicate(
    columns: Sequence[Column],
    within: KeyRange,
    directions: Directions,
    names: Sequence[str] | None = None,
) -> str:
    """Render "is in the range": lower bound exclusive, upper bound inclusive.

    Args:
        columns: The key's columns in key order.
        within: Its bounds hold one SQL literal for each column; for ENUM and SET a number.
        directions: The walk, of :func:`spirit_py.chunk.chunk.walk_directions`.
        names: The columns' names where they differ, as in the new table.
    """
    sides = []
    if within.lower is not None:
        sides.append(above(columns, within.lower, directions, names))
    if within.upper is not None:
        sides.append(up_to(columns, within.upper, directions, names))
    return " AND ".join(f"({side})" for side in sides) or "TRUE"


def order_by(columns: Sequence[Column], directions: Directions) -> str:
    """Render the ORDER BY list of the walk."""
    return ", ".join(
        quote_identifier(column.name) + (" DESC" if descending else "")
        for column, descending in zip(columns, directions, strict=True)
    )


def _side(
    columns: Sequence[Column],
    bound: KeyBound,
    directions: Directions,
    names: Sequence[str] | None,
    *,
    before: bool,
) -> str:
    """Render "after the bound" or "up to the bound": an OR term for each part of the key."""
    quoted = [quote_identifier(n) for n in names or [column.name for column in columns]]
    terms = []
    for place, column in enumerate(columns):
        equal = [f"{quoted[i]} = {bound.literals[i]}" for i in range(place)]
        last = before and place == len(columns) - 1
        less = before != directions[place]
        beyond = _beyond(quoted[place], column, bound.literals[place], less=less, equal=last)
        terms.append(" AND ".join([*equal, beyond]))
    return terms[0] if len(terms) == 1 else " OR ".join(f"({term})" for term in terms)


def _beyond(quoted: str, column: Column, literal: str, *, less: bool, equal: bool) -> str:
    largest = _largest_number(column)
    if largest is None:
        return f"{quoted} {'<' if less else '>'}{'=' if equal else ''} {literal}"
    own = int(literal)
    numbers = (
        range(own + (1 if equal else 0)) if less else range(own + (0 if equal else 1), largest + 1)
    )
    return f"{quoted} IN ({', '.join(map(str, numbers))})" if numbers else "FALSE"


def _largest_number(column: Column) -> int | None:
    """Return the largest number of an ENUM or small SET; None where ``>`` uses the index."""
    if column.data_type == "enum":
        return len(column.members)
    if column.data_type == "set" and len(column.members) <= _LISTED_SET_MEMBERS:
        return (1 << len(column.members)) - 1
    return None
