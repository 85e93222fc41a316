"""What a swap takes along: in memory with all definitions, and as it is noted (pure; R24, R26).

The note is written before each lock request. It has names only: definitions are read from the
catalogue, which has the original or its copy in every state. Temporary names have a random token.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.model import KeyNote
from spirit_py.attached.triggers.model import TriggerNote  # noqa: TC001 (the codec reads it)
from spirit_py.classes import dataclass, field
from spirit_py.table.names import Name, Swap, require_names

if TYPE_CHECKING:
    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.attached.triggers.model import TriggerMove

_TEMPORARY: Final = re.compile(r"_spirit_py_[0-9a-f]{8}_(?:t_)?[0-9]{1,6}")


@dataclass(frozen=True, kw_only=True)
class KeyMove:
    """One foreign key of a swapped table, or to one; ``after`` is None where the ALTER drops it.

    ``indexes`` of the new place may have been made by the server for a key: ADD FOREIGN KEY would
    make them again, row by row (measured: 0.3 s for 500 000), unless they are renamed to their own
    names in the same ALTER.
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
    """What a swap takes along: foreign keys of and to its tables; triggers in firing order."""

    swaps: tuple[Swap, ...]
    keys: tuple[KeyMove, ...] = field(default=())
    triggers: tuple[TriggerMove, ...] = field(default=())

    def __bool__(self) -> bool:
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
    """The names of what a swap takes along: a row of the checkpoint table."""

    swaps: tuple[Swap, ...]
    keys: tuple[KeyNote, ...] = ()
    triggers: tuple[TriggerNote, ...] = ()

    def __post_init__(self) -> None:
        swapped = {swap.name for swap in self.swaps}
        for swap in self.swaps:
            names = swap.names
            if (swap.new, swap.old) not in {(names.new, names.old), (names.old, names.undone)}:
                raise ValueError(
                    f"{swap.new} and {swap.old} are not the names of a swap of {swap.table}"
                )
        given = [name for swap in self.swaps for name in swap.name]
        given += [name for key in self.keys for name in (key.name, *key.child, *key.parent)]
        given += [trigger.name for trigger in self.triggers]
        require_names(*given)
        temporary = [key.temporary for key in self.keys]
        temporary += [trigger.temporary for trigger in self.triggers]
        if not all(map(_TEMPORARY.fullmatch, temporary)):
            raise ValueError("a temporary name is not of this program")
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

    def new(self, table: Name) -> Name:
        """Return the name of the table that takes this one's place, before the RENAME."""
        swap = self._by_name.get(table)
        return (swap.schema, swap.new) if swap else table

    def old(self, table: Name) -> Name:
        """Return the name of the table that was swapped out of this one's place."""
        swap = self._by_name.get(table)
        return (swap.schema, swap.old) if swap else table
