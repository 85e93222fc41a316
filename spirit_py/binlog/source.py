"""The change feed over the binlog of one MySQL server."""

from __future__ import annotations

import contextlib
import math
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from spirit_py.binlog import wire
from spirit_py.binlog.cascades import Cascades
from spirit_py.binlog.codec.rows import RowCodec
from spirit_py.binlog.codec.tablemap import Collation
from spirit_py.binlog.connection import BinlogConnection, StreamLost
from spirit_py.binlog.parser import BinlogParser, StreamClosed, binlog_reset
from spirit_py.binlog.position import (
    MAX_DUMP_OFFSET,
    FileFrontier,
    FilePlace,
    GtidFrontier,
    GtidSet,
    reach,
)
from spirit_py.binlog.reader import BinlogReader
from spirit_py.binlog.resumption import BetweenRuns, frontier_of, has_reached, reached_at
from spirit_py.binlog.sessions import LentSession, ServerWeights
from spirit_py.binlog.xa import missed, not_decided, recoverable, undecided
from spirit_py.codes import ErrorCode
from spirit_py.contracts import Origin
from spirit_py.errors import BinlogUnreadable, FeedBroken, FeedFailure, FeedSilent, ServerFault
from spirit_py.events.event import Tell, untold
from spirit_py.mysql.connect import another_server, connect
from spirit_py.mysql.facts import ServerLife, look_at
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.kill import end_sessions
from spirit_py.mysql.own_sessions import NUMBERS, own_uuid
from spirit_py.mysql.replication import WITHOUT_FILTER, end_of_binlog, hides_changes, kept_binlog
from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from spirit_py.binlog.codec.tablemap import TableMap
    from spirit_py.binlog.events import Event, Place, Table
    from spirit_py.binlog.position import ServerFrontier
    from spirit_py.binlog.xa import Undecided
    from spirit_py.config import ConnectionOptions, FeedOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.progress import Retention
    from spirit_py.table.keys import ComparableKey
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.weights import KeyWeights

_COLLATIONS: Final = (
    "SELECT ID, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLLATIONS"
)
_NATIVE_KEYS: Final = "SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'"
_GIVE_UP: Final = (
    "; if the followed table may have been changed unlogged since that start, give the migration up"
    " first (spirit-py cleanup)"
)
_PREPARED_POLL: Final = 0.2
_HEARTBEAT: Final = 5.0


