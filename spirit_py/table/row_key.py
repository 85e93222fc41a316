"""The row key: by what rows are told apart, found in the new table, and written once (pure).

Rows are told apart by the chunk key, a unique index of the source. In the new table a key is found
by its :func:`finder`. Without a unique index over columns of the key alone (:func:`replaces`),
versions of a row *linger*, and a writer deletes the key first, in the same transaction. A chunk of
the copy need not (R4), if some unique index has each version once (:func:`holds_once`;
docs/decisions.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spirit_py.table.schema import Index, TableSchema


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
        return cls(
            index=index,
            by_ranges=first or _lower(index.columns) == _lower(names),
            lingers=not replaces(target, names),
        )


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

    fit = [one for one in target.indexes if _searchable(one) and _covered(one, wanted)]
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

    return any(
        _all_columns(index) and all(map(steady, _columns(index))) for index in _unique(target)
    )


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


def _searchable(index: Index) -> bool:
    return index.visible and index.kind.upper() == "BTREE" and bool(index.leading)


def _covered(index: Index, wanted: frozenset[str]) -> tuple[str, ...]:
    return tuple(takewhile(wanted.__contains__, index.leading))


def _all_columns(index: Index) -> bool:
    return all(part.column is not None for part in index.parts)


def _columns(index: Index) -> frozenset[str]:
    return frozenset(part.column.lower() for part in index.parts if part.column is not None)


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)
