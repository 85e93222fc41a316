"""The parser of the binlog's events: framing, skipping, positions, and what it refuses."""

from __future__ import annotations

import uuid
import zlib
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from spirit_py.binlog import wire
from spirit_py.binlog.connection import StreamLost
from spirit_py.binlog.events import (
    Advanced,
    Began,
    Committed,
    Doubt,
    Restarted,
    RowsChanged,
    StatementSeen,
    XaDecided,
    XaPrepared,
)
from spirit_py.binlog.parser import BinlogParser
from spirit_py.binlog.position import FileFrontier, FilePlace, GtidFrontier, GtidSet
from spirit_py.binlog.resumption import BetweenRuns
from spirit_py.errors import FeedFailure, HistoryLost, UnreadableChange

if TYPE_CHECKING:
    from spirit_py.binlog.events import Event

UUID = "16e8969d-e4d3-11f1-b00c-02fc00000001"
OURS, OTHER = b"\x01\0\0\0\0\0", b"\x02\0\0\0\0\0"
CODEC: Any = object()


class Binlog:
    """Builds events with headers and checksums, and feeds them to a parser."""

    def __init__(self, *, checksums: bool = True, gtids: bool = True) -> None:
        start = (
            GtidFrontier(UUID, GtidSet.parse(f"{UUID}:1-5"))
            if gtids
            else FileFrontier(UUID, FilePlace("b.000001", 4))
        )
        self.compiled, self.time = 0, 1000
        own = [wire.name_key("s", "_t_new")]
        followed = {wire.name_key("s", "t"): ("s", "t")}
        self.parser = BinlogParser(self._compile, start, followed, own=own)
        self.events: list[Event] = []
        self.parser.emit = self._emit
        self.checksums = checksums
        self.end = 4
        self.rotate("b.000001", 4)
        self.send(wire.FORMAT_DESCRIPTION, b"\0" * 76 + bytes([checksums]), describes=True)

    def _compile(self, _: Any) -> Any:
        self.compiled += 1
        return CODEC

    def _emit(self, event: Event) -> bool:
        self.events.append(event)
        return True

    def event(self, kind: int, body: bytes, *, end: int, checksum: bool) -> bytes:
        """Build one event."""
        size = wire.HEADER_SIZE + len(body) + 4 * checksum
        event = wire.HEADER.pack(self.time, kind, 1, size, end & 0xFFFFFFFF, 0) + body
        return event + zlib.crc32(event).to_bytes(4, "little") if checksum else event

    def send(self, kind: int, body: bytes = b"", *, describes: bool = False) -> None:
        """Feed one event that is in the file."""
        checksum = self.checksums or describes
        self.end += wire.HEADER_SIZE + len(body) + 4 * checksum
        self.parser.feed(self.event(kind, body, end=self.end, checksum=checksum))

    def rotate(self, file: str, offset: int) -> None:
        """Feed the event that names the file."""
        body = offset.to_bytes(8, "little") + file.encode()
        self.parser.feed(self.event(wire.ROTATE, body, end=0, checksum=self.checksums))
        self.end = offset

    def gtid(self, number: int) -> None:
        """Feed the beginning of a transaction."""
        self.send(wire.GTID, b"\0" + uuid.UUID(UUID).bytes + number.to_bytes(8, "little") + b"\2")

    def query(self, sql: str, schema: str = "s", session: int = 9) -> None:
        """Feed a statement."""
        name = schema.encode()
        head = session.to_bytes(4, "little") + bytes(4) + bytes([len(name)]) + bytes(4)
        self.send(wire.QUERY, head + name + b"\0" + sql.encode())

    def table(self, table_id: bytes = OURS, name: str = "t") -> None:
        """Feed a table map: one INT column."""
        body = table_id + b"\1\0" + wire.name_key("s", name) + b"\x01\x03\x00\x00"
        self.send(wire.TABLE_MAP, body)

    def rows(
        self, table_id: bytes = OURS, kind: int = wire.WRITE_ROWS, flags: bytes = b"\1"
    ) -> None:
        """Feed a rows event."""
        self.send(kind, table_id + flags + b"\0\2\0\1\xff\0\1\0\0\0")

    def transaction(self, number: int, table_id: bytes = OURS, name: str = "t") -> None:
        """Feed a whole transaction."""
        self.gtid(number)
        self.query("BEGIN")
        self.table(table_id, name)
        self.rows(table_id)
        self.send(wire.XID, bytes(8))

    def taken(self) -> list[str]:
        """Return the kinds of events so far, and forget them."""
        kinds = [type(event).__name__ for event in self.events]
        self.events.clear()
        return kinds


@pytest.fixture
def binlog() -> Binlog:
    """Return a binlog whose first file has begun."""
    made = Binlog()
    made.taken()
    return made


