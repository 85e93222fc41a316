"""Two gangs of one copy under live writes: Spark takes over, tasks are lost, parts meet changes.

A real change feed applies what is written meanwhile, and nothing repairs the new table.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py import points
from spirit_py.chunk.lanes import LaneChunker
from spirit_py.copier import copier as copier_module
from spirit_py.copier import crew as crew_module
from spirit_py.copier import task
from spirit_py.copier.chunk_sql import chunk_lock
from spirit_py.copier.copier import BoundaryReader, Copier, CopyOptions, TableCopy
from spirit_py.copier.crew import Crew
from spirit_py.errors import MigrationFailure, ServerFault, WorkersLost
from spirit_py.locks.named import take_named_lock
from spirit_py.mysql.connect import connect
from spirit_py.pace import ChunkDone, Work
from spirit_py.spark.choice import DriverEngine
from tests.fixtures.feed import fill
from tests.kits.chunks import chunk
from tests.kits.copying import Throttle, chunk_sessions
from tests.kits.engine import SharedEngine
from tests.kits.paces import SetPace
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.feed import Scene

ROWS = 20_000
PART_ROWS = 500
ORIGIN = "of these tests"


def copy(
    scene: Scene,
    spark: Any = None,
    *,
    first_rows: int = 2000,
    slots: int = 2,
    throttled: Callable[[], str] = lambda: "",
    pace: Any = None,
) -> Copier:
    """Copy the scene's table in chunks of a few parts; return the copier when it has ended."""
    reader = BoundaryReader(scene.options(), stop=scene.stop)
    copier = Copier(
        TableCopy(
            mapping=scene.mapping,
            connection=scene.options(origin=ORIGIN),
            chunker=LaneChunker(scene.mapping, reader.query, workers=slots, part_rows=PART_ROWS),
            query=reader.query,
            subscription=scene.subscription,
        ),
        driver=DriverEngine(slots),
        spark=spark,
        pace=pace or Throttle(throttled, chunk_seconds=0.02),
        stop=scene.stop,
        options=CopyOptions(),
    )
    copier._meter._sizer.rows = first_rows
    try:
        copier.run()
    finally:
        reader.close()
    return copier


@pytest.fixture
def filled(scene: Scene) -> Scene:
    """Return a scene with rows, followed by its feed."""
    scene.tables()
    fill(scene.db, ROWS)
    scene.db.execute("ANALYZE TABLE t")
    scene.open(copying=True, flush_interval=0.05)
    return scene


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what has an action done once, when a point is passed for the nth time."""

    def arrange(point: str, action: Callable[[], None], nth: int = 1) -> None:
        passed = 0
        lock = threading.Lock()

        def announce(name: str) -> None:
            nonlocal passed
            with lock:
                passed += name == point
                due = name == point and passed == nth
            if due:
                action()

        monkeypatch.setattr(points, "_listener", "here")
        monkeypatch.setattr(points, "_announce", announce)

    return arrange


@pytest.fixture
def every(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], None]], None]:
    """Return what has an action done whenever a point is passed."""

    def arrange(point: str, action: Callable[[], None]) -> None:
        def announce(name: str) -> None:
            if name == point:
                action()

        monkeypatch.setattr(points, "_listener", "here")
        monkeypatch.setattr(points, "_announce", announce)

    return arrange


@contextlib.contextmanager
def writing(scene: Scene) -> Iterator[None]:
    """Let an application insert, change and delete rows all over the table."""
    ended = threading.Event()

    def write() -> None:
        session = scene.db.connect()
        with session.cursor() as cursor:
            for n in range(1_000_000):
                if ended.is_set():
                    break
                key = n * 7919 % ROWS + 1
                cursor.execute("UPDATE t SET n = n + 1, v = 'new' WHERE id = %s", (key,))
                cursor.execute("DELETE FROM t WHERE id = %s", (key + 1,))
                cursor.execute("REPLACE INTO t VALUES (%s, 'back', 0)", (key // 2 + 1,))
        session.close()

    thread = threading.Thread(target=write, name="test-writer")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class LateEngine(SharedEngine):
    """Spark that becomes ready, or fails, when the test says so."""

    ready = False
    failure: MigrationFailure | None = None


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, int, int]]:
    """Return a list that gets the engine, rank and chunk number of every order."""
    found: list[tuple[Any, int, int]] = []
    post = Crew._post

    def noting(self: Crew, team: Any, rank: int, order: Any) -> None:
        found.append((team.engine, rank, order.number))
        post(self, team, rank, order)

    monkeypatch.setattr(Crew, "_post", noting)
    return found


@pytest.mark.slow
def test_spark_takes_over_when_its_tasks_have_come(filled, spark_engine, monkeypatch, posted, at):
    """The driver's tasks begin; Spark's go on with no chunk twice and none left out."""
    monkeypatch.setattr(copier_module, "_WORTHWHILE_SECONDS", 0.0001)
    late = LateEngine(spark_engine)

    crews: list[Crew] = []
    look = Crew._look_for_tasks

    def looking(self: Crew, coming: Any) -> None:
        crews.append(self)
        look(self, coming)

    monkeypatch.setattr(Crew, "_look_for_tasks", looking)

    def ready() -> None:
        late.ready = True

    def throttled() -> str:
        """Wait with the rest of the table until Spark's tasks have come."""
        over = crews and crews[0]._current and crews[0]._current[-1].engine is late
        return "Spark" if late.ready and not over else ""

    at("chunk.committed", ready, nth=3)
    with writing(filled):
        copier = copy(filled, late, first_rows=1000, throttled=throttled)
    engines = [engine is late for engine, _, _ in posted]
    assert engines == sorted(engines), "an order for the driver's tasks after the first of Spark's"
    assert set(engines) == {False, True}
    numbers = [number for _, _, number in posted]
    assert numbers == list(range(copier.statistics().chunks))
    seen = copier.statistics()
    assert seen.replaced_chunks == 0
    assert 0 < seen.spark_rows < seen.rows
    filled.drain()
    filled.assert_equal()
    until(lambda: not chunk_sessions(filled.db), "both gangs' sessions to end")


