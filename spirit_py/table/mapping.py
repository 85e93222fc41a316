"""The mapping of the source's columns to those of the new table, and the row key (pure).

Rows are told apart by the chunk key, a unique index of the source. In the new table a key is found
by its :func:`finder`. Without a unique index over columns of the key alone (:func:`replaces`),
versions of a row *linger*, and a writer deletes the key first, in the same transaction. A chunk of
the copy need not (R4), if some unique index has each version once (:func:`holds_once`;
docs/decisions.md).
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, replace
from spirit_py.sql import quote_identifier
from spirit_py.table.conversions import (
    cuts_blanks,
    equality_kept,
    has_empty_member,
    is_timestamp,
    narrowed,
    values_stay_apart,
    without_lost_numbers,
)
from spirit_py.table.expressions import evaluated_expressions, instant_text, reads_time
from spirit_py.table.keys import TEMPORALS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from spirit_py.table.expressions import RowExpression
    from spirit_py.table.schema import Column, Index, TableSchema


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """How the rows of a key are found, and whether it is deleted before a write (``lingers``)."""

    index: Index
    by_ranges: bool
    lingers: bool

    @classmethod
    def of(cls, target: TableSchema, names: Sequence[str]) -> Lookup:
        """Return the lookup of a key; ``names`` are its columns in the new table, in key order."""
        index = finder(target, names)
        if index is None:
            raise KeyError(f"{target.name} has no index for {', '.join(names)}")
        first = index.leading[:1] == (names[0].lower(),)
        by_ranges = first or _lower(index.columns) == _lower(names)
        return cls(index=index, lingers=not replaces(target, names), by_ranges=by_ranges)


def finder(target: TableSchema, names: Sequence[str]) -> Index | None:
    """Return the index of the new table by which rows of a key are found; None without one.

    Preferred in this order: a unique index over the same columns (NOT NULL ones, PRIMARY first); an
    index that keeps ranges of the key; one that begins with many of its columns; a unique one.
    """
    wanted = _lower(names)
    for index in (*target.not_null_unique_indexes(), *_unique(target)):
        if index.visible and _lower(index.columns) == wanted:
            return index

    def rank(index: Index) -> tuple[bool, int, bool, bool]:
        return (
            index.leading[0] != names[0].lower(),
            -len(_covered(index, wanted)),
            not index.unique,
            index.name != "PRIMARY",
        )

    visible = (one for one in target.indexes if one.visible and one.kind.upper() == "BTREE")
    fit = [one for one in visible if _covered(one, wanted)]
    return min(fit, key=rank, default=None)


def replaces(target: TableSchema, names: Sequence[str]) -> bool:
    """Return whether two versions of a row of this key always conflict in the new table."""
    wanted = _lower(names)
    return any(_all_columns(index) and _columns(index) <= wanted for index in _unique(target))


def holds_once(target: TableSchema, names: Sequence[str], carried: Iterable[str]) -> bool:
    """Return whether one version of a row, written twice, is one row in the new table."""
    settled, wanted = _lower(carried), _lower(names)

    def steady(name: str) -> bool:
        column = target.column(name)
        drawn = column.auto_increment or column.default_computed
        held = name in settled or bool(column.generated) or not drawn
        return held and (name in wanted or not column.nullable)

    whole = (index for index in _unique(target) if _all_columns(index))
    return any(all(map(steady, _columns(index))) for index in whole)


def conflicting(target: TableSchema, names: Sequence[str]) -> Index | None:
    """Return a unique index in which rows of different keys may conflict; None without one."""
    wanted = _lower(names)
    return next((one for one in _unique(target) if not wanted <= _lower(one.whole)), None)


def shared(target: TableSchema, names: Sequence[str]) -> bool:
    """Whether the key's columns are a unique index of the new table too."""
    wanted = _lower(names)
    return any(one.visible and _lower(one.columns) == wanted for one in _unique(target))


def _unique(target: TableSchema) -> Iterator[Index]:
    return (index for index in target.indexes if index.unique)


