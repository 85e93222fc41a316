"""From binlog bytes to events; those of other tables are skipped before they are decoded."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py.binlog import events, wire, writes
from spirit_py.binlog.cascades import FLAGS_AT, Cascades
from spirit_py.binlog.codec.tablemap import parse_table_map
from spirit_py.binlog.connection import StreamLost
from spirit_py.binlog.events import Advanced, Place
from spirit_py.errors import BinlogUnreadable, HiddenChange, HistoryLost, UnreadableChange

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from spirit_py.binlog.codec.rows import RowCodec
    from spirit_py.binlog.codec.tablemap import Collation, TableMap
    from spirit_py.binlog.events import Event, Frontier, Table
    from spirit_py.binlog.resumption import BetweenRuns

_QUIET_QUERIES: Final = (b"SAVEPOINT", b"XA END")


class StreamClosed(Exception):
    """No more events are taken."""


class BinlogParser:
    """Parses the bytes of one server's binlog into events.

    ``followed`` and ``own`` (tables that this program writes, only counted) go by the names in
    table maps. ``emit`` may block, and returns False when no more events are taken.
    ``skipped_bytes`` are of tables not followed, ``own_bytes`` of own ones; a compressed
    transaction counts in the latter alone, as a whole.
    """

    def __init__(
        self,
        compile_codec: Callable[[TableMap], RowCodec],
        start: Frontier,
        followed: Mapping[bytes, Table],
        own: Collection[bytes] = (),
        collations: Mapping[int, Collation] | None = None,
    ) -> None:
        self._charsets = {at: found.charset for at, found in (collations or {}).items()}
        self.between: BetweenRuns | None = None
        self.cascades = Cascades()
        self._own = frozenset(own)
        self._own_ids: set[bytes] = set()
        self._compile = compile_codec
        self._followed = followed
        #: Everything emitted completely: where the next connection goes on.
        self.complete = start.copy()
        self.emit: Callable[[Event], bool] = lambda _: False
        self._codecs: dict[bytes, RowCodec] = {}
        self._open_tables: dict[bytes, tuple[Table, RowCodec]] = {}
        self._checksums: bool | None = None
        self.received_bytes = self.skipped_bytes = self.own_bytes = 0
        self.file = ""
        self.offset = 0
        #: When the file was created, Unix time; with its name it tells two logs apart.
        self.created = 0
        self.in_group = False
        self._began = False
        self._xid = ""
        self._tsid, self._number = "", 0
        self._time = 0
        self._committed_at = 0.0
        self._handlers: dict[int, Callable[[bytes], None]] = {
            wire.TABLE_MAP: self._table_map,
            wire.XID: self._commit,
            wire.QUERY: self._query,
            wire.TRANSACTION_PAYLOAD: self._payload,
            wire.PARTIAL_UPDATE_ROWS: self._partial,
            wire.XA_PREPARE: self._xa_prepare,
            wire.ROTATE: self._rotate,
            wire.FORMAT_DESCRIPTION: self._new_file,
            wire.PREVIOUS_GTIDS: self._file_begun,
            wire.EXECUTE_LOAD_QUERY: partial(self._statement, load=True),
            wire.INCIDENT: self._incident,
        }

    def reopened(self) -> None:
        """A new connection begins after the last complete transaction."""
        self._checksums = None
        self._forget_tables()
        self._end_group()
        self._hand_on(events.Restarted())

    def forget_codecs(self) -> None:
        """Ask for a codec again at the next table map of each table."""
        self._codecs.clear()

    def _forget_tables(self) -> None:
        """Forget the ids of tables: each statement names them, a reopened table by another one."""
        self._open_tables.clear()
        self._own_ids.clear()

    def _end_group(self) -> None:
        self.in_group = self._began = False
        self.cascades.end()
        self._xid = ""

    def _complete(self, event: events.Completed) -> None:
        self._hand_on(event)
        self.complete.advance(event.place)

    def _hand_on(self, event: Event) -> None:
        if not self.emit(event):
            raise StreamClosed

    @property
    def place(self) -> Place:
        """The end of the event that was read last."""
        gtid = self._tsid, self._number
        return Place(self.file, self.offset, *gtid, self._time, self._committed_at)

    def feed(self, event: bytes | memoryview) -> None:
        """Take one event of the stream, from its header on; nothing keeps a view of it.

        UnreadableChange: a followed table's change is hidden (R13). SchemaChanged: a table map does
        not match (R14). FeedFailure: the event is damaged, or says that the binlog lost events.
        """
        kind = event[4]
        self.received_bytes += len(event)
        if kind in wire.ROWS and bytes(event[19:25]) not in self._open_tables:
            self.cascades.passed(event[wire.HEADER_SIZE + FLAGS_AT])
            self._skip(event)
            return
        if kind == wire.TABLE_MAP and not self._is_followed(bytes(event)):
            self._skip(event)
            return
        if kind == wire.FORMAT_DESCRIPTION:
            self._checksums = wire.format_has_checksums(event)
            created = int.from_bytes(event[:4], "little")
            if self.created and created != self.created:
                raise binlog_reset(f"another {self.file} is there")
            self.created = created
        body = self._body(event, kind)
        if kind not in {wire.ROTATE, wire.HEARTBEAT, wire.HEARTBEAT_V2}:
            self._move(event)
            self._time = int.from_bytes(event[:4], "little")
        self._handle(kind, body, event)

    def _skip(self, event: bytes | memoryview) -> None:
        self.skipped_bytes += len(event)
        if bytes(event[19:25]) in self._own_ids:
            self.own_bytes += len(event)
        self._move(event)

    def _is_followed(self, table_map: bytes) -> bool:
        number, name = table_map[19:25], wire.table_name(table_map[19:])
        self.cascades.table_map(name)
        if name in self._followed:
            return True
        self._open_tables.pop(number, None)
        if name in self._own:
            if self.between is not None:
                self.between.rows(name, self.place, prepared=bool(self._xid))
            self._own_ids.add(number)
        else:
            self._own_ids.discard(number)
        return False

    def _move(self, event: bytes | memoryview) -> None:
        """Note the end position, whose upper 32 bits are not in the header."""
        (low,) = wire.END.unpack_from(event, wire.END_AT)
        if low:
            offset = self.offset & ~0xFFFFFFFF | low
            self.offset = offset if offset >= self.offset else offset + (1 << 32)

    def _body(self, event: bytes | memoryview, kind: int) -> bytes:
        checksums = self._checksums
        if kind == wire.FORMAT_DESCRIPTION:
            return bytes(event[wire.HEADER_SIZE : -wire.CHECKSUM_SIZE])
        if checksums is None:
            checksums = wire.has_checksum(event)
        elif checksums and not wire.has_checksum(event):
            raise StreamLost(f"an event before {self.file}:{self.offset} has a wrong checksum")
        end = len(event) - wire.CHECKSUM_SIZE if checksums else len(event)
        return bytes(event[wire.HEADER_SIZE : end])

    def _handle(self, kind: int, body: bytes, event: bytes | memoryview) -> None:
        if kind in wire.ROWS:
            self._rows(kind, body)
        elif kind in {wire.HEARTBEAT, wire.HEARTBEAT_V2}:
            self._heartbeat(kind, body, event)
        elif kind in {wire.GTID, wire.GTID_TAGGED, wire.ANONYMOUS_GTID}:
            self._gtid(kind, body)
        elif handle := self._handlers.get(kind):
            handle(body)

    def _new_file(self, _: bytes) -> None:
        """Drop the incomplete transaction: cut off by the end of a file, it never committed."""
        if self.in_group:
            self._end_group()
            self._hand_on(events.Restarted())

    def _file_begun(self, _: bytes) -> None:
        if not self.in_group:
            self._complete(Advanced(Place(self.file, self.offset)))

    def _statement(self, body: bytes, *, load: bool = False) -> None:
        prepared = bool(self._xid)
        event = writes.parse_query(body, self._charsets, self.place, load=load, prepared=prepared)
        if self.between is not None:
            self.between.statement(event)
        self._hand_on(event)

    def _incident(self, _: bytes) -> None:
        said = f"the server reports lost events in its binlog at {self.file}:{self.offset}"
        raise BinlogUnreadable(said, hint="see the server's error log; start the migration again")

    def _gtid(self, kind: int, body: bytes) -> None:
        if self.in_group:
            self._hand_on(events.Restarted())
        self._end_group()
        self._forget_tables()
        if kind == wire.GTID_TAGGED:
            self._tsid, self._number, self._committed_at = wire.parse_tagged_gtid(body)
        else:
            self._tsid, self._number = wire.parse_gtid(body) if kind == wire.GTID else ("", 0)
            self._committed_at = wire.commit_time(body)

    def _table_map(self, body: bytes) -> None:
        table = self._followed[wire.table_name(body)]
        shape = body[6:]
        codec = self._codecs.get(shape)
        if codec is None:
            codec = self._codecs[shape] = self._compile(parse_table_map(body))
        self._open_tables[body[:6]] = table, codec

    def _rows(self, kind: int, body: bytes) -> None:
        if not self._began:
            self._began = True
            self._hand_on(events.Began(self.place, self._xid))
        table, codec = self._open_tables[body[:6]]
        doubt = self.cascades.judge(table, kind, body[FLAGS_AT])
        self._hand_on(events.RowsChanged(table, kind, body, codec, self.place, doubt))

    def _partial(self, body: bytes) -> None:
        self.cascades.passed(body[FLAGS_AT])
        if body[:6] in self._open_tables:
            table, _ = self._open_tables[body[:6]]
            self._hidden(
                f"a session changed {table[0]}.{table[1]} with binlog_row_value_options="
                f"PARTIAL_JSON, at {self.file}:{self.offset}",
                "end that session or unset the option",
            )

    def _hidden(self, message: str, remedy: str) -> None:
        """Report rows that are not in the stream; UnreadableChange for an XA transaction."""
        if self._xid:
            raise UnreadableChange(message, hint=f"{remedy}, then start the migration again")
        error = HiddenChange(message, hint=f"{remedy}, {HiddenChange.CARRY_ON}")
        if self.between is None or not self.between.passes(self.place):
            raise error
        self._hand_on(events.Hidden(self.place, error))

    def _payload(self, body: bytes) -> None:
        own = False
        for event in wire.split_payload(body):
            kind = event[4]
            if kind in wire.ROWS and event[19:25] not in self._open_tables:
                self.cascades.passed(event[wire.HEADER_SIZE + FLAGS_AT])
                continue
            if kind == wire.TABLE_MAP and not self._is_followed(event):
                own = own or event[19:25] in self._own_ids
                continue
            self._handle(kind, event[wire.HEADER_SIZE :], event)
        self.own_bytes += len(body) if own else 0

    def _commit(self, _: bytes = b"") -> None:
        cascaded = self.cascades.end()
        self._end_group()
        self._complete(events.Committed(self.place, cascaded))

    def _query(self, body: bytes) -> None:
        text = writes.query_text(body)
        if text == b"BEGIN":
            self.in_group = True
        elif text == b"COMMIT":
            self._commit()
        elif text.startswith(b"XA START "):
            self.in_group = True
            self._xid = text[9:].decode()
        elif text.startswith(b"XA COMMIT "):
            self._decide(text[10:].decode(), commit=True)
        elif text.startswith(b"XA ROLLBACK "):
            self._decide(text[12:].decode(), commit=False)
        elif text.startswith(b"ROLLBACK"):
            self._rolled_back(whole=text == b"ROLLBACK")
        elif not text.startswith(_QUIET_QUERIES):
            self._statement(body)
            if not self.in_group:
                self._commit()

    def _rolled_back(self, *, whole: bool) -> None:
        """Handle a rollback, which is in the binlog only if a MyISAM table was changed too."""
        if self._began:
            self._hidden(
                f"a transaction was rolled back in the binlog at {self.file}:{self.offset} after"
                " rows of the table: it also changed a table without transactions",
                "keep such tables out of transactions with this one",
            )
        if whole:
            self._commit()

    def _xa_prepare(self, body: bytes) -> None:
        one_phase, xid = wire.parse_xa_prepare(body)
        if one_phase:
            self._commit()
            return
        # As XA COMMIT will name it: the event has 32 bits of its format id, which may have 63.
        xid = self._xid or xid
        self._end_group()
        self._complete(events.XaPrepared(self.place, xid))

    def _decide(self, xid: str, *, commit: bool) -> None:
        self._end_group()
        self._complete(events.XaDecided(self.place, xid, commit))

    def _rotate(self, body: bytes) -> None:
        """Note the file of the next events; this event also begins every connection."""
        file, offset = wire.parse_rotate(body)
        moved = (file, offset) != (self.file, self.offset)
        if file != self.file:
            self.created = 0
        # A thread that reads the file, then the offset, gets no place after the stream's.
        self.offset = 0
        self.file = file
        self.offset = offset
        if moved and not self.in_group:
            self._complete(Advanced(Place(file, offset)))

    def _heartbeat(self, kind: int, body: bytes, event: bytes | memoryview) -> None:
        if kind == wire.HEARTBEAT and not self.in_group and body.decode() == self.file:
            self._move(event)
            self._complete(Advanced(Place(self.file, self.offset)))


def binlog_reset(why: str) -> HistoryLost:
    """Return the error for a binlog that is not the one that was read."""
    return HistoryLost(
        f"the server's binlog is not the one that was followed: {why} (RESET BINARY LOGS AND"
        " GTIDS?); changes may be missing in it",
        hint="run the same command again: it starts from the beginning if the new log does"
        " not continue at the old position",
    )
