"""``--tag-own-writes``: the copy commits under identifiers that the feed need not receive."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.binlog.position import GtidSet
from spirit_py.chunk.lanes import LaneChunker
from spirit_py.config import FeedOptions
from spirit_py.copier.copier import BoundaryReader, Copier, CopyOptions, TableCopy
from spirit_py.copier.meter import ChunkCopied
from spirit_py.copier.task import ChunkOrder, ChunkWriter, JoinCopy
from spirit_py.errors import ValueLost, WorkersLost
from spirit_py.locks.named import take_named_lock
from spirit_py.mysql.connect import connect
from spirit_py.mysql.own_sessions import new_run, own_uuid
from spirit_py.spark.choice import DriverEngine
from tests.fixtures.feed import fill
from tests.kits.chunks import bound, chunk
from tests.kits.copying import Throttle
from tests.kits.resume import Interruption, Writers, assert_nothing_left, make_table, start
from tests.kits.waiting import DEADLINE, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.feed import Scene
    from tests.fixtures.mysql import Database

ROWS = 20_000
PART_ROWS = 1000
pytestmark = pytest.mark.gtid


def own(scene: Scene, run: str) -> str:
    """Return the uuid of a run's copy of the scene's table."""
    return own_uuid(run, scene.db.name, "t")


def numbers(scene: Scene, tsid: str) -> str:
    """Return the numbers of an identifier that the server has executed."""
    executed = GtidSet.parse(scene.db.query("SELECT @@GLOBAL.gtid_executed")[0][0])
    return str(executed.only(lambda each: each == tsid)).partition(":")[2]


@contextlib.contextmanager
def task(scene: Scene) -> Iterator[ChunkWriter]:
    """Yield a task of a gang that the driver has not given up."""
    licence = f"spirit-test-{scene.db.name}"
    with connect(scene.options(), role="test") as driver:
        until(lambda: take_named_lock(driver, licence), "the end of the session before")
        join = JoinCopy(connection=scene.options(), mapping=scene.mapping, licence=licence)
        writer = join(0)
        try:
            yield writer
        finally:
            writer.close()


def copy_chunk(scene: Scene, gtid: str, *cuts: int) -> ChunkCopied:
    """Copy the whole table as one chunk, in a session of its own."""
    whole = replace(chunk(1, None, None), cuts=tuple(bound(cut) for cut in cuts))
    with task(scene) as writer:
        return ChunkCopied.decode(writer.handle(ChunkOrder(chunk=whole, gtid=gtid).encode()))


def copy(scene: Scene, engine: Any, **options: Any) -> None:
    """Copy the table as a migration does."""
    reader = BoundaryReader(scene.options(), stop=scene.stop)
    copier = Copier(
        TableCopy(
            mapping=scene.mapping,
            connection=scene.options(),
            chunker=LaneChunker(scene.mapping, reader.query, part_rows=PART_ROWS),
            query=reader.query,
            subscription=scene.subscription,
        ),
        driver=DriverEngine(2),
        spark=engine,
        pace=Throttle(),
        stop=scene.stop,
        options=CopyOptions(**options),
    )
    try:
        copier.run()
    finally:
        reader.close()


@contextlib.contextmanager
def writing(scene: Scene) -> Iterator[None]:
    """Let an application write while the context is open."""
    ended = threading.Event()
    written = threading.Event()

    def write() -> None:
        session = scene.db.connect()
        with session.cursor() as cursor:
            for n in range(1_000_000):
                key = n * 7919 % ROWS + 1
                cursor.execute("UPDATE t SET n = n + 1 WHERE id = %s", (key,))
                cursor.execute("DELETE FROM t WHERE id = %s", (key + 1,))
                cursor.execute("REPLACE INTO t VALUES (%s, 'new', 0)", (ROWS + n,))
                written.set()
                if ended.is_set():
                    break
        session.close()

    thread = threading.Thread(target=write, name="test-writer")
    thread.start()
    try:
        assert written.wait(DEADLINE)
        yield
    finally:
        ended.set()
        thread.join()


def test_nothing_of_the_copy_is_received(scene: Scene, engine: Any) -> None:
    """The server sends the application's changes alone, and the new table is right all the same."""
    run = new_run()
    scene.tables()
    fill(scene.db, ROWS)
    scene.db.execute("ANALYZE TABLE t")
    feed = scene.open(copying=True, own_writes=run)
    with writing(scene):
        copy(scene, engine, own_writes=run)
    scene.drain()
    scene.assert_equal()
    found = feed.statistics()
    assert found.received_bytes > 0
    copied = scene.db.query("SELECT SUM(LENGTH(v) + 8) FROM t")[0][0]
    # What the feed itself applies is sent under the server's own numbers, and passed over.
    assert found.skipped_bytes < max(float(copied) / 4, found.applied * 100)
    # One for each transaction, and no gap.
    first, _, last = numbers(scene, own(scene, run)).partition("-")
    assert first == "1"
    assert int(last) >= ROWS / PART_ROWS
    assert own(scene, run) not in feed.position(), "it was not received"


@pytest.mark.slow
def test_without_the_option_the_copy_is_received_and_skipped(scene: Scene, engine: Any) -> None:
    """The same figures see the difference, and nothing is left in gtid_executed."""
    scene.tables()
    fill(scene.db, ROWS)
    scene.db.execute("ANALYZE TABLE t")
    feed = scene.open(copying=True)
    copy(scene, engine)
    scene.drain()
    scene.assert_equal()
    copied = scene.db.query("SELECT SUM(LENGTH(v) + 8) FROM t")[0][0]
    assert feed.statistics().skipped_bytes > float(copied)


