"""Build the mapping from the two definitions and the statement's renames (pure)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.table.choose_key import NO_KEY_HINT, choose_key
from spirit_py.table.computed import computed_pairs, steady_pairs
from spirit_py.table.conversions import Conversion, conversion, is_timestamp
from spirit_py.table.mapping import ColumnPair, Fill, TableMapping
from spirit_py.table.new_columns import implicit_default, needs_fill
from spirit_py.table.time_zone import evaluated_in_zone, repeats_hours
from spirit_py.table.unique_keys import tightened_indexes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from spirit_py.table.schema import Column, Index, TableSchema


class ColumnChanges(Protocol):
    """What a statement does to columns; :class:`spirit_py.statement.AlterStatement` does."""

    @property
    def renames(self) -> Mapping[str, str]:
        """Old name in lower case to new name."""
        ...

    @property
    def added(self) -> AbstractSet[str]:
        """Names of added columns in lower case."""
        ...

    @property
    def dropped(self) -> AbstractSet[str]:
        """Names of dropped columns in lower case."""
        ...


def build_mapping(
    source: TableSchema,
    target: TableSchema,
    changes: ColumnChanges,
    server_time_zone: str,
    *,
    nullable_key: bool = False,
) -> TableMapping:
    """Map the source's columns to the new table's.

    All names that a statement mentions are names before it, as on the server: two renames may
    swap, and a column that is dropped and added again is a new one without the old data.

    Args:
        server_time_zone: The server's ``@@global.time_zone``.
        nullable_key: a unique key with nullable columns serves where no other does.

    Raises:
        Refusal: when a column cannot be followed, no key identifies rows in both tables, or a
            new column has no value that existing rows could get.
    """
    pairs = tuple(_pairs(source, target, changes))
    taken = {pair.new.name.lower() for pair in pairs}
    fresh = [column for column in target.columns if column.name.lower() not in taken]
    _refuse_unexplained(source, fresh, changes)
    computed = computed_pairs(source, target, pairs, changes.dropped)
    steady = steady_pairs(source, target, pairs, computed)
    key, new_columns = choose_key(source, target, (*pairs, *steady), nullable=nullable_key)
    pairs, time_zone = _zoned(source, target, pairs, key, server_time_zone)
    return TableMapping(
        source=source,
        target=target,
        pairs=pairs,
        key=key,
        new_key_columns=new_columns,
        tightened=tightened_indexes(source, target, pairs),
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
    carried = {pair.new.name for pair in pairs}
    fresh = {column.name for column in target.columns if column.name not in carried}
    converted = any(is_timestamp(pair.old) != is_timestamp(pair.new) for pair in pairs)
    if not converted and not evaluated_in_zone(target, fresh):
        return pairs, ""
    if not repeats_hours(server_time_zone):
        return pairs, server_time_zone
    if any(is_timestamp(source.column(name)) for name in key.columns):
        what = "a TIMESTAMP is converted" if converted else "dates or times are computed"
        raise Refusal(
            f"{what} in the server's time zone {server_time_zone} while key {key.name} of"
            f" {source.name} holds a TIMESTAMP: rows could not be told apart where the clock is"
            " set back",
            hint=f"{NO_KEY_HINT}; or set the server's time_zone to a fixed offset such as"
            " '+01:00' for the migration, if that is the zone to compute in",
            error_code=ErrorCode.COLUMN_NOT_CONVERTIBLE,
        )
    kept = (
        replace(pair, by_instant=is_timestamp(pair.old) and is_timestamp(pair.new))
        for pair in pairs
    )
    return tuple(kept), server_time_zone


def _pairs(
    source: TableSchema, target: TableSchema, changes: ColumnChanges
) -> Iterator[ColumnPair]:
    origin: dict[str, Column] = {}
    for column in source.columns:
        name = column.name.lower()
        if name in changes.dropped:
            continue
        follows = changes.renames.get(name, column.name).lower()
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
    """Pair two columns; refuse a conversion that cannot be made as ALTER TABLE makes it."""
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
    """Refuse a column of the new table that neither the source nor an ADD explains."""
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
        sql = implicit_default(column)
        if sql is None:
            raise Refusal(
                f"new column {column.name} of type {column.column_type} is NOT NULL and there is"
                f" no value that the existing rows of {target.name} could get",
                hint="make it NULL, or give it a DEFAULT (expression)",
                error_code=ErrorCode.COLUMN_NOT_CONVERTIBLE,
            )
        yield Fill(column=column, sql=sql)
