"""The build of deferred indexes under load, killed, stopped, without a lock and without room."""

from __future__ import annotations

import contextlib
import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from spirit_py.binlog import connection
from spirit_py.binlog.connection import BinlogConnection
from spirit_py.binlog.position import FilePlace
from spirit_py.checkpoint.examination import find_record
from spirit_py.checkpoint.proofs import read_proofs
from spirit_py.config import FeedOptions
from spirit_py.errors import Interrupted, MigrationFailure, SchemaChanged
from spirit_py.events.copy import IndexesKept
from spirit_py.feed.subscription import TableSubscription
from spirit_py.locks.blockers import OLD_SECONDS
from spirit_py.locks.turns import LockTurns
from spirit_py.migration.indexes import build as index_build
from spirit_py.migration.indexes.build import FallingRate
from spirit_py.migration.indexes.plan import DeferredIndexes
from spirit_py.mysql.own_sessions import ours
from spirit_py.mysql.processlist import dumping
from spirit_py.mysql.replication import readers_of_binlog
from spirit_py.mysql.tables.deferred_indexes import alters_table
from spirit_py.pace import Work
from spirit_py.preflight import index_deferral
from spirit_py.throttle.throttles import Throttles
from tests.kits.command import run as run_command
from tests.kits.connection import connection_options, options_of
from tests.kits.resume import (
    Interruption,
    Writers,
    assert_nothing_left,
    make_table,
    once_at,
    start,
)
from tests.kits.tables import open_session, tables
from tests.kits.waiting import until

if TYPE_CHECKING:
    from tests.kits.migrate import Migrating

SECONDS = 60.0


@contextlib.contextmanager
def in_use(db):
    """Keep the new table in use: a build has to wait for its lock from ``begin`` until ``end``."""
    other = db.connect()
    cursor = other.cursor()

    def begin():
        cursor.execute("BEGIN")
        cursor.execute("SELECT COUNT(*) FROM _t_new")

    try:
        yield begin, other.rollback
    finally:
        other.close()


def builder(db):
    """Return the session that builds indexes now, or 0."""
    found = db.query(
        "SELECT PROCESSLIST_ID FROM performance_schema.threads"
        " WHERE PROCESSLIST_INFO LIKE 'ALTER TABLE%_t_new` ADD KEY%'"
    )
    return int(found[0][0]) if found else 0


@pytest.mark.slow
def test_a_killed_build_is_repeated(db, engine, monkeypatch):
    """Someone kills the session that builds: the run opens another one and builds again."""
    make_table(db)
    with in_use(db) as (begin, end), Writers(db) as writers:
        once_at(monkeypatch, "index.begin", begin)
        run = start(engine, db, defer_indexes="on")
        run.wait_until(lambda: builder(db), "build")
        first = builder(db)
        db.execute(f"KILL {first}")
        run.wait_until(
            lambda: builder(db) not in {0, first} or run.told.said("is not requested while"),
            "second build, or its wait for the transaction",
        )
        end()
        report = run.end()
    assert report.index_build_tries == 2
    assert report.differences_found == 0
    writers.assert_kept()
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_stop_request_ends_a_build_that_waits(db, engine, monkeypatch):
    """The session is killed at once, and the same command resumes with the build."""
    make_table(db)
    with in_use(db) as (begin, end), Writers(db) as writers:
        once_at(monkeypatch, "index.begin", begin)
        run = start(engine, db, defer_indexes="on")
        run.wait_until(lambda: builder(db), "build")
        run.stop.request(Interrupted(signal.SIGINT))
        # The build itself would wait for as long as the new table is in use.
        with pytest.raises(Interrupted):
            run.end()
        assert not builder(db)
        end()
        assert "_t_new" in tables(db)
        again = start(engine, db, defer_indexes="on")
        report = again.end()
    assert "stopped in the index phase" in report.resumed
    assert report.differences_found == 0
    assert report.rows_copied_before
    writers.assert_kept()
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_build_without_its_lock_says_who_may_hold_it(db, engine, monkeypatch):
    """After its tries the run ends, and resumes when the lock is free."""
    make_table(db, 500)
    with in_use(db) as (begin, end):
        once_at(monkeypatch, "index.begin", begin)
        with pytest.raises(MigrationFailure, match="could not be built: in front is") as failed:
            start(engine, db, defer_indexes="on", cutover_timeout=2.0).end()
        assert "metadata_locks" in failed.value.hint
        end()
    report = start(engine, db).end()
    assert report.indexes_deferred == [f"{db.name}.t.b"]


