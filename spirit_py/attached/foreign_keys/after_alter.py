"""What an ALTER of its tables makes of a foreign key (pure)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spirit_py.statement import ClauseKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.statement import AlterStatement


def carried(
    key: ForeignKey, altered: Mapping[tuple[str, str], AlterStatement]
) -> ForeignKey | None:
    """Return a key as native ALTERs of its tables leave it; None when the child's drops it.

    Columns are renamed with their tables; name, tables and actions stay. Of a column that is
    dropped the name stays: :func:`missing_column` finds it.

    Args:
        altered: the statement of each table that is altered, by schema and name.
    """
    child, parent = altered.get(key.child), altered.get(key.parent)
    if child is not None and drops(child, key):
        return None
    return replace(
        key,
        columns=_renamed(key.columns, child),
        parent_columns=_renamed(key.parent_columns, parent),
    )


def drops(statement: AlterStatement, key: ForeignKey) -> bool:
    """Return whether a statement for the child table drops a key of it."""
    kinds = (ClauseKind.DROP_FOREIGN_KEY, ClauseKind.DROP_CONSTRAINT)
    return key.name.lower() in {clause.name.lower() for clause in statement.of_kind(*kinds)}


def missing_column(
    key: ForeignKey, altered: Mapping[tuple[str, str], AlterStatement]
) -> tuple[str, tuple[str, str]] | None:
    """Return a column of a key that is dropped, with its table; None when all stay."""
    ends = ((key.columns, key.child), (key.parent_columns, key.parent))
    for columns, table in ends:
        statement = altered.get(table)
        dropped = frozenset() if statement is None else statement.dropped
        for column in columns:
            if column.lower() in dropped:
                return column, table
    return None


def _renamed(columns: tuple[str, ...], statement: AlterStatement | None) -> tuple[str, ...]:
    if statement is None:
        return columns
    return tuple(statement.renames.get(column.lower(), column) for column in columns)
