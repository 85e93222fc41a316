"""Raw binlog events of a server, for tests and benchmarks, over the replication protocol.

Uses PyMySQL only to log in and to frame packets: nothing of an event is interpreted.
"""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import pymysql

from mysql_words import binlog_end

if TYPE_CHECKING:
    from collections.abc import Iterator

_COM_BINLOG_DUMP = 0x12
_NON_BLOCKING = 1
_HEADER = struct.Struct("<IBIIIH")
TABLE_MAP, ROWS = 19, frozenset({23, 24, 25, 30, 31, 32})


class RawEvent(NamedTuple):
    """An event: its type code, and its bytes after the common header, without a checksum.

    ``framed`` is the whole event as received, after the byte that means "no error".
    """

    type: int
    body: bytes
    framed: bytes


class Position(NamedTuple):
    """A position in the binlog."""

    file: str
    offset: int


def connect(host: str, port: int, user: str, password: str) -> Any:
    """Open a session for :func:`read_events`."""
    return pymysql.connect(host=host, port=port, user=user, password=password, autocommit=True)


def position(connection: Any) -> Position:
    """Return the end of the server's binlog."""
    with connection.cursor() as cursor:

        def query(sql: str) -> Any:
            cursor.execute(sql)
            return cursor.fetchall()

        return Position(*binlog_end(query))


def read_events(connection: Any, start: Position) -> Iterator[RawEvent]:
    """Read everything from ``start`` to the end of the binlog; the session cannot be reused."""
    server_id = random.randrange(2**20, 2**32)
    with connection.cursor() as cursor:
        names = "@source_binlog_checksum", "@master_binlog_checksum"
        cursor.execute("SET " + ", ".join(f"{name} = @@global.binlog_checksum" for name in names))
        cursor.execute("SELECT @@global.binlog_checksum")
        checksum = 4 if cursor.fetchone()[0] == "CRC32" else 0
    request = struct.pack("<IHI", start.offset, _NON_BLOCKING, server_id) + start.file.encode()
    connection._execute_command(_COM_BINLOG_DUMP, request)  # noqa: SLF001  no public way
    while True:
        packet = connection._read_packet()  # noqa: SLF001  likewise
        if packet.is_eof_packet():
            return
        data = packet.get_all_data()
        data = data[: len(data) - checksum]
        kind = _HEADER.unpack_from(data, 1)[1]
        yield RawEvent(kind, data[1 + _HEADER.size :], data)