def _covered(index: Index, wanted: frozenset[str]) -> tuple[str, ...]:
    return tuple(takewhile(wanted.__contains__, index.leading))


def _all_columns(index: Index) -> bool:
    return all(part.column is not None for part in index.parts)


def _columns(index: Index) -> frozenset[str]:
    return frozenset(part.column.lower() for part in index.parts if part.column is not None)


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


_DATED: Final = TEMPORALS | {"year"}
_MOMENT: Final = re.compile(r"(?:now|current_timestamp)(?:\(\d?\))?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class ColumnPair:
    """One column that is carried over; ``new`` is never a generated one.

    A ``converted`` one takes the staged path; ``by_text``: as ALTER TABLE, through the value's
    text. ``by_instant``: a TIMESTAMP, selected as an instant, in a zone that repeats an hour.
    ``merged``: ``new`` may have several values for one of ``old``, which are compared as this one.
    """

    old: Column
    new: Column
    converted: bool = False
    by_text: bool = False
    by_instant: bool = False
    merged: bool = False

    @property
    def narrowed(self) -> bool:
        """Whether the new column cannot hold every value, which makes such a value an error."""
        return narrowed(self.old, self.new)

    def value_from(self, sql: str) -> str:
        """Return what an ``INSERT ... SELECT`` selects for the new column, from the old one."""
        if self.by_instant:
            return instant_text(sql)
        if not self.converted and has_empty_member(self.old):
            # A SELECT carries its text, which the empty set has too; ALTER TABLE keeps the number.
            return f"CAST({sql} AS UNSIGNED)"
        if self.by_text:
            return f"CAST({sql} AS CHAR)"
        return without_lost_numbers(sql, self.old, self.new) if self.converted else sql


@dataclass(frozen=True, kw_only=True)
class Fill:
    """A column of the new table for which every row gets the same value, an SQL literal."""

    column: Column
    sql: str


@dataclass(frozen=True, kw_only=True)
class TableMapping:
    """Source table, new table, the columns carried over and the key that identifies a row.

    One class because copy, feed, applier and comparison share what follows from its fields.

    Attributes:
        pairs: carried columns, in the order of the new table.
        key: the chunk key; its columns are among the pairs, or computed.
        tightened: unique indexes of the new table that the source does not guarantee (R11).
        time_zone: the zone of all writes and deletes of the new table; empty for any.
        computed: stored generated columns that must be the same in both tables; never written.
        fills: new columns that every write must name a constant for.
        kept: columns of the target that no write may change (:mod:`spirit_py.table.build`).
        keep: which rows of the source the target has; None for all.
        owned: which rows of the target are this source's; None for all. No write touches others.
        apart: the target is on another server, where the source cannot be named.
    """

    source: TableSchema
    target: TableSchema
    pairs: tuple[ColumnPair, ...]
    key: Index
    new_key_columns: tuple[str, ...]
    tightened: tuple[Index, ...] = ()
    time_zone: str = ""
    computed: tuple[ColumnPair, ...] = ()
    fills: tuple[Fill, ...] = ()
    kept: tuple[Column, ...] = ()
    keep: RowExpression | None = None
    owned: RowExpression | None = None
    apart: bool = False

    @cached_property
    def imaged(self) -> tuple[Column, ...]:
        """Columns of the source that a row image must have, in order: the pairs', the judged."""
        carried = [pair.old for pair in self.pairs]
        judged = self.keep.columns if self.keep is not None else ()
        return (*carried, *(column for column in judged if column not in carried))

    @cached_property
    def deletes_first(self) -> bool:
        """Whether a write deletes the row's key before: an older version may stay otherwise."""
        return self.lookup.lingers or self.keep is not None

    @cached_property
    def compared(self) -> tuple[ColumnPair, ...]:
        """The pairs that the checksum compares."""
        return (*self.pairs, *self.computed)

    @cached_property
    def converted(self) -> bool:
        """Whether changes take the staged path: a carried column is converted."""
        return any(pair.converted for pair in self.pairs)

    @cached_property
    def recomputed(self) -> frozenset[str]:
        """New columns, in lower case, without a value of the source: rounding is no loss (R10)."""
        return frozenset(name.lower() for name in fresh_names(self.target, self.pairs))

    @cached_property
    def cuts_blanks(self) -> bool:
        """Whether only a note reports cut blanks, so that notes are read before the commit."""
        return any(cuts_blanks(pair.old, pair.new) for pair in self.pairs)

    @cached_property
    def quiet(self) -> bool:
        """Whether notes can only be about such columns: no carried one may cause any."""
        return bool(self.recomputed) and not (self.converted or self.cuts_blanks)

    @cached_property
    def makes_dates(self) -> bool:
        """Whether writes run with the server's modes about dates (R22), deletes too."""
        return makes_dates(self.target, self.pairs)

    @cached_property
    def key_columns(self) -> tuple[Column, ...]:
        """The key's columns of the source, in key order."""
        return tuple(self.source.column(name) for name in self.key.columns)

    @cached_property
    def new_key(self) -> tuple[Column, ...]:
        """The key's columns of the new table, in key order."""
        return tuple(self.target.column(name) for name in self.new_key_columns)

    @cached_property
    def key_pairs(self) -> tuple[ColumnPair, ...]:
        """The pairs of the key's columns, in key order; generated ones too."""
        by_old = {pair.old.name.lower(): pair for pair in self.compared}
        return tuple(by_old[name.lower()] for name in self.key.columns)

    @cached_property
    def lookup(self) -> Lookup:
        """How the rows of a key are found and written in the new table."""
        return Lookup.of(self.target, self.new_key_columns)

    @cached_property
    def key_order_kept(self) -> bool:
        """Whether the new table orders and equates keys as the source does."""
        return all(map(equality_kept, self.key_columns, self.new_key))

    @cached_property
    def merging(self) -> bool:
        """Whether different rows of the source may conflict in the new table (R11, R21)."""
        return bool(self.tightened) or self.key_merging

    @cached_property
    def key_merging(self) -> bool:
        """Whether two keys of the source may be one key of the new table."""
        return not all(map(values_stay_apart, self.key_columns, self.new_key))

    @cached_property
    def insert_names(self) -> tuple[str, ...]:
        """Columns of the new table that a ``REPLACE ... SELECT`` names: pairs, then fills."""
        return (*(one.new.name for one in self.pairs), *(one.column.name for one in self.fills))

    @cached_property
    def select_expressions(self) -> tuple[str, ...]:
        """What a ``REPLACE ... SELECT`` selects for :attr:`insert_names`, by the old names."""
        carried = (pair.value_from(quote_identifier(pair.old.name)) for pair in self.pairs)
        return (*carried, *(fill.sql for fill in self.fills))


def makes_dates(target: TableSchema, pairs: Collection[ColumnPair]) -> bool:
    """Return whether a write may convert another type to a date, by the server's modes."""
    if any(
        pair.old.data_type != pair.new.data_type in _DATED and pair.old.data_type not in TEMPORALS
        for pair in pairs
    ):
        return True
    if any(column.generated and column.data_type in _DATED for column in target.columns):
        return True
    texts = evaluated_expressions(target, fresh_names(target, pairs))
    return any(reads_time(target, text) for text in texts if not _MOMENT.fullmatch(text))


def with_instants(pairs: Iterable[ColumnPair]) -> tuple[ColumnPair, ...]:
    """Return pairs as they are selected where a time zone repeats hours (R22)."""
    return tuple(replace(p, by_instant=is_timestamp(p.old) and is_timestamp(p.new)) for p in pairs)


def fresh_names(target: TableSchema, pairs: Collection[ColumnPair]) -> frozenset[str]:
    """Return the names of the new table's columns that are not carried over."""
    return frozenset(c.name for c in target.columns) - {pair.new.name for pair in pairs}
