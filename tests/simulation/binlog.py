"""The model server's binlog as bytes, and the dump that sends them."""

from __future__ import annotations

import uuid
import zlib
from typing import TYPE_CHECKING, Any, Final

from spirit_py.binlog import wire
from spirit_py.binlog.connection import StreamLost
from spirit_py.errors import PositionNotFound
from tests.simulation.server import UUID, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.simulation.server import LogFile, Row, RowChange, Server, Transaction

_SERVER: Final = 1
_INT: Final = 3
_ENDS, _UNCHECKED, _BY_SQL_LAYER = 1, 2, 16
#: The status variables of a statement that every server writes: an empty sql_mode, and utf8mb4 as
#: the character set of client, connection and server.
_STATUS: Final = b"\1" + bytes(8) + b"\4" + (255).to_bytes(2, "little") * 3


def event(kind: int, body: bytes, *, end: int, time: int = 1_700_000_000) -> bytes:
    """Return one event with its header and checksum."""
    size = wire.HEADER_SIZE + len(body) + 4
    head = wire.HEADER.pack(time, kind, _SERVER, size, end & 0xFFFFFFFF, 0) + body
    return head + zlib.crc32(head).to_bytes(4, "little")


def beginning(file: LogFile) -> list[bytes]:
    """Return what every dump begins with, and every further file."""
    rotate = (4).to_bytes(8, "little") + file.name.encode()
    head = (
        wire.HEADER.pack(0, wire.ROTATE, _SERVER, wire.HEADER_SIZE + len(rotate) + 4, 0, 0) + rotate
    )
    form = event(wire.FORMAT_DESCRIPTION, b"\0" * 76 + b"\1", end=126, time=int(file.begun))
    return [head + zlib.crc32(head).to_bytes(4, "little"), form]


