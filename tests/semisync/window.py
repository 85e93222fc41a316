"""A migration whose first chunk reads between the binlog and the visibility of a transaction."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from spirit_py.binlog.position import FileFrontier, FilePlace
from spirit_py.config import FeedOptions
from spirit_py.copier.chunk_sql import chunk_lock
from spirit_py.feed.feed import ChangeFeed
from spirit_py.feed.subscription import TableSubscription
from tests.kits.connection import connection_options
from tests.kits.migrate import config_for, migrate_here
from tests.semisync.evidence import binlog_end
from tests.semisync.stall import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from spirit_py.chunk.chunk import Chunk
    from spirit_py.spark.gang import GangEngine
    from spirit_py.status.report import MigrationReport
    from tests.fixtures.mysql import Database
    from tests.semisync.stall import Stall

ORIGIN = "of a window"
_SESSION = (
    "SELECT COALESCE(processlist_info, ''), COALESCE(processlist_state, ''), EXISTS (SELECT 1"
    " FROM performance_schema.data_lock_waits w WHERE w.REQUESTING_THREAD_ID = t.thread_id)"
    " FROM performance_schema.threads t WHERE processlist_id = IS_USED_LOCK(%s)"
)
#: The feed's proof; the server shows no state of its own for a DROP that waits in its commit.
_PROOFS = (
    "SELECT 1 FROM performance_schema.threads WHERE"
    " processlist_info LIKE 'DROP TABLE IF EXISTS %%_spirit_py_%%'"
)


def run_migration(
    db: Database,
    engine: GangEngine,
    *,
    flush_interval: float = 30.0,
    chunk_time: float = 0.5,
    aggressive: bool = False,
) -> MigrationReport:
    """Add a column to the table `t` by copying it, and return the report."""
    config = config_for(
        db,
        connection=replace(connection_options(db), origin=ORIGIN),
        table="t",
        alter="ADD COLUMN added INT NOT NULL DEFAULT 7",
        no_shortcut=True,
        target_chunk_time=chunk_time,
        aggressive=aggressive,
        feed=FeedOptions(flush_interval=flush_interval),
    )
    report, _ = migrate_here(engine, config)
    return report


class Writer:
    """One transaction in a thread of its own, whose COMMIT is going to wait."""

    def __init__(self, db: Database, statements: list[str]) -> None:
        self._session = db.connect(autocommit=False)
        self.number = self._session.thread_id()
        self._statements = statements
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._write, name="stalled-writer")

    def start(self) -> None:
        """Run the statements and COMMIT."""
        self._thread.start()

    @property
    def answered(self) -> bool:
        """Whether the COMMIT has returned, or failed."""
        return not self._thread.is_alive()

    def _write(self) -> None:
        try:
            with contextlib.closing(self._session.cursor()) as cursor:
                for statement in self._statements:
                    cursor.execute(statement)
            self._session.commit()
        except BaseException as error:
            self.error = error

    def finish(self) -> None:
        """Wait for the COMMIT's answer, and raise what went wrong."""
        self._thread.join(60)
        assert not self._thread.is_alive(), "the stalled COMMIT was never answered"
        if self.error is not None:
            raise self.error


