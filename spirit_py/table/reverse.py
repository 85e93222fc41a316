"""The migration's mapping reversed: from the table as it is now to the old one (pure).

**Values that the old table cannot hold.** The values of a column that only the new table has are
lost in a revert, which is reported before. A value that does not fit the old column (BIGINT back to
INT), or a row that violates an old UNIQUE key, CHECK or partition, ends reverse replication and
never fails the application: the new table stays as it is.

**Columns that only the old table has.** A column that the ALTER dropped keeps its values in
existing rows, and gets its default in new ones. REPLACE would reset it, so rows are written with
``INSERT ... ON DUPLICATE KEY UPDATE`` of the mapped columns. That updates the right row only if no
other unique index can have a duplicate. So a dropped column is refused together with a second
unique key of the old table, or with a key whose old type may merge two rows of the new table. A row
whose key changes counts as deleted and new. A row that is missing in the old table cannot be copied
again, because its values in dropped columns are not known.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.table.build import build_mapping
from spirit_py.table.computed import without_computed
from spirit_py.table.conversions import values_stay_apart
from spirit_py.table.new_columns import needs_fill
from spirit_py.table.row_key import conflicting

if TYPE_CHECKING:
    from spirit_py.table.build import ColumnChanges
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Column, TableSchema

_REMEDY = (
    "run without --keep-old-current; with --drop-old-after never the old table stays as it was"
    " at the swap"
)


@dataclass(frozen=True, kw_only=True)
class ReverseChanges:
    """What the reversed mapping does to columns, in lower case but for the new names of renames.

    Attributes:
        renames: name in the new table to name in the old one.
        added: columns that only the old table has.
        dropped: columns that only the new table has.
    """

    renames: dict[str, str] = field(default_factory=dict)
    added: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()

    @classmethod
    def of(cls, old: TableSchema, new: TableSchema, changes: ColumnChanges) -> ReverseChanges:
        """Reverse a statement's changes."""
        follows = {
            changes.renames.get(column.name.lower(), column.name).lower(): column.name
            for column in old.columns
            if column.name.lower() not in changes.dropped
        }
        return cls(
            renames={name: was for name, was in follows.items() if name != was.lower()},
            added=frozenset(changes.dropped) & {column.name.lower() for column in old.columns},
            dropped=frozenset(column.name.lower() for column in new.columns) - follows.keys(),
        )


def losses_of(mapping: TableMapping, table: str) -> list[str]:
    """Describe what a revert would lose, a line for each kind, for the operator.

    Args:
        mapping: from the table as it is now to the old one.
        table: its name for messages.
    """
    carried = {pair.old.name for pair in mapping.pairs}
    lost = [
        column.name
        for column in mapping.source.columns
        if column.name not in carried and not column.generated
    ]
    lines = []
    if lost:
        lines.append(f"{table}: a revert loses the values of {_listed(lost)}")
    if mapping.kept:
        kept = _listed([column.name for column in mapping.kept])
        lines.append(
            f"{table}: {kept} will have the default in rows that were written after the swap, and"
            " the old values in all others"
        )
    lines += [
        f"{table}: {pair.old.name} is converted back from {pair.old.column_type} to"
        f" {pair.new.column_type}; a value that does not fit ends reverse replication"
        for pair in mapping.pairs
        if pair.converted or pair.narrowed
    ]
    return lines


def reverse_mapping(
    now: TableSchema, old: TableSchema, changes: ReverseChanges, server_time_zone: str
) -> TableMapping:
    """Map the table as it is now to the old one.

    Raises:
        Refusal: the old table could not follow, with the reason.
    """
    try:
        # What sessions of other settings store after the swap is recomputed here, as announced.
        mapping = without_computed(build_mapping(now, old, changes, server_time_zone))
    except Refusal as refusal:
        raise _impossible(refusal.message) from refusal
    kept = _kept(mapping)
    for column in kept:
        if needs_fill(column):
            raise _impossible(
                f"the dropped column {column.name} of {old.name} is NOT NULL without a default, and"
                " rows that are written after the swap have no value for it",
                remedy=f"give {column.name} a default before; or ",
            )
    if kept and (merging := _merging_key(mapping)):
        raise _impossible(
            f"the dropped column {kept[0].name} of {old.name} has to keep its values, and the old"
            f" key column {merging} may hold two rows of the new table for one: a row that comes"
            " and goes would take the other's values along"
        )
    if kept and mapping.lookup.lingers:
        raise _impossible(
            f"the dropped column {kept[0].name} of {old.name} has to keep its values, and rows are"
            f" told apart by {mapping.key.name} ({', '.join(mapping.key.columns)}), which is no"
            f" unique key of {old.name}: a changed row would be written anew"
        )
    if kept and (second := conflicting(old, mapping.new_key_columns)):
        raise _impossible(
            f"the dropped column {kept[0].name} of {old.name} has to keep its values, and with the"
            f" unique key {second.name} beside {mapping.key.name} a value that moves between rows"
            " would mix them up"
        )
    return replace(mapping, kept=kept, fills=())


def _impossible(reason: str, remedy: str = "") -> Refusal:
    return Refusal(
        f"reverse replication is not possible: {reason}",
        hint=remedy + _REMEDY,
        error_code=ErrorCode.REVERSE_NOT_POSSIBLE,
    )


def _kept(mapping: TableMapping) -> tuple[Column, ...]:
    """Return the plain columns of the target that are not written."""
    written = {pair.new.name for pair in mapping.pairs}
    return tuple(
        column
        for column in mapping.target.columns
        if column.name not in written and not column.generated
    )


def _merging_key(mapping: TableMapping) -> str:
    """Return a key column whose old type may merge two different new values; empty without one."""
    for now, name in zip(mapping.key_columns, mapping.new_key_columns, strict=True):
        if not values_stay_apart(now, mapping.target.column(name)):
            return name
    return ""


def _listed(names: list[str]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {', '.join(names)}"
