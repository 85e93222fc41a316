"""Swaps with the real feed that an application writes through: nothing lost, no client error."""

from __future__ import annotations

import contextlib
import logging
import os
import statistics
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.config import FeedOptions
from spirit_py.errors import CutoverFailure, DuplicateForUnique, SchemaChanged
from spirit_py.mysql.connect import connect
from spirit_py.threads import StopSwitch
from tests.kits.background import BackgroundCall, Loop
from tests.kits.connection import connection_options
from tests.kits.cutover import ProvenCutover, Writer, lock_request, make_tables, untouched
from tests.kits.followed_tables import FollowedTable
from tests.kits.locking import blind
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = logging.getLogger(__name__)
SWAPS = int(os.environ.get("SPIRIT_PY_TEST_SWAPS", "5"))
WRITERS = int(os.environ.get("SPIRIT_PY_TEST_WRITERS", "8"))
READERS = 2
#: Writes a second of all writers together, at most: what the machine does beside them varies.
RATE = 2000
#: Seconds for the whole of the many swaps, on a machine that does other things as well.
PATIENCE = max(300, 20 * SWAPS)


class Application:
    """Writers on one table, and what they know of it; and readers."""

    def __init__(self, connections: list, readers: list, table: str) -> None:
        self.writers = [
            Writer(connection, table, n, len(connections), pause=len(connections) / RATE)
            for n, connection in enumerate(connections)
        ]
        self.readers = [Loop(partial(self._read, reader, table), pause=0.01) for reader in readers]

    @staticmethod
    def _read(reader: Any, table: str, _: int) -> None:
        with contextlib.closing(reader.cursor()) as cursor:
            cursor.execute(f"SELECT id, v FROM {table} WHERE id <= 10")
            assert len(cursor.fetchall()) == 10

    def clients(self) -> list[Writer | Loop]:
        """Return writers and readers."""
        return [*self.writers, *self.readers]

    def writes_on(self) -> None:
        """Wait until every writer has had several more writes acknowledged."""
        before = [writer.writes for writer in self.writers]

        def all_wrote() -> bool:
            assert self.errors() == []
            return all(w.writes > n + 2 for w, n in zip(self.writers, before, strict=True))

        until(all_wrote, "writes of every writer")

    def errors(self) -> list[str]:
        """Return every error that a client met."""
        return [error for client in self.clients() for error in client.errors]

    def forget_stalls(self) -> None:
        """Measure the longest write from now on."""
        for writer in self.writers:
            writer.longest = 0.0

    def let_insert(self, rows: int) -> None:
        """Let every writer insert more rows; what they have they update all the time."""
        for writer in self.writers:
            writer.most_rows += rows

    def longest_ms(self) -> float:
        """Return the longest write since, in milliseconds."""
        return max(writer.longest for writer in self.writers) * 1000

    def stop(self) -> None:
        """End all clients."""
        for client in self.clients():
            client.stop()

    def acknowledged(self) -> dict[int, int]:
        """Return every row as its writer last heard that it is."""
        return {k: v for writer in self.writers for k, v in writer.acknowledged.items()}


@contextlib.contextmanager
def writing(db) -> Iterator[Application]:
    """Yield writers on a new table, who write until they are stopped."""
    make_tables(db)
    db.execute("DROP TABLE _t_new")
    writers, readers = ([db.connect() for _ in range(n)] for n in (WRITERS, READERS))
    running = Application(writers, readers, "t")
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def application(db):
    """Return writers that write to the table from before the test until they are stopped."""
    with writing(db) as running:
        yield running


def newer_in_old_table(db) -> list:
    """Return rows of the old table that the new one lacks, or has in an older state."""
    return db.query(
        "SELECT o.id, o.v, t.v FROM _t_old o LEFT JOIN t USING (id) WHERE t.id IS NULL OR t.v < o.v"
    )


def check_nothing_lost(db, application) -> None:
    """Compare the table with what the writers were told, when they have stopped."""
    application.stop()
    assert application.errors() == []
    assert dict(db.query("SELECT id, v FROM t WHERE id >= 1000000")) == application.acknowledged()