class Window:
    """Holds a transaction's commit and has the first chunk, or the feed's start, meet it.

    The steps, each of which waits for the one before it:

    1. commits are held; the transaction is in the binlog (before the feed starts, or just
       before the first chunk is dispatched) and no session sees it
    2. the feed has received its rows; the first chunk is dispatched and goes to Spark
    3. the chunk's session waits for visibility, or has read and waits in its own commit
    4. commits are released
    """

    def __init__(self, stall: Stall, db: Database, statements: list[str], *, changes: int) -> None:
        """Prepare; `changes` is how many row changes the feed receives of `statements`."""
        self.stall = stall
        self.db = db
        self.changes = changes
        self.writer = Writer(db, statements)
        #: What the chunk's, or the starting feed's, session did when commits were released.
        self.met = ""
        #: The GTID set that the chunk was told to wait for.
        self.visibility = ""
        self._dispatched = False
        self._releaser = threading.Thread(target=self._release, name="releaser")
        self._wanted: Callable[[], str] = lambda: ""
        self._error: BaseException | None = None

    # -- where it hooks in

    def around_dispatch(
        self, monkeypatch: pytest.MonkeyPatch, *, wait: bool = True, flushed: bool = False
    ) -> None:
        """Open the window just before the first chunk is dispatched.

        Without `wait` the chunk is not told what to wait for: R3 is switched off. With `flushed`
        the feed has begun to apply the changes before the chunk is dispatched.
        """
        original = TableSubscription.dispatch

        def dispatch(subscription: TableSubscription, chunk: Chunk) -> str:
            if self._dispatched:
                visibility = original(subscription, chunk)
                return visibility if wait else ""
            self._dispatched = True
            with self._released_on_error():
                self.stall.hold()
                self.writer.start()
                self._wait_received(subscription)
                if flushed:
                    until(self._feed_applies, "the feed to wait in a commit of its own")
            self.visibility = original(subscription, chunk)
            self._release_when(lambda: self._chunk_meets(subscription, chunk))
            return self.visibility if wait else ""

        monkeypatch.setattr(TableSubscription, "dispatch", dispatch)

    def around_start(self, monkeypatch: pytest.MonkeyPatch, *, naive: bool = False) -> None:
        """Open the window before the feed starts.

        With `naive` the feed starts at the end of the binlog, as `SHOW BINARY LOG STATUS` has it:
        R2 is broken.
        """
        start, dispatch = ChangeFeed.start, TableSubscription.dispatch

        def held_start(feed: ChangeFeed) -> None:
            with self._released_on_error():
                self.stall.hold()
                self.writer.start()
                until(self._stalled, "the writer's commit to wait")
            if naive:
                feed.start_from_position(self._end_of_binlog())
                return
            self._release_when(self._start_meets)
            start(feed)

        def seen_dispatch(subscription: TableSubscription, chunk: Chunk) -> str:
            visibility = dispatch(subscription, chunk)
            if not self._dispatched:
                self._dispatched = True
                self._release_when(lambda: self._chunk_meets(subscription, chunk))
            return visibility

        monkeypatch.setattr(ChangeFeed, "start", held_start)
        monkeypatch.setattr(TableSubscription, "dispatch", seen_dispatch)

    def close(self) -> None:
        """Let everything go and raise what went wrong on the way."""
        if self._releaser.ident is not None:
            self._releaser.join(60)
        self.stall.release()
        if self.writer._thread.ident is not None:
            self.writer.finish()
        if self._error is not None:
            raise self._error

    # -- the conditions

    def _stalled(self) -> bool:
        return self.writer.number in {w.session for w in self.stall.waiting()}

    def _wait_received(self, subscription: TableSubscription) -> None:
        received = subscription.buffer.counters
        until(lambda: received.received >= self.changes, "the stalled rows in the feed")
        until(lambda: self._stalled() or self.writer.answered, "the writer's commit to wait")
        assert not self.writer.answered, (
            f"the transaction did not stall: {self.writer.error!r}, {self.stall.figures()}"
        )

    def _feed_applies(self) -> bool:
        """Whether the feed applies the changes, or is proving first that they are visible."""
        return len(self.stall.waiting()) > 1 or bool(self.stall.admin.run(_PROOFS))

    def _chunk_meets(self, subscription: TableSubscription, chunk: Chunk) -> str:
        """Return what the chunk's session waits for; empty while it waits for nothing."""
        found = self.stall.admin.run(_SESSION, chunk_lock(subscription.mapping, chunk, ORIGIN))
        if not found:
            return ""
        statement, state, locked = found[0]
        if "WAIT_FOR_EXECUTED_GTID_SET" in statement:
            return "waits for visibility"
        if "REPLACE" in statement and (locked or "semi-sync ACK" in state or "commit" in state):
            return "has read"
        return ""

    def _start_meets(self) -> str:
        """Return that the feed waits for a commit of its own, or that it needs no such thing."""
        if self._dispatched:
            return "was not needed"
        return "waits for a commit of its own" if self.stall.admin.run(_PROOFS) else ""

    # -- the release

    @contextlib.contextmanager
    def _released_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.stall.release()
            raise

    def _release_when(self, condition: Callable[[], str]) -> None:
        """Release once the condition holds; a later condition takes an earlier one's place."""
        self._wanted = condition
        if self._releaser.ident is None:
            self._releaser.start()

    def _condition(self) -> str:
        return self._wanted()

    def _release(self) -> None:
        try:
            self.met = until(self._condition, "the chunk's session to meet the stall")
        except BaseException as error:
            self._error = error
        finally:
            self.stall.release()

    def _end_of_binlog(self) -> str:
        """Return the position that takes the stalled transaction for visible."""
        admin = self.stall.admin
        ((server_uuid,),) = admin.run("SELECT @@server_uuid")
        with contextlib.closing(self.db.connect()) as session:
            place = FilePlace(*binlog_end(session))
        return FileFrontier(server_uuid, place).text()
