"""Which column of the source becomes which column of the new table (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from spirit_py.table.schema import Column, Index, TableSchema


@dataclass(frozen=True, kw_only=True)
class ColumnPair:
    """One column that is carried over.

    Attributes:
        old: the column of the source.
        new: the column of the new table; never a generated one.
        converted: the type changed in a way in which a literal of the old value might not be
            stored as a native ALTER would store it; such tables are applied and compared
            through a staging table with the old column types, so that the server converts.
    """

    old: Column
    new: Column
    converted: bool = False


@dataclass(frozen=True, kw_only=True)
class TableMapping:
    """Source table, new table, the columns carried over and the key that identifies a row.

    Attributes:
        pairs: carried columns, in the order of the new table.
        key: the chunk key: a unique index over NOT NULL columns of the source whose columns
            form a unique index of the new table too. Names are the source's.
        new_key_columns: the names of the key's columns in the new table, in key order.
        tightened: unique indexes of the new table that the source does not guarantee (R11).
        time_zone: the server's time zone, when a TIMESTAMP changes to or from another type
            and the conversion therefore depends on it; empty otherwise.
    """

    source: TableSchema
    target: TableSchema
    pairs: tuple[ColumnPair, ...]
    key: Index
    new_key_columns: tuple[str, ...]
    tightened: tuple[Index, ...] = ()
    time_zone: str = ""

    @cached_property
    def converted(self) -> bool:
        """Whether any carried column is converted, so that changes take the staged path."""
        return any(pair.converted for pair in self.pairs)

    @cached_property
    def key_columns(self) -> tuple[Column, ...]:
        """The key's columns of the source, in key order."""
        return tuple(self.source.column(name) for name in self.key.columns)
