"""The migration's mapping turned around: from the table as it is now to the old one (pure)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spirit_py.errors import Refusal
from spirit_py.table.build import build_mapping
from spirit_py.table.conversions import values_stay_apart
from spirit_py.table.new_columns import needs_fill

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from spirit_py.table.build import ColumnChanges
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Column, TableSchema

_REMEDY = (
    "run without --keep-old-current; with --skip-drop-after-cutover the old table stays as it was"
    " at the swap"
)


@dataclass(frozen=True, kw_only=True)
class ReverseChanges:
    """What the way back does to columns; names in lower case but for the new ones of renames.

    Attributes:
        renames: name in the new table to name in the old one.
        added: columns that only the old table has.
        dropped: columns that only the new table has.
    """

    renames: Mapping[str, str]
    added: AbstractSet[str]
    dropped: AbstractSet[str]

    @classmethod
    def of(cls, old: TableSchema, new: TableSchema, changes: ColumnChanges) -> ReverseChanges:
        """Turn a statement's changes around."""
        renames: dict[str, str] = {}
        followed: set[str] = set()
        added: set[str] = set()
        for column in old.columns:
            name = column.name.lower()
            if name in changes.dropped:
                added.add(name)
                continue
            follows = changes.renames.get(name, column.name).lower()
            followed.add(follows)
            if follows != name:
                renames[follows] = column.name
        fresh = {column.name.lower() for column in new.columns} - followed
        return cls(renames=renames, added=frozenset(added), dropped=frozenset(fresh))


@dataclass(frozen=True, kw_only=True)
class Losses:
    """What the way back does not bring back, for the operator.

    Attributes:
        lost: columns of the new table whose values would be lost.
        kept: columns that only the old table has: rows written since the swap have defaults.
        converted: columns whose values are converted back: name and both types.
    """

    lost: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    converted: tuple[tuple[str, str, str], ...] = ()

    @classmethod
    def of(cls, mapping: TableMapping) -> Losses:
        """Read them off the way back's mapping."""
        carried = {pair.old.name for pair in mapping.pairs}
        return cls(
            lost=tuple(
                column.name
                for column in mapping.source.columns
                if column.name not in carried and not column.generated
            ),
            kept=tuple(column.name for column in mapping.kept),
            converted=tuple(
                (pair.old.name, pair.old.column_type, pair.new.column_type)
                for pair in mapping.pairs
                if pair.converted
            ),
        )

    def lines(self, table: str) -> list[str]:
        """Say it, a line for each kind; nothing when the way back loses nothing."""
        lines = []
        if self.lost:
            lines.append(f"{table}: going back loses the values of {_listed(self.lost)}")
        if self.kept:
            lines.append(
                f"{table}: {_listed(self.kept)} will have the default in rows that were written"
                " after the swap, and the old values in all others"
            )
        lines += [
            f"{table}: {name} goes back from {new} to {old}; a value that does not fit ends the"
            " way back"
            for name, new, old in self.converted
        ]
        return lines


def reverse_mapping(
    now: TableSchema, old: TableSchema, changes: ReverseChanges, server_time_zone: str
) -> TableMapping:
    """Map the table as it is now to the old one.

    Raises:
        Refusal: when there is no way back, with the reason.
    """
    try:
        # What sessions of other settings store after the swap is recomputed here, as announced.
        mapping = replace(build_mapping(now, old, changes, server_time_zone), computed=())
    except Refusal as refusal:
        raise Refusal(f"there is no way back: {refusal.message}", hint=_REMEDY) from refusal
    kept = _kept(mapping)
    for column in kept:
        if needs_fill(column):
            raise Refusal(
                f"there is no way back: the dropped column {column.name} of {old.name} is NOT NULL"
                " without a default, and rows that are written after the swap have no value for it",
                hint=f"give {column.name} a default before; or {_REMEDY}",
            )
    if kept and (merging := _merging_key(mapping)):
        raise Refusal(
            f"there is no way back: the dropped column {kept[0].name} of {old.name} has to keep its"
            f" values, and the old key column {merging} may hold two rows of the new table for one:"
            " a row that comes and goes would take the other's values along",
            hint=_REMEDY,
        )
    if kept and (second := _second_unique(mapping)):
        raise Refusal(
            f"there is no way back: the dropped column {kept[0].name} of {old.name} has to keep its"
            f" values, and with the unique key {second} beside {mapping.key.name} a value that"
            " moves between rows would mix them up",
            hint=_REMEDY,
        )
    return replace(mapping, kept=kept, fills=())


def _kept(mapping: TableMapping) -> tuple[Column, ...]:
    """Return the plain columns of the target that nothing is written to."""
    written = {pair.new.name for pair in mapping.pairs}
    return tuple(
        column
        for column in mapping.target.columns
        if column.name not in written and not column.generated
    )


def _merging_key(mapping: TableMapping) -> str:
    """Return a key column in whose old type two different new values may be one; or empty."""
    for now, name in zip(mapping.key_columns, mapping.new_key_columns, strict=True):
        if not values_stay_apart(now, mapping.target.column(name)):
            return name
    return ""


def _second_unique(mapping: TableMapping) -> str:
    """Return a unique index of the target in which two different keys may meet; or empty."""
    key = {name.lower() for name in mapping.new_key_columns}
    for index in mapping.target.indexes:
        whole = {
            part.column.lower()
            for part in index.parts
            if part.column is not None and part.prefix is None
        }
        if index.unique and not key <= whole:
            return index.name
    return ""


def _listed(names: tuple[str, ...]) -> str:
    """Name columns."""
    return f"column{'s' if len(names) > 1 else ''} {', '.join(names)}"
