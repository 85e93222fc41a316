"""``--tag-own-writes``: the copy commits under identifiers that the feed need not receive."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.binlog.position import GtidSet
from spirit_py.chunk.chunker import make_chunker
from spirit_py.config import FeedOptions
from spirit_py.copier.boundary import BoundaryReader
from spirit_py.copier.copier import Copier, CopyOptions
from spirit_py.copier.task import CopyTask, close_session, copy_chunk
from spirit_py.errors import ValueLost
from spirit_py.mysql.ownwrites import new_run, own_uuid
from tests.fixtures.feed import fill
from tests.kits.copying import Throttle
from tests.kits.resume import Interruption, Writers, assert_nothing_left, make_table, start
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.contracts import SqlSession
    from tests.fixtures.feed import Scene
    from tests.fixtures.mysql import Database

ROWS = 20_000
pytestmark = pytest.mark.gtid


@pytest.fixture(autouse=True)
def no_session_left(scene: Scene) -> Iterator[None]:
    """Close the session of the chunks that were copied in this process."""
    yield
    close_session()


def own(scene: Scene, run: str) -> str:
    """Return the uuid of a run's copy of the scene's table."""
    return own_uuid(run, scene.db.name, "t")


def numbers(scene: Scene, tsid: str) -> str:
    """Return the numbers of an identifier that the server has executed."""
    executed = GtidSet.parse(scene.db.query("SELECT @@GLOBAL.gtid_executed")[0][0])
    return str(executed.only(lambda each: each == tsid)).partition(":")[2]


def task(scene: Scene, gtid: str, sql: str = "") -> CopyTask:
    """Build a chunk of the whole table."""
    name = scene.db.name
    whole = f"REPLACE INTO {name}._t_new (id, v, n) SELECT id, v, n FROM {name}.t"
    return CopyTask(
        number=1, label="chunk 1", connection=scene.options(), sql=sql or whole,
        lock=f"spirit-test-{name}", gtid=gtid,
    )  # fmt: skip


def copy(scene: Scene, engine: Any, **options: Any) -> int:
    """Copy the table as a migration does; return the chunks."""
    reader = BoundaryReader(scene.options(), stop=scene.stop)
    copier = Copier(
        engine=engine,
        mapping=scene.mapping,
        connection=scene.options(),
        chunker=make_chunker(scene.mapping, reader.query),
        query=reader.query,
        subscription=scene.subscription,
        throttled=Throttle().throttled,
        stop=scene.stop,
        options=CopyOptions(slots=2, **options),
    )
    try:
        copier.run()
    finally:
        reader.close()
    return copier.statistics().chunks


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
        assert written.wait(30)
        yield
    finally:
        ended.set()
        thread.join()


def test_nothing_of_the_copy_is_received(scene: Scene, spark_engine: Any) -> None:
    """The server sends the application's changes alone, and the new table is right all the same."""
    run = new_run()
    scene.tables()
    fill(scene.db, ROWS)
    scene.db.execute("ANALYZE TABLE t")
    feed = scene.open(copying=True, own_writes=run)
    with writing(scene):
        chunks = copy(scene, spark_engine, own_writes=run)
    scene.drain()
    scene.assert_equal()
    found = feed.statistics()
    assert found.received_bytes > 0
    copied = scene.db.query("SELECT SUM(LENGTH(v) + 8) FROM t")[0][0]
    # What the feed itself applies is sent under the server's own numbers, and passed over.
    assert found.skipped_bytes < max(float(copied) / 4, found.applied * 100)
    assert numbers(scene, own(scene, run)) == (f"1-{chunks}" if chunks > 1 else "1")
    assert own(scene, run) not in feed.position(), "it was not received"


def test_without_the_option_the_copy_is_received_and_skipped(
    scene: Scene, spark_engine: Any
) -> None:
    """The same figures see the difference, and nothing is left in gtid_executed."""
    scene.tables()
    fill(scene.db, ROWS)
    scene.db.execute("ANALYZE TABLE t")
    feed = scene.open(copying=True)
    copy(scene, spark_engine)
    scene.drain()
    scene.assert_equal()
    copied = scene.db.query("SELECT SUM(LENGTH(v) + 8) FROM t")[0][0]
    assert feed.statistics().skipped_bytes > float(copied)