def test_a_second_attempt_after_a_commit_copies_again(scene: Scene) -> None:
    """The server would skip a number that is used, without an error; the rows must be written."""
    scene.tables()
    fill(scene.db, 10)
    gtid = f"{own(scene, new_run())}:1"
    first = copy_chunk(scene, gtid)
    scene.db.execute("UPDATE t SET v = 'changed' WHERE id = 3")
    scene.db.execute("DELETE FROM _t_new WHERE id > 5")
    second = copy_chunk(scene, gtid)
    assert (first.rows, second.rows) == (10, 10)
    scene.assert_equal()
    assert numbers(scene, gtid.rpartition(":")[0]) == "1"


def test_a_chunk_without_rows_leaves_no_gap(scene: Scene) -> None:
    """Its number is used, so that the set stays one interval for good."""
    scene.tables()
    tsid = own(scene, new_run())
    for number in (1, 2):
        assert copy_chunk(scene, f"{tsid}:{number}").rows == 0
    fill(scene.db, 3)
    copy_chunk(scene, f"{tsid}:3")
    assert numbers(scene, tsid) == "1-3"
    scene.assert_equal()


@pytest.mark.slow
def test_each_part_has_a_number_and_one_without_rows_leaves_no_gap(scene: Scene) -> None:
    """Four transactions, of which the third writes nothing: four numbers in succession."""
    scene.tables()
    fill(scene.db, 10)
    scene.db.execute("DELETE FROM t WHERE id > 5 AND id <= 8")
    tsid = own(scene, new_run())
    assert copy_chunk(scene, f"{tsid}:4", 2, 5, 8).rows == 7
    assert numbers(scene, tsid) == "4-7"
    scene.assert_equal()


def test_a_chunk_that_failed_gives_its_number_back(scene: Scene) -> None:
    """The session is as before, and the number can be used by the next attempt."""
    scene.tables(alter="MODIFY v VARCHAR(3)")
    fill(scene.db, 3)
    tsid = own(scene, new_run())
    with pytest.raises(ValueLost):
        copy_chunk(scene, f"{tsid}:1")
    assert numbers(scene, tsid) == ""
    scene.db.execute("UPDATE t SET v = 'a'")
    copy_chunk(scene, f"{tsid}:1")
    assert numbers(scene, tsid) == "1"
    scene.assert_equal()


def test_a_killed_chunk_is_copied_under_its_numbers(scene: Scene) -> None:
    """R18: the session that is gone held a number and gave it back; used ones are not used again.

    The second part is killed in the middle; the next attempt writes both, the first one under the
    server's own number.
    """
    scene.tables()
    fill(scene.db, 10)
    tsid = own(scene, new_run())
    blocker = scene.db.connect(autocommit=False)
    with contextlib.closing(blocker.cursor()) as cursor:
        cursor.execute("INSERT INTO _t_new (id, v, n) VALUES (7, 'mine', 0)")
        failed: list[BaseException] = []

        def copy() -> None:
            try:
                copy_chunk(scene, f"{tsid}:1", 5)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=copy)
        thread.start()
        waiting = (
            "SELECT t.processlist_id FROM performance_schema.data_lock_waits w"
            " JOIN performance_schema.threads t ON t.thread_id = w.requesting_thread_id"
        )
        ((victim,),) = until(lambda: scene.db.query(waiting), "the second part to wait")
        assert numbers(scene, tsid) == "1"
        scene.db.execute(f"KILL {victim}")
        thread.join()
        cursor.execute("ROLLBACK")
    blocker.close()
    assert isinstance(failed[0], WorkersLost)
    assert numbers(scene, tsid) == "1"
    scene.db.execute("UPDATE t SET v = 'since' WHERE id = 3")
    assert copy_chunk(scene, f"{tsid}:1", 5).rows == 10
    assert numbers(scene, tsid) == "1-2"
    scene.assert_equal()


@pytest.mark.slow
def test_a_resumed_feed_goes_on(scene: Scene, engine: Any) -> None:
    """What the first run copied unseen is neither waited for nor sent to the second one."""
    first, second = new_run(), new_run()
    scene.tables()
    fill(scene.db, ROWS)
    feed = scene.open(copying=True, own_writes=first)
    copy(scene, engine, own_writes=first)
    scene.db.execute("UPDATE t SET v = 'between' WHERE id < 100")
    feed.block_wait()
    position = feed.position()
    scene.close()
    scene.db.execute("UPDATE t SET v = 'later' WHERE id < 50")
    feed = scene.open(position=position, own_writes=second)
    scene.drain()
    scene.assert_equal()
    assert feed.statistics().skipped_bytes < ROWS


@pytest.mark.slow
def test_a_migration_that_is_interrupted_goes_on(
    db: Database, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole command, under writers: each run has an identifier of its own (R17)."""
    first, second = new_run(), new_run()
    # So many rows, in so small chunks, that the second run has something left to copy.
    make_table(db, 60_000)
    with Writers(db) as writers:
        Interruption(monkeypatch).at(
            engine,
            db,
            "chunk.committed",
            2,
            feed=FeedOptions(own_writes=first),
            target_chunk_time=0.02,
        )
        run = start(engine, db, feed=FeedOptions(own_writes=second))
        report = run.end()
    assert report.resumed, run.told.text
    assert report.differences_found == 0, run.told.text
    writers.assert_kept()
    assert_nothing_left(db)
    executed = db.query("SELECT @@GLOBAL.gtid_executed")[0][0]
    for each in (first, second):
        assert f"{own_uuid(each, db.name, 't')}:1" in executed, "it copied under its own"