def test_a_transaction_of_the_table_is_parsed_with_gtid_and_place(binlog: Binlog) -> None:
    """Begin, rows, commit, with GTID and place; the map is compiled once."""
    for number in (6, 7):
        binlog.transaction(number)
        began, rows, committed = binlog.events
        assert isinstance(began, Began)
        assert isinstance(rows, RowsChanged)
        assert isinstance(committed, Committed)
        assert began.place.gtid == f"{UUID}:{number}"
        assert rows.codec is CODEC
        assert rows.body[:6] == OURS
        assert committed.place.offset == binlog.end
        assert committed.place.executed_at == 1000
        binlog.events.clear()
    assert binlog.compiled == 1
    assert binlog.parser.complete.text().endswith(f"{UUID}:1-7")


def test_other_tables_are_skipped(binlog: Binlog) -> None:
    """Only the end of their transactions is told."""
    binlog.transaction(6, OTHER, "_t_new")
    assert binlog.taken() == ["Committed"]
    assert binlog.compiled == 0


def test_own_writes_are_told_from_those_of_others(binlog: Binlog) -> None:
    """Of what is skipped, the new table's rows and maps count as ours; an id may change hands."""
    binlog.transaction(6, OTHER, "_t_new")
    own = binlog.parser.own_bytes
    assert 0 < own == binlog.parser.skipped_bytes
    binlog.transaction(7, OTHER, "other")
    assert binlog.parser.own_bytes == own < binlog.parser.skipped_bytes
    binlog.transaction(8, OTHER, "_t_new")
    assert binlog.parser.own_bytes == 2 * own
    assert binlog.compiled == 0


def test_a_table_id_that_is_used_again_is_not_mistaken(binlog: Binlog) -> None:
    """Ids are the server's memory: after a restart one may stand for another table."""
    binlog.transaction(6)
    binlog.taken()
    binlog.transaction(7, OURS, "other")
    assert binlog.taken() == ["Committed"]


def test_the_ids_of_tables_that_the_server_reopens_are_not_kept_for_ever(binlog: Binlog) -> None:
    """Each reopening (FLUSH TABLES, a full table cache) gives a table another id."""
    for number in range(6, 506):
        binlog.transaction(number, number.to_bytes(6, "little"))
        binlog.transaction(number + 500, (number + 500).to_bytes(6, "little"), "_t_new")
    kept = binlog.parser._open_tables, binlog.parser._own_ids
    assert sum(map(len, kept)) <= 1
    assert binlog.taken().count("RowsChanged") == 500


@pytest.mark.parametrize("checksums", [True, False])
def test_checksums_are_cut_off_where_there_are_any(checksums: bool) -> None:
    """The file's own format description says it."""
    binlog = Binlog(checksums=checksums)
    binlog.taken()
    binlog.transaction(6)
    rows = binlog.events[1]
    assert isinstance(rows, RowsChanged)
    assert rows.body.endswith(b"\1\0\0\0")


def test_a_damaged_event_ends_the_connection(binlog: Binlog) -> None:
    """It is asked for again; a wrong row is never applied."""
    binlog.gtid(6)
    binlog.query("BEGIN")
    binlog.table()
    event = bytearray(binlog.event(wire.WRITE_ROWS, OURS + b"1234567", end=999, checksum=True))
    event[30] ^= 1
    with pytest.raises(StreamLost, match="checksum"):
        binlog.parser.feed(bytes(event))


def test_a_new_connection_begins_at_a_transaction(binlog: Binlog) -> None:
    """What was received of one in part is announced to come again."""
    binlog.gtid(6)
    binlog.query("BEGIN")
    binlog.table()
    binlog.rows()
    binlog.parser.reopened()
    assert binlog.taken() == ["Began", "RowsChanged", "Restarted"]
    assert binlog.parser.complete.text().endswith(f"{UUID}:1-5")
    binlog.transaction(6)
    assert binlog.taken() == ["Began", "RowsChanged", "Committed"]


def test_a_transaction_that_the_file_cut_off_is_forgotten(binlog: Binlog) -> None:
    """After a crash the next file begins behind a transaction that never committed."""
    binlog.gtid(6)
    binlog.query("BEGIN")
    binlog.table()
    binlog.rows()
    binlog.taken()
    binlog.send(wire.FORMAT_DESCRIPTION, b"\0" * 76 + b"\1", describes=True)
    assert binlog.taken() == ["Restarted"]


