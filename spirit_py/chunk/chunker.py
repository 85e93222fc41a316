"""Cut a table into chunks, in one of two ways (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from spirit_py.chunk.composite import BoundaryQuery, CompositeChunker
from spirit_py.chunk.optimistic import INTEGER_TYPES, OptimisticChunker

if TYPE_CHECKING:
    from spirit_py.chunk.chunk import Chunk, KeyBound
    from spirit_py.table.mapping import TableMapping


class Chunker(Protocol):
    """Cuts the table into chunks in key order. Only the driver calls it, from one thread."""

    def next_chunk(self, rows: int) -> Chunk | None:
        """Return the next chunk of about ``rows`` rows, None after the last. May ask the server."""

    def observed(self, chunk: Chunk, rows: int) -> None:
        """Note how many rows a chunk had."""

    def estimated_fraction(self) -> float:
        """Return how far the cut has come, 0.0 to 1.0, an estimate."""

    def restart(self, lower: KeyBound | None) -> None:
        """Begin again above ``lower``; None for the beginning of the table."""


def make_chunker(
    mapping: TableMapping, query: BoundaryQuery, *, part_rows: int | None = None
) -> Chunker:
    """Return the chunker for the mapping's key: arithmetic for one AUTO_INCREMENT integer.

    Args:
        mapping: Its ``key`` is the chunk key.
        query: Runs the boundary queries in a session of the driver, in '+00:00' like all
            sessions of the program, at READ COMMITTED.
        part_rows: rows of a part of a chunk; None for chunks without parts.
    """
    columns = mapping.key_columns
    if len(columns) == 1 and columns[0].auto_increment and columns[0].data_type in INTEGER_TYPES:
        return OptimisticChunker(mapping, query, part_rows=part_rows)
    return CompositeChunker(mapping, query, part_rows=part_rows)
