"""Row events as raw bytes out of a server's binlog, and back into a server with BINLOG.

Only the framing of events is understood here; no value is ever decoded, so nothing that the
program under test could get wrong in decoding can be wrong here in the same way.
"""

from __future__ import annotations

import base64
import contextlib
import random
import re
import struct
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import MySQLdb
import pymysql
import zstandard

from mysql_words import binlog_end

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mysql_base import MySQLServer

QUERY, ROTATE, FORMAT, TABLE_MAP, PARTIAL_UPDATE, PAYLOAD = 2, 4, 15, 19, 39, 40
XA_PREPARE = 38
ROWS = frozenset({30, 31, 32})

_XA = re.compile(r"XA (START|END|COMMIT|ROLLBACK) (\S+)")

_COM_BINLOG_DUMP = 0x12
_NON_BLOCK = 1
_HEADER = struct.Struct("<IBIIIH")
_CHECKSUM = 4
_CRC32 = b"\1"
#: Of a rows event: the last of its statement; written and applied without foreign keys; and from
#: a server that logs what foreign keys change as events of their own.
_STMT_END, _NO_FOREIGN_KEYS, _KEYS_LOGGED = 1, 2, 16
_IN_USE = 1
#: Of a compressed transaction: the field that says how, and the usual answer.
_COMPRESSION, _ZSTD = 2, 0


class OracleError(AssertionError):
    """The oracle found a difference, or could not judge."""


@dataclass(frozen=True, kw_only=True, order=True)
class Place:
    """A place in a server's binlog; places of one server have an order."""

    file: str
    offset: int


@dataclass(frozen=True, kw_only=True)
class Event:
    """One binlog event: its type, the body between header and checksum, and where it stands."""

    kind: int
    timestamp: int
    server_id: int
    flags: int
    body: bytes
    file: str
    end: int


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A QUERY event: the text of a statement and the schema it ran in."""

    schema: str
    text: str
    end: Place


@dataclass(frozen=True, kw_only=True)
class TableRows:
    """A rows event with the TABLE_MAP event that it belongs to."""

    table_map: Event
    rows: Event
    schema: str
    table: str

    @property
    def end(self) -> Place:
        """Return where the event ends."""
        return Place(file=self.rows.file, offset=self.rows.end)


def here(server: MySQLServer) -> Place:
    """Return the place at which the server's binlog ends now."""
    session = MySQLdb.connect(
        host=server.host,
        port=server.port,
        user=server.user,
        passwd=server.password,
        charset="utf8mb4",
    )
    with contextlib.closing(session), contextlib.closing(session.cursor()) as cursor:

        def query(sql: str) -> Sequence[Any]:
            cursor.execute(sql)
            return cursor.fetchall()

        file, offset = binlog_end(query)
    return Place(file=file, offset=offset)


def dump(server: MySQLServer, start: Place) -> Iterator[Event]:
    """Yield the events from ``start`` to the end that the binlog has now, over the wire.

    The first one is the FORMAT event of the file. Checksums are taken off the bodies, except
    for FORMAT events, which always have one.
    """
    link = pymysql.connect(
        host=server.host, port=server.port, user=server.user, password=server.password
    )
    with contextlib.closing(link):
        with link.cursor() as cursor:
            cursor.execute("SET @source_binlog_checksum = @@global.binlog_checksum")
            cursor.execute("SELECT 1 WHERE @@global.binlog_checksum <> 'NONE'")
            tail = _CHECKSUM if cursor.fetchone() else 0
        request = struct.pack("<IHI", start.offset, _NON_BLOCK, random.randint(1 << 30, 1 << 31))
        link._execute_command(_COM_BINLOG_DUMP, request + start.file.encode())  # type: ignore[attr-defined]
        file = start.file
        while True:
            packet = link._read_packet()
            if packet.is_eof_packet():
                return
            data = packet.get_all_data()[1:]
            timestamp, kind, server_id, _size, end, flags = _HEADER.unpack_from(data)
            body = data[_HEADER.size :]
            if kind != FORMAT and tail:
                body = body[:-tail]
            if kind == ROTATE:
                file = body[8:].decode()
                continue
            yield Event(
                kind=kind,
                timestamp=timestamp,
                server_id=server_id,
                flags=flags,
                body=body,
                file=file,
                end=end,
            )


def story(events: Iterator[Event]) -> tuple[Event, list[Statement | TableRows]]:
    """Read events into the FORMAT event and, in binlog order, statements and rows.

    The rows of an XA transaction stand where it was committed, or nowhere.

    Raises:
        OracleError: at an event whose rows cannot be seen as plain row images.
    """
    formats: list[Event] = []
    found: list[Statement | TableRows] = []
    undecided: dict[str, list[TableRows]] = {}
    open_xid = ""
    maps: dict[bytes, Event] = {}
    for event in _unpacked(events):
        if event.kind == FORMAT:
            formats.append(event)
        elif event.kind == QUERY:
            statement = _statement(event)
            found.append(statement)
            if ended := _XA.match(statement.text):
                open_xid = _settle(undecided, found, word=ended[1], xid=ended[2])
        elif event.kind == XA_PREPARE:
            if event.body[0]:
                found += undecided.pop(open_xid)
            open_xid = ""
        elif event.kind == TABLE_MAP:
            maps[event.body[:6]] = event
        elif event.kind in ROWS:
            table_map = maps[event.body[:6]]
            schema, table, _rest = _names(table_map.body)
            rows = TableRows(table_map=table_map, rows=event, schema=schema, table=table)
            undecided.get(open_xid, found).append(rows)
        elif event.kind == PARTIAL_UPDATE:
            raise OracleError(f"event type {event.kind} hides row images from the oracle")
    if not formats:
        raise OracleError("the binlog stream began without a FORMAT event")
    return formats[0], found


