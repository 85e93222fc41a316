"""The text of a chunk's statements (pure; design R1, decision on the copy statement)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.chunk.chunk import Chunk, chunk_predicate, order_by, walk_directions
from spirit_py.chunk.chunker import forced_source, index_hint
from spirit_py.sql import identifier_list, quote_identifier
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.table.mapping import TableMapping


def copy_sql(mapping: TableMapping, chunk: Chunk) -> str:
    """Render a chunk's ``REPLACE ... SELECT``, which only reads the source.

    It runs in ``mapping.time_zone``, if that is set; no key has a TIMESTAMP then.
    """
    selected = ", ".join(mapping.select_expressions)
    return (
        f"REPLACE INTO {mapping.target.quoted} ({identifier_list(mapping.insert_names)})"
        f" SELECT {index_hint(mapping)}{selected} FROM {source_range(mapping, chunk)}"
    )


def row_lookup_sql(
    mapping: TableMapping, chunk: Chunk, expressions: Sequence[str], *, row: int = 1, null: str = ""
) -> str:
    """Render the query for a chunk's row, by its place from 1, where ``null`` is NULL, if given."""
    where = f" AND {quote_identifier(null)} IS NULL" if null else ""
    order = order_by(mapping.key_columns, walk_directions(mapping.key))
    what = f"{source_range(mapping, chunk)}{where}"
    return (
        f"SELECT {index_hint(mapping)}{', '.join(expressions)} FROM {what}"
        f" ORDER BY {order} LIMIT 1 OFFSET {row - 1}"
    )


def source_range(mapping: TableMapping, chunk: Chunk) -> str:
    """Render where a chunk's rows are, of those that are kept: what follows FROM."""
    where = chunk_predicate(mapping.key_columns, chunk, walk_directions(mapping.key))
    kept = "" if mapping.keep is None else f" AND {mapping.keep.condition()}"
    return f"{forced_source(mapping)} WHERE {f'({where})' if kept else where}{kept}"


def copying_slots(mapping: TableMapping, origin: str) -> str:
    """Return the secret of the slots that find all sessions copying a table (R18)."""
    return repr((origin, mapping.source.schema, mapping.source.name))


def chunk_lock(mapping: TableMapping, chunk: Chunk, origin: str) -> str:
    """Return the name of the lock that a chunk's session holds; at most 64 characters (R18)."""
    return lock_name("chunk", origin, mapping.source.schema, mapping.source.name, chunk.number)
