"""The statements of a swap with all that is attached, in their order; whether it was made (pure).

::

    before      copies under temporary names        undone by ``undoing``, in reverse order
    RENAME      of all tables at once
    after       originals dropped, copies named     completed by ``remaining``

Key and copy hold together on old and new place, so no orphan can arise in any state; at worst a
write is refused. A key's own name is free only once the original is dropped (error 1826, within one
ALTER as well). Every step is metadata only: ``foreign_key_checks=0``, ALGORITHM=INPLACE, no index.

RENAME is atomic (manual 15.1.38): names show the state once the sender's fence, a lock, is free.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from spirit_py.attached.triggers import statements as triggers
from spirit_py.classes import dataclass, replace
from spirit_py.sql import identifier_list, quote_identifier, quote_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spirit_py.attached.foreign_keys.model import ForeignKey, KeyNote
    from spirit_py.attached.record import Attachments, AttachmentsNote, KeyMove, Places
    from spirit_py.attached.triggers.model import Placed, Trigger
    from spirit_py.attached.triggers.statements import Sql
    from spirit_py.table.names import Name, Swap


@dataclass(frozen=True, kw_only=True)
class Existing:
    """The keys and triggers on the tables of a swap now; triggers are read after a RENAME alone."""

    keys: tuple[ForeignKey, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    places: tuple[Placed, ...] = ()


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
    old = {swap.name: swap.old for swap in noted.swaps}
    made = Existing(keys=renamed(noted), triggers=triggers.renamed(noted.triggers, old))
    return SwapStatements(
        before=(
            *copies(noted),
            *triggers.copies(noted.triggers, {swap.name: swap.new for swap in noted.swaps}),
        ),
        rename=renaming(noted.swaps),
        after=tuple(remaining(noted.note, made)),
    )


def renaming(swaps: Iterable[Swap]) -> str:
    """Return the RENAME of all tables, which is atomic."""
    moves = ", ".join(
        f"{quote_table(swap.schema, before)} TO {quote_table(swap.schema, after)}"
        for swap in swaps
        for before, after in ((swap.table, swap.old), (swap.new, swap.table))
    )
    return f"RENAME TABLE {moves}"


class Verdict(enum.Enum):
    """What the evidence says."""

    DONE = "done"
    NOT_DONE = "not done"
    UNKNOWN = "unknown"
    """No query can decide it: the operator must."""
    END_SESSION = "end session"
    """The session that sent the RENAME still exists: kill it, then look again."""
    LOOK_AGAIN = "look again"
    """The server could not be asked."""


@dataclass(frozen=True, kw_only=True)
class ExistingTables:
    """Which tables of one swap exist."""

    source: bool
    new: bool
    old: bool


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The result of one query: the answering server or None, the fence's holder, the tables.

    ``unseen``: why no further query shows more.
    """

    server: str | None
    fence: int | None = None
    tables: tuple[ExistingTables, ...] = ()
    unseen: str = ""


NO_ANSWER = Evidence(server=None)


def judge(evidence: Evidence, *, server: str) -> Verdict:
    """Return whether the RENAME was made (R15); a server that was not sent it proves nothing."""
    if evidence.server is None:
        return Verdict.LOOK_AGAIN
    if evidence.server != server:
        return Verdict.UNKNOWN
    if evidence.fence is not None:
        return Verdict.END_SESSION
    if evidence.tables and all(t.source and t.old and not t.new for t in evidence.tables):
        return Verdict.DONE
    if evidence.tables and all(t.source and t.new and not t.old for t in evidence.tables):
        return Verdict.NOT_DONE
    return Verdict.UNKNOWN


def remaining(noted: AttachmentsNote, existing: Existing) -> list[Sql]:
    """Return what is still to be sent after the RENAME; nothing when all is in place."""
    return [*placed(noted, existing.keys), *triggers.placed(noted.triggers, existing.triggers)]


def undoing(noted: AttachmentsNote, existing: Existing) -> list[Sql]:
    """Return what undoes the statements before a RENAME that was not made."""
    new_of = {swap.name: swap.new for swap in noted.swaps}
    return [
        *triggers.withdrawn(noted.triggers, new_of, existing.places),
        *withdrawn(noted, existing.keys),
    ]


def constraint(key: ForeignKey) -> str:
    """Return a key's definition; both actions are written out, as NO ACTION is not RESTRICT."""
    return (
        f"CONSTRAINT {quote_identifier(key.name)} FOREIGN KEY ({identifier_list(key.columns)})"
        f" REFERENCES {quote_table(*key.parent)} ({identifier_list(key.parent_columns)})"
        f" ON DELETE {key.on_delete} ON UPDATE {key.on_update}"
    )


def added(key: ForeignKey) -> str:
    """Return the clause of ALTER TABLE that adds a key."""
    return f"ADD {constraint(key)}"


def dropped(key: ForeignKey) -> str:
    """Return the clause of ALTER TABLE that drops a key."""
    return f"DROP FOREIGN KEY {quote_identifier(key.name)}"


_NON_STANDARD: Final = (
    "SET @spirit_py_keys = 1 /*!80400 , SESSION restrict_fk_on_non_standard_key = OFF */"
)