class BinlogSource:
    """Implements :class:`spirit_py.binlog.events.Stream` over a MySQL server's binlog.

    One class because that is one interface.
    """

    def __init__(
        self, connection: ConnectionOptions, options: FeedOptions, *, tell: Tell = untold
    ) -> None:
        self._connection, self._options, self._tell = connection, options, tell
        self._closing = threading.Event()
        answer_within = math.ceil(options.wait_timeout) + 1
        # Proofs wait while commits stall, so they have a session of their own.
        self._control, self._proofs = (
            LentSession(connection, role=role, read_timeout=answer_within)
            for role in ("feed-control", "feed-proof")
        )
        self._weights = ServerWeights(connection, read_timeout=answer_within)
        self._replica_uuid = str(uuid.uuid4())
        self._reader: BinlogReader | None = None
        #: The dump that :meth:`close` has ended.
        self._ended: BinlogConnection | None = None
        self._between: BetweenRuns | None = None
        #: What was committed, and visible, when the wait for prepared transactions was over.
        self._decided: ServerFrontier | None = None
        self._proof_table = f"_spirit_py_{uuid.uuid4().hex}"
        self._schema = ""
        #: Identifiers of this run's own writes, which are not to be sent.
        self._own: set[str] = set()
        with self._control.lend() as session:
            seen = look_at(session)
            row = session.query("SELECT @@GLOBAL.gtid_mode, @@GLOBAL.lower_case_table_names")[0]
            self._native_keys = session.query(_NATIVE_KEYS)
            #: The server's collations by number.
            self.collations = {
                int(number): Collation(str(charset), str(name))
                for number, charset, name in session.query(_COLLATIONS)
            }
        self._server_uuid = seen.server_uuid
        self._life = ServerLife(seen.started, seen.relaxed)
        self.has_gtids = row[0] == "ON"
        self.ignore_case = row[1] != 0
        self.knows_all_prepared = True

    # -- the start

    def begin(self, mappings: Sequence[TableMapping]) -> ServerFrontier:
        """Choose a place that cannot miss a commit (R2), wait for older XA transactions, open."""
        start: ServerFrontier
        self._schema = mappings[0].source.schema
        if self.has_gtids:
            start = self.executed()
        else:
            start = FileFrontier(self._server_uuid, self._end_of_binlog())
            # What is before that place, and not visible yet, is in no event that will come.
            self.prove_visible("")
        self._wait_for_undecided()
        if not self.knows_all_prepared:
            decided = self.executed()
            if not self.has_gtids:
                self.prove_visible("")
            self._decided = decided
        return self._open(mappings, start)

    def _end_of_binlog(self) -> FilePlace:
        with self._control.lend() as session:
            end = self._end(session)
            if end.offset > MAX_DUMP_OFFSET:
                session.execute("FLUSH BINARY LOGS")
                end = self._end(session)
        return end

    def resume(
        self,
        mappings: Sequence[TableMapping],
        position: str,
        settled: str = "",
        *,
        pass_hidden: bool = False,
    ) -> ServerFrontier:
        """Open the stream after a position of an earlier run; see the protocol."""
        with self._control.lend() as session:
            start = frontier_of(
                session, position, address=self._connection.address, whole=not mappings
            )
            self.knows_all_prepared = recoverable(session) is not None
        if mappings:
            self._between = BetweenRuns(
                [(m.target.schema, m.target.name) for m in mappings],
                behind=reached_at(settled) or start.copy(),
                until=self.executed(),
                passing=pass_hidden,
            )
        return self._open(mappings, start)

    @property
    def written_by_others(self) -> AbstractSet[Table]:
        """The new tables that were written to between the runs."""
        return self._between.written_by_others if self._between else frozenset()

    def passes(self, place: Place) -> bool:
        """Return whether a change that cannot be read may be passed over; see the protocol."""
        return self._between is not None and self._between.passes(place)

    def _wait_for_undecided(self) -> None:
        """Wait until the XA transactions that are prepared now are decided (R8).

        Their rows are before the start; once they are decided, every chunk sees them. There is no
        limit while one after the other is decided.
        """
        deadline = 0.0
        waiting: set[Undecided] | None = None
        while waiting is None or waiting:
            with self._control.lend() as session:
                found, self.knows_all_prepared = undecided(session)
            left = found if waiting is None else waiting & found
            if waiting is None or len(left) < len(waiting):
                deadline = time.monotonic() + self._options.wait_timeout
            waiting = left
            if waiting and (time.monotonic() > deadline or self._closing.wait(_PREPARED_POLL)):
                raise not_decided(waiting, known=self.knows_all_prepared)

    def unknown_decision(self, xid: str, place: Place) -> FeedFailure | None:
        """Return the error for an XA COMMIT of what was never seen prepared; see the protocol.

        One that was committed while older transactions were waited for is read by every chunk.
        """
        if self.knows_all_prepared:
            return None
        if self._decided is not None and has_reached(self._decided, place):
            return None
        return missed(xid, resumed=self._between is not None)

    def _open(self, mappings: Sequence[TableMapping], start: ServerFrontier) -> ServerFrontier:
        self._schema = mappings[0].source.schema if mappings else ""
        if self._options.own_writes and self.has_gtids:
            tables = ((m.source.schema, m.source.name) for m in mappings)
            self._own = {own_uuid(self._options.own_writes, *table) for table in tables}
        parser = self._parser(mappings, start)
        parser.between = self._between
        parser.cascades = Cascades.into(m.source for m in mappings)
        self._reader = BinlogReader(
            connect=lambda: self._dump(parser.complete), parser=parser, stop=self._closing
        )
        self._reader.losses.tell = self._tell
        try:
            self._reader.open()
        except StreamLost as error:
            raise BinlogUnreadable(
                f"the binlog cannot be read: {error}", hint="see the server's error log"
            ) from error
        return start

    def _parser(self, mappings: Sequence[TableMapping], start: ServerFrontier) -> BinlogParser:
        """Make the parser; a stream that follows tables without mappings makes its own."""
        by_name = {(m.source.schema, m.source.name): m for m in mappings}

        def compile_codec(found: TableMap) -> RowCodec:
            return RowCodec.compile(found, by_name[found.schema, found.table])

        followed = {wire.name_key(*table): table for table in by_name}
        own = [wire.name_key(m.target.schema, m.target.name) for m in mappings]
        return BinlogParser(compile_codec, start, followed, own=own, collations=self.collations)

    def _dump(self, after: object) -> BinlogConnection:
        """Open a dump after the last transaction that was received completely."""
        gtids = after.gtids.copy() if isinstance(after, GtidFrontier) else None
        if gtids is not None:
            for tsid in self._own:
                gtids.add_range(tsid, 1, NUMBERS)
        place = after.resumable if isinstance(after, FileFrontier) else None
        self._authenticate()
        return BinlogConnection(
            self._connection,
            gtids=gtids,
            place=place,
            server_uuid=self._server_uuid,
            replica_uuid=self._replica_uuid,
            heartbeat=min(_HEARTBEAT, self._options.wait_timeout / 3),
            silence=self._options.wait_timeout,
        )

    def _authenticate(self) -> None:
        """Log in with mysqlclient, so that the server caches the password's digest.

        The cache is emptied at a restart and at FLUSH PRIVILEGES, and PyMySQL without TLS can only
        log in while the digest is cached. A server that was restarted may hide changes now.
        """
        try:
            with connect(self._connection, role="feed-login") as session:
                self._look(session)
                if session.query(_NATIVE_KEYS) != self._native_keys:
                    raise FeedFailure(
                        "the server was restarted with another innodb_native_foreign_keys: what"
                        " foreign keys do may be in no event",
                        hint="restart it as it was, then run again" + _GIVE_UP,
                        error_code=ErrorCode.SERVER_SETTINGS,
                    )
        except ServerFault as fault:
            if disposition(fault) is Disposition.FATAL:
                raise
            raise StreamLost(fault.message) from fault

    # -- while it runs

    def run(self, emit: Callable[[Event], bool], heard: Callable[[], None]) -> None:
        """Emit events until closed."""
        reader = self._opened()
        reader.parser.emit = emit
        try:
            with contextlib.suppress(StreamClosed):
                reader.run(heard)
            if reader.connection is not None and reader.connection is not self._ended:
                # Opened while close() looked: the server would notice only when it next sends.
                end_sessions(self._connection, [reader.connection.id])
        finally:
            # Also after a fault, and where the end came between two reads.
            if reader.connection is not None:
                reader.connection.close()

    def _opened(self) -> BinlogReader:
        if self._reader is None:
            raise FeedBroken("the stream was not opened", hint="this is a bug: report it")
        return self._reader

    def executed(self, session: SqlSession | None = None) -> ServerFrontier:
        """Ask for everything that is committed and visible now.

        Without GTIDs: the end of the binlog, because every visible commit is before it. Our own
        writes that are not sent are left out.
        """
        if session is not None:
            return self._sent(self._executed_in(session))
        with self._asking(self._control, "what it has executed") as own:
            return self._sent(self._executed_in(own))

    def _sent(self, found: ServerFrontier) -> ServerFrontier:
        """Leave out our own writes, which are not sent."""
        if isinstance(found, GtidFrontier) and self._own:
            found.gtids = found.gtids.only(lambda tsid: tsid not in self._own)
        return found

    def _executed_in(self, session: SqlSession) -> ServerFrontier:
        """Ask one session for what is executed; the server must be as it was (:meth:`_look`)."""
        gtids, end = self._look(session)
        if self.has_gtids:
            return GtidFrontier(self._server_uuid, GtidSet.parse(gtids))
        return FileFrontier(self._server_uuid, end)

    def _look(self, session: SqlSession) -> tuple[str, FilePlace]:
        """Return the executed GTIDs and the end of the binlog: both of the log that is followed.

        Raises:
            AnotherServer: it is not the server that is followed.
            HistoryLost: it may have lost commits, or its log is off, or is another one.
        """
        read_to = self._read_to()
        seen = look_at(session)
        if seen.server_uuid != self._server_uuid:
            address, found = self._connection.address, seen.server_uuid
            raise another_server(address, found=found, wanted=self._server_uuid)
        self._life.go_on(seen)
        end = self._end(session)
        if read_to is not None and not end.reaches(read_to):
            raise binlog_reset(f"{read_to} is read, and it ends at {end}")
        return seen.executed, end

    def _read_to(self) -> FilePlace | None:
        """Return the place up to which the stream is read, or one before; None at its start."""
        parser = self._reader.parser if self._reader is not None else None
        if parser is None or not (file := parser.file):
            return None
        return FilePlace(file, parser.offset)

    def has_executed(self, received: Any, session: SqlSession) -> bool:
        """Return whether everything that was received is executed; see the protocol."""
        return self._executed_in(session).reaches(received)

    def look(self) -> None:
        """Look whether the server, and its log, are as they were; see the protocol."""
        with contextlib.suppress(FeedSilent), self._asking(self._control, "that it lives") as own:
            self._look(own)

    @property
    def origin(self) -> Origin:
        """What the position is of; see the protocol."""
        started = self._life.started
        if self._reader is None:
            return Origin(started)
        parser = self._reader.parser
        created, file = parser.created, parser.file
        # The reader may have gone to the next file in between.
        known = created and created == parser.created
        return Origin(started, file, created) if known else Origin(started)

    def position_here(self, session: SqlSession) -> str:
        """Return the position after everything that a session finds executed.

        Empty without GTIDs beyond 4 GiB of one file, where no dump can begin.
        """
        return self._executed_in(session).text()

    def prove_visible(self, gtids: str) -> None:
        """Wait for the transactions; without GTIDs commit something through the binlog.

        Our own commit becomes visible after all commits before it in the binlog.
        """
        if self.has_gtids and not gtids:
            return
        visible = False
        with self._asking(self._proofs, "whether commits are visible") as session:
            if self.has_gtids:
                call = "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)"
                seconds = max(1, int(self._options.wait_timeout))
                visible = session.value(call, (gtids, seconds)) == 0
            else:
                table = quote_table(self._schema, self._proof_table)
                session.execute(f"DROP TABLE IF EXISTS {table}")
                visible = True
        if not visible:
            raise FeedFailure(
                "transactions in the binlog did not become visible within"
                f" {self._options.wait_timeout:.0f} s: {gtids}",
                hint="see whether commits wait for a semi-synchronous replica; run again",
                error_code=ErrorCode.COMMITS_STALLED,
            )

    def weigh(
        self, weights: KeyWeights, keys: Sequence[tuple[Any, ...]]
    ) -> Sequence[ComparableKey]:
        """Return the comparable forms of keys; see the protocol."""
        return self._weights.weigh(weights, keys)

    def retention(self) -> Retention | None:
        """Ask how far the binlog reaches from the event that was read last."""
        with self._asking(self._control, "how long it keeps its binlog") as session:
            return reach(self._opened().parser.place, *kept_binlog(session))

    @property
    def reconnects(self) -> int:
        """How often the stream was opened again."""
        return self._reader.reconnects if self._reader else 0

    @property
    def traffic(self) -> tuple[int, int, int]:
        """Bytes received, those of them passed over as not followed, and of these our own."""
        if self._reader is None:
            return 0, 0, 0
        parser = self._reader.parser
        return parser.received_bytes, parser.skipped_bytes, parser.own_bytes

    @property
    def trouble(self) -> str:
        """Why the stream is not open now."""
        return self._reader.trouble if self._reader else ""

    def close(self) -> None:
        """End ``run``, the dump on the server and our sessions, whatever they wait for."""
        self._closing.set()
        connection = self._reader.connection if self._reader else None
        left = [lent.end() for lent in (self._proofs, self._control, self._weights)]
        if connection is not None:
            # Without KILL the server would notice only when it next sends something.
            left.append(connection.id)
            self._ended = connection
            connection.interrupt()
        end_sessions(self._connection, [number for number in left if number])

    # -- questions

    @contextlib.contextmanager
    def _asking(self, lent: LentSession, question: str) -> Iterator[Session]:
        """Lend a session for a question that a live server answers."""
        try:
            with lent.lend() as session:
                yield session
        except ServerFault as fault:
            if disposition(fault) is Disposition.FATAL:
                raise
            raise FeedSilent(
                f"the server at {self._connection.address} does not say {question}: {fault.text}",
                hint="see whether the server is up, and whether its commits wait for a"
                " semi-synchronous replica; run the same command again",
            ) from fault

    @staticmethod
    def _end(session: SqlSession) -> FilePlace:
        """Return where the binlog ends, which must be written, and hide nothing."""
        end = end_of_binlog(session)
        if end.filtered:
            raise FeedFailure(
                hides_changes(end.filtered),
                hint=WITHOUT_FILTER + _GIVE_UP,
                error_code=ErrorCode.BINLOG_FILTERED,
            )
        return FilePlace(end.file, end.offset)