def _settle(
    undecided: dict[str, list[TableRows]],
    found: list[Statement | TableRows],
    *,
    word: str,
    xid: str,
) -> str:
    """Begin, commit or roll back an XA transaction; return the one whose rows follow."""
    if word == "START":
        undecided[xid] = []
        return xid
    if word == "END":
        return xid
    rows = undecided.pop(xid, [])
    if word == "COMMIT":
        found += rows
    return ""


def _unpacked(events: Iterator[Event]) -> Iterator[Event]:
    """Yield the events, those of a compressed transaction in its place; they end where it ends."""
    for event in events:
        if event.kind != PAYLOAD:
            yield event
            continue
        data = _payload(event.body)
        at = 0
        while at < len(data):
            timestamp, kind, server_id, size, _, flags = _HEADER.unpack_from(data, at)
            # Events inside have no checksum.
            yield replace(
                event,
                kind=kind,
                timestamp=timestamp,
                server_id=server_id,
                flags=flags,
                body=data[at + _HEADER.size : at + size],
            )
            at += size


def _payload(body: bytes) -> bytes:
    """Get the events in a compressed transaction: fields of type, length, value; then the data."""
    at = 0
    while True:
        kind, at = _packed(body, at)
        if kind == 0:
            return zstandard.ZstdDecompressor().decompressobj().decompress(body[at:])
        length, at = _packed(body, at)
        if kind == _COMPRESSION and _packed(body, at)[0] != _ZSTD:
            raise OracleError("a transaction is packed in another way than zstd")
        at += length


def _packed(body: bytes, at: int) -> tuple[int, int]:
    """Read a number of one, two, three or eight bytes; give where it ends, too."""
    first = body[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(body[at + 1 : at + 1 + size], "little"), at + 1 + size


def _statement(event: Event) -> Statement:
    """Take schema and text out of a QUERY event's body."""
    _thread, _seconds, schema_length, _error, status_length = struct.unpack_from(
        "<IIBHH", event.body
    )
    schema_at = 13 + status_length
    text_at = schema_at + schema_length + 1
    return Statement(
        schema=event.body[schema_at : schema_at + schema_length].decode("utf-8", "replace"),
        text=event.body[text_at:].decode("utf-8", "replace"),
        end=Place(file=event.file, offset=event.end),
    )


def _names(body: bytes) -> tuple[str, str, bytes]:
    """Take schema, table and the rest after them out of a TABLE_MAP event's body."""
    at = 8
    names = []
    for _ in range(2):
        length = body[at]
        names.append(body[at + 1 : at + 1 + length].decode())
        at += length + 2
    return names[0], names[1], body[at:]


def _renamed(table_map: Event, schema: str, table: str) -> Event:
    """Return the TABLE_MAP event for another table of the same shape."""
    _schema, _table, rest = _names(table_map.body)
    body = bytearray(table_map.body[:8])
    for name in (schema.encode(), table.encode()):
        body += bytes([len(name)]) + name + b"\0"
    return _with_body(table_map, bytes(body) + rest)


def _with_body(event: Event, body: bytes) -> Event:
    """Return the event with another body."""
    return Event(
        kind=event.kind,
        timestamp=event.timestamp,
        server_id=event.server_id,
        flags=event.flags,
        body=body,
        file=event.file,
        end=event.end,
    )


def _ending(rows: Event) -> Event:
    """Return the rows event as the last of its statement, which does what it says and no more.

    Where the foreign keys' own changes are in the binlog, the server would make them a second time,
    and some that were not made: in 9.7 REPLACE of a row with children leaves the children alone.
    """
    (flags,) = struct.unpack_from("<H", rows.body, 6)
    flags |= _STMT_END
    if flags & _KEYS_LOGGED:
        flags |= _NO_FOREIGN_KEYS
    return _with_body(rows, rows.body[:6] + struct.pack("<H", flags) + rows.body[8:])


def _framed(event: Event) -> bytes:
    """Put header and checksum around a body; its place in a file is of no meaning now."""
    size = _HEADER.size + len(event.body) + _CHECKSUM
    flags = event.flags & ~_IN_USE
    data = _HEADER.pack(event.timestamp, event.kind, event.server_id, size, 0, flags) + event.body
    return data + struct.pack("<I", zlib.crc32(data))


def format_statement(event: Event) -> str:
    """Return the BINLOG statement that must come first in a session.

    The last five bytes of a FORMAT event are the checksum algorithm, set to CRC32 here, and a
    checksum, which this event always has.
    """
    return _binlog(_framed(_with_body(event, event.body[: -_CHECKSUM - 1] + _CRC32)))


def cascaded(change: TableRows) -> bool:
    """Return whether foreign keys changed the rows, or a session that looks at none."""
    (flags,) = struct.unpack_from("<H", change.rows.body, 6)
    return bool(flags & _KEYS_LOGGED and flags & _NO_FOREIGN_KEYS)


def rows_statement(change: TableRows, schema: str, table: str) -> str:
    """Return the BINLOG statement that does the same to the table ``schema.table``."""
    return _binlog(
        _framed(_renamed(change.table_map, schema, table)) + _framed(_ending(change.rows))
    )


def _binlog(data: bytes) -> str:
    return f"BINLOG '{base64.b64encode(data).decode()}'"