@pytest.mark.slow
def test_a_build_is_not_begun_while_the_new_table_is_used(db, engine, monkeypatch):
    """R23: the feed would wait behind the build's request; it goes on, and so does the build."""
    make_table(db, 500)
    with in_use(db) as (begin, end), Writers(db) as writers:

        def begin_long_before():
            begin()
            ((now,),) = db.query("SELECT NOW(6)")
            old = "SELECT NOW(6) > %s + INTERVAL %s SECOND"
            until(lambda: db.query(old, (now, OLD_SECONDS + 0.2)) == [(1,)], "its age")

        once_at(monkeypatch, "feed.started", begin_long_before)
        run = start(engine, db, defer_indexes="on", feed=QUICK)
        said = "the build of b is not requested while it is blocked by: session"
        run.wait_until(lambda: said in run.told.text, "the wait")
        assert not builder(db)
        end()
        report = run.end()
    assert report.index_build_tries == 1
    assert report.differences_found == 0
    writers.assert_kept()
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_build_is_not_begun_in_a_pause_that_came_while_it_waited(db, engine, monkeypatch):
    """The wait for the new table may last a day: a window may close, or replicas fall behind."""
    make_table(db, 500)
    held: list[str] = []
    begun: list[bool] = []
    await_free, reason = LockTurns.await_free, Throttles.reason

    def paused_behind(turns: LockTurns) -> bool:
        free = await_free(turns)
        if turns.what.startswith("the build of") and not begun and not held:
            held.append("the operator")
        return free

    def asked(throttles: Throttles, work: Work) -> str:
        return held[0] if held and held[0] and work is Work.INDEX else reason(throttles, work)

    monkeypatch.setattr(LockTurns, "await_free", paused_behind)
    monkeypatch.setattr(Throttles, "reason", asked)
    once_at(monkeypatch, "index.begin", lambda: begun.append(held == [""]))
    run = start(engine, db, defer_indexes="on", feed=QUICK)
    run.wait_until(
        lambda: any(seen.waiting_for == "the operator" for seen in run.told.snapshots), "pause"
    )
    held[0] = ""
    assert run.end().index_build_tries == 1
    assert begun == [True]


@pytest.mark.slow
def test_a_session_on_the_new_table_costs_no_build(db, engine, monkeypatch):
    """The build waits for it, however long, and is shown whom; changes wait in the buffers."""
    make_table(db, 500)
    with in_use(db) as (begin, end), Writers(db) as writers:
        once_at(monkeypatch, "index.begin", begin)
        run = start(engine, db, defer_indexes="on", feed=QUICK)
        used = "changes wait); the new table is used by session"
        run.wait_until(
            lambda: any(used in seen.waiting_for for seen in run.told.snapshots), "display"
        )
        end()
        report = run.end()
    assert report.index_build_tries == 1
    assert report.differences_found == 0
    writers.assert_kept()
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_stranger_who_changes_the_new_table_is_noticed(db, engine, monkeypatch):
    """The definition is one of the two that are ours, or the run ends (R14)."""
    make_table(db, 500)

    def alter():
        other = db.connect()
        other.cursor().execute("ALTER TABLE _t_new ADD INDEX strange (a)")
        other.close()

    once_at(monkeypatch, "index.built", alter)
    with pytest.raises(SchemaChanged, match="the new table"):
        start(engine, db, defer_indexes="on").end()