def swap_under_writers(db, application, swaps: int) -> None:
    """Swap many times; check each swap, and at the end every acknowledged write."""
    stop = StopSwitch()
    stalls, held = [], []
    for number in range(swaps):
        with FollowedTable(db, "t", f"ADD COLUMN c{number} INT NOT NULL DEFAULT 7", stop) as table:
            application.writes_on()
            application.forget_stalls()
            application.let_insert(20)
            result = ProvenCutover(db, [table.swap], table.feed, stop=stop).run()
            application.writes_on()
        stalls.append(application.longest_ms())
        held.append(result.lock_held_ms)
        steps = ", ".join(f"{step} {ms:.1f}" for step, ms in result.steps_ms.items())
        LOG.info(
            "swap %d: longest write %.1f ms, lock waited %.1f ms, held %.1f ms (%s)",
            *(number + 1, stalls[-1], result.lock_wait_ms, held[-1], steps),
        )
        assert newer_in_old_table(db) == []
        db.execute("DROP TABLE _t_old")

    check_nothing_lost(db, application)
    assert not stop.requested
    written = sum(writer.writes for writer in application.writers)
    LOG.info("%d swaps, %d writes of %d writers: none lost, no error", swaps, written, WRITERS)
    for what, found in (("longest write", stalls), ("lock held", held)):
        middle, most = statistics.median(found), max(found)
        ninth = sorted(found)[min(len(found) - 1, round(0.9 * len(found)))]
        LOG.info("%s: p50 %.1f, p90 %.1f, max %.1f ms", what, middle, ninth, most)


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE)
def test_many_swaps_under_writers_lose_no_write(db, application):
    """Every acknowledged write is in the table after many swaps, and none came too late."""
    swap_under_writers(db, application, SWAPS)


@pytest.mark.slow
def test_many_swaps_without_gtids_lose_no_write(db_file):
    """The same holds on a server that only knows files and offsets."""
    with writing(db_file) as application:
        swap_under_writers(db_file, application, 2)


@pytest.mark.slow
def test_failed_tries_leave_the_feed_running(db, application):
    """After tries that failed for a held transaction the feed still follows every write."""
    stop = StopSwitch()
    limits = blind(wait=1, timeout=1.5)
    with FollowedTable(db, "t", "ADD COLUMN c INT", stop) as table:
        other = db.connect(autocommit=False).cursor()
        other.execute("UPDATE t SET v = -5 WHERE id = 1")
        with pytest.raises(CutoverFailure):
            ProvenCutover(db, [table.swap], table.feed, stop=stop, limits=limits).run()
        application.writes_on()
        other.connection.commit()

        ProvenCutover(db, [table.swap], table.feed, stop=stop).run()

        application.writes_on()
    assert newer_in_old_table(db) == []
    assert db.query("SELECT v FROM t WHERE id = 1") == [(-5,)]
    check_nothing_lost(db, application)


@pytest.mark.slow
def test_locking_session_killed_while_flushing(db, application, monkeypatch):
    """What a killed locking session left unapplied is applied by the next try."""
    stop = StopSwitch()
    killed: list[int] = []
    with FollowedTable(db, "t", "ADD COLUMN c INT", stop) as table:
        flush = table.feed.flush_under_table_lock

        def kill_first(session) -> None:
            if not killed:
                killed.append(session.id)
                db.execute(f"KILL {session.id}")
            flush(session)

        monkeypatch.setattr(table.feed, "flush_under_table_lock", kill_first)
        application.writes_on()

        result = ProvenCutover(db, [table.swap], table.feed, stop=stop).run()

        application.writes_on()
    assert result.attempts == 2
    assert not stop.requested
    assert newer_in_old_table(db) == []
    check_nothing_lost(db, application)


@pytest.mark.slow
def test_answer_lost_under_writers(db, proxy, application):
    """With the answer to RENAME lost, what is written to the swapped table stays as it is."""
    stop = StopSwitch()
    with FollowedTable(db, "t", "ADD COLUMN c INT", stop, proxy) as table:
        application.writes_on()
        proxy.lose_reply(b"RENAME TABLE")

        result = ProvenCutover(
            db, [table.swap], table.feed, connection=connection_options(db, proxy), stop=stop
        ).run()

        application.writes_on()
    assert result.answer_lost
    assert not stop.requested
    assert newer_in_old_table(db) == []
    check_nothing_lost(db, application)


