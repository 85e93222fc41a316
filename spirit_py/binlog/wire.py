"""The few binlog event bodies that the feed reads itself, without header and checksum (pure).

Layouts are of the MySQL source, ``libs/mysql/binlog/event``.
"""

from __future__ import annotations

import functools
import struct
import uuid
import zlib
from typing import TYPE_CHECKING, Final

import zstandard

from spirit_py.binlog.codec.tablemap import packed_integer
from spirit_py.errors import BinlogUnreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER: Final = struct.Struct("<IBIIIH")
"""Time, type, server id, size, end position (32 bits), flags."""
HEADER_SIZE: Final = 19
END: Final = struct.Struct("<I")
"""The end position alone, which is at :data:`END_AT`."""
END_AT: Final = 13
CHECKSUM_SIZE: Final = 4

QUERY, ROTATE, FORMAT_DESCRIPTION, XID, EXECUTE_LOAD_QUERY, TABLE_MAP = 2, 4, 15, 16, 18, 19
WRITE_ROWS_V1, UPDATE_ROWS_V1, DELETE_ROWS_V1, INCIDENT, HEARTBEAT = 23, 24, 25, 26, 27
WRITE_ROWS, UPDATE_ROWS, DELETE_ROWS, GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS = range(30, 36)
XA_PREPARE, PARTIAL_UPDATE_ROWS, TRANSACTION_PAYLOAD, HEARTBEAT_V2, GTID_TAGGED = range(38, 43)

ROWS: Final = frozenset(
    {*range(WRITE_ROWS_V1, DELETE_ROWS_V1 + 1), *range(WRITE_ROWS, DELETE_ROWS + 1)}
)

#: After flags, identifier, number, kind of clock, and two numbers of its ticks.
_COMMIT_TIME: Final = slice(42, 49)
_MICROSECONDS: Final = (1 << 55) - 1
#: Fields of a tagged GTID event.
_UUID, _NUMBER, _TAG, _COMMITTED_AT = 1, 2, 3, 6
_PAYLOAD_END, _PAYLOAD_COMPRESSION = 0, 2
_ZSTD, _UNCOMPRESSED = 0, 255
_MAX_WINDOW: Final = 1 << 31


def has_checksum(event: bytes | memoryview) -> bool:
    """Return whether the event's last four bytes are the CRC32 of the rest."""
    body = memoryview(event)[:-CHECKSUM_SIZE]
    return zlib.crc32(body) == int.from_bytes(event[-CHECKSUM_SIZE:], "little")


def format_has_checksums(event: bytes | memoryview) -> bool:
    """Return whether events have checksums: a format description's byte before its own."""
    return event[-CHECKSUM_SIZE - 1] == 1


def parse_rotate(body: bytes) -> tuple[str, int]:
    """Return the next file and the offset in it."""
    return body[8:].decode(), int.from_bytes(body[:8], "little")


def parse_gtid(body: bytes) -> tuple[str, int]:
    """Return identifier and number of a GTID event."""
    return _uuid_text(body[1:17]), int.from_bytes(body[17:25], "little")


def commit_time(body: bytes) -> float:
    """Return the commit's Unix time from a GTID or anonymous GTID event; 0 without one."""
    return (int.from_bytes(body[_COMMIT_TIME], "little") & _MICROSECONDS) / 1e6


@functools.cache
def _uuid_text(raw: bytes) -> str:
    return str(uuid.UUID(bytes=raw))


def parse_tagged_gtid(body: bytes) -> tuple[str, int, float]:
    """Return identifier (``uuid:tag``), number and commit's Unix time of a tagged GTID event.

    A message of the server's serialization library: version, size, last required field, the fields.
    """
    at = 0
    for _ in range(3):
        _, at = _varlen(body, at)
    raw, number, tag, committed_at = b"", 0, "", 0.0
    while at < len(body):
        field, at = _varlen(body, at)
        if field > _COMMITTED_AT:
            break
        if field == _UUID:
            octets = bytearray()
            for _ in range(16):
                octet, at = _varlen(body, at)
                octets.append(octet)
            raw = bytes(octets)
            continue
        value, at = _varlen(body, at)
        if field == _NUMBER:
            number = value >> 1
        elif field == _TAG:
            tag, at = body[at : at + value].decode(), at + value
        elif field == _COMMITTED_AT:
            committed_at = value / 1e6
    if not raw or number < 1:
        hint = "report the server's version; run without tagged transactions"
        raise BinlogUnreadable("the binlog has a tagged GTID event of an unknown layout", hint=hint)
    return (f"{_uuid_text(raw)}:{tag}" if tag else _uuid_text(raw)), number, committed_at


def _varlen(data: bytes, at: int) -> tuple[int, int]:
    """Read a variable-length integer: the low one-bits of its first byte count further bytes."""
    first = data[at]
    more = 0
    while first >> more & 1 and more < 8:
        more += 1
    return int.from_bytes(data[at : at + 1 + more], "little") >> min(more + 1, 8), at + 1 + more


def parse_xa_prepare(body: bytes) -> tuple[bool, str]:
    """Return whether XA_PREPARE is a one-phase commit, and its xid: ``X'31',X'',1``."""
    one_phase = body[0] != 0
    form, first, second = struct.unpack_from("<III", body, 1)
    data = body[13 : 13 + first + second]
    return one_phase, f"X'{data[:first].hex()}',X'{data[first:].hex()}',{form}"


def table_name(body: bytes) -> bytes:
    """Return the names in a table map as they are in the bytes: a key to look tables up by."""
    size = body[8]
    return body[8 : 8 + size + 4 + body[8 + size + 2]]


def name_key(schema: str, table: str) -> bytes:
    """Return the bytes that :func:`table_name` returns for a table."""
    one, other = schema.encode(), table.encode()
    return bytes([len(one)]) + one + b"\0" + bytes([len(other)]) + other + b"\0"


def split_payload(body: bytes) -> Iterator[bytes]:
    """Yield a TRANSACTION_PAYLOAD's events, not checksums; FeedFailure: unknown compression."""
    at, compression = 0, _ZSTD
    while (field := packed_integer(body, at))[0] != _PAYLOAD_END:
        size, start = packed_integer(body, field[1])
        if field[0] == _PAYLOAD_COMPRESSION:
            compression = packed_integer(body, start)[0]
        at = start + size
    payload = memoryview(body)[field[1] :]
    if compression == _UNCOMPRESSED:
        yield from _cut(payload)
    elif compression == _ZSTD:
        decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        with decompressor.stream_reader(payload, read_across_frames=True) as reader:
            while header := _read(reader, HEADER_SIZE):
                yield header + _read(reader, HEADER.unpack(header)[3] - HEADER_SIZE)
    else:
        said = f"the binlog has a transaction with the unknown compression {compression}"
        raise BinlogUnreadable(said, hint="set binlog_transaction_compression=OFF on the server")


def _cut(data: memoryview) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = HEADER.unpack_from(data, at)[3]
        yield bytes(data[at : at + size])
        at += size


def _read(reader: zstandard.ZstdDecompressionReader, size: int) -> bytes:
    parts: list[bytes] = []
    while size and (part := reader.read(size)):
        parts.append(part)
        size -= len(part)
    if size and parts:
        raise BinlogUnreadable("a compressed transaction in the binlog ends too early")
    return b"".join(parts)
