"""What is noted, before the first statement, of what a swap attaches to its tables (pure; R24).

One row of the checkpoint table, written under no lock before the lock request of each try. From it
and from what exists, :mod:`spirit_py.attached.sequence` derives what remains to be sent, whatever
was interrupted where. All temporary names have a random token, so they are this try's alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spirit_py.attached.foreign_keys.model import ForeignKey  # noqa: TC001 (the codec reads it)
from spirit_py.attached.triggers.model import TriggerMove  # noqa: TC001 (the same)
from spirit_py.table.swap import Swap  # noqa: TC001 (the same)

if TYPE_CHECKING:
    from collections.abc import Iterator

Name = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class KeyMove:
    """One foreign key of a swapped table, or to one.

    Attributes:
        before: as it is before the swap.
        after: as a native ALTER of the swapped tables leaves it, under the same names of tables;
            None where the ALTER drops it.
        temporary: the name that it has on its new place until the old one is dropped.
        indexes: indexes of the new place that the server may have made for a key by itself.
            ADD FOREIGN KEY would make such an index again, under its own name, row by row.
            Renamed to the name that it has, it is one that was made by name, and stays.
    """

    before: ForeignKey
    after: ForeignKey | None
    temporary: str
    indexes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Attachments:
    """What a swap takes along.

    Attributes:
        swaps: the tables that are swapped in one RENAME.
        keys: the foreign keys of these tables and to them.
        triggers: the triggers of these tables, in the order in which they fire.
    """

    swaps: tuple[Swap, ...]
    keys: tuple[KeyMove, ...] = field(default=())
    triggers: tuple[TriggerMove, ...] = field(default=())

    def __bool__(self) -> bool:
        """Return whether there is anything besides the tables themselves."""
        return bool(self.keys or self.triggers)

    @property
    def places(self) -> Places:
        """Where the swapped tables are, before and after."""
        return Places(self.swaps)

    @property
    def others(self) -> tuple[Name, ...]:
        """Children and parents that are not swapped themselves, by schema and name."""
        ends = {
            end
            for move in self.keys
            for key in (move.before, move.after)
            if key is not None
            for end in (key.child, key.parent)
        }
        return tuple(sorted(ends - {swap.name for swap in self.swaps}))


class Places:
    """Translates the name of a table to that of its new or its old one; others stay."""

    def __init__(self, swaps: tuple[Swap, ...]) -> None:
        self._by_name = {swap.name: swap for swap in swaps}

    def __iter__(self) -> Iterator[Swap]:
        """Iterate over the swaps."""
        return iter(self._by_name.values())

    def swaps(self, table: Name) -> bool:
        """Return whether a table is swapped."""
        return table in self._by_name

    def new(self, table: Name) -> Name:
        """Return the name of the table that takes this one's place, before the RENAME."""
        swap = self._by_name.get(table)
        return (swap.schema, swap.new) if swap else table

    def old(self, table: Name) -> Name:
        """Return the name of the table that was swapped out of this one's place."""
        swap = self._by_name.get(table)
        return (swap.schema, swap.old) if swap else table