def written_since(database, place: str, stop) -> list:
    """Follow the swapped table from a place on; return the rows that were written to it since."""
    with FollowedTable(database, "t", "COMMENT 'again'", stop, start=place, copy=False) as table:
        table.feed.block_wait()
        table.feed.flush()
        return database.query(f"SELECT id, v FROM {table.swap.new} ORDER BY id")


def check_place_behind_rename(database) -> None:
    """Swap under writers; let another feed go on from the noted place, and compare."""
    stop = StopSwitch()
    with writing(database) as application:
        with FollowedTable(database, "t", "ADD COLUMN c INT", stop) as table:
            application.writes_on()
            result = ProvenCutover(
                database, [table.swap], table.feed, stop=stop, note_position=True
            ).run()
            application.writes_on()
        application.stop()
    assert list(result.steps_ms)[-1] == "position"
    written = database.query(
        "SELECT t.id, t.v FROM t LEFT JOIN _t_old o USING (id) WHERE NOT t.v <=> o.v ORDER BY id"
    )
    assert written
    assert written_since(database, result.after_rename, stop) == written


@pytest.mark.slow
def test_a_feed_from_the_place_behind_the_rename_misses_nothing(db):
    """A feed from the place noted behind the RENAME gets all that is written since, and no more."""
    check_place_behind_rename(db)


@pytest.mark.slow
def test_a_feed_from_the_place_behind_the_rename_misses_nothing_without_gtids(db_file):
    """The same holds on a server that only knows files and offsets."""
    check_place_behind_rename(db_file)


@pytest.mark.gtid
def test_another_server_behind_the_address_stops_the_cutover(db, db_file):
    """What another server has executed proves nothing: the cutover is not to go on there (R14)."""
    make_tables(db)
    db.execute("DROP TABLE _t_new")
    with (
        FollowedTable(db, "t", "ADD COLUMN c INT", StopSwitch()) as table,
        connect(connection_options(db_file), role="test") as elsewhere,
    ):
        for ask in (partial(table.feed.block_wait, 10), table.feed.position_here):
            with pytest.raises(SchemaChanged, match="another server answers"):
                ask(session=elsewhere)


def test_feed_that_is_late(db, proxy):
    """Under the lock the feed is waited for: what it gets late is in the swapped table too."""
    make_tables(db)
    db.execute("DROP TABLE _t_new")
    stop = StopSwitch()
    with FollowedTable(db, "t", "ADD COLUMN c INT", stop, proxy) as table:
        other = db.connect(autocommit=False).cursor()
        other.execute("UPDATE t SET v = -5 WHERE id < 5")
        running = BackgroundCall(ProvenCutover(db, [table.swap], table.feed, stop=stop).run)
        until(lambda: lock_request(db), "the lock request")
        proxy.delay = 0.3
        other.connection.commit()
        running.result()
    assert db.query("SELECT COUNT(*) FROM t WHERE v = -5") == [(4,)]
    assert newer_in_old_table(db) == []


def test_transaction_that_commits_while_the_lock_is_awaited(db, application):
    """The last changes before the lock, in a long transaction, are in the swapped table."""
    stop = StopSwitch()
    with FollowedTable(db, "t", "ADD COLUMN c INT", stop) as table:
        other = db.connect(autocommit=False).cursor()
        other.execute("UPDATE t SET v = v - 1000 WHERE id < 5")
        cutover = ProvenCutover(db, [table.swap], table.feed, stop=stop)
        running = BackgroundCall(cutover.run)
        until(lambda: lock_request(db), "the lock request")
        other.connection.commit()
        running.result()
        application.writes_on()
    assert db.query("SELECT COUNT(*) FROM t WHERE v BETWEEN -1000 AND -900") == [(4,)]
    assert newer_in_old_table(db) == []
    check_nothing_lost(db, application)