@pytest.mark.slow
@pytest.mark.parametrize("failed", [False, True])
def test_a_copy_does_not_wait_for_spark(filled, engine, posted, failed):
    """Spark that never starts, and Spark whose start failed, hold nothing up."""
    late = LateEngine(engine)
    late.failure = MigrationFailure("no Java") if failed else None
    copy(filled, late)
    assert {engine for engine, _, _ in posted} & {late} == set()
    filled.drain()
    filled.assert_equal()


def test_a_short_copy_is_not_handed_over(filled, engine, monkeypatch, posted):
    """A table that the driver copies within the limit never sees Spark, ready or not."""
    # Seconds of a loaded machine are longer.
    monkeypatch.setattr(copier_module, "_WORTHWHILE_SECONDS", 1000.0)
    shared = SharedEngine(engine)
    copier = copy(filled, shared)
    assert {engine for engine, _, _ in posted} & {shared} == set()
    assert copier.statistics().spark_rows == 0


@pytest.mark.slow
def test_spark_whose_job_ends_at_once_is_done_without(filled, engine, monkeypatch, posted):
    """A JVM that is gone: its gang fails to come together, and the driver's tasks go on."""
    monkeypatch.setattr(copier_module, "_WORTHWHILE_SECONDS", 0.0001)

    def gone(*_: Any, **__: Any) -> Any:
        raise MigrationFailure("Spark could not run a job: the JVM is gone")

    late: Any = LateEngine(engine)
    late.ready = True
    late.run_gang = gone
    with writing(filled):
        copy(filled, late, first_rows=500)
    assert {engine for engine, _, _ in posted} & {late} == set()
    filled.drain()
    filled.assert_equal()


@pytest.mark.slow
@pytest.mark.parametrize("point", ["chunk.executing", "chunk.part", "chunk.executed"])
def test_a_chunk_whose_task_is_lost_is_copied_again(filled, at, point):
    """R4, R18: lost before the first part, between two, and after the commit before the answer.

    Rows of every part are changed, deleted and inserted between the two tries: what the first one
    wrote is older, and the feed holds the changes until the chunk is reported.
    """
    db = filled.db

    def lose() -> None:
        db.execute("UPDATE t SET v = 'changed' WHERE id % 7 = 0")
        db.execute("DELETE FROM t WHERE id % 11 = 0")
        db.execute("INSERT INTO t (id, v, n) SELECT id, 'again', 0 FROM _t_new WHERE id % 22 = 0")
        filled.feed.block_wait()
        for session in chunk_sessions(db):
            db.kill(session)

    at(point, lose, nth=3)
    copier = copy(filled)
    assert copier.statistics().replaced_chunks >= 1
    filled.drain()
    filled.assert_equal()


