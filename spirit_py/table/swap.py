"""The names that the swap of one table exchanges (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from spirit_py.table.mapping import TableMapping


@dataclass(frozen=True, kw_only=True)
class Swap:
    """One table to swap: ``table`` becomes ``old``, ``new`` becomes ``table``."""

    schema: str
    table: str
    new: str
    old: str

    @classmethod
    def of(cls, mapping: TableMapping, old: str = "") -> Swap:
        """Return the swap that puts the target in the source's place.

        Args:
            old: what the source is called then; by default the name of a migration's old table.
        """
        source = mapping.source
        return cls(
            schema=source.schema,
            table=source.name,
            new=mapping.target.name,
            old=old or AuxiliaryNames.of(source.name).old,
        )

    @property
    def name(self) -> tuple[str, str]:
        """Schema and name of the table."""
        return self.schema, self.table
