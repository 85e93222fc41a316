"""The statements of a swap with all that is attached to its tables, in their order (pure).

::

    before      copies under temporary names        undone by ``undoing``, in reverse order
    RENAME      of all tables at once
    after       originals dropped, copies named     completed by ``remaining``

Each kind of attachment has the same four functions: what is sent before the RENAME, what there is
right after it, what remains after it given what there is, and what undoes the first. Every
state between two statements loses no row and lets no orphan arise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from spirit_py.attached.foreign_keys import moving
from spirit_py.attached.triggers import statements as triggers
from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.attached.record import Attachments, AttachmentsNote
    from spirit_py.attached.triggers.model import Placed, Trigger
    from spirit_py.table.swap import Swap


@dataclass(frozen=True, kw_only=True)
class Existing:
    """What is on the tables of a swap now, under whatever names.

    Attributes:
        keys: the foreign keys of all three tables of each swap, and of the noted children.
        triggers: the triggers of all three tables of each swap; read after a RENAME alone.
        places: where they are; read where there was none.
    """

    keys: tuple[ForeignKey, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    places: tuple[Placed, ...] = ()


Sql: TypeAlias = str | bytes
"""Bytes where a statement must be sent in another character set than UTF-8."""


@dataclass(frozen=True, kw_only=True)
class SwapStatements:
    """The statements of one packet."""

    before: tuple[Sql, ...] = ()
    rename: str
    after: tuple[Sql, ...] = ()

    @property
    def all(self) -> tuple[Sql, ...]:
        """All statements, in the order in which they are sent."""
        return (*self.before, self.rename, *self.after)

    def renamed_after(self, done: int) -> bool:
        """Return whether the RENAME is among the first ``done`` statements."""
        return done > len(self.before)


def sequence_of(noted: Attachments) -> SwapStatements:
    """Return the statements of a swap of which nothing was sent yet."""
    return SwapStatements(
        before=(
            *moving.copies(noted),
            *triggers.copies(noted.triggers, {swap.name: swap.new for swap in noted.swaps}),
        ),
        rename=renaming(noted.swaps),
        after=tuple(remaining(noted.note, _renamed(noted))),
    )


def renaming(swaps: Iterable[Swap]) -> str:
    """Return the RENAME of all tables, which is atomic."""
    moves = ", ".join(
        f"{quote_table(swap.schema, before)} TO {quote_table(swap.schema, after)}"
        for swap in swaps
        for before, after in ((swap.table, swap.old), (swap.new, swap.table))
    )
    return f"RENAME TABLE {moves}"


def remaining(noted: AttachmentsNote, existing: Existing) -> list[Sql]:
    """Return what is still to be sent after the RENAME; nothing when all is in place."""
    return [
        *moving.placed(noted, existing.keys),
        *triggers.placed(noted.triggers, existing.triggers),
    ]


def undoing(noted: AttachmentsNote, existing: Existing) -> list[Sql]:
    """Return what undoes the statements before a RENAME that was not made."""
    return [
        *triggers.withdrawn(noted.triggers, existing.places),
        *moving.withdrawn(noted, existing.keys),
    ]


def _renamed(noted: Attachments) -> Existing:
    """Return what there is right after the RENAME."""
    old = {swap.name: swap.old for swap in noted.swaps}
    return Existing(keys=moving.renamed(noted), triggers=triggers.renamed(noted.triggers, old))
