"""The change feed over the binlog of one MySQL server."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from typing import TYPE_CHECKING, Final

from spirit_py.binlog import wire
from spirit_py.binlog.cascades import Cascades
from spirit_py.binlog.codec.rows import RowCodec
from spirit_py.binlog.connection import BinlogConnection, StreamLost
from spirit_py.binlog.parser import BinlogParser, StreamClosed
from spirit_py.binlog.position import MAX_DUMP_OFFSET, FileFrontier, FilePlace, GtidFrontier
from spirit_py.binlog.reader import BinlogReader
from spirit_py.binlog.resumption import BetweenRuns, frontier_of, has_reached, reached_at
from spirit_py.binlog.sessions import GIVE_UP, NATIVE_KEYS, FollowedServer
from spirit_py.binlog.xa import missed, not_decided, recoverable, undecided
from spirit_py.codes import ErrorCode
from spirit_py.errors import BinlogUnreadable, FeedFailure, ServerFault
from spirit_py.events.event import Tell, untold
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.mysql.kill import end_sessions
from spirit_py.mysql.own_sessions import NUMBERS, own_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from spirit_py.binlog.codec.tablemap import TableMap
    from spirit_py.binlog.events import Event, Place, Table
    from spirit_py.binlog.position import ServerFrontier
    from spirit_py.binlog.xa import Undecided
    from spirit_py.config import ConnectionOptions, FeedOptions
    from spirit_py.table.mapping import TableMapping

_PREPARED_POLL: Final = 0.2
_HEARTBEAT: Final = 5.0


class BinlogSource(FollowedServer):
    """Implements :class:`.events.Stream` for MySQL. One class because that is one interface."""

    def __init__(
        self, connection: ConnectionOptions, options: FeedOptions, *, tell: Tell = untold
    ) -> None:
        super().__init__(connection, options)
        self._tell = tell
        self._closing = threading.Event()
        self._replica_uuid = str(uuid.uuid4())
        self._ended: BinlogConnection | None = None
        self._between: BetweenRuns | None = None
        #: What was committed, and visible, when the wait for prepared transactions was over.
        self._decided: ServerFrontier | None = None
        self.knows_all_prepared = True

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
            address = self._connection.address
            start = frontier_of(session, position, address=address, whole=not mappings)
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
        """Wait for what is prepared now (R8), for as long as one after the other is decided."""
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
        """Return the error for an XA COMMIT without its prepare, or None; see the protocol."""
        before = self._decided is not None and has_reached(self._decided, place)
        known = self.knows_all_prepared or before
        return None if known else missed(xid, resumed=self._between is not None)

    def _open(self, mappings: Sequence[TableMapping], start: ServerFrontier) -> ServerFrontier:
        self._schema = mappings[0].source.schema if mappings else ""
        if self._options.own_writes and self.has_gtids:
            tables = ((m.source.schema, m.source.name) for m in mappings)
            self._own = {own_uuid(self._options.own_writes, *table) for table in tables}
        parser = self._parser(mappings, start)
        parser.between = self._between
        if mappings:
            parser.cascades = Cascades.into(m.source for m in mappings)
        self._reader = BinlogReader(
            connect=lambda: self._dump(parser.complete), parser=parser, stop=self._closing
        )
        self._reader.losses.tell = self._tell
        try:
            self._reader.open()
        except StreamLost as error:
            hint = "see the server's error log"
            raise BinlogUnreadable(f"the binlog cannot be read: {error}", hint=hint) from error
        return start

    def _parser(self, mappings: Sequence[TableMapping], start: ServerFrontier) -> BinlogParser:
        by_name = {(m.source.schema, m.source.name): m for m in mappings}

        def compile_codec(found: TableMap) -> RowCodec:
            return RowCodec.compile(found, by_name[found.schema, found.table])

        followed = {wire.name_key(*table): table for table in by_name}
        own = [wire.name_key(m.target.schema, m.target.name) for m in mappings]
        return BinlogParser(compile_codec, start, followed, own=own, collations=self.collations)

    def _dump(self, after: object) -> BinlogConnection:
        self._authenticate()
        gtids = after.gtids.copy() if isinstance(after, GtidFrontier) else None
        if gtids is not None:
            if self.unlogged is not None:
                gtids.update(self.unlogged.gtids)
            for tsid in self._own:
                gtids.add_range(tsid, 1, NUMBERS)
        place = after.resumable if isinstance(after, FileFrontier) else None
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
        """Have the server cache the password's digest, for PyMySQL without TLS; look at it, too."""
        try:
            with connect(self._connection, role="feed-login") as session:
                self._look(session)
                if session.query(NATIVE_KEYS) != self._native_keys:
                    raise FeedFailure(
                        "the server was restarted with another innodb_native_foreign_keys: changes"
                        " by foreign keys may be missing in the binlog",
                        hint="restart it with the former value, then run again" + GIVE_UP,
                        error_code=ErrorCode.SERVER_SETTINGS,
                    )
        except ServerFault as fault:
            if disposition(fault) is Disposition.FATAL:
                raise
            raise StreamLost(fault.message) from fault

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