@pytest.mark.slow
def test_a_lost_chunk_waits_for_the_end_of_a_pause_unless_changes_need_it(filled, at, posted):
    """Nothing new begins meanwhile; a feed without room waits for these chunks itself."""
    lost, looks = threading.Event(), itertools.count()
    seen: list[int] = []

    def lose() -> None:
        for session in chunk_sessions(filled.db):
            filled.db.kill(session)
        lost.set()

    def why(work: Work) -> str:
        numbers = [number for _, _, number in posted]
        if not lost.is_set() or len({*numbers}) < len(numbers):
            return ""
        if work is Work.REPAIR:
            seen.append(len(posted))
        if len(seen) <= 20:
            # As the time that is left until a window opens.
            return f"a pause, for {next(looks)} s"
        return "the change feed; a pause" if work is Work.COPY else "a pause"

    at("chunk.executing", lose, nth=3)
    copier = copy(filled, pace=SetPace(why=why, chunk_seconds=0.02))
    assert copier.statistics().replaced_chunks >= 1
    assert len(seen) > 20
    filled.drain()
    filled.assert_equal()


@pytest.mark.slow
def test_a_late_attempt_is_ended_before_its_chunk_is_copied_again(filled, at, monkeypatch):
    """R18: a session that the driver does not know of, with the lock of a chunk that was lost."""
    monkeypatch.setattr(task, "_FENCE_SECONDS", 1)
    with connect(filled.options(), role="late") as late:

        def lose() -> None:
            for session in chunk_sessions(filled.db):
                filled.db.kill(session)
            for number in range(2):
                lock = chunk_lock(filled.mapping, chunk(number, None, None), ORIGIN)
                assert take_named_lock(late, lock, timeout=10)

        at("chunk.executed", lose)
        copy(filled)
        assert not late.alive()
    filled.drain()
    filled.assert_equal()


@pytest.mark.slow
def test_changes_between_two_parts_wait_for_the_chunk(filled, at):
    """R4: a commit of a part is not taken for the chunk's, for rows of that part either."""
    db, seen = filled.db, []

    def change() -> None:
        ((last,),) = db.query("SELECT MAX(id) FROM _t_new")
        db.execute("UPDATE t SET v = 'changed' WHERE id = %s OR id = %s", (last - 1, last + 1))
        db.execute("DELETE FROM t WHERE id = %s OR id = %s", (last, last + 2))
        filled.feed.block_wait()
        filled.feed.flush()
        seen.append(db.query("SELECT v FROM _t_new WHERE id >= %s ORDER BY id", (last - 1,)))
        seen.append([(f"row {last - 1}",), (f"row {last}",)])

    at("chunk.part", change)
    copy(filled, slots=1)
    assert seen[0] == seen[1], "changes of a chunk in flight were applied"
    filled.drain()
    filled.assert_equal()


@pytest.mark.slow
def test_gang_after_gang_that_is_lost_ends_the_copy(filled, monkeypatch):
    """After a minute without any progress the copy ends; the error can be resumed from."""
    monkeypatch.setattr(crew_module, "_LOSSES_SECONDS", 1.0)
    reach = points.reach

    def losing(name: str) -> None:
        if name == "chunk.executing":
            raise WorkersLost("the task is gone")
        reach(name)

    monkeypatch.setattr(points, "reach", losing)
    with pytest.raises(WorkersLost, match="the task is gone") as lost:
        copy(filled)
    assert lost.value.resumable
    until(lambda: not chunk_sessions(filled.db), "the sessions to end")


@pytest.mark.slow
def test_a_copy_goes_on_with_the_sessions_that_the_server_has_room_for(filled, monkeypatch, caplog):
    """Each loss halves the tasks, and is no reason to end before one was tried."""
    monkeypatch.setattr(crew_module, "_MOST_LOSSES", 0)
    monkeypatch.setattr(crew_module, "_LOSSES_SECONDS", 0.0)
    monkeypatch.setattr(crew_module, "_LONGEST_REST", 0.1)
    join = task.JoinCopy.__call__

    def joining(self: task.JoinCopy, rank: int) -> Any:
        if rank:
            raise ServerFault(1040, "Too many connections", where="test")
        return join(self, rank)

    monkeypatch.setattr(task.JoinCopy, "__call__", joining)
    copy(filled, slots=4)
    assert "Too many connections" in caplog.text
    filled.drain()
    filled.assert_equal()


def killing(scene: Scene, times: int) -> Callable[[], None]:
    """Return what ends the sessions of all tasks, so many times."""
    left = times

    def kill() -> None:
        nonlocal left
        if left:
            left -= 1
            for session in chunk_sessions(scene.db):
                scene.db.kill(session)

    return kill


