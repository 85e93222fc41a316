"""Build the mapping from two definitions and the statement's renames, and its reverse (pure).

In reverse, a column that the ALTER dropped keeps its values in existing rows: rows are written with
``INSERT ... ON DUPLICATE KEY UPDATE``, which updates the right row only if no other unique index
can have a duplicate. So it is refused together with a second unique key of the old table, or with a
key whose old type may merge two rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from spirit_py.classes import dataclass, field, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.table import unique_keys
from spirit_py.table.conversions import (
    Conversion,
    conversion,
    depends_on_zone,
    is_text,
    is_timestamp,
    merged_by_cast,
    merges,
    null_becomes_now,
    rounds,
    values_stay_apart,
)
from spirit_py.table.expressions import evaluated_in_zone, repeats_hours
from spirit_py.table.keys import BYTE_TYPES, TEXT_TYPES
from spirit_py.table.mapping import (
    ColumnPair,
    Fill,
    TableMapping,
    conflicting,
    fresh_names,
    with_instants,
)
from spirit_py.table.names import AuxiliaryNames
from spirit_py.table.new_columns import IMPLICIT, needs_fill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from spirit_py.table.schema import Column, Index, TableSchema


class ColumnChanges(Protocol):
    """What a statement does to columns; :class:`spirit_py.statement.AlterStatement` does."""

    @property
    def renames(self) -> Mapping[str, str]:
        """Old name in lower case to new name."""

    @property
    def added(self) -> AbstractSet[str]:
        """Names of added columns in lower case."""

    @property
    def dropped(self) -> AbstractSet[str]:
        """Names of dropped columns in lower case."""


def following(columns: Iterable[Column], changes: ColumnChanges) -> Iterator[tuple[str, Column]]:
    """Yield each column that stays, with its new name in lower case."""
    for column in columns:
        name = column.name.lower()
        if name not in changes.dropped:
            yield changes.renames.get(name, name).lower(), column


def build_mapping(
    source: TableSchema,
    target: TableSchema,
    changes: ColumnChanges,
    server_time_zone: str,
    *,
    nullable_key: bool = False,
    begun: bool = False,
) -> TableMapping:
    """Map the source's columns to the new table's.

    All names of a statement are names before it: two renames may swap, and a column that is dropped
    and added again is a new one. ``server_time_zone`` is ``@@global.time_zone``. Raises Refusal
    when a column cannot be followed, no key serves, or a new column has no value for existing rows.
    """
    pairs = tuple(_pairs(source, target, changes))
    taken = {pair.new.name.lower() for pair in pairs}
    fresh = [column for column in target.columns if column.name.lower() not in taken]
    _refuse_unexplained(source, fresh, changes)
    computed = unique_keys.computed_pairs(source, target, pairs, changes.dropped)
    steady = unique_keys.steady_pairs(source, target, pairs, computed)
    usable = (*pairs, *steady)
    key, new_columns = unique_keys.choose_key(
        source, target, usable, nullable=nullable_key, begun=begun
    )
    pairs, time_zone = _zoned(source, target, pairs, key, server_time_zone)
    return TableMapping(
        source=source,
        target=target,
        pairs=pairs,
        key=key,
        new_key_columns=new_columns,
        tightened=unique_keys.tightened_indexes(source, target, pairs),
        time_zone=time_zone,
        computed=computed,
        fills=tuple(_fills(target, fresh)),
    )


def _zoned(
    source: TableSchema,
    target: TableSchema,
    pairs: tuple[ColumnPair, ...],
    key: Index,
    server_time_zone: str,
) -> tuple[tuple[ColumnPair, ...], str]:
    """Return the pairs as they are selected, and the zone of all writes; empty for any (R22)."""
    converted = any(depends_on_zone(pair.old, pair.new) for pair in pairs)
    if not converted and not evaluated_in_zone(target, fresh_names(target, pairs)):
        return pairs, ""
    if not repeats_hours(server_time_zone):
        return pairs, server_time_zone
    if any(is_timestamp(source.column(name)) for name in key.columns):
        what = "times are converted" if converted else "dates or times are computed"
        raise Refusal(
            f"{what} in the server's time zone {server_time_zone} while key {key.name} of"
            f" {source.name} holds a TIMESTAMP: rows could not be identified where the"
            " clock is set back",
            hint="give the table a PRIMARY KEY without a TIMESTAMP, in a migration before",
            error_code=ErrorCode.COLUMN_NOT_CONVERTIBLE,
        )
    return with_instants(pairs), server_time_zone


def _pairs(
    source: TableSchema, target: TableSchema, changes: ColumnChanges
) -> Iterator[ColumnPair]:
    origin: dict[str, Column] = {}
    for follows, column in following(source.columns, changes):
        if not target.has_column(follows) or follows in origin:
            raise Refusal(
                f"column {column.name} of {source.name} cannot be followed into the new table",
                hint="split the ALTER into simpler ones, or run it natively",
                error_code=ErrorCode.COLUMN_NOT_CONVERTIBLE,
            )
        origin[follows] = column
    for column in target.columns:
        old = origin.get(column.name.lower())
        if old is not None and not column.generated:
            yield _pair(old, column)


def _pair(old: Column, new: Column) -> ColumnPair:
    how = conversion(old, new)
    if how is Conversion.REFUSED:
        raise Refusal(
            f"column {old.name} cannot be converted from {old.column_type} to {new.column_type}"
            " by a copy as a native ALTER converts it",
            hint="add a column of the new type, fill it as you mean it, then drop the old one",
            error_code=ErrorCode.COLUMN_NOT_CONVERTIBLE,
        )
    converted = how is not Conversion.NONE
    return ColumnPair(old=old, new=new, converted=converted, by_text=how is Conversion.BY_TEXT)


def _refuse_unexplained(source: TableSchema, fresh: list[Column], changes: ColumnChanges) -> None:
    for column in fresh:
        if not column.generated and column.name.lower() not in changes.added:
            raise Refusal(
                f"column {column.name} of the new table comes neither from {source.name} nor"
                " from the statement",
                hint="split the ALTER into simpler ones, or run it natively",
                error_code=ErrorCode.COLUMN_NOT_CONVERTIBLE,
            )


def _fills(target: TableSchema, fresh: list[Column]) -> Iterator[Fill]:
    for column in fresh:
        if not needs_fill(column):
            continue
        sql = IMPLICIT.get(column.data_type)
        if sql is None:
            raise Refusal(
                f"new column {column.name} of type {column.column_type} is NOT NULL and there is"
                f" no value that the existing rows of {target.name} could get",
                hint="make it NULL, or give it a DEFAULT (expression)",
                error_code=ErrorCode.COLUMN_NOT_CONVERTIBLE,
            )
        yield Fill(column=column, sql=sql)


REMEDY: Final = (
    "run without --keep-old-current; with --drop-old-after never the old table stays as it was"
    " at the swap"
)


@dataclass(frozen=True, kw_only=True)
class ReverseChanges:
    """What the reversed mapping does to columns, in lower case but for the new names of renames."""

    renames: dict[str, str] = field(default_factory=dict)
    added: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()

    @classmethod
    def of(cls, old: TableSchema, new: TableSchema, changes: ColumnChanges) -> ReverseChanges:
        """Reverse a statement's changes."""
        follows = {name: column.name for name, column in following(old.columns, changes)}
        return cls(
            renames={name: was for name, was in follows.items() if name != was.lower()},
            added=frozenset(changes.dropped) & {column.name.lower() for column in old.columns},
            dropped=frozenset(column.name.lower() for column in new.columns) - follows.keys(),
        )


