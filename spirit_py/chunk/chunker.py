"""Cut a table into chunks, in one of two ways (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.chunk.composite import BoundaryQuery, CompositeChunker
from spirit_py.chunk.optimistic import INTEGER_TYPES, OptimisticChunker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.table.mapping import TableMapping


def make_chunker(
    mapping: TableMapping,
    query: BoundaryQuery,
    *,
    part_rows: int | None = None,
    numbers: Iterator[int] | None = None,
) -> CompositeChunker:
    """Return the chunker for the mapping's key: arithmetic for one AUTO_INCREMENT integer.

    Args:
        mapping: Its ``key`` is the chunk key.
        query: Runs the boundary queries in a session of the driver, in '+00:00' like all
            sessions of the program, at READ COMMITTED.
        part_rows: rows of a part of a chunk; None for chunks without parts.
        numbers: yields the numbers of the chunks; by default from 0.
    """
    columns = mapping.key_columns
    if len(columns) == 1 and columns[0].auto_increment and columns[0].data_type in INTEGER_TYPES:
        return OptimisticChunker(mapping, query, part_rows=part_rows, numbers=numbers)
    return CompositeChunker(mapping, query, part_rows=part_rows, numbers=numbers)
