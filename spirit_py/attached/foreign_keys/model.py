"""One foreign key, as the server describes it (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PASSIVE: Final = frozenset({"NO ACTION", "RESTRICT"})
"""The actions that change no row: the statement on the parent fails instead."""


@dataclass(frozen=True, kw_only=True)
class KeyNote:
    """The names of a foreign key that a swap moves.

    Attributes:
        name: before the swap, and again after it.
        child: schema and name of the child table; ``parent`` likewise.
        temporary: the name of its copy until the original is dropped.
        dropped: the ALTER drops it.
    """

    name: str
    child: tuple[str, str]
    parent: tuple[str, str]
    temporary: str
    dropped: bool = False

    def __str__(self) -> str:
        """Return the key's name with its tables, for messages."""
        return f"foreign key {self.name} of {'.'.join(self.child)} to {'.'.join(self.parent)}"


@dataclass(frozen=True, kw_only=True)
class ForeignKey:
    """One foreign key: a constraint of its child table that refers to the parent table.

    Attributes:
        name: unique among the foreign keys of the child's schema.
        schema: of the child table, and of the constraint.
        table: the child table, whose columns refer.
        columns: of the child table, in the key's order.
        parent_schema: the schema of the parent table.
        parent_table: the table referred to; equal to the child in a self-reference. It may be
            missing, when the key was made with ``foreign_key_checks=0``.
        parent_columns: of the parent table, as many as ``columns``.
        on_delete: ``NO ACTION``, ``RESTRICT``, ``CASCADE``, ``SET NULL`` or ``SET DEFAULT``.
        on_update: likewise.
        parent_index: the unique index of the parent that the key refers to; empty where it refers
            to another index or the parent is missing.
        visible: False where the account has no privilege on the child table. INNODB_FOREIGN, from
            which the key is known then, shows SET DEFAULT as RESTRICT.
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
    def self_reference(self) -> bool:
        """Whether child and parent are one table."""
        return self.child == self.parent

    @property
    def changes_rows(self) -> bool:
        """Whether a change of the parent may change rows of the child."""
        return not {self.on_delete, self.on_update} <= PASSIVE

    def __str__(self) -> str:
        """Return the key's name with its tables, for messages."""
        child, parent = ".".join(self.child), ".".join(self.parent)
        return f"foreign key {self.name} of {child} to {parent}"
