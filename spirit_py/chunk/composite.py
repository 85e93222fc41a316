"""Chunks of any key: each upper bound is the key found ``rows`` rows further on (pure).

The server compares and orders the keys, so every type and collation is supported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from spirit_py.chunk.chunk import Chunk, KeyBound, walk_directions
from spirit_py.chunk.predicate import above, order_by
from spirit_py.chunk.sizing import divided
from spirit_py.sql import quote_identifier, quote_table
from spirit_py.table.values import bound_from_row, key_select_expressions

if TYPE_CHECKING:
    from spirit_py.table.mapping import TableMapping

BoundaryQuery: TypeAlias = Callable[[str], Sequence[tuple[Any, ...]]]
"""Runs a SELECT and returns its rows, with values as the server sends them."""

Bounds: TypeAlias = tuple[tuple[KeyBound, ...], KeyBound | None]
"""The cuts of a chunk and its upper bound."""

INVISIBLE_INDEX_HINT = "/*+ SET_VAR(optimizer_switch='use_invisible_indexes=on') */ "


class CompositeChunker:
    """Cuts a table by ``LIMIT 1 OFFSET n`` along its chunk key.

    The first chunk is open below and the last one open above, so rows that are inserted
    beyond the ends while the copy runs are in exactly one chunk as well.

    Args:
        part_rows: rows of a part of a chunk: each costs a query, and together the queries of a
            chunk read the index once. None for chunks without parts.
    """

    def __init__(
        self, mapping: TableMapping, query: BoundaryQuery, *, part_rows: int | None = None
    ) -> None:
        self._mapping = mapping
        self._query = query
        self._part_rows = part_rows
        self._lower: KeyBound | None = None
        self._number = 0
        self._cut_rows = 0
        self._finished = False

    def next_chunk(self, rows: int) -> Chunk | None:
        """Return the next chunk of about ``rows`` rows, or None after the last. Asks the server."""
        if self._finished:
            return None
        cuts, upper = self._bounds(rows)
        chunk = Chunk(
            number=self._number, lower=self._lower, upper=upper, target_rows=rows, cuts=cuts
        )
        self._number += 1
        self._cut_rows += rows
        self._lower, self._finished = upper, upper is None
        return chunk

    def observed(self, chunk: Chunk, rows: int) -> None:
        """Do nothing: every boundary is looked up."""

    def estimated_fraction(self) -> float:
        """Return how far the cut has come, against the server's estimate of the rows."""
        if self._finished:
            return 1.0
        return min(0.99, self._cut_rows / max(self._mapping.source.estimated_rows, 1))

    def restart(self, lower: KeyBound | None) -> None:
        """Begin again above ``lower``; None for the beginning of the table."""
        self._lower, self._finished, self._cut_rows = lower, False, 0

    def _bounds(self, rows: int) -> Bounds:
        """Find the cuts and the upper bound of the next chunk; None for that of the last one."""
        found: list[KeyBound] = []
        lower = self._lower
        for step in divided(rows, self._part_rows):
            answer = self._query(boundary_sql(self._mapping, lower, step))
            if not answer:
                return tuple(found), None
            lower = bound_from_row(self._mapping.key_columns, answer[0])
            found.append(lower)
        return tuple(found[:-1]), found[-1]


def boundary_sql(mapping: TableMapping, lower: KeyBound | None, rows: int) -> str:
    """Render the query for the key that is ``rows`` rows above ``lower``."""
    columns, directions = mapping.key_columns, walk_directions(mapping.key)
    where = "" if lower is None else f" WHERE {above(columns, lower, directions)}"
    return (
        f"SELECT {index_hint(mapping)}{', '.join(key_select_expressions(columns))}"
        f" FROM {forced_source(mapping)}{where}"
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
