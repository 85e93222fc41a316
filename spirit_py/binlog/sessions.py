"""What a stream asks its server, over sessions of its own: one for questions, one for weights."""

from __future__ import annotations

import contextlib
import math
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spirit_py.binlog.codec.tablemap import Collation
from spirit_py.binlog.parser import binlog_reset
from spirit_py.binlog.position import FileFrontier, FilePlace, GtidFrontier, GtidSet, reach
from spirit_py.codes import ErrorCode
from spirit_py.contracts import Origin
from spirit_py.errors import FeedBroken, FeedFailure, FeedSilent, HistoryLost, ServerFault
from spirit_py.events.event import Tell, untold
from spirit_py.events.run import Warned
from spirit_py.mysql.connect import another_server, connect
from spirit_py.mysql.facts import ServerLife, look_at
from spirit_py.mysql.faults import (
    LOCK_WAIT_TIMEOUT,
    Disposition,
    connection_lost,
    disposition,
)
from spirit_py.mysql.replication import (
    WITHOUT_FILTER,
    binlog_files,
    end_of_binlog,
    hides_changes,
    kept_binlog,
)
from spirit_py.mysql.retry import retrying
from spirit_py.mysql.session import CuttableSession
from spirit_py.sql import quote_table
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.binlog.parser import BinlogParser
    from spirit_py.binlog.position import ServerFrontier
    from spirit_py.binlog.reader import BinlogReader
    from spirit_py.config import ConnectionOptions, FeedOptions
    from spirit_py.contracts import Clock, SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.progress import Retention
    from spirit_py.table.keys import ComparableKey
    from spirit_py.table.values import KeyWeights


#: For the next file of the binlog, or an answer; a table may be locked meanwhile.
_NEXT_FILE_SECONDS: Final = 1.0
_NEXT_FILE_LOOK: Final = 0.02
#: For LOCK INSTANCE FOR BACKUP, or a global lock: a later one of these waits for us meanwhile.
_PROOF_WAIT: Final = 2


class LentSession:
    """A session, opened when it is first needed, and again when it was lost."""

    def __init__(
        self, connection: ConnectionOptions, *, role: str, read_timeout: int, lock_wait: int = 30
    ) -> None:
        self._connection = connection
        self._lock_wait = lock_wait
        self._role = role
        self._read_timeout = read_timeout
        self._turn = threading.Lock()
        self._held = CuttableSession()
        self._ended = False

    @contextlib.contextmanager
    def lend(self) -> Iterator[Session]:
        """Lend the session; waits while another thread has it. FeedFailure after :meth:`end`."""
        with self._turn:
            session = self._opened()
            try:
                yield session
            except ServerFault as fault:
                if connection_lost(fault):
                    self._held.close()
                raise

    def _opened(self) -> Session:
        if self._held.session is not None and not self._held.session.alive():
            self._held.close()
        session = self._held.session or self._held.take(
            connect(
                self._connection,
                role=self._role,
                read_timeout=self._read_timeout,
                lock_wait_timeout=self._lock_wait,
            )
        )
        if self._ended:
            self._held.close()
            raise FeedFailure("the change feed is closed")
        return session

    def end(self) -> int:
        """End the session for good; return the one to kill, because it may still execute, or 0."""
        self._ended = True
        if self._turn.acquire(blocking=False):
            self._held.close()
            self._turn.release()
            return 0
        return self._held.cut()


_ROOM: Final = 512 << 10
"""Bytes of one question at most, where the server takes as many."""
_TRIES: Final = 12
"""Questions that fail, while the server is there, before the feed does."""