@pytest.mark.slow
@pytest.mark.parametrize("change", ["DROP INDEX b", "ADD INDEX strange (a)"])
def test_a_new_table_without_its_indexes_is_not_swapped_in(db, engine, monkeypatch, change):
    """Whoever changed its definition after the build: the application keeps its table."""
    make_table(db, 500)

    def alter():
        other = db.connect()
        other.cursor().execute(f"ALTER TABLE _t_new {change}")
        other.close()

    once_at(monkeypatch, "cutover.lock", alter)
    with pytest.raises(SchemaChanged, match="the new table"):
        start(engine, db, defer_indexes="on").end()
    assert "`z`" not in db.query("SHOW CREATE TABLE t")[0][1]
    assert_nothing_left(db)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["on", "off"])
def test_a_killed_trial_of_the_statements_is_cleared(db, engine, monkeypatch, mode):
    """A run that resumes drops the empty table, whether it tries the statements or not."""
    make_table(db)
    Interruption(monkeypatch).at(
        engine, db, "chunk.committed", defer_indexes="off", target_chunk_time=0.02
    )
    with open_session(db) as session:
        probe = read_proofs(session, db.name, "t").building
    db.execute(f"CREATE TABLE `{probe}` LIKE _t_new")
    report = start(engine, db, defer_indexes=mode).end()
    assert report.indexes_deferred == ([f"{db.name}.t.b"] if mode == "on" else [])
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_run_after_the_build_says_that_it_built_nothing(db, engine, monkeypatch):
    """Indexes that an earlier run has built are there already."""
    make_table(db, 500)
    Interruption(monkeypatch).at(engine, db, "checksum.compare", defer_indexes="on")
    run = start(engine, db)
    report = run.end()
    assert report.index_build_tries == 0
    assert "built already" in run.told.text
    assert ".t built after the copy" not in run.told.text


# -- the server's log of concurrent changes

LONG = 500
ROWS = 10_000


class HeavyWriters:
    """Rewrites the indexed column of many rows, again and again."""

    def __init__(self, db):
        self._db = db
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.rounds = 0

    def _write(self):
        connection = self._db.connect()
        cursor = connection.cursor()
        while not self._ended.wait(0.01):
            low = self.rounds * 1000 % ROWS
            cursor.execute(
                f"UPDATE t SET b = REPEAT(HEX(RAND() * 1e9), {LONG // 8})"
                f" WHERE id > {low} AND id <= {low + 1000}"
            )
            self.rounds += 1
        connection.close()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "a write hangs"


@pytest.fixture
def heavy(db):
    """A table whose index is large, and a server whose log of changes is as small as it can be."""
    db.set_global("innodb_online_alter_log_max_size", 65536)
    db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR({LONG + 20}))")
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
        f" {ROWS}) SELECT i, i, REPEAT(HEX(RAND() * 1e9), {LONG // 8}) FROM n"
    )
    return db


QUICK = FeedOptions(flush_interval=0.02)
HEAVY_ALTER = "ADD COLUMN z INT NOT NULL DEFAULT 5, ADD INDEX (b), ADD INDEX (a, b)"


class Backlog:
    """Keeps changes until many wait, so that the first build meets more than its log holds.

    Batches that wait for their lock behind the build's get it when the build lets go of it, and the
    build cannot end before they do: all that they write is in its log, however fast it is.
    """

    def __init__(self, monkeypatch):
        self.limits: list[int] = []
        self._tables: list[TableSubscription] = []
        self._bounded = TableSubscription.applies_bounded
        backlog = self

        @contextlib.contextmanager
        def applies_bounded(table, limit, stop):
            first = not backlog.limits
            backlog.limits.append(limit)
            with backlog._bounded(table, 0 if first else limit, stop):
                if first:
                    until(lambda: table.buffer.pending >= ROWS, "changes of all rows")
                    backlog._tables.append(table)
                yield

        monkeypatch.setattr(TableSubscription, "applies_bounded", applies_bounded)

    @property
    def waits(self):
        """Whether all rows have changed."""
        return bool(self._tables)

    def release(self):
        """Let the changes be applied."""
        (table,) = self._tables
        with table.lock:
            table.room = self.limits[0]
            table.wake()


def batches_behind_the_build(db):
    """Return how many statements of the feed wait for the lock on the new table."""
    ((count,),) = db.query(
        "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_INFO LIKE"
        " 'REPLACE INTO%_t_new%' AND PROCESSLIST_STATE = 'Waiting for table metadata lock'"
    )
    return int(count)