def test_a_second_attempt_after_a_commit_copies_again(scene: Scene) -> None:
    """The server would skip a number that is used, without an error; the rows must be written."""
    scene.tables()
    fill(scene.db, 10)
    gtid = f"{own(scene, new_run())}:1"
    first = copy_chunk(task(scene, gtid))
    scene.db.execute("UPDATE t SET v = 'changed' WHERE id = 3")
    scene.db.execute("DELETE FROM _t_new WHERE id > 5")
    close_session()
    second = copy_chunk(task(scene, gtid))
    assert (first.rows, second.rows) == (10, 10)
    scene.assert_equal()
    assert numbers(scene, gtid.rpartition(":")[0]) == "1"


def test_a_chunk_without_rows_leaves_no_gap(scene: Scene) -> None:
    """Its number is used, so that the set stays one interval for good."""
    scene.tables()
    tsid = own(scene, new_run())
    for number in (1, 2):
        assert copy_chunk(task(scene, f"{tsid}:{number}")).rows == 0
    fill(scene.db, 3)
    copy_chunk(task(scene, f"{tsid}:3"))
    assert numbers(scene, tsid) == "1-3"
    scene.assert_equal()


def test_a_chunk_that_failed_gives_its_number_back(scene: Scene) -> None:
    """The session is as before, and the number can be used by the next attempt."""
    scene.tables(alter="MODIFY v VARCHAR(3)")
    fill(scene.db, 3)
    tsid = own(scene, new_run())
    with pytest.raises(ValueLost):
        copy_chunk(task(scene, f"{tsid}:1"))
    assert numbers(scene, tsid) == ""
    scene.db.execute("UPDATE t SET v = 'a'")
    copy_chunk(task(scene, f"{tsid}:1"))
    assert numbers(scene, tsid) == "1"
    scene.assert_equal()


def test_a_killed_chunk_is_copied_under_its_number(scene: Scene) -> None:
    """R18: the session that is gone held the number, and gave it back."""
    scene.tables()
    fill(scene.db, 10)
    tsid, name = own(scene, new_run()), scene.db.name
    slow = (
        f"REPLACE INTO {name}._t_new (id, v, n)"
        f" SELECT id, v, n FROM {name}.t"
        " WHERE SLEEP(IF(id = 5 AND CONNECTION_ID() = %d, 30, 0)) = 0"
    )
    copy_chunk(task(scene, ""))
    scene.db.execute("DELETE FROM _t_new")
    session = session_of_this_process()
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.append(copy_chunk(task(scene, f"{tsid}:1", slow % session.id)))
    )
    thread.start()
    running = "SELECT COUNT(*) FROM information_schema.processlist WHERE STATE = 'User sleep'"
    until(lambda: scene.db.query(running)[0][0], "the chunk to run")
    scene.db.execute(f"KILL {session.id}")
    thread.join()
    assert found[0].retries == 1
    assert found[0].rows == 10
    assert numbers(scene, tsid) == "1"
    scene.assert_equal()


def session_of_this_process() -> SqlSession:
    """Return the session that chunks of this process are copied in."""
    from spirit_py.copier import task as module

    assert module._session is not None
    return module._session


def test_a_resumed_feed_goes_on(scene: Scene, spark_engine: Any) -> None:
    """What the first run copied unseen is neither waited for nor sent to the second one."""
    first, second = new_run(), new_run()
    scene.tables()
    fill(scene.db, ROWS)
    feed = scene.open(copying=True, own_writes=first)
    copy(scene, spark_engine, own_writes=first)
    scene.db.execute("UPDATE t SET v = 'between' WHERE id < 100")
    feed.block_wait()
    position = feed.position()
    scene.close()
    scene.db.execute("UPDATE t SET v = 'later' WHERE id < 50")
    feed = scene.open(position=position, own_writes=second)
    scene.drain()
    scene.assert_equal()
    assert feed.statistics().skipped_bytes < ROWS


def test_a_migration_that_is_interrupted_goes_on(
    db: Database, spark_engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole command, under writers: each run has an identifier of its own (R17)."""
    first, second = new_run(), new_run()
    # So many rows, in so small chunks, that the second run has something left to copy.
    make_table(db, 60_000)
    with Writers(db) as writers:
        Interruption(monkeypatch).at(
            spark_engine,
            db,
            "chunk.committed",
            2,
            feed=FeedOptions(own_writes=first),
            target_chunk_time=0.02,
        )
        run = start(spark_engine, db, feed=FeedOptions(own_writes=second))
        report = run.end()
    assert report.resumed, run.told.text
    assert report.differences_found == 0, run.told.text
    writers.assert_kept()
    assert_nothing_left(db)
    executed = db.query("SELECT @@GLOBAL.gtid_executed")[0][0]
    for each in (first, second):
        assert f"{own_uuid(each, db.name, 't')}:1" in executed, "it copied under its own"