_ROUNDED: Final = ", but one that is more exact is rounded or cut without an error"
_LONGER: Final = ": its text may be longer than the one it came from, as 1.50 is for 1.5"
_SPELLED: Final = TEXT_TYPES | BYTE_TYPES | {"enum", "set"}
_FIXED: Final = {
    "char": "blanks at the end of a value are cut",
    "binary": "a shorter value is filled up with zero bytes",
}


def losses_of(mapping: TableMapping, table: str) -> list[str]:
    """Describe what a revert would lose, a line for each kind; ``mapping`` leads back."""
    carried = {pair.old.name for pair in mapping.pairs}
    stored = (column.name for column in mapping.source.columns if not column.generated)
    lost = [name for name in stored if name not in carried]
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
        + (_ROUNDED if rounds(pair.old, pair.new) else "")
        + (_LONGER if is_text(pair.new) and pair.old.data_type not in _SPELLED else "")
        for pair in mapping.pairs
        if pair.converted or pair.narrowed
    ]
    lines += [
        f"{table}: {pair.old.name} is {pair.new.column_type} in the old table, where"
        f" {_FIXED[pair.new.data_type]} without an error"
        for pair in mapping.pairs
        if pair.new.data_type in _FIXED and pair.old.data_type in TEXT_TYPES | BYTE_TYPES
        if pair.old.data_type != pair.new.data_type
    ]
    lines += [
        f"{table}: a revert writes {pair.old.name} over where the change has not kept a value of"
        f" {pair.new.column_type} exactly, in all rows"
        for pair in mapping.pairs
        if merges(pair.new, pair.old) and not pair.merged
    ]
    lines += [
        f"{table}: {pair.old.name} may be NULL now, and not in the old table; the first NULL that"
        " is written ends reverse replication"
        for pair in mapping.pairs
        if pair.old.nullable and not pair.new.nullable
    ]
    return lines


