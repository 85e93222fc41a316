"""From rendered rows and keys to bounded statements (pure).

A statement holds at most so many rows and so many bytes. A single row may be as large as the
server's ``max_allowed_packet`` allows; a larger one cannot be sent at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py.errors import ValueLost
from spirit_py.sql import identifier_list, quote_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.table.mapping import TableMapping

STATEMENT_BYTES: Final = 4 << 20
"""Bytes at which a statement is long enough, whatever the server would take."""
PACKET_MARGIN: Final = 1024
"""Bytes of a packet that are not the statement's text."""


@dataclass(frozen=True)
class Bounds:
    """How large statements may be.

    Attributes:
        rows: rows in a statement at most.
        packet: the server's ``max_allowed_packet``, in bytes.
    """

    rows: int
    packet: int


def replace_rows(mapping: TableMapping, rows: Sequence[str], bounds: Bounds) -> Iterator[str]:
    """Give REPLACE statements that write rows of the mapping's pairs, in order."""
    target = quote_table(mapping.target.schema, mapping.target.name)
    names = identifier_list(pair.new.name for pair in mapping.pairs)
    return _filled(f"REPLACE INTO {target} ({names}) VALUES ", "", rows, bounds, mapping)


def insert_rows(
    table: str, rows: Sequence[str], bounds: Bounds, mapping: TableMapping
) -> Iterator[str]:
    """Give INSERT statements into a staging table, whose columns are the mapping's old ones."""
    return _filled(f"INSERT INTO {table} VALUES ", "", rows, bounds, mapping)


def delete_keys(mapping: TableMapping, keys: Sequence[str], bounds: Bounds) -> Iterator[str]:
    """Give DELETE statements for keys, each ``(literal, ...)`` of the key columns."""
    target = quote_table(mapping.target.schema, mapping.target.name)
    names = identifier_list(mapping.new_key_columns)
    return _filled(f"DELETE FROM {target} WHERE ({names}) IN (", ")", keys, bounds, mapping)


def _filled(
    head: str, tail: str, items: Sequence[str], bounds: Bounds, mapping: TableMapping
) -> Iterator[str]:
    """Put as many items into each statement as fit, divided by commas."""
    frame = len(head.encode()) + len(tail)
    part: list[str] = []
    size = frame
    for item in items:
        # Literals are ASCII, but for what a column's name or a member holds.
        length = (len(item) if item.isascii() else len(item.encode())) + 2
        if frame + length > bounds.packet - PACKET_MARGIN:
            raise too_large(mapping, length, bounds)
        full = len(part) >= bounds.rows or size + length > min(
            STATEMENT_BYTES, bounds.packet - PACKET_MARGIN
        )
        if part and full:
            yield head + ", ".join(part) + tail
            part, size = [], frame
        part.append(item)
        size += length
    if part:
        yield head + ", ".join(part) + tail


def too_large(mapping: TableMapping, size: int, bounds: Bounds) -> ValueLost:
    """Build the error for a row that no statement can carry."""
    return ValueLost(
        f"a changed row of {mapping.source.schema}.{mapping.source.name} takes {size} bytes as SQL,"
        f" more than the server's max_allowed_packet of {bounds.packet}",
        hint=f"SET GLOBAL max_allowed_packet={min(1 << 30, max(2 * size, bounds.packet))} (at most"
        " 1 GiB), then run again",
    )
