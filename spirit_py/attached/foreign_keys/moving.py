"""The statements that move foreign keys with the tables of a swap (pure).

Each key is, in this order:

1. on its old place alone, where RENAME would leave it: ``t`` referring, or referred to;
2. on both: a copy with a temporary name is on ``_t_new`` (where ``t`` is the child) or refers to it
   (where ``t`` is the parent). Both hold: no orphan can arise, at worst a write is refused;
3. after the RENAME on both still, the copy on the right place now;
4. on the right place alone: ``_t_old`` restricts nothing and cascades nothing any more;
5. there under its own name, which was not free before (error 1826 within one ALTER as well).

Every step is metadata only: ``foreign_key_checks=0``, ALGORITHM=INPLACE, and no index is made.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.statements import added, dropped
from spirit_py.sql import quote_identifier, quote_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.attached.record import Attachments, KeyMove, Name, Places


_NON_STANDARD: Final = (
    "SET @spirit_py_keys = 1 /*!80400 , SESSION restrict_fk_on_non_standard_key = OFF */"
)


def copies(noted: Attachments) -> list[str]:
    """Return the statements before the RENAME: each key's copy, a statement for each table."""
    clauses: dict[Name, list[str]] = {}
    for move in noted.keys:
        if (copy := _copy(move, noted.places)) is not None:
            clauses.setdefault(copy.child, []).append(added(copy))
    indexes = {
        place: {
            name
            for move in noted.keys
            if noted.places.new(move.before.child) == place
            for name in move.indexes
        }
        for place in clauses
    }
    sent = [
        _alter(place, chain(found, map(_kept_index, sorted(indexes[place]))))
        for place, found in clauses.items()
    ]
    return [*_allowing(noted), *sent] if sent else []


def renamed(noted: Attachments) -> tuple[ForeignKey, ...]:
    """Return the keys that there are right after the RENAME."""
    return tuple(_originals(noted).values()) + tuple(
        replace(move.after, name=move.temporary) for move in noted.keys if move.after is not None
    )


def placed(noted: Attachments, keys: Iterable[ForeignKey]) -> list[str]:
    """Return what remains to be sent after the RENAME, given the keys that exist.

    A key that is under neither name was dropped by another session since, and stays so.
    """
    there = {(*key.child, key.name.lower()): key for key in keys}
    named = _named(noted, there)
    return [*_without_originals(noted, there), *(_allowing(noted) if named else []), *named]


def withdrawn(noted: Attachments, keys: Iterable[ForeignKey]) -> list[str]:
    """Return the statements that drop the copies that exist, where there was no RENAME."""
    temporary = {move.temporary.lower() for move in noted.keys}
    return _dropping(key for key in keys if key.name.lower() in temporary)


def missing(noted: Attachments, keys: Iterable[ForeignKey]) -> list[ForeignKey]:
    """Return the keys that are under neither of their names after the swap."""
    there = {(*key.child, key.name.lower()) for key in keys}
    return [
        move.after
        for move in noted.keys
        if move.after is not None
        and (*move.after.child, move.after.name.lower()) not in there
        and (*move.after.child, move.temporary.lower()) not in there
    ]


def _allowing(noted: Attachments) -> list[str]:
    """Return what allows a key to an index that is not unique, where there is such a key.

    A native ALTER keeps one that is there, whatever ``restrict_fk_on_non_standard_key`` says.
    """
    standard = all(move.before.parent_index for move in noted.keys)
    return [] if standard else [_NON_STANDARD]


def _copy(move: KeyMove, places: Places) -> ForeignKey | None:
    """Return a key as it is added before the RENAME; None where the ALTER drops it."""
    key = move.after
    if key is None:
        return None
    (schema, table), (parent_schema, parent) = places.new(key.child), places.new(key.parent)
    return replace(
        key,
        name=move.temporary,
        schema=schema,
        table=table,
        parent_schema=parent_schema,
        parent_table=parent,
    )


def _originals(noted: Attachments) -> Mapping[tuple[str, str, str], ForeignKey]:
    """Return the keys from before the swap as they are after the RENAME."""
    found = {}
    for move in noted.keys:
        old = _renamed(move.before, noted.places)
        found[*old.child, old.name.lower()] = old
    return found


def _renamed(key: ForeignKey, places: Places) -> ForeignKey:
    """Return a key from before the swap as it is after the RENAME."""
    (schema, table), (parent_schema, parent) = places.old(key.child), places.old(key.parent)
    return replace(
        key,
        name=carried_name(key.name, key.table, table),
        schema=schema,
        table=table,
        parent_schema=parent_schema,
        parent_table=parent,
    )


def carried_name(name: str, before: str, after: str) -> str:
    """Return the name that a key has once its table is renamed.

    RENAME TABLE renames the keys that the server may have named after the table: those that begin
    with its name, letter for letter, and ``_ibfk_``, whatever follows (measured on 9.7.4).
    """
    generated = f"{before}_ibfk_"
    if before == after or not name.startswith(generated) or name == generated:
        return name
    return after + name[len(before) :]


def _without_originals(
    noted: Attachments, there: Mapping[tuple[str, str, str], ForeignKey]
) -> list[str]:
    """Drop what RENAME left on the old tables, and to them, whether it has renamed it or not."""
    found = {}
    for move in noted.keys:
        old = _renamed(move.before, noted.places)
        for name in (old.name, move.before.name):
            key = there.get((*old.child, name.lower()))
            if key is not None and key.parent == old.parent:
                found[*key.child, key.name.lower()] = key
    return _dropping(found.values())


def _named(noted: Attachments, there: Mapping[tuple[str, str, str], ForeignKey]) -> list[str]:
    """Exchange each copy for the key of the right name, a statement for each table."""
    clauses: dict[Name, tuple[list[str], list[str]]] = {}
    for move in noted.keys:
        if move.after is None:
            continue
        copy = replace(move.after, name=move.temporary)
        if (*copy.child, copy.name.lower()) in there:
            drops, adds = clauses.setdefault(copy.child, ([], []))
            drops.append(dropped(copy))
            adds.append(added(move.after))
    return [_alter(table, [*drops, *adds]) for table, (drops, adds) in clauses.items()]


def _dropping(keys: Iterable[ForeignKey]) -> list[str]:
    """Drop keys, a statement for each table."""
    clauses: dict[Name, list[str]] = {}
    for key in keys:
        clauses.setdefault(key.child, []).append(dropped(key))
    return [_alter(table, found) for table, found in clauses.items()]


def _alter(table: Name, clauses: Iterable[str]) -> str:
    return f"ALTER TABLE {quote_table(*table)} {', '.join(clauses)}, ALGORITHM=INPLACE"


def _kept_index(name: str) -> str:
    quoted = quote_identifier(name)
    return f"RENAME INDEX {quoted} TO {quoted}"
