"""From rendered rows and keys to bounded statements (pure).

A row above ``max_allowed_packet`` goes to the server in pieces (:class:`spirit_py.sql.PiecedRow`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass
from spirit_py.errors import PacketTooSmall
from spirit_py.sql import PiecedRow, identifier_list, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.table.mapping import TableMapping

STATEMENT_BYTES: Final = 4 << 20
"""Bytes at which a statement is long enough, whatever the server would take."""
PACKET_MARGIN: Final = 1024
"""Bytes of a packet that are not the statement's text."""


@dataclass(frozen=True)
class Bounds:
    """How large statements may be; ``packet`` is ``max_allowed_packet`` in bytes."""

    rows: int
    packet: int


def replace_rows(mapping: TableMapping, rows: Sequence[str], bounds: Bounds) -> Iterator[str]:
    """Return REPLACE statements that write rows of the mapping's pairs, in order."""
    target = mapping.target.quoted
    head = f"{upsert_verb(mapping)} INTO {target} ({identifier_list(mapping.insert_names)}) VALUES "
    if mapping.fills:
        constants = ", ".join(fill.sql for fill in mapping.fills)
        rows = [f"{row[:-1]}, {constants})" for row in rows]
    return _filled(head, upsert_tail(mapping), rows, bounds, mapping)


def upsert_verb(mapping: TableMapping) -> str:
    """Return the verb that writes rows over rows of the same key; over none of another source."""
    return "INSERT" if mapping.kept or mapping.owned is not None else "REPLACE"


def upsert_tail(mapping: TableMapping) -> str:
    """Return the ON DUPLICATE KEY UPDATE clause for tables with kept columns; empty for others.

    ``VALUES()`` is deprecated from 8.0.20 on; its replacement does not exist before 8.0.19. Kept
    columns are named because of ``ON UPDATE CURRENT_TIMESTAMP``; the key, because its collation may
    equate different texts.
    """
    if not mapping.kept:
        return ""
    written = (quote_identifier(name) for name in mapping.insert_names)
    kept = (quote_identifier(column.name) for column in mapping.kept)
    terms = [f"{name} = VALUES({name})" for name in written]
    terms += [f"{name} = {mapping.target.quoted}.{name}" for name in kept]
    return f" ON DUPLICATE KEY UPDATE {', '.join(terms)}"


def insert_rows(
    table: str, rows: Sequence[str], bounds: Bounds, mapping: TableMapping, tail: str = ""
) -> Iterator[str]:
    """Return INSERT statements for a staging table, which is followed by columns in parentheses."""
    return _filled(f"INSERT INTO {table} VALUES ", tail, rows, bounds, mapping)


def delete_keys(mapping: TableMapping, keys: Sequence[str], bounds: Bounds) -> Iterator[str]:
    """Return DELETE statements for keys, each ``(literal, ...)`` of the key columns.

    A hint names the index: the optimizer may read the whole table otherwise, and does with FORCE
    INDEX in a multi-table DELETE (measured on 9.7). Servers before 8.0.20 pass over the hint.
    """
    names = identifier_list(mapping.new_key_columns)
    hint = ""
    if mapping.lookup.lingers:
        named = (mapping.target.name, mapping.lookup.index.name)
        hint = f"/*+ INDEX({' '.join(map(quote_identifier, named))}) */ "
    head = f"DELETE {hint}FROM {mapping.target.quoted} WHERE ({names}) IN ("
    return _filled(head, f"){own_rows(mapping)}", keys, bounds, mapping)


def own_rows(mapping: TableMapping) -> str:
    """Return the condition, to follow others, that a row of the new table is this source's."""
    owned = mapping.owned
    return "" if owned is None else f" AND {owned.condition(mapping.target.quoted)}"


def _filled(
    head: str, tail: str, items: Sequence[str], bounds: Bounds, mapping: TableMapping
) -> Iterator[str]:
    room = min(STATEMENT_BYTES, bounds.packet - PACKET_MARGIN)
    frame = len(head.encode()) + len(tail)
    for at in range(0, len(items), max(1, bounds.rows)):
        part = items[at : at + bounds.rows]
        text = ", ".join(part)
        # Literals are ASCII, but for what a column's name or a member holds.
        if frame + _size(text) <= room:
            yield head + text + tail
        else:
            yield from _bounded(head, tail, part, bounds, mapping)


def _bounded(
    head: str, tail: str, items: Sequence[str], bounds: Bounds, mapping: TableMapping
) -> Iterator[str]:
    frame = len(head.encode()) + len(tail)
    room = bounds.packet - PACKET_MARGIN
    part: list[str] = []
    size = frame
    for item in items:
        length = _size(item) + 2
        large = frame + length > room
        if part and (large or size + length > min(STATEMENT_BYTES, room)):
            yield head + ", ".join(part) + tail
            part, size = [], frame
        if large:
            yield from _in_pieces(head, tail, item, bounds, mapping)
            continue
        part.append(item)
        size += length
    if part:
        yield head + ", ".join(part) + tail


def _in_pieces(
    head: str, tail: str, item: str, bounds: Bounds, mapping: TableMapping
) -> Iterator[str]:
    room = bounds.packet - PACKET_MARGIN
    row = PiecedRow(item)
    statement = head + row.text + tail
    needed = max(_size(statement) + PACKET_MARGIN, row.largest)
    if needed > bounds.packet:
        raise PacketTooSmall(
            f"a changed row of {mapping.source.full_name} has a value of {needed}"
            f" bytes, more than the server's max_allowed_packet of {bounds.packet}",
            hint=f"SET GLOBAL max_allowed_packet={min(1 << 30, 2 * needed)} (at most 1 GiB), then"
            " run the same command again: it resumes",
        )
    yield from row.fill(room)
    yield statement
    yield row.forget()


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
