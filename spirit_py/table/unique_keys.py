"""Which unique keys of the new table the source already guarantees (R11, pure)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py.sql import quote_identifier
from spirit_py.table.computed import Alike
from spirit_py.table.conversions import equality_kept, is_text, values_stay_apart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spirit_py.table.mapping import ColumnPair
    from spirit_py.table.schema import Index, IndexPart, TableSchema

_WALKED: Final = frozenset(
    {
        *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal"),
        *("date", "time", "datetime", "binary", "varbinary"),
    }
)


def tightened_indexes(
    source: TableSchema, target: TableSchema, pairs: Sequence[ColumnPair]
) -> tuple[Index, ...]:
    """Return the unique indexes of the target that rows of the source may violate.

    An index is guaranteed when rows that are equal in it would have been equal in some unique
    index of the source, where a value that the new type cannot hold is an error and no row: so a
    column that is merely narrowed (BIGINT to INT, VARCHAR(100) to (50)) tightens nothing.
    Every other index counts as tightened.
    """
    by_old = {pair.old.name.lower(): pair for pair in pairs}
    alike = Alike(source, target, pairs)
    unique = [index for index in source.indexes if index.unique]
    return tuple(
        index
        for index in target.indexes
        if index.unique
        and not _numbered_afresh(target, index, pairs)
        and not any(_implies(index, earlier, by_old, alike) for earlier in unique)
    )


def walkable(source: TableSchema, index: Index, pairs: Sequence[ColumnPair]) -> Index | None:
    """Return the first part of an index of the source, by whose ranges ``index`` may be searched.

    Rows that are equal in ``index`` are equal in that column too, and so in the same range.
    TIMESTAMP is left out, whose literals depend on the session's zone, and FLOAT and DOUBLE.
    """
    names = {part.column.lower() for part in index.parts if part.column and part.prefix is None}
    by_old = {
        pair.old.name.lower(): pair
        for pair in pairs
        if pair.new.name.lower() in names and equality_kept(pair.old, pair.new)
    }
    for each in source.indexes:
        first = each.parts[0]
        pair = by_old.get((first.column or "").lower())
        if each.visible and each.kind == "BTREE" and pair is not None and first.prefix is None:
            old = pair.old
            if is_text(old) or old.data_type in _WALKED:
                return replace(each, parts=(first,))
    return None


def _numbered_afresh(target: TableSchema, index: Index, pairs: Sequence[ColumnPair]) -> bool:
    """Whether a new AUTO_INCREMENT column is in the index: every row gets a number of its own."""
    carried = {pair.new.name for pair in pairs}
    columns = (target.column(part.column) for part in index.parts if part.column is not None)
    return any(column.auto_increment and column.name not in carried for column in columns)


def _implies(index: Index, earlier: Index, by_old: Mapping[str, ColumnPair], alike: Alike) -> bool:
    """Return whether rows equal in ``index`` were equal in the source's ``earlier``."""
    return all(
        any(_same_or_finer(part, old, by_old, alike) for part in index.parts)
        for old in earlier.parts
    )


def _same_or_finer(
    part: IndexPart, old: IndexPart, by_old: Mapping[str, ColumnPair], alike: Alike
) -> bool:
    """Return whether rows equal in ``part`` of the new index were equal in ``old``.

    A computed value counts only if the expression and the columns that it reads are the same and
    every session computes the same, because the new table computes it again.
    """
    if part.column is None or old.column is None:
        same = part.expression is not None and part.expression == old.expression
        return same and alike.steady(part.expression or "")
    if not _covers(part.prefix, old.prefix):
        return False
    pair = by_old.get(old.column.lower())
    if pair is not None:
        same = pair.new.name.lower() == part.column.lower()
        return same and values_stay_apart(pair.old, pair.new)
    return part.column.lower() == old.column.lower() and alike.steady(quote_identifier(part.column))


def _covers(new: int | None, old: int | None) -> bool:
    """Return whether a prefix (None: the whole column) is at least as long as the old one."""
    return new is None or (old is not None and new >= old)
