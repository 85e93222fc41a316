"""What the checkpoint table holds about reverse replication (pure).

After the swap the old tables follow the new ones, so that ``spirit-py revert`` can swap them back.
Nothing secret is in this row (R20).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spirit_py.checkpoint.record import MOST_TABLES, home_of
from spirit_py.config import SessionModes
from spirit_py.table.build import ReverseChanges
from spirit_py.table.names import AuxiliaryNames, is_identifier

FOLLOWING: Final = "following"
"""The old tables follow the new ones: a process applies the changes, or another may continue."""
REVERTING: Final = "reverting"
"""The swap back may be under way: the names of the tables show whether it was made."""
ENDED: Final = "ended"
"""The old tables follow no more; the reason is in the record."""


@dataclass(frozen=True, kw_only=True)
class ReverseTable:
    """One table whose old one follows it.

    Attributes:
        old: name of the old table, in the same schema.
        undone: name that the new table gets in the swap back.
        changes: what the reversed mapping does to columns.
        now_shape: digest of the new table's definition; see :mod:`spirit_py.checkpoint.record`.
        old_shape: the same of the old table's.
        losses: what would be lost, a line each.
    """

    schema: str
    table: str
    old: str
    undone: str
    changes: ReverseChanges = field(default_factory=ReverseChanges)
    now_shape: str = ""
    old_shape: str = ""
    losses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse other tables than those beside the table."""
        names = AuxiliaryNames.of(self.table)
        if not (is_identifier(self.schema) and is_identifier(self.table)):
            raise ValueError("a name is none that the server takes")
        if (self.old, self.undone) != (names.old, names.undone):
            raise ValueError(f"{self.old} and {self.undone} are not the tables of {self.table}")

    @property
    def source(self) -> tuple[str, str]:
        """Schema and name of the table."""
        return self.schema, self.table

    @property
    def name(self) -> str:
        """The table's name for messages."""
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, kw_only=True)
class ReverseRecord:
    """Reverse replication of one table, or of several that were swapped together.

    Attributes:
        position: of the reverse feed, opaque.
        until: when it ends, seconds since 1970 by the server's clock.
        state: :data:`FOLLOWING`, :data:`REVERTING` or :data:`ENDED`.
        reason: why it has ended.
        modes: under which the tables were changed; the old ones follow under them.
        skip_drop: the tables that the swap back takes out of use are to be kept.
        program: version of the program that wrote it.
    """

    tables: tuple[ReverseTable, ...]
    position: str
    until: float
    state: str = FOLLOWING
    reason: str = ""
    modes: SessionModes = field(default_factory=SessionModes)
    skip_drop: bool = False
    program: str = ""

    def __post_init__(self) -> None:
        """Refuse a record that no run can have written."""
        if not 0 < len(self.tables) <= MOST_TABLES:
            raise ValueError(f"it names {len(self.tables)} tables")

    @property
    def home(self) -> tuple[str, str]:
        """The table whose checkpoint table holds this record."""
        return home_of(table.source for table in self.tables)

    @property
    def names(self) -> str:
        """The tables' names for messages."""
        return ", ".join(table.name for table in self.tables)

    @property
    def losses(self) -> list[str]:
        """What would be lost in all tables, a line each."""
        return [line for table in self.tables for line in table.losses]
