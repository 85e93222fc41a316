"""One foreign key, as the server describes it, and what an ALTER makes of it (pure)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, replace
from spirit_py.sql import quote_table
from spirit_py.statement import ClauseKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spirit_py.statement import AlterStatement
    from spirit_py.table.names import Name
    from spirit_py.table.schema import TableSchema

PASSIVE: Final = frozenset({"NO ACTION", "RESTRICT"})
"""The actions that change no row: the statement on the parent fails instead."""
NOT_BROUGHT_BACK: Final = "a revert does not bring back a foreign key that the ALTER drops: "
"""Precedes the statement that adds it again, in a line about a table."""
_DEFINITION: Final = re.compile(
    r"^  (CONSTRAINT `((?:[^`]|``)+)` FOREIGN KEY .*?),?$", re.MULTILINE
)
_NAME: Final = r"`(?:[^`]|``)+`"
_ADDED: Final = re.compile(
    rf"CONSTRAINT {_NAME} FOREIGN KEY \({_NAME}(?:, {_NAME})*\)"
    rf" REFERENCES (?:{_NAME}\.)?{_NAME} \({_NAME}(?:, {_NAME})*\)"
    r"(?: ON (?:DELETE|UPDATE) (?:CASCADE|NO ACTION|RESTRICT|SET (?:NULL|DEFAULT)))*"
)


@dataclass(frozen=True, kw_only=True)
class KeyNote:
    """The names of a foreign key that a swap moves; ``temporary`` is that of its copy."""

    name: str
    child: tuple[str, str]
    parent: tuple[str, str]
    temporary: str
    dropped: bool = False

    def __str__(self) -> str:
        return f"foreign key {self.name} of {'.'.join(self.child)} to {'.'.join(self.parent)}"


@dataclass(frozen=True, kw_only=True)
class ForeignKey:
    """One foreign key: a constraint of its child table that refers to the parent table.

    ``schema`` and ``table`` are the child's. The parent may be missing (``foreign_key_checks=0``).
    ``parent_index`` is the unique index referred to, or empty. ``visible`` is False where the
    account has no privilege on the child: INNODB_FOREIGN then shows SET DEFAULT as RESTRICT.
    """

    name: str
    schema: str
    table: str
    columns: tuple[str, ...]
    parent_schema: str
    parent_table: str
    parent_columns: tuple[str, ...]
    on_delete: str = "NO ACTION"
    on_update: str = "NO ACTION"
    parent_index: str = ""
    visible: bool = True

    @property
    def child(self) -> tuple[str, str]:
        """Schema and name of the table whose constraint this is."""
        return self.schema, self.table

    @property
    def parent(self) -> tuple[str, str]:
        """Schema and name of the table referred to."""
        return self.parent_schema, self.parent_table

    @property
    def changes_rows(self) -> bool:
        """Whether a change of the parent may change rows of the child."""
        return not {self.on_delete, self.on_update} <= PASSIVE

    def between(self, child: Name, parent: Name, *, name: str = "") -> ForeignKey:
        """Return the key between other tables, and under another name if one is given."""
        return replace(
            self,
            name=name or self.name,
            schema=child[0],
            table=child[1],
            parent_schema=parent[0],
            parent_table=parent[1],
        )

    def __str__(self) -> str:
        return f"foreign key {self.name} of {'.'.join(self.child)} to {'.'.join(self.parent)}"


def carried(
    key: ForeignKey, altered: Mapping[tuple[str, str], AlterStatement]
) -> ForeignKey | None:
    """Return a key as native ALTERs leave it; None when dropped. Dropped columns stay named."""
    child, parent = altered.get(key.child), altered.get(key.parent)
    if child is not None and drops(child, key):
        return None
    columns, referred = _renamed(key.columns, child), _renamed(key.parent_columns, parent)
    return replace(key, columns=columns, parent_columns=referred)


def drops(statement: AlterStatement, key: ForeignKey) -> bool:
    """Return whether a statement for the child table drops a key of it."""
    return key.name.lower() in _dropped_names(statement)


def _dropped_names(statement: AlterStatement) -> set[str]:
    kinds = (ClauseKind.DROP_FOREIGN_KEY, ClauseKind.DROP_CONSTRAINT)
    return {clause.name.lower() for clause in statement.of_kind(*kinds)}


def not_brought_back(source: TableSchema, statement: AlterStatement) -> list[str]:
    """Describe each key that a statement drops, with what adds it again after a revert."""
    names = _dropped_names(statement)
    return [
        f"{source.full_name}: {NOT_BROUGHT_BACK}"
        f"ALTER TABLE {quote_table(source.schema, source.name)} ADD {definition}"
        for definition, name in _DEFINITION.findall(source.create_sql)
        if name.replace("``", "`").lower() in names
    ]


def may_be_told(line: str, table: Name) -> bool:
    """Return whether a line of a record is about its table, and adds a key at most (R26).

    Who may write the record would have an operator run another statement.
    """
    _, adds, statement = line.partition(NOT_BROUGHT_BACK)
    head = f"ALTER TABLE {quote_table(*table)} ADD "
    own = statement.startswith(head) and _ADDED.fullmatch(statement, len(head)) is not None
    return line.startswith(f"{'.'.join(table)}: ") and (own or not adds)


def missing_column(
    key: ForeignKey, altered: Mapping[tuple[str, str], AlterStatement]
) -> tuple[str, tuple[str, str]] | None:
    """Return a column of a key that is dropped, with its table; None when all stay."""
    for columns, table in ((key.columns, key.child), (key.parent_columns, key.parent)):
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