@pytest.mark.slow
@pytest.mark.draws(2)
def test_a_log_that_is_too_small_is_overcome(heavy, engine, monkeypatch):
    """Error 1799 is met, changes wait for the next build, and not a row differs."""
    monkeypatch.setattr(index_build, "LOG_SHARE", 1e6)
    # Batches that were sent before anybody was seen on the new table wait behind the build.
    monkeypatch.setattr(TableSubscription, "hold_applies", lambda _, *, held: held)
    backlog = Backlog(monkeypatch)
    one_statement = replace(QUICK, batch_rows=ROWS, apply_threads=2)
    with in_use(heavy) as (begin, end), HeavyWriters(heavy):
        once_at(monkeypatch, "index.begin", begin)
        run = start(
            engine,
            heavy,
            alter=HEAVY_ALTER,
            defer_indexes="on",
            feed=one_statement,
            no_repair=True,
        )
        run.wait_until(lambda: backlog.waits and builder(heavy), "build")
        backlog.release()
        run.wait_until(lambda: batches_behind_the_build(heavy) == 2, "changes behind the build")
        end()
        run.wait_until(lambda: ".t built after the copy" in run.told.text, "end of the build")
    report = run.end()
    assert report.index_build_tries == 2, run.told.text
    assert backlog.limits[1:] == [0]
    assert "again: more was written meanwhile" in run.told.text
    assert report.differences_found == 0
    assert report.chunks_repaired == 0
    assert_nothing_left(heavy)


@pytest.mark.draws(2)
def test_changes_are_bounded_by_the_log(heavy, engine):
    """Half of the log is used and the rest waits, so that the first build succeeds."""
    with HeavyWriters(heavy):
        run = start(
            engine, heavy, alter=HEAVY_ALTER, defer_indexes="on", feed=QUICK, no_repair=True
        )
        run.wait_until(lambda: ".t built after the copy" in run.told.text, "build")
    report = run.end()
    assert report.index_build_tries == 1, run.told.text
    assert report.differences_found == 0
    assert_nothing_left(heavy)


# -- without its connection


@contextlib.contextmanager
def cut_off(db, proxy, engine, monkeypatch):
    """Cut all connections during a build, where no lock is seen, and have the next try wait for it.

    The new table is in use until ``end``: the build cannot end before.
    """
    monkeypatch.setattr(LockTurns, "await_free", lambda _: True)
    looks = []

    def alters(*of):
        looks.append(alters_table(*of))
        return looks[-1]

    monkeypatch.setattr(index_build, "alters_table", alters)
    make_table(db, 500)
    through = replace(connection_options(db), host=proxy.host, port=proxy.port)
    with in_use(db) as (begin, end):
        once_at(monkeypatch, "index.begin", begin)
        run = start(engine, db, connection=through, defer_indexes="on")
        run.wait_until(lambda: builder(db), "build")
        first = builder(db)
        proxy.cut()
        run.wait_until(lambda: looks.count(True) > 1, "the wait for it")
        assert builder(db) == first
        yield run, end


@pytest.mark.slow
def test_a_build_that_goes_on_without_its_connection_is_waited_for(db, proxy, engine, monkeypatch):
    """A balancer ends what carries nothing for a minute: at each try, and a build takes hours."""
    with cut_off(db, proxy, engine, monkeypatch) as (run, end):
        end()
        report = run.end()
    assert report.index_build_tries == 1
    assert report.differences_found == 0
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_stop_request_ends_a_build_without_its_connection(db, proxy, engine, monkeypatch):
    """It would go on for hours, and the next run would have to end it."""
    with cut_off(db, proxy, engine, monkeypatch) as (run, _):
        run.stop.request(Interrupted(signal.SIGINT))
        with pytest.raises(Interrupted):
            run.end()
        until(lambda: not builder(db), "its end")
    assert start(engine, db).end().differences_found == 0


# -- in the middle of the copy


def indexes_of_new_table(db):
    """Return the names of the new table's indexes."""
    return {row[2] for row in db.query("SHOW INDEX FROM _t_new")}


