"""Values that both tables compute alike: for the checksum (R22) and unique keys (R11; pure)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spirit_py.sql import quote_identifier
from spirit_py.table.expressions import column_names, steady_column, steady_expression
from spirit_py.table.mapping import ColumnPair

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Column, TableSchema


def computed_pairs(
    source: TableSchema,
    target: TableSchema,
    pairs: Sequence[ColumnPair],
    dropped: AbstractSet[str],
) -> tuple[ColumnPair, ...]:
    """Return the stored generated columns, not dropped, that must be the same in both tables."""
    alike = Alike(source, target, pairs)
    return tuple(
        ColumnPair(old=source.column(column.name), new=column)
        for column in target.columns
        if column.generated == "STORED"
        and column.name.lower() not in dropped
        and source.has_column(column.name)
        and source.column(column.name).generated == "STORED"
        and alike.column(column.name)
    )


def steady_pairs(
    source: TableSchema,
    target: TableSchema,
    pairs: Sequence[ColumnPair],
    computed: Sequence[ColumnPair],
) -> tuple[ColumnPair, ...]:
    """Return the computed pairs that are the same in every session, by which rows may be found."""
    alike = Alike(source, target, pairs)
    return tuple(pair for pair in computed if alike.steady(quote_identifier(pair.old.name)))


def without_computed(mapping: TableMapping) -> TableMapping:
    """Return a mapping whose generated columns are not compared, but for those of the key."""
    return replace(
        mapping, computed=tuple(pair for pair in mapping.computed if pair in mapping.key_pairs)
    )


class Alike:
    """Which columns and expressions have equal values in both tables; renamed columns do not."""

    def __init__(
        self, source: TableSchema, target: TableSchema, pairs: Sequence[ColumnPair]
    ) -> None:
        self._source, self._target = source, target
        self._unchanged = {
            pair.old.name.lower()
            for pair in pairs
            if pair.old.name.lower() == pair.new.name.lower() and _same_type(pair.old, pair.new)
        }

    def column(self, name: str) -> bool:
        """Return whether a column is unchanged, or computed by one expression from such ones."""
        if not (self._source.has_column(name) and self._target.has_column(name)):
            return False
        old, new = self._source.column(name), self._target.column(name)
        if not (old.generated and new.generated):
            return name.lower() in self._unchanged
        return (
            old.generation_expression == new.generation_expression
            and _same_type(old, new)
            and self.expression(old.generation_expression)
        )

    def expression(self, text: str) -> bool:
        """Return whether an expression, which is the same in both tables, reads the same values."""
        return all(self.column(name) for name in column_names(text))

    def steady(self, text: str) -> bool:
        """Return whether such an expression also has the same value in every session."""
        columns = [self._source.column(name) for name in column_names(text) if self.column(name)]
        return (
            self.expression(text)
            and steady_expression(text)
            and all(steady_column(column) for column in columns)
            and all(self.steady(c.generation_expression) for c in columns if c.generated)
        )


def _same_type(old: Column, new: Column) -> bool:
    return (old.type_identity, old.collation) == (new.type_identity, new.collation)