def test_a_file_of_the_same_name_from_another_time_is_of_another_log(binlog: Binlog) -> None:
    """R25: a new connection begins at a place that means something else since RESET BINARY LOGS."""
    described = b"\0" * 76 + b"\1"
    binlog.rotate("b.000001", 900)
    binlog.send(wire.FORMAT_DESCRIPTION, described, describes=True)
    binlog.time = 2000
    binlog.rotate("b.000002", 4)
    binlog.send(wire.FORMAT_DESCRIPTION, described, describes=True)
    assert (binlog.parser.file, binlog.parser.created) == ("b.000002", 2000)
    binlog.time = 3000
    binlog.rotate("b.000002", 4)
    with pytest.raises(HistoryLost, match=r"another b\.000002 is there"):
        binlog.send(wire.FORMAT_DESCRIPTION, described, describes=True)


def test_ddl_is_a_transaction_of_its_own(binlog: Binlog) -> None:
    """The statement comes with its schema and session, then the commit."""
    binlog.gtid(6)
    binlog.query("ALTER TABLE t ADD x INT", session=42)
    statement, committed = binlog.events
    assert isinstance(statement, StatementSeen)
    assert (statement.sql, statement.schema, statement.session_id) == (
        "ALTER TABLE t ADD x INT",
        "s",
        42,
    )
    assert isinstance(committed, Committed)


def test_a_statement_inside_a_transaction_does_not_end_it(binlog: Binlog) -> None:
    """STATEMENT format, and the CREATE of an atomic CREATE TABLE ... SELECT."""
    binlog.gtid(6)
    binlog.query("BEGIN")
    binlog.query("SAVEPOINT `a`")
    binlog.query("INSERT INTO t VALUES (1)")
    binlog.query("ROLLBACK TO `a`")
    binlog.query("COMMIT")
    assert binlog.taken() == ["StatementSeen", "Committed"]


@pytest.mark.parametrize("number", [7, 7 + (1 << 32)])
def test_an_xa_transaction_is_prepared_and_decided_under_one_name(
    binlog: Binlog, number: int
) -> None:
    """Prepared with its rows, decided later; the event has 32 bits of the format id."""
    xid = f"X'6731',X'62',{number}"
    binlog.gtid(6)
    binlog.query(f"XA START {xid}")
    binlog.table()
    binlog.rows()
    binlog.query(f"XA END {xid}")
    form, sizes = (7).to_bytes(4, "little"), b"\2\0\0\0\1\0\0\0"
    binlog.send(wire.XA_PREPARE, b"\0" + form + sizes + b"g1b")
    began, _, prepared = binlog.events
    assert isinstance(began, Began)
    assert isinstance(prepared, XaPrepared)
    assert began.xid == prepared.xid == xid
    binlog.events.clear()
    binlog.gtid(7)
    binlog.query(f"XA ROLLBACK {xid}")
    (decided,) = binlog.events
    assert isinstance(decided, XaDecided)
    assert (decided.xid, decided.commit) == (xid, False)


def test_a_rollback_behind_rows_is_refused(binlog: Binlog) -> None:
    """Only with a table without transactions; the rows may be applied already."""
    binlog.gtid(6)
    binlog.query("BEGIN")
    binlog.table()
    binlog.rows()
    with pytest.raises(UnreadableChange, match="rolled back"):
        binlog.query("ROLLBACK")


def test_partial_json_is_refused_for_our_table_only(binlog: Binlog) -> None:
    """R13: the image is not whole."""
    binlog.gtid(6)
    binlog.query("BEGIN")
    binlog.table(OTHER, "other")
    binlog.rows(OTHER, wire.PARTIAL_UPDATE_ROWS)
    binlog.table()
    with pytest.raises(UnreadableChange, match="PARTIAL_JSON"):
        binlog.rows(OURS, wire.PARTIAL_UPDATE_ROWS)


@pytest.mark.parametrize("own", [True, False])
def test_a_compressed_transaction_is_read_event_by_event(binlog: Binlog, own: bool) -> None:
    """Its events come as if they had been sent one by one; other tables' are skipped."""
    inner = Binlog(checksums=False)
    packed: list[bytes] = []
    inner.parser.feed = packed.append  # type: ignore[assignment, method-assign]
    inner.query("BEGIN")
    inner.table(OTHER, "_t_new" if own else "other")
    inner.rows(OTHER)
    inner.table()
    inner.rows()
    inner.send(wire.XID, bytes(8))
    joined = b"".join(packed)
    size = b"\x03\x03\xfc" + len(joined).to_bytes(2, "little")
    body = b"\x02\x01\x00" + size + b"\x00" + zstandard.compress(joined)
    binlog.gtid(6)
    binlog.send(wire.TRANSACTION_PAYLOAD, body)
    assert binlog.taken() == ["Began", "RowsChanged", "Committed"]
    assert binlog.parser.complete.text().endswith(f"{UUID}:1-6")
    assert binlog.parser.own_bytes == (len(body) if own else 0)