@pytest.mark.slow
def test_gangs_that_are_lost_one_after_the_other_do_not_end_the_copy(filled, every):
    """Whoever kills sessions may stop: five times in succession without a chunk in between."""
    every("chunk.executing", killing(filled, 5))
    with writing(filled):
        copier = copy(filled, slots=1)
    assert copier.statistics().replaced_chunks >= 5
    filled.drain()
    filled.assert_equal()


class Tasks(Throttle):
    """A pace of so many tasks at a time, by the number of chunks that have ended."""

    def __init__(self, *wanted: tuple[int, int]) -> None:
        """Take numbers of tasks, each from a number of chunks on."""
        super().__init__(chunk_seconds=0.02)
        self.wanted = wanted
        self.seen: list[tuple[int, int]] = []

    def tasks(self, most: int) -> int:
        """Return the number for the chunks that have ended."""
        return min(most, [tasks for since, tasks in self.wanted if since <= len(self.seen)][-1])

    def done(self, work: Work, done: ChunkDone, most: int) -> None:
        """Count a chunk."""
        assert (work, most) == (Work.COPY, 8)
        self.seen.append((self.tasks(most), done.among))


class Joining(Tasks):
    """One task; then three, however late they come; one again for a while; and two."""

    def tasks(self, most: int) -> int:
        """Return the number for the chunks that have ended since three tasks were at work."""
        among = [number for _, number in self.seen]
        if 3 not in among:
            return min(most, 1 if len(among) < 4 else 3)
        since = len(among) - among.index(3)
        return min(most, 3 if since <= 10 else 1 if since <= 16 else 2)


@pytest.mark.slow
def test_tasks_join_and_leave_as_the_pace_wants(filled, monkeypatch, posted):
    """Their sessions begin with them; chunks among another number of tasks are told apart."""
    monkeypatch.setattr(copier_module, "_WORTHWHILE_SECONDS", 0.0001)
    monkeypatch.setattr(crew_module, "_SPARE_SECONDS", 0.0)
    opened: list[int] = []
    opening = Crew._open

    def noting(self: Crew, engine: Any, first: int, size: int) -> Any:
        team = opening(self, engine, first, size)
        opened.append(team.gang.size)
        return team

    monkeypatch.setattr(Crew, "_open", noting)
    pace = Joining()
    with writing(filled):
        copy(filled, slots=8, first_rows=200, pace=pace)
    assert opened[0] == 1
    assert 2 in opened[1:]
    assert {among for _, among in pace.seen} >= {1, 3}
    ended = [number for _, _, number in posted]
    assert sorted(ended) == list(range(len(ended))), "a chunk was copied twice, or left out"
    filled.drain()
    filled.assert_equal()


@pytest.mark.slow
def test_tasks_that_cannot_be_had_are_done_without(filled, monkeypatch):
    """A server that takes no more sessions: the copy goes on with those that it has."""
    monkeypatch.setattr(copier_module, "_WORTHWHILE_SECONDS", 0.0001)
    opening = Crew._open

    def refusing(self: Crew, engine: Any, first: int, size: int) -> Any:
        if first:
            raise MigrationFailure("Too many connections")
        return opening(self, engine, first, size)

    monkeypatch.setattr(Crew, "_open", refusing)
    most: list[int] = []

    class Wanting(Tasks):
        def done(self, work: Work, done: ChunkDone, most_tasks: int) -> None:
            most.append(most_tasks)
            self.seen.append((0, done.among))

    with writing(filled):
        copy(filled, slots=8, first_rows=500, pace=Wanting((0, 1), (2, 4)))
    assert most[-1] == 1
    filled.drain()
    filled.assert_equal()


@pytest.mark.slow
def test_a_task_that_is_lost_before_it_reports_is_replaced(filled, monkeypatch, posted):
    """The others of its gang wait for orders."""
    lost: list[int] = []
    join = task.JoinCopy.__call__

    def joining(self: task.JoinCopy, rank: int) -> Any:
        if rank == 0 and not lost:
            lost.append(rank)
            raise WorkersLost("the session was killed")
        return join(self, rank)

    monkeypatch.setattr(task.JoinCopy, "__call__", joining)
    with writing(filled):
        copier = copy(filled)
    assert lost == [0]
    assert copier.statistics().replaced_chunks == 0
    assert [number for _, _, number in posted] == list(range(copier.statistics().chunks))
    filled.drain()
    filled.assert_equal()