def copies(noted: Attachments) -> list[str]:
    """Return the statements before the RENAME: each key's copy, a statement for each table."""
    clauses: dict[Name, list[str]] = {}
    indexes: dict[Name, set[str]] = {}
    for move in noted.keys:
        indexes.setdefault(noted.places.new(move.before.child), set()).update(move.indexes)
        if (copy := _copy(move, noted.places)) is not None:
            clauses.setdefault(copy.child, []).append(added(copy))
    sent = []
    for place, found in clauses.items():
        kept = map(quote_identifier, sorted(indexes.get(place, ())))
        sent.append(_alter(place, [*found, *(f"RENAME INDEX {name} TO {name}" for name in kept)]))
    return [*_allowing(move.before for move in noted.keys), *sent] if sent else []


def renamed(noted: Attachments) -> tuple[ForeignKey, ...]:
    """Return the keys that there are right after the RENAME."""
    originals = {}
    for move in noted.keys:
        key = move.before
        child, parent = noted.places.old(key.child), noted.places.old(key.parent)
        key = key.between(child, parent, name=carried_name(key.name, key.table, child[1]))
        originals[*key.child, key.name.lower()] = key
    return tuple(originals.values()) + tuple(
        replace(move.after, name=move.temporary) for move in noted.keys if move.after is not None
    )


def placed(noted: AttachmentsNote, keys: Iterable[ForeignKey]) -> list[str]:
    """Return what remains to be sent after the RENAME, given the keys that exist."""
    there = {(*key.child, key.name.lower()): key for key in keys}
    return [*_without_originals(noted, there), *_named(noted, there)]


def withdrawn(noted: AttachmentsNote, keys: Iterable[ForeignKey]) -> list[str]:
    """Return the statements that drop the copies that exist, where there was no RENAME."""
    temporary = {note.temporary.lower() for note in noted.keys}
    new = {noted.places.new(swap.name) for swap in noted.swaps}
    return _dropping(
        key for key in keys if key.name.lower() in temporary and new & {key.child, key.parent}
    )


def missing(noted: AttachmentsNote, keys: Iterable[ForeignKey]) -> list[KeyNote]:
    """Return the keys that are under neither of their names after the swap."""
    there = {(*key.child, key.name.lower()) for key in keys}
    return [
        note
        for note in noted.keys
        if not note.dropped
        and (*note.child, note.name.lower()) not in there
        and (*note.child, note.temporary.lower()) not in there
    ]


def _allowing(keys: Iterable[ForeignKey]) -> list[str]:
    """Allow keys to non-unique indexes, as a native ALTER does for a key that is there."""
    return [] if all(key.parent_index for key in keys) else [_NON_STANDARD]


def _copy(move: KeyMove, places: Places) -> ForeignKey | None:
    key = move.after
    if key is None:
        return None
    return key.between(places.new(key.child), places.new(key.parent), name=move.temporary)


def carried_name(name: str, before: str, after: str) -> str:
    """Return the name that a key has once its table is renamed.

    Names that begin with the table's, letter for letter, and ``_ibfk_`` change (measured on 9.7.4).
    """
    generated = f"{before}_ibfk_"
    if before == after or not name.startswith(generated) or name == generated:
        return name
    return after + name[len(before) :]


def _without_originals(
    noted: AttachmentsNote, there: Mapping[tuple[str, str, str], ForeignKey]
) -> list[str]:
    """Drop the originals; a child that is not swapped keeps its own until the copy is there."""
    found = {}
    for note in noted.keys:
        child, parent = noted.places.old(note.child), noted.places.old(note.parent)
        if child == note.child and (*child, note.temporary.lower()) not in there:
            continue
        for name in (carried_name(note.name, note.child[1], child[1]), note.name):
            key = there.get((*child, name.lower()))
            if key is not None and key.parent == parent:
                found[*key.child, key.name.lower()] = key
    return _dropping(found.values())


def _named(noted: AttachmentsNote, there: Mapping[tuple[str, str, str], ForeignKey]) -> list[str]:
    clauses: dict[Name, tuple[list[str], list[str]]] = {}
    copies_there = []
    for note in noted.keys:
        copy = there.get((*note.child, note.temporary.lower()))
        if note.dropped or copy is None:
            continue
        copies_there.append(copy)
        drops, adds = clauses.setdefault(copy.child, ([], []))
        drops.append(dropped(copy))
        adds.append(added(replace(copy, name=note.name)))
    sent = [_alter(table, [*drops, *adds]) for table, (drops, adds) in clauses.items()]
    return [*_allowing(copies_there), *sent]


def _dropping(keys: Iterable[ForeignKey]) -> list[str]:
    clauses: dict[Name, list[str]] = {}
    for key in keys:
        clauses.setdefault(key.child, []).append(dropped(key))
    return [_alter(table, found) for table, found in clauses.items()]


def _alter(table: Name, clauses: Iterable[str]) -> str:
    return f"ALTER TABLE {quote_table(*table)} {', '.join(clauses)}, ALGORITHM=INPLACE"