class SlowCopy:
    """What happened in a copy that counts as slow at once.

    Attributes:
        dropped: whether the index was gone before the first chunk counted.
        then: called when it is gone, before the first chunk counts.
    """

    def __init__(self):
        self.dropped = False
        self.then = lambda: None


@pytest.fixture
def slow(db, monkeypatch):
    """A copy that counts as slow at once; its first chunk counts when the index is gone."""
    make_table(db)
    copy = SlowCopy()

    def wait():
        other = db.connect()
        cursor = other.cursor()

        def gone():
            cursor.execute("SHOW INDEX FROM _t_new")
            return "b" not in {row[2] for row in cursor.fetchall()}

        until(gone, "the drop")
        other.close()
        copy.dropped = True
        copy.then()

    monkeypatch.setattr(index_deferral, "automatic", lambda **_: (False, True, "for this test"))
    monkeypatch.setattr(FallingRate, "observe", lambda *_, waits: True)
    once_at(monkeypatch, "chunk.committed", wait)
    return copy


@pytest.mark.slow
@pytest.mark.draws(2)
def test_indexes_are_dropped_in_the_middle_of_a_slow_copy(db, engine, slow):
    """The rest is copied without them, and they are built in the end."""
    wanted = "KEY `b` (`b`)"
    with Writers(db) as writers:
        run = start(engine, db, target_chunk_time=0.02)
        report = run.end()
    assert slow.dropped
    assert "more slowly than before" in run.told.text
    assert report.indexes_deferred == [f"{db.name}.t.b"]
    assert report.differences_found == 0
    assert wanted in db.query("SHOW CREATE TABLE t")[0][1]
    writers.assert_kept()
    assert_nothing_left(db)


@pytest.mark.slow
@pytest.mark.draws(2)
def test_a_run_after_the_drop_knows_what_is_missing(db, engine, slow, monkeypatch):
    """The record names both definitions before the drop: a run that stops then is resumed."""
    run: Migrating
    slow.then = lambda: run.stop.request(Interrupted(signal.SIGINT))
    with Writers(db) as writers:
        run = start(engine, db, target_chunk_time=0.02)
        with pytest.raises(Interrupted):
            run.end()
        assert "b" not in indexes_of_new_table(db)
        monkeypatch.undo()
        shown = run_command(db, "status").stdout
        report = start(engine, db, defer_indexes="off").end()
    assert slow.dropped
    assert "to be built after the copy" in shown
    assert report.indexes_deferred == [f"{db.name}.t.b"]
    assert report.differences_found == 0
    writers.assert_kept()
    assert_nothing_left(db)


@pytest.mark.slow
def test_the_record_is_written_before_the_drop(db, engine, slow, monkeypatch):
    """A kill right after the drop leaves a record that knows the definition without the indexes."""
    known = []
    drop = DeferredIndexes.drop

    def looked(self, session):
        record = find_record(session, (db.name, "t")).record
        assert record is not None
        known.append(record.of(db.name, "t").bare_shape == self.bare_shape)
        drop(self, session)

    monkeypatch.setattr(DeferredIndexes, "drop", looked)
    report = start(engine, db, target_chunk_time=0.02).end()
    assert slow.dropped
    assert known == [True]
    assert report.differences_found == 0


@pytest.mark.slow
def test_a_drop_can_be_ended_by_the_build(db, engine, slow, monkeypatch):
    """One whose connection broke while it waited would run behind the build otherwise."""
    held = []
    note_altered = DeferredIndexes.note_altered

    def looked(self, session):
        held.append(
            session.value(
                "SELECT OBJECT_NAME FROM performance_schema.metadata_locks"
                " WHERE OBJECT_TYPE = 'USER LEVEL LOCK'"
                " AND OBJECT_NAME LIKE 'spirit-py:index:%'"
                " AND OWNER_THREAD_ID = PS_CURRENT_THREAD_ID()"
            )
        )
        note_altered(self, session)

    monkeypatch.setattr(DeferredIndexes, "note_altered", looked)
    report = start(engine, db, target_chunk_time=0.02).end()
    assert slow.dropped
    of_drop, of_build = held
    assert of_drop == of_build is not None
    assert report.differences_found == 0


