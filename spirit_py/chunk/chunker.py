"""Choose how a table is cut (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.chunk.composite import BoundaryQuery, CompositeChunker
from spirit_py.chunk.optimistic import INTEGER_TYPES, OptimisticChunker

if TYPE_CHECKING:
    from spirit_py.table.mapping import TableMapping


def make_chunker(
    mapping: TableMapping, query: BoundaryQuery
) -> OptimisticChunker | CompositeChunker:
    """Return the chunker for the mapping's key: arithmetic for one AUTO_INCREMENT integer.

    Args:
        mapping: Its ``key`` is the chunk key.
        query: Runs the boundary queries in a session of the driver, in '+00:00' like all
            sessions of the program, at READ COMMITTED.
    """
    columns = mapping.key_columns
    if len(columns) == 1 and columns[0].auto_increment and columns[0].data_type in INTEGER_TYPES:
        return OptimisticChunker(mapping, query)
    return CompositeChunker(mapping, query)