@pytest.mark.slow
def test_a_backlog_above_the_limit_is_not_flushed_under_the_lock(db, application):
    """A backlog above the limit is not flushed under the lock; the next try finds it flushed."""
    stop = StopSwitch()
    small = FeedOptions(flush_interval=0.2, wait_timeout=60, under_lock_changes=500)
    with FollowedTable(db, "t", "ADD COLUMN c INT", stop, feed_options=small) as table:
        other = db.connect(autocommit=False).cursor()
        other.execute(
            "INSERT INTO t (id, v) WITH RECURSIVE n (i) AS"
            " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT 20000 + i, -7 FROM n"
        )
        running = BackgroundCall(ProvenCutover(db, [table.swap], table.feed, stop=stop).run)
        until(lambda: lock_request(db), "the lock request")
        other.connection.commit()

        result = running.result()

        application.writes_on()
    # The next request may come while the flush is still under way.
    assert result.attempts >= 2
    assert all("pending under the table lock" in failure for failure in result.failures)
    assert newer_in_old_table(db) == []
    assert db.query("SELECT COUNT(*) FROM t WHERE v = -7") == [(900,)]
    check_nothing_lost(db, application)


@pytest.mark.slow
def test_short_timeouts_of_the_server_end_neither_feed_nor_cutover(db):
    """Idle and lock timeouts of the server's own end neither the feed nor the cutover."""
    db.set_global("wait_timeout", 2)
    db.set_global("lock_wait_timeout", 1)
    stop = StopSwitch()
    make_tables(db)
    db.execute("DROP TABLE _t_new")
    with FollowedTable(db, "t", "ADD COLUMN c INT", stop) as table:
        other = db.connect(autocommit=False).cursor()
        other.execute("SET SESSION wait_timeout = 100")
        other.execute("UPDATE t SET v = -1 WHERE id = 1")
        running = BackgroundCall(ProvenCutover(db, [table.swap], table.feed, stop=stop).run)
        request = until(lambda: lock_request(db), "the lock request")
        waited = "SELECT processlist_time > 2 FROM performance_schema.threads"
        asked = f"{waited} WHERE processlist_id = {request}"
        until(lambda: db.query(asked) == [(1,)], "a wait above both timeouts")
        other.connection.commit()

        result = running.result()

    assert result.attempts == 1
    assert not stop.requested
    assert db.query("SELECT v FROM t WHERE id = 1") == [(-1,)]
    assert newer_in_old_table(db) == []


@pytest.mark.parametrize("moment", ["before the cutover", "while the lock is awaited"])
def test_a_duplicate_after_the_copy_is_named_by_its_key(db, moment):
    """A duplicate for a new UNIQUE key that appears after the copy ends it, named by its key."""
    make_tables(db)
    db.execute("DROP TABLE _t_new")
    stop = StopSwitch()
    other = db.connect(autocommit=False).cursor()
    with FollowedTable(db, "t", "ADD UNIQUE KEY u (v)", stop) as table:
        # Changes received before all that the copy may have read are written over other rows.
        table.feed.block_wait()
        other.execute("UPDATE t SET v = 3 WHERE id = 9")
        if moment == "before the cutover":
            other.connection.commit()
            table.feed.block_wait()
            with pytest.raises(DuplicateForUnique):
                table.feed.flush()
        running = BackgroundCall(ProvenCutover(db, [table.swap], table.feed, stop=stop).run)
        if moment != "before the cutover":
            until(lambda: lock_request(db), "the lock request")
            other.connection.commit()

        with pytest.raises(DuplicateForUnique, match=f"1 rows of {db.name}.t") as found:
            running.result()

    (named,) = found.value.details
    assert named == "key (9): Duplicate entry '3' for key '_t_new.u'"
    assert found.value.resumable
    assert untouched(db, table.swap)


def test_a_new_unique_key_keeps_the_lock_throughout(db):
    """With a new UNIQUE key, whose changes take their own path, the lock is kept throughout."""
    make_tables(db)
    db.execute("DROP TABLE _t_new")
    stop = StopSwitch()
    with FollowedTable(db, "t", "ADD UNIQUE KEY u (v)", stop) as table:
        assert table.mapping.tightened
        other = db.connect(autocommit=False).cursor()
        other.execute("UPDATE t SET v = v - 1000 WHERE id < 5")
        other.execute("INSERT INTO t (v) VALUES (1), (2)")
        other.execute("DELETE FROM t WHERE id > 8")
        running = BackgroundCall(ProvenCutover(db, [table.swap], table.feed, stop=stop).run)
        until(lambda: lock_request(db), "the lock request")
        other.connection.commit()

        result = running.result()

    assert result.attempts == 1
    assert newer_in_old_table(db) == []
    assert db.query("SELECT id, v FROM t") == db.query("SELECT id, v FROM _t_old")