class ServerWeights:
    """A session that weighs keys; opened when it is first needed, and again when it was lost."""

    def __init__(
        self,
        connection: ConnectionOptions,
        *,
        read_timeout: int,
        closing: StopSwitch | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._lent = LentSession(connection, role="feed-weights", read_timeout=read_timeout)
        self._closing = closing or StopSwitch()
        self._clock = clock
        self._room = self._room_of = 0

    def weigh(
        self, weights: KeyWeights, keys: Sequence[tuple[Any, ...]]
    ) -> Sequence[ComparableKey]:
        """Return the comparable forms of keys, in order; ServerFault, FeedFailure when closed."""
        retrier = retrying(self._closing, attempts=_TRIES, first_pause=0.1, clock=self._clock)
        try:
            found: Sequence[ComparableKey] = retrier(self._ask, weights, keys)
        except ServerFault:
            # The session that was ended is lost: that is no fault of the server.
            self._closing.check()
            raise
        return found

    def _ask(self, weights: KeyWeights, keys: Sequence[tuple[Any, ...]]) -> Sequence[ComparableKey]:
        found: list[ComparableKey] = []
        with self._lent.lend() as session:
            if self._room_of != session.id:
                packet = int(session.value("SELECT @@SESSION.max_allowed_packet"))
                self._room, self._room_of = min(_ROOM, packet - 1024), session.id
            for part, question in weights.questions(keys, self._room):
                found += weights.weighed(part, session.query(question))
        return found

    def end(self) -> int:
        """End the session for good, and every pause; see :meth:`LentSession.end`."""
        self._closing.request(FeedFailure("the change feed is closed"))
        return self._lent.end()


GIVE_UP: Final = (
    "; if the table may have been changed without binlog since that start, give the migration up"
    " first (spirit-py cleanup)"
)
_COLLATIONS: Final = """\
SELECT ID, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLLATIONS"""
NATIVE_KEYS: Final = "SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'"


def _not_all_numbered(gtid_mode: str) -> HistoryLost:
    return HistoryLost(
        f"gtid_mode is {gtid_mode} now, and was ON: transactions without a GTID are not in"
        " gtid_executed, so that it proves nothing any more",
        hint="run the same command again: it starts from the beginning; with gtid_mode=ON again,"
        " and no such transaction since, it resumes",
    )


def _out_of_order() -> HistoryLost:
    return HistoryLost(
        "binlog_order_commits is OFF now, and without GTIDs nothing else tells which changes are"
        " visible",
        hint="SET GLOBAL binlog_order_commits = ON, then run the same command again: it resumes,"
        " and compares every row before the swap",
        error_code=ErrorCode.SERVER_SETTINGS,
    )


class FollowedServer:
    """What a stream asks its server. One class because every answer is compared with one past."""

    #: Whether rows are read beside the stream, so that changes must become visible in its order.
    needs_order: ClassVar[bool] = True

    def __init__(self, connection: ConnectionOptions, options: FeedOptions) -> None:
        self._connection, self._options = connection, options
        self._reader: BinlogReader | None = None
        answer_within = math.ceil(options.wait_timeout) + 1
        # Proofs wait while commits stall, so they have a session of their own.
        self._control, self._proofs = (
            LentSession(connection, role=role, read_timeout=answer_within, lock_wait=wait)
            for role, wait in (("feed-control", 30), ("feed-proof", _PROOF_WAIT))
        )
        self._weights = ServerWeights(connection, read_timeout=answer_within)
        self._proof_table = f"_spirit_py_{uuid.uuid4().hex}"
        self._schema = ""
        #: Identifiers of this run's own writes, which are not to be sent.
        self._own: set[str] = set()
        with self._control.lend() as session:
            seen = look_at(session)
            row = session.query("SELECT @@GLOBAL.gtid_mode, @@GLOBAL.lower_case_table_names")[0]
            self._native_keys = session.query(NATIVE_KEYS)
            rows = session.query(_COLLATIONS)
            self.collations = {int(n): Collation(str(one), str(name)) for n, one, name in rows}
        self._server_uuid = seen.server_uuid
        self._life = ServerLife(seen.started, seen.relaxed)
        #: Transactions that are executed, and were never in the binlog: set in gtid_purged.
        self.unlogged: GtidFrontier | None = None
        self._tell: Tell = untold
        #: How often rows may have been changed past the binlog.
        self.lapses = 0
        #: Those who count: whoever asks may be of any thread. Never held over a question.
        self._counting = threading.Lock()
        self.has_gtids = row[0] == "ON"
        self.ignore_case = row[1] != 0

    def _opened(self) -> BinlogReader:
        if self._reader is None:
            raise FeedBroken("the stream was not opened", hint="this is a bug: report it")
        return self._reader

    def executed(self, session: SqlSession | None = None) -> ServerFrontier:
        """Ask for everything committed and visible now; without GTIDs the end of the binlog."""
        if session is None:
            with self._asking(self._control, "what it has executed") as own:
                return self.executed(own)
        found = self._executed_in(session)
        if isinstance(found, GtidFrontier) and self._own:
            found.gtids = found.gtids.only(lambda tsid: tsid not in self._own)
        return found

    def _executed_in(self, session: SqlSession) -> ServerFrontier:
        gtids, end = self._look(session)
        if self.has_gtids:
            return GtidFrontier(self._server_uuid, GtidSet.parse(gtids))
        return FileFrontier(self._server_uuid, end)

    def _look(self, session: SqlSession) -> tuple[str, FilePlace]:
        parser = self._reader.parser if self._reader is not None else None
        # Or a place before: the reader goes on meanwhile.
        read_to = FilePlace(parser.file, parser.offset) if parser and parser.file else None
        seen = look_at(session)
        if seen.server_uuid != self._server_uuid:
            address, found = self._connection.address, seen.server_uuid
            raise another_server(address, found=found, wanted=self._server_uuid)
        # Counted before a checkpoint can have the new start.
        with self._counting:
            out_of_order = self.needs_order and not (self.has_gtids or seen.ordered)
            self.lapses += out_of_order or seen.started != self._life.started
            self._life.go_on(seen)
        if out_of_order:
            raise _out_of_order()
        if self.has_gtids and seen.gtid_mode != "ON":
            raise _not_all_numbered(seen.gtid_mode)
        end = self._end(session)
        if read_to is not None and not end.reaches(read_to):
            raise binlog_reset(f"{read_to} is read, and it ends at {end}")
        if parser is not None and parser.file and seen.purged:
            self._note_unlogged(session, parser, GtidSet.parse(seen.purged))
        return seen.executed, end

    def _note_unlogged(self, session: SqlSession, parser: BinlogParser, purged: GtidSet) -> None:
        """Note what is in ``gtid_purged`` and was in no binlog file."""
        # What is before this file is received, and no other file can be purged before it.
        file, known = parser.file, parser.complete
        if not isinstance(known, GtidFrontier):
            return
        missing = purged.only(lambda tsid: tsid not in self._own)
        if self.unlogged is not None:
            missing.subtract(self.unlogged.gtids)
        # The reader adds to it meanwhile.
        received = known.gtids.copy()
        if received.contains(missing) or file not in dict(binlog_files(session)):
            return
        missing.subtract(received)
        with self._counting:
            # Another thread may have noted some meanwhile.
            later = self.unlogged.copy() if self.unlogged is not None else known.empty()
            missing.subtract(later.gtids)
            if later.gtids.contains(missing):
                return
            later.gtids.update(missing)
            self.lapses += 1
            self.unlogged = later
        said = f"somebody has set {missing} in gtid_purged (SET GLOBAL gtid_purged, as dumps do)"
        self._tell(Warned(said=f"{said}: the binlog never had it, and all rows are compared again"))

    def has_executed(self, received: Any, session: SqlSession) -> bool:
        """Return whether everything that was received is executed; see the protocol."""
        return self._executed_in(session).reaches(received)

    def look(self) -> None:
        """Look whether the server, and its log, are as they were; see the protocol."""
        with contextlib.suppress(FeedSilent), self._asking(self._control, "if it is alive") as own:
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
        """Return the position after all that a session finds executed; empty beyond 4 GiB.

        Without GTIDs one transaction may make a file so long, and the next file begins right after.
        A passing fault, as of KILL QUERY, is no answer: under a lock nothing else has a second try.
        """
        pause, deadline = threading.Event(), time.monotonic() + _NEXT_FILE_SECONDS
        while True:
            over = time.monotonic() >= deadline
            try:
                if (found := self._executed_in(session).text()) or over:
                    return found
            except ServerFault as fault:
                if over or connection_lost(fault) or disposition(fault) is Disposition.FATAL:
                    raise
            pause.wait(_NEXT_FILE_LOOK)

    def prove_visible(self, gtids: str) -> None:
        """Wait for transactions; without GTIDs commit one of our own, visible after all others."""
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

    @contextlib.contextmanager
    def _asking(self, lent: LentSession, question: str) -> Iterator[Session]:
        try:
            with lent.lend() as session:
                yield session
        except ServerFault as fault:
            if disposition(fault) is Disposition.FATAL:
                raise
            hint = "see whether the server is up, and whether its commits wait for a"
            hint += " semi-synchronous replica; run the same command again"
            if fault.code == LOCK_WAIT_TIMEOUT:
                hint = "a backup or a global lock is in the way; run the same command after it"
            raise FeedSilent(
                f"the server at {self._connection.address} does not say {question}: {fault.text}",
                hint=hint,
            ) from fault

    @staticmethod
    def _end(session: SqlSession) -> FilePlace:
        end = end_of_binlog(session)
        if end.filtered:
            hint, code = WITHOUT_FILTER + GIVE_UP, ErrorCode.BINLOG_FILTERED
            raise FeedFailure(hides_changes(end.filtered), hint=hint, error_code=code)
        return FilePlace(end.file, end.offset)
