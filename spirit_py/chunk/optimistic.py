"""Chunks of a single AUTO_INCREMENT key by arithmetic, without counting rows (pure).

Each cut asks for the smallest and largest key above the last bound, which MySQL answers from
the two ends of the index. So a gap of any width is jumped, and the last chunk is recognised.
Where the keys are sparse, arithmetic would make tiny chunks; there the bound is looked up.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from spirit_py.chunk.chunk import Chunk, KeyBound, walk_directions
from spirit_py.chunk.composite import (
    BoundaryQuery,
    Bounds,
    CompositeChunker,
    forced_source,
    index_hint,
)
from spirit_py.chunk.predicate import above
from spirit_py.chunk.sizing import divided
from spirit_py.sql import quote_identifier

if TYPE_CHECKING:
    from spirit_py.table.mapping import TableMapping

INTEGER_TYPES = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_DENSE = 0.5


class OptimisticChunker(CompositeChunker):
    """Cuts a table whose key is one AUTO_INCREMENT integer column, signed or not."""

    def __init__(
        self, mapping: TableMapping, query: BoundaryQuery, *, part_rows: int | None = None
    ) -> None:
        super().__init__(mapping, query, part_rows=part_rows)
        #: Rows a key value, in the last chunk that is known; None before the first cut.
        self._density: float | None = None
        #: Numbers of the chunks cut by arithmetic whose rows are not known yet.
        self._computed: set[int] = set()
        #: The first and the last key seen, for the estimate.
        self._first: int | None = None
        self._last = 0

    def observed(self, chunk: Chunk, rows: int) -> None:
        """Note how many rows a chunk had: where keys are sparse, bounds are looked up instead."""
        if chunk.number in self._computed:
            self._computed.remove(chunk.number)
            self._density = rows / chunk.target_rows

    def estimated_fraction(self) -> float:
        """Return how far the cut has come within the range of the keys."""
        if self._finished:
            return 1.0
        if self._lower is None or self._lower.comparable is None or self._first is None:
            return 0.0
        done = int(self._lower.comparable[0]) - self._first + 1
        return max(0.0, min(0.99, done / max(self._last - self._first + 1, 1)))

    def restart(self, lower: KeyBound | None) -> None:
        """Begin again above ``lower``; None for the beginning of the table."""
        super().restart(lower)
        self._first = None

    def _bounds(self, rows: int) -> Bounds:
        ends = self._query(ends_sql(self._mapping, self._lower))[0]
        if ends[0] is None:
            return (), None
        first, last = int(ends[0]), int(ends[1])
        self._first, self._last = first if self._first is None else self._first, last
        if self._density is None:
            self._density = self._mapping.source.estimated_rows / (last - first + 1)
        if self._density < _DENSE:
            return self._looked_up(rows, first, last)
        *cuts, upper = accumulate(divided(rows, self._part_rows), initial=first - 1)
        if upper < last:
            self._computed.add(self._number)
        inner = tuple(_bound(key) for key in cuts[1:] if key < last)
        return inner, _bound(upper) if upper < last else None

    def _looked_up(self, rows: int, first: int, last: int) -> Bounds:
        cuts, upper = super()._bounds(rows)
        if upper is None:
            return cuts, None
        key = int(upper.literals[0])
        self._density = rows / (key - first + 1)
        return cuts, upper if key < last else None


def _bound(key: int) -> KeyBound:
    return KeyBound(literals=(str(key),), comparable=(key,))


def ends_sql(mapping: TableMapping, lower: KeyBound | None) -> str:
    """Render the query for the smallest and largest key above ``lower``."""
    columns = mapping.key_columns
    name = quote_identifier(columns[0].name)
    where = "" if lower is None else f" WHERE {above(columns, lower, walk_directions(mapping.key))}"
    return (
        f"SELECT {index_hint(mapping)}MIN({name}), MAX({name}) FROM {forced_source(mapping)}{where}"
    )
