"""Chunks of any key: each upper bound is the key found ``rows`` rows further on (pure).

The server compares and orders the keys, so every type and collation is supported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from spirit_py.chunk.chunk import Chunk, KeyBound, KeyRange, walk_directions
from spirit_py.chunk.predicate import chunk_predicate, order_by
from spirit_py.chunk.sizing import divided
from spirit_py.sql import quote_identifier, quote_table
from spirit_py.table.values import bound_from_row, key_select_expressions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from spirit_py.table.mapping import TableMapping

BoundaryQuery: TypeAlias = Callable[[str], Sequence[tuple[Any, ...]]]
"""Runs a SELECT and returns its rows, with values as the server sends them."""

Bounds: TypeAlias = tuple[tuple[KeyBound, ...], KeyBound | None]
"""The cuts of a chunk and its upper bound."""

INVISIBLE_INDEX_HINT = "/*+ SET_VAR(optimizer_switch='use_invisible_indexes=on') */ "


class CompositeChunker:
    """Cuts a table, or a range of it, by ``LIMIT 1 OFFSET n`` along its chunk key.

    The chunks cover the range to its ends. Those of the whole table are open, so rows that are
    inserted beyond them while the copy runs are in exactly one chunk as well.

    Args:
        part_rows: rows of a part of a chunk: each costs a query, and together the queries of a
            chunk read the index once. None for chunks without parts.
        numbers: yields the numbers of the chunks.

    Attributes:
        part_rows: as the argument; may be changed between two chunks.
    """

    def __init__(
        self,
        mapping: TableMapping,
        query: BoundaryQuery,
        *,
        part_rows: int | None = None,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self._mapping = mapping
        self._query = query
        self.part_rows = part_rows
        self._numbers = count() if numbers is None else numbers
        #: What is not cut yet.
        self._rest = KeyRange()
        self._cut_rows = 0
        self._finished = False

    def next_chunk(self, rows: int) -> Chunk | None:
        """Return the next chunk of about ``rows`` rows, or None after the last. Asks the server."""
        if self._finished:
            return None
        cuts, found = self._bounds(rows)
        end = self._rest.upper
        self._finished = found is None or (end is not None and found.literals == end.literals)
        upper = end if self._finished else found
        chunk = Chunk(
            number=next(self._numbers),
            lower=self._rest.lower,
            upper=upper,
            target_rows=rows,
            cuts=cuts,
            lane_end=end,
        )
        self._cut_rows += rows
        self._rest = KeyRange(lower=upper, upper=end)
        return chunk

    def observed(self, chunk: Chunk, rows: int) -> None:
        """Do nothing: every boundary is looked up."""

    def estimated_fraction(self) -> float:
        """Return how far the cut has come, against the server's estimate of the rows."""
        if self._finished:
            return 1.0
        return min(0.99, self._cut_rows / max(self._mapping.source.estimated_rows, 1))

    def restart(self, lower: KeyBound | None, upper: KeyBound | None = None) -> None:
        """Begin again above ``lower``, and end at ``upper``; None for the ends of the table."""
        self._rest, self._finished, self._cut_rows = KeyRange(lower=lower, upper=upper), False, 0

    @property
    def finished(self) -> bool:
        """Whether everything is cut."""
        return self._finished

    def bound_after(self, rows: int) -> KeyBound | None:
        """Return the key about ``rows`` rows on; None when fewer are left. Asks the server."""
        found = self._query(boundary_sql(self._mapping, self._rest, rows))
        return bound_from_row(self._mapping.key_columns, found[0]) if found else None

    def part(self, at: KeyBound) -> Self:
        """End at a key that is not cut yet; return a chunker of what lies above it."""
        upper = copy(self)
        upper.restart(at, self._rest.upper)
        self._rest = KeyRange(lower=self._rest.lower, upper=at)
        return upper

    def width(self) -> int | None:
        """Return how many values of the key are not cut; None where they are not numbers."""
        return None

    def density(self) -> float | None:
        """Return the rows for each value of the key that is not cut; None where keys are not dense.

        Asks the server.
        """
        return None

    def rows_left(self) -> int | None:
        """Return how many rows are probably not cut; None where the key does not show it."""
        return None

    def _bounds(self, rows: int) -> Bounds:
        """Find the cuts and the upper bound of the next chunk; None for that of the last one."""
        found: list[KeyBound] = []
        rest = self._rest
        for step in divided(rows, self.part_rows):
            answer = self._query(boundary_sql(self._mapping, rest, step))
            if not answer:
                return tuple(found), None
            found.append(bound_from_row(self._mapping.key_columns, answer[0]))
            rest = KeyRange(lower=found[-1], upper=rest.upper)
        return tuple(found[:-1]), found[-1]


def boundary_sql(mapping: TableMapping, within: KeyRange, rows: int) -> str:
    """Render the query for the key of the n-th row of a range."""
    columns, directions = mapping.key_columns, walk_directions(mapping.key)
    # A row with NULL in the key stops the run (NullInKey), and is no bound.
    present = [f"{quote_identifier(c.name)} IS NOT NULL" for c in columns if c.nullable]
    where = " AND ".join([chunk_predicate(columns, within, directions), *present])
    return (
        f"SELECT {index_hint(mapping)}{', '.join(key_select_expressions(columns))}"
        f" FROM {forced_source(mapping)} WHERE {where}"
        f" ORDER BY {order_by(columns, directions)} LIMIT 1 OFFSET {rows - 1}"
    )


def forced_source(mapping: TableMapping) -> str:
    """Render the source table, read by the chunk key."""
    source = mapping.source
    index = quote_identifier(mapping.key.name)
    return f"{quote_table(source.schema, source.name)} FORCE INDEX ({index})"


def index_hint(mapping: TableMapping) -> str:
    """Render the optimizer hint without which an invisible index cannot be forced."""
    return "" if mapping.key.visible else INVISIBLE_INDEX_HINT