def way_back(
    migration: TableMapping, changes: ColumnChanges, server_time_zone: str, *, null_is_now: bool
) -> tuple[ReverseChanges, TableMapping]:
    """Return how an old table would follow, named as after the swap; Refusal where it could not.

    ``null_is_now``: its server stores the current time for NULL in a TIMESTAMP NOT NULL.
    """
    source, target = migration.source, migration.target
    if migration.keep is not None:
        raise _impossible("the old table has rows that --keep left out of the new one")
    reverse = ReverseChanges.of(source, target, changes)
    mapping = reverse_mapping(
        replace(target, name=source.name),
        replace(source, name=AuxiliaryNames.of(source.name).old),
        reverse,
        server_time_zone,
    )
    if null_is_now and (why := not_nulls(mapping)):
        raise _impossible(why, remedy=f"set {NULLS_KEPT} ON before; or ")
    return reverse, mapping


NULLS_KEPT: Final = "explicit_defaults_for_timestamp"


def not_nulls(mapping: TableMapping) -> str:
    """Return why the setting must not be OFF as long as an old table follows; empty if it may."""
    for pair in mapping.pairs:
        if null_becomes_now(pair.old, pair.new):
            return (
                f"{pair.old.name} may be NULL now, and explicit_defaults_for_timestamp is OFF: the"
                f" server would store the current time for NULL in {pair.new.name} of"
                f" {mapping.target.name}"
            )
    return ""


def reverse_mapping(
    now: TableSchema,
    old: TableSchema,
    changes: ReverseChanges,
    server_time_zone: str,
    *,
    begun: bool = False,
) -> TableMapping:
    """Map the table as it is now to the old one; raises Refusal where that could not follow.

    ``begun`` is for a run behind its swap (:func:`~spirit_py.table.unique_keys.choose_key`).
    """
    try:
        mapping = unique_keys.without_computed(
            build_mapping(now, old, changes, server_time_zone, begun=begun)
        )
    except Refusal as refusal:
        raise _impossible(refusal.message) from refusal
    fresh = fresh_names(mapping.target, mapping.pairs)
    kept = tuple(c for c in mapping.target.columns if c.name in fresh and not c.generated)
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
            f" key column {merging} may be the same for two rows of the new table: a row that"
            " is inserted and deleted would remove the other's values"
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
            f" unique key {second.name} beside {mapping.key.name} values that rows"
            " exchange would be mixed up"
        )
    key = mapping.key_pairs
    pairs = tuple(
        replace(pair, merged=pair not in key and merged_by_cast(pair.new, pair.old))
        for pair in mapping.pairs
    )
    return replace(mapping, pairs=pairs, kept=kept, fills=())


_NOT_POSSIBLE: Final = "reverse replication is not possible: "
NO_REVERT: Final = "spirit-py revert will not be possible"


def no_way_back(refusal: Refusal) -> str:
    """Return why a revert, which nobody has asked for yet, would not be possible."""
    return refusal.message.removeprefix(_NOT_POSSIBLE)


def _impossible(reason: str, remedy: str = "") -> Refusal:
    return Refusal(
        f"{_NOT_POSSIBLE}{reason}",
        hint=remedy + REMEDY,
        error_code=ErrorCode.REVERSE_NOT_POSSIBLE,
    )


def _merging_key(mapping: TableMapping) -> str:
    """Return a key column whose old type may merge two different new values; empty without one."""
    pairs = zip(mapping.key_columns, mapping.new_key, strict=True)
    return next((new.name for now, new in pairs if not values_stay_apart(now, new)), "")


def _listed(names: list[str]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {', '.join(names)}"
