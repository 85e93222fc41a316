"""What a swap takes along: in memory with all definitions, and as it is noted (pure; R24, R26).

The note is one row of the checkpoint table, written under no lock before the lock request of each
try. It has names only. From it and from what exists, :mod:`spirit_py.attached.sequence` derives
what remains to be sent, whatever was interrupted where: each definition is read from the server's
catalogue, where in every state either the original or its copy is. All temporary names have a
random token, so they are this try's alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.model import KeyNote
from spirit_py.attached.triggers.model import TriggerNote  # noqa: TC001 (the codec reads it)
from spirit_py.table.names import (
    AuxiliaryNames,
    Name,
    Swap,
    is_identifier,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.attached.triggers.model import TriggerMove

_TEMPORARY: Final = re.compile(r"_spirit_py_[0-9a-f]{8}_(?:t_)?[0-9]{1,6}")


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

    @property
    def note(self) -> KeyNote:
        """Its names."""
        return KeyNote(
            name=self.before.name,
            child=self.before.child,
            parent=self.before.parent,
            temporary=self.temporary,
            dropped=self.after is None,
        )


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
    def note(self) -> AttachmentsNote:
        """What is noted of it."""
        return AttachmentsNote(
            swaps=self.swaps,
            keys=tuple(move.note for move in self.keys),
            triggers=tuple(move.note for move in self.triggers),
        )

    @property
    def places(self) -> Places:
        """Where the swapped tables are, before and after."""
        return Places(self.swaps)


@dataclass(frozen=True, kw_only=True)
class AttachmentsNote:
    """The names of what a swap takes along: a row of the checkpoint table.

    Attributes:
        triggers: in the order in which they fire.
    """

    swaps: tuple[Swap, ...]
    keys: tuple[KeyNote, ...] = ()
    triggers: tuple[TriggerNote, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no swap notes: other tables, and names that are none."""
        swapped = {swap.name for swap in self.swaps}
        for swap in self.swaps:
            names = AuxiliaryNames.of(swap.table)
            if (swap.new, swap.old) not in {(names.new, names.old), (names.old, names.undone)}:
                raise ValueError(
                    f"{swap.new} and {swap.old} are no names of a swap of {swap.table}"
                )
        given = [name for swap in self.swaps for name in swap.name]
        given += [name for key in self.keys for name in (key.name, *key.child, *key.parent)]
        given += [trigger.name for trigger in self.triggers]
        if not all(map(is_identifier, given)):
            raise ValueError("a name is none that the server takes")
        temporary = [key.temporary for key in self.keys]
        temporary += [trigger.temporary for trigger in self.triggers]
        if not all(map(_TEMPORARY.fullmatch, temporary)):
            raise ValueError("a temporary name is not one of this program")
        if any(not swapped & {key.child, key.parent} for key in self.keys):
            raise ValueError("a foreign key is neither of a swapped table nor to one")
        if any((trigger.schema, trigger.table) not in swapped for trigger in self.triggers):
            raise ValueError("a trigger is not on a swapped table")

    @property
    def others(self) -> tuple[Name, ...]:
        """Children and parents that are not swapped themselves, by schema and name."""
        ends = {end for key in self.keys for end in (key.child, key.parent)}
        return tuple(sorted(ends - {swap.name for swap in self.swaps}))

    @property
    def places(self) -> Places:
        """Where the swapped tables are, before and after."""
        return Places(self.swaps)


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
