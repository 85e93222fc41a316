"""Stored generated columns that both tables have, for the checksum (pure; R22).

What is stored in the source was computed by the sessions that wrote it; what is stored in the new
table by this program. They are equal when the expression is the same, nothing that it reads has
changed its type, and the sessions evaluated it as the server does now. VIRTUAL columns are left
out: both tables compute them from compared columns the moment they are read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.table.mapping import ColumnPair

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from spirit_py.table.schema import Column, TableSchema

_NAME: Final = re.compile(r"`((?:[^`]|``)+)`")


def computed_pairs(
    source: TableSchema,
    target: TableSchema,
    pairs: Sequence[ColumnPair],
    dropped: AbstractSet[str],
) -> tuple[ColumnPair, ...]:
    """Give the stored generated columns that must hold the same values in both tables.

    Args:
        dropped: names in lower case of columns that the statement drops; one of the same name
            that it adds is another column.
    """
    unchanged = {
        pair.old.name.lower()
        for pair in pairs
        if pair.old.name.lower() == pair.new.name.lower() and _same_type(pair.old, pair.new)
    }
    return tuple(
        ColumnPair(old=source.column(column.name), new=column)
        for column in target.columns
        if column.generated == "STORED"
        and column.name.lower() not in dropped
        and source.has_column(column.name)
        and source.column(column.name).generated == "STORED"
        and _computed_alike(source, target, column.name, unchanged)
    )


def _computed_alike(
    source: TableSchema, target: TableSchema, name: str, unchanged: AbstractSet[str]
) -> bool:
    """Tell whether both tables compute a column by one expression from the same columns."""
    if not (source.has_column(name) and target.has_column(name)):
        return False
    old, new = source.column(name), target.column(name)
    if not (old.generated and new.generated):
        return name.lower() in unchanged
    return (
        old.generation_expression == new.generation_expression
        and _same_type(old, new)
        and all(
            _computed_alike(source, target, read, unchanged)
            for read in _names(old.generation_expression)
        )
    )


def _same_type(old: Column, new: Column) -> bool:
    return (old.type_identity, old.collation) == (new.type_identity, new.collation)


def _names(expression: str) -> Iterator[str]:
    """Give the columns that an expression reads."""
    return (name.replace("``", "`") for name in _NAME.findall(expression))