def _table_map(number: int, name: tuple[str, str], columns: tuple[str, ...]) -> bytes:
    count = len(columns)
    return (
        number.to_bytes(6, "little")
        + b"\1\0"
        + wire.name_key(*name)
        + bytes([count])
        + bytes([_INT] * count)
        + b"\0"
        # All but the key may be NULL.
        + (((1 << count) - 1) & ~1).to_bytes((count + 7) // 8, "little")
        # Optional metadata: every numeric column is signed.
        + bytes([1, (count + 7) // 8])
        + b"\0" * ((count + 7) // 8)
    )


def _image(row: Row) -> bytes:
    nulls = sum(1 << i for i, value in enumerate(row) if value is None)
    values = b"".join(
        # Nobody reads the texts of the program's own tables.
        (v if isinstance(v, int) else 0).to_bytes(4, "little", signed=True)
        for v in row
        if v is not None
    )
    return nulls.to_bytes((len(row) + 7) // 8, "little") + values


def _rows(changes: Sequence[RowChange], flags: int) -> tuple[int, bytes]:
    """Return one event of changes of one kind."""
    kind = _kind(changes[0])
    first = changes[0].after if changes[0].after is not None else changes[0].before or ()
    present = ((1 << len(first)) - 1).to_bytes((len(first) + 7) // 8, "little")
    head = changes[0].number.to_bytes(6, "little") + flags.to_bytes(2, "little") + b"\2\0"
    bitmaps = present * (2 if kind == wire.UPDATE_ROWS else 1)
    images = (row for one in changes for row in (one.before, one.after) if row is not None)
    return kind, head + bytes([len(first)]) + bitmaps + b"".join(map(_image, images))


def _kind(change: RowChange) -> int:
    if change.before is None:
        return wire.WRITE_ROWS
    return wire.DELETE_ROWS if change.after is None else wire.UPDATE_ROWS


def _statements(transaction: Transaction) -> Iterator[tuple[int, bytes]]:
    """Yield the events of the rows: a statement's table, and its rows, together while alike."""
    changes = transaction.changes
    flags = _BY_SQL_LAYER | (_UNCHECKED if transaction.unchecked else 0)
    at = 0
    while at < len(changes):
        one, end = changes[at], at + 1
        while end < len(changes) and not changes[end].first and _kind(changes[end]) == _kind(one):
            end += 1
        if one.first:
            columns = transaction.columns[one.table]
            yield wire.TABLE_MAP, _table_map(one.number, one.table, columns)
        ends = end == len(changes) or changes[end].first
        yield _rows(changes[at:end], flags | (_ENDS if ends else 0))
        at = end


def _query(sql: str, schema: str, session: int) -> bytes:
    name = schema.encode()
    head = session.to_bytes(4, "little") + bytes(4) + bytes([len(name)]) + bytes(2)
    return head + len(_STATUS).to_bytes(2, "little") + _STATUS + name + b"\0" + sql.encode()


def events_of(transaction: Transaction, file: LogFile) -> list[bytes]:
    """Return the events of one transaction, each with its end in the file."""
    gtid = b"\0" + uuid.UUID(UUID).bytes + transaction.number.to_bytes(8, "little") + b"\2"
    found: list[tuple[int, bytes]] = [(wire.GTID, gtid)]
    schema = transaction.schema
    xid = f"X'{transaction.xid.encode().hex()}',X'',1"
    if transaction.decided:
        found.append(
            (wire.QUERY, _query(f"XA {transaction.decided} {xid}", "", transaction.session))
        )
    elif transaction.xid:
        found.append((wire.QUERY, _query(f"XA START {xid}", "", transaction.session)))
        found += _statements(transaction)
        found.append((wire.QUERY, _query(f"XA END {xid}", "", transaction.session)))
        size = len(transaction.xid.encode())
        head = b"\0" + b"".join(n.to_bytes(4, "little") for n in (1, size, 0))
        found.append((wire.XA_PREPARE, head + transaction.xid.encode()))
    elif transaction.statement:
        found.append((wire.QUERY, _query(transaction.statement, schema, transaction.session)))
    else:
        found.append((wire.QUERY, _query("BEGIN", schema, transaction.session)))
        if transaction.text:
            found.append((wire.QUERY, _query(transaction.text, schema, transaction.session)))
        else:
            found += _statements(transaction)
        found.append((wire.XID, bytes(8)))
    first = file.end_of(transaction.number - 1)
    last = file.end_of(transaction.number)
    ends = [first + at for at in range(1, len(found))] + [last]
    return [event(kind, body, end=end) for (kind, body), end in zip(found, ends, strict=True)]


class Dump:
    """Stands in the place of :class:`spirit_py.binlog.connection.BinlogConnection`."""

    def __init__(self, server: Server, *, gtids: Any, silence: float, place: Any = None) -> None:
        server.scheduler.step()
        if not server.up:
            raise StreamLost("the server is down")
        self._server = server
        self._silence = silence
        self._session = server.connect("dump")
        self._session.role = "feed"
        self._skip = numbers(gtids.text() if hasattr(gtids, "text") else str(gtids or ""))
        self._resets = server.resets
        self._next = self._sent = 0
        if place is not None:
            self._next = next(file.before for file in server.files if file.name == place.file)
        while self._next < len(server.binlog) and self._next + 1 in self._skip:
            self._next += 1
        self._file: LogFile | None = None
        #: Events of the transaction whose first ones were sent.
        self._rest: list[bytes] = []
        self._late = 0.0

    @property
    def id(self) -> int:
        """The session's number."""
        return self._session.number

    def read(self) -> Sequence[memoryview]:
        """Return the events that are there; wait for the next ones."""
        server = self._server
        server.scheduler.step()
        deadline = server.scheduler.now + self._silence
        self._await_rest()
        while True:
            if not self._session.alive or self._session.cut or self._session.killed:
                server.end(self._session)
                raise StreamLost("the connection was lost")
            if self._file is None and max(self._skip, default=0) > len(server.binlog):
                raise PositionNotFound("the replica has more GTIDs than the source", hint="")
            if self._resets != server.resets:
                raise StreamLost("the binlog was reset")
            if self._rest:
                found, self._rest = self._rest, []
                return [memoryview(one) for one in found]
            file = server.file_of(self._next + 1)
            if file is not self._file:
                self._file = file
                return [memoryview(one) for one in beginning(file)]
            found = self._next_of(file)
            if found:
                sent, self._late = server.parting(len(found))
                found, self._rest = found[:sent], found[sent:]
                if self._next > self._sent and (seconds := server.latency()):
                    server.scheduler.tell(f"transaction {self._next} is under way for {seconds} s")
                    server.scheduler.sleep(seconds)
                    # What was committed meanwhile was on the way at the same time.
                    self._sent = len(server.binlog)
                return [memoryview(one) for one in found]
            if server.file_of(self._next + 1) is not file:
                continue
            if server.scheduler.now >= deadline:
                raise StreamLost("silence")
            task = server.scheduler.current
            assert task is not None
            server.dumps.append(task)
            if not server.scheduler.wait("the binlog", 5.0) and self._session.alive:
                # A heartbeat.
                name, end = server.log_end
                return [memoryview(event(wire.HEARTBEAT, name.encode(), end=end))]

    def _await_rest(self) -> None:
        """Wait for the other events of a transaction; or the connection is cut in front of them."""
        if self._rest and self._late:
            scheduler = self._server.scheduler
            scheduler.tell(f"the rest of {self._next} is under way for {self._late} s")
            if self._late < 0:
                self._server.cut(self._session)
            scheduler.sleep(max(0.0, self._late))

    def _next_of(self, file: LogFile) -> list[bytes]:
        """Return the events of the next transaction that is wanted; none at the file's end."""
        server = self._server
        while self._next < len(server.binlog):
            transaction = server.binlog[self._next]
            if server.file_of(transaction.number) is not file:
                break
            self._next += 1
            if transaction.number not in self._skip:
                return events_of(transaction, file)
        return []

    def interrupt(self) -> None:
        """End a read that waits."""
        self._session.cut = self._session.gone = True
        self._server.wake_dumps()

    def close(self) -> None:
        """End the session."""
        self._server.end(self._session)
        self._server.wake_dumps()