def test_lost_events_are_a_failure(binlog: Binlog) -> None:
    """The server says by an incident that its binlog is not complete."""
    with pytest.raises(FeedFailure, match="lost events"):
        binlog.send(wire.INCIDENT, b"\1\0")


def test_offsets_go_beyond_4_gib() -> None:
    """The header has 32 bits; the file's transaction may be larger."""
    binlog = Binlog(gtids=False)
    binlog.end = 2**32 - 100
    binlog.send(wire.ANONYMOUS_GTID, b"\0" * 20)
    binlog.query("BEGIN")
    binlog.table()
    binlog.rows()
    binlog.send(wire.XID, bytes(8))
    assert binlog.parser.offset == binlog.end > 2**32
    assert binlog.parser.complete.text() == f"file;{UUID};b.000001;4"
    binlog.rotate("b.000002", 4)
    assert binlog.parser.complete.text() == f"file;{UUID};b.000002;4"


def test_heartbeats_advance_a_quiet_stream() -> None:
    """The place moves without a transaction, but never inside one."""
    binlog = Binlog(gtids=False)
    binlog.taken()
    heartbeat = binlog.event(wire.HEARTBEAT, b"b.000001", end=5000, checksum=True)
    binlog.parser.feed(heartbeat)
    (advanced,) = binlog.events
    assert isinstance(advanced, Advanced)
    assert advanced.place.offset == 5000
    binlog.events.clear()
    binlog.end = 5000
    binlog.send(wire.ANONYMOUS_GTID, b"\0" * 20)
    binlog.query("BEGIN")
    binlog.parser.feed(heartbeat)
    assert binlog.events == []


def test_the_same_place_named_again_is_no_progress(binlog: Binlog) -> None:
    """Every connection begins with the file's name."""
    binlog.transaction(6)
    binlog.taken()
    binlog.rotate("b.000001", binlog.end)
    assert binlog.taken() == []


def test_restarted_is_told_when_a_transaction_was_left_open(binlog: Binlog) -> None:
    """A second beginning without an end between them."""
    binlog.gtid(6)
    binlog.query("BEGIN")
    binlog.table()
    binlog.rows()
    binlog.gtid(7)
    assert isinstance(binlog.events[-1], Restarted)


def test_what_is_passed_over_of_a_new_table_is_told(binlog: Binlog) -> None:
    """Rows and statements between two runs, undecoded; a followed table's are not meant."""
    behind, until = (GtidFrontier(UUID, GtidSet.parse(f"{UUID}:1-{n}")) for n in (6, 9))
    binlog.parser.between = BetweenRuns([("s", "_t_new")], behind=behind, until=until)
    binlog.transaction(6, OTHER, "_t_new")
    binlog.transaction(7)
    assert not binlog.parser.between.written_by_others
    binlog.transaction(8, OTHER, "_t_new")
    assert binlog.parser.between.written_by_others == {("s", "_t_new")}
    binlog.parser.between.written_by_others.clear()
    binlog.gtid(9)
    binlog.query("TRUNCATE TABLE _t_new")
    assert binlog.parser.between.written_by_others == {("s", "_t_new")}


@pytest.mark.parametrize(
    ("compressed", "kind"),
    [
        (False, wire.DELETE_ROWS),
        (True, wire.DELETE_ROWS),
        (False, wire.PARTIAL_UPDATE_ROWS),
        (True, wire.PARTIAL_UPDATE_ROWS),
    ],
)
def test_the_commit_says_whether_a_cascade_was_in_the_transaction(
    binlog: Binlog, compressed: bool, kind: int
) -> None:
    """Also one of a table that is not followed: followed rows may be rolled back with it."""
    inner = Binlog(checksums=False)
    events: list[bytes] = []
    inner.parser.feed = events.append  # type: ignore[assignment, method-assign]
    inner.query("BEGIN")
    inner.table()
    inner.table(OTHER, "child")
    inner.rows(OTHER, kind, flags=b"\x12")
    inner.rows(flags=b"\x11")
    inner.send(wire.XID, bytes(8))
    binlog.gtid(6)
    if compressed:
        packed = zstandard.compress(b"".join(events))
        binlog.send(wire.TRANSACTION_PAYLOAD, b"\x02\x01\x00\x00" + packed)
    else:
        for event in events:
            binlog.send(event[4], event[wire.HEADER_SIZE :])
    (rows,) = (event for event in binlog.events if isinstance(event, RowsChanged))
    (end,) = (event for event in binlog.events if isinstance(event, Committed))
    assert rows.doubt is Doubt.BESIDE
    assert end.cascaded
    binlog.events.clear()
    binlog.transaction(7)
    (after,) = (event for event in binlog.events if isinstance(event, Committed))
    assert not after.cascaded