@pytest.mark.slow
@pytest.mark.draws(2)
def test_the_build_is_shown(db, engine, monkeypatch):
    """Status and display show that indexes are built."""
    make_table(db, 500)
    shown = []
    with in_use(db) as (begin, end):

        def seen():
            shown.append(run_command(db, "status").stdout)
            return "has written no figures yet" not in shown[-1]

        def look():
            # The run may be younger than its first figures, which say whose sessions are its own.
            until(seen)
            begin()

        once_at(monkeypatch, "index.begin", look)
        run = start(engine, db, defer_indexes="on")
        run.wait_until(lambda: builder(db), "build")
        building = builder(db)
        assert f"b of {db.name}.t: being built now (server session {building}" in shown[-1]
        # The server's list of table numbers waits for the build, which waits for its lock.
        assert "being built now" in run_command(db, "status").stdout
        assert builder(db) == building
        run.wait_until(
            lambda: any("build b of" in seen.waiting_for for seen in run.told.snapshots), "display"
        )
        end()
        run.end()


@pytest.mark.slow
def test_another_reader_of_the_binlog_keeps_auto_from_deferring(db, engine, monkeypatch):
    """A replica would apply the build as one statement; ours is no replica."""
    make_table(db, 500)
    monkeypatch.setattr(index_deferral, "expected_bytes", lambda *_: 1 << 60)
    with open_session(db) as session:
        assert readers_of_binlog(session) == 0
    monkeypatch.setattr(index_deferral, "readers_of_binlog", lambda _: 1)
    run = start(engine, db)
    report = run.end()
    assert not report.indexes_deferred
    assert "1 replica" in report.indexes_plan[0]
    (kept,) = run.told.named(IndexesKept)
    assert kept.indexes == ["b"]
    assert "1 replica" in kept.reason
    assert run.told.said(f"the indexes b of {db.name}.t are not built after the copy: 1 replica")
    db.execute("DROP TABLE t")
    monkeypatch.setattr(index_deferral, "readers_of_binlog", readers_of_binlog)
    make_table(db, 500)
    assert start(engine, db).end().indexes_deferred == [f"{db.name}.t.b"]


@pytest.mark.slow
def test_a_replica_that_came_meanwhile_keeps_the_indexes_of_a_slow_copy(db, engine, monkeypatch):
    """The plan may be hours old."""
    make_table(db, 500)
    run: Migrating
    monkeypatch.setattr(index_deferral, "automatic", lambda **_: (False, True, "for this test"))
    monkeypatch.setattr(index_deferral, "readers_of_binlog", lambda _: 1)
    monkeypatch.setattr(FallingRate, "observe", lambda *_, waits: True)
    once_at(
        monkeypatch, "chunk.committed", lambda: until(lambda: run.told.named(IndexesKept), "it")
    )
    run = start(engine, db)
    assert not run.end().indexes_deferred
    (kept,) = run.told.named(IndexesKept)
    assert kept.reason.startswith("1 replica")


def test_the_change_feed_of_another_run_is_no_replica(db):
    """It has named locks of another secret; a reader without such a lock counts."""
    binlog = str(db.query("SHOW BINARY LOGS")[-1][0])
    uuid = str(db.query("SELECT @@GLOBAL.server_uuid")[0][0])

    def dump():
        return BinlogConnection(
            options_of(db.server),
            gtids=None,
            place=FilePlace(binlog, 4),
            server_uuid=uuid,
            replica_uuid=str(uuid4()),
            heartbeat=1.0,
            silence=30.0,
        )

    with open_session(db) as session, contextlib.ExitStack() as held:
        other = dump()
        held.callback(other.close)
        until(lambda: other.id in dumping(session), "the dump of another run")
        assert not ours(session, [other.id])
        assert readers_of_binlog(session) == 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connection, "claim", lambda *_, **__: None)
            stranger = dump()
        held.callback(stranger.close)
        until(lambda: stranger.id in dumping(session), "the dump of a stranger")
        assert readers_of_binlog(session) == 1
