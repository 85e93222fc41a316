"""Copy, checksum, repair and index build ask the pace, and go by its answers."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from typing import TYPE_CHECKING

import pytest

from spirit_py.checkpoint.table import HEARTBEAT_ID, CheckpointTable
from spirit_py.checksum import reading
from spirit_py.copier import copier as copier_module
from spirit_py.copier.crew import Crew
from spirit_py.migration import throttling
from spirit_py.pace import Work
from spirit_py.spark.choice import DriverEngine
from spirit_py.throttle import adaptive as adaptive_module
from tests.kits.checksum import Pair
from tests.kits.copying import copying
from tests.kits.migrate import Migrating, config_for
from tests.kits.paces import SetPace
from tests.kits.resume import once_at
from tests.kits.tables import map_table
from tests.kits.waiting import DEADLINE, until

if TYPE_CHECKING:
    from spirit_py.checksum.result import ChecksumProgress

ROWS = 4000


@pytest.fixture
def filled(db):
    """Return the test's schema with a table of some rows."""
    db.execute("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(200), n INT, KEY (n))")
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t (v, n) WITH RECURSIVE m (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM m"
        f" WHERE i < {ROWS}) SELECT REPEAT('x', 100), i FROM m"
    )
    db.execute("ANALYZE TABLE t")
    return db


def compared(db, *, reordered):
    """Return the copied table, whose key the change brings into another order."""
    if not reordered:
        return Pair(db).copy()
    db.execute("ALTER TABLE t MODIFY id VARCHAR(20) COLLATE utf8mb4_0900_ai_ci NOT NULL")
    return Pair(db, "MODIFY id VARCHAR(20) COLLATE utf8mb4_bin NOT NULL").copy()


def test_tasks_beyond_the_pace_get_no_orders(filled, monkeypatch):
    """One task works while the pace allows one; two others join when it allows three."""
    pace = SetPace(most_tasks=1)
    ranks: list[tuple[int, int]] = []
    post = Crew._post

    def noted(self, team, seat, order):
        ranks.append((pace.most_tasks, team.first + seat))
        pace.most_tasks = 1 if len(ranks) < 6 else 3
        post(self, team, seat, order)

    monkeypatch.setattr(Crew, "_post", noted)
    monkeypatch.setattr(copier_module, "_WORTHWHILE_SECONDS", 1e-6)
    with copying(filled, map_table(filled), DriverEngine(3), first_rows=100) as run:
        run.copier.pace = pace
        monkeypatch.setattr(run.copier._meter, "next_rows", lambda _seconds: 100)
        run.start()
        run.join()
    assert {rank for most, rank in ranks if most == 1} == {0}
    assert {rank for most, rank in ranks if most == 3} == {0, 1, 2}
    assert filled.query("SELECT COUNT(*) FROM _t_new") == [(ROWS,)]


def test_the_size_of_a_transaction_follows_the_pace(filled):
    """A chunk that is cut later has smaller parts when the pace wants them smaller."""
    mapping = map_table(filled)
    assert mapping.source.row_bytes
    pace = SetPace(part=math.ceil(200 * mapping.source.row_bytes))
    with copying(filled, mapping, DriverEngine(1), first_rows=1000) as run:
        run.copier.pace = pace
        run.start()
        run.join()
        chunks = run.feed.dispatched
    # The kit's own limit is 500.
    assert len(chunks[0].parts) == chunks[0].target_rows / 200
    assert filled.query("SELECT COUNT(*) FROM _t_new") == [(ROWS,)]


@pytest.mark.slow
def test_long_rows_are_few_in_a_transaction(db):
    """Those whose text is beside the page too: the server's statistics count it."""
    db.execute("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v LONGTEXT)")
    db.execute("INSERT INTO t (v) " + " UNION ALL ".join(["SELECT REPEAT('x', 1 << 20)"] * 24))
    db.execute("ANALYZE TABLE t")
    with copying(db, map_table(db), DriverEngine(1), first_rows=1000) as run:
        run.start()
        run.join()
        chunks = run.feed.dispatched
    # At most three of a megabyte each: the statistics are estimates.
    assert sum(len(chunk.parts) for chunk in chunks) >= 8
    assert db.query("SELECT COUNT(*) FROM _t_new") == [(24,)]


@pytest.mark.slow
def test_a_checksum_waits_and_reads_every_row(filled):
    """While there is a reason no chunk is handed out, and it is shown; afterwards nothing lacks."""
    pair = Pair(filled).copy()
    pace = SetPace()
    told: list[ChecksumProgress] = []
    held = threading.Event()

    def why(work: Work) -> str:
        """Hold the checksum back from its second chunk on, for a while."""
        late = pace.asked.get(work, 0)
        held.set() if late > 30 else None
        return "the load" if work is Work.CHECKSUM and 4 < late <= 30 else ""

    pace.why = why
    filled.execute("UPDATE _t_new SET n = 0 WHERE id IN (1, 4000)")
    checker = pair.checker(pace=pace, tasks=1, first_rows=300, on_progress=told.append)
    result = checker.run()
    assert held.is_set()
    assert "the load" in {seen.waiting_for for seen in told}
    assert told[-1].waiting_for == ""
    assert (result.rows, result.differences, result.snapshots) == (ROWS, 2, 1)


@pytest.mark.slow
@pytest.mark.parametrize("reordered", [False, True])
def test_a_snapshot_is_given_back_while_the_checksum_waits(filled, monkeypatch, reordered):
    """It would keep the history; the next one goes on above the last chunk, and nothing lacks."""
    monkeypatch.setattr(reading, "_HOLD_SECONDS", 0.05)
    pair = compared(filled, reordered=reordered)
    pace = SetPace()
    snapshots: list[int] = []
    looked: list[float] = []
    deadline = time.monotonic() + DEADLINE

    def why(work: Work) -> str:
        """Hold it back from the second chunk on, until no session has a snapshot."""
        if work is not Work.CHECKSUM or pace.asked[work] <= 4 or snapshots:
            return ""
        now = time.monotonic()
        assert now < deadline
        # The server shows the answer of before to who asks more than ten times a second.
        if not looked:
            looked.append(now)
        elif now > looked[-1] + 0.2:
            if not filled.query("SELECT 1 FROM information_schema.INNODB_TRX"):
                snapshots.append(1)
            looked.append(time.monotonic())
        return "the load"

    pace.why = why
    filled.execute("UPDATE _t_new SET n = 0 WHERE id IN (1, 4000)")
    result = pair.check(pace=pace, tasks=1, first_rows=300)
    assert snapshots
    assert (result.rows, result.differences, result.snapshots) == (ROWS, 2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("reordered", [False, True])
def test_short_chunks_with_rests_compare_every_row(filled, reordered):
    """A pace for a busy server: small chunks, counts in as small pieces, rests between."""
    pair = compared(filled, reordered=reordered)
    filled.execute("UPDATE _t_new SET n = 0 WHERE id IN (1, 4000)")
    pace = SetPace(most_tasks=1, part=64 << 10, rest=0.5)
    result = pair.check(pace=pace, tasks=2, first_rows=100, target_seconds=0.02)
    assert (result.rows, result.differences) == (ROWS, 2)


@pytest.mark.slow
def test_a_repair_waits_for_its_turn(filled):
    """Rows are not written again while there is a reason against it."""
    pair = Pair(filled).copy()
    filled.execute("UPDATE _t_new SET n = 0 WHERE id = 7")
    pace = SetPace()
    seen: list[int] = []

    def why(work: Work) -> str:
        if work is not Work.REPAIR or pace.asked[work] > 3:
            return ""
        seen.append(filled.query("SELECT n FROM _t_new WHERE id = 7")[0][0])
        return "the replica"

    pace.why = why
    result = pair.repair(pace=pace)
    assert seen == [0, 0, 0]
    assert result.repaired_chunks == 1
    assert filled.query("SELECT n FROM _t_new WHERE id = 7") == [(7,)]


@pytest.mark.slow
def test_a_build_of_indexes_waits_for_its_turn(filled, engine, monkeypatch):
    """It cannot be paused once it runs, so it begins when there is no reason to wait."""
    throttled: list[bool] = []

    class Held:
        name, holds, every = "test", frozenset({Work.INDEX}), 0.0

        def look(self) -> str:
            # Asked by several threads, and at the end, when the table has been swapped in.
            with contextlib.closing(filled.connect()) as session, session.cursor() as cursor:
                built = cursor.execute(
                    "SELECT 1 FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE()"
                    " AND TABLE_NAME = '_t_new' AND INDEX_NAME = 'n'"
                )
            throttled.append(bool(built))
            return "the test" if len(throttled) < 5 else ""

        def close(self) -> None:
            pass

    monkeypatch.setattr(throttling, "surroundings", lambda *_: [(Held(), False)])
    config = config_for(
        filled, table="t", alter="ADD COLUMN x INT", no_shortcut=True, defer_indexes="on"
    )
    run = Migrating(engine, config)
    run.end()
    assert throttled[:4] == [False] * 4
    assert filled.query("SHOW INDEX FROM t WHERE Key_name = 'n'")


@pytest.mark.slow
def test_the_heartbeat_is_written_while_a_run_works(filled, engine, monkeypatch):
    """The server's time is in a row of the checkpoint table, also in a dry run."""
    sql = f"SELECT written_at FROM _t_chkpnt WHERE id = {HEARTBEAT_ID}"
    beats: list[object] = []

    def see_two() -> None:
        for what in ("a beat", "another beat"):
            (found,) = until(lambda: [row for row in filled.query(sql) if row not in beats], what)
            beats.append(found)

    once_at(monkeypatch, "chunk.committed", see_two)
    config = config_for(filled, table="t", alter="ADD COLUMN x INT", no_shortcut=True, dry_run=True)
    Migrating(engine, config).end()
    assert len(beats) == 2
    assert filled.query("SHOW TABLES") == [("t",)]


def test_a_beat_is_one_row_with_the_servers_time(db):
    """A second beat replaces the first one."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    table = CheckpointTable(db.name, "t")
    db.execute(
        f"CREATE TABLE {table.quoted} (id INT UNSIGNED PRIMARY KEY, record LONGTEXT NOT NULL,"
        " written_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))"
    )

    class Session:
        execute = staticmethod(db.execute)

    table.beat(Session())  # type: ignore[arg-type]
    first = db.query(f"SELECT id, written_at FROM {table.quoted}")
    table.beat(Session())  # type: ignore[arg-type]
    second = db.query(f"SELECT id, written_at FROM {table.quoted}")
    assert len(first) == len(second) == 1
    # The clock may have been set back meanwhile.
    assert first != second


@pytest.mark.slow
def test_a_run_makes_room_for_other_writers_and_for_nobody_none(filled, engine, monkeypatch):
    """Others who write are seen by the server's counters: the report has how many tasks worked."""
    monkeypatch.setattr(adaptive_module, "_LONGEST_MEASURE", 0.3)
    filled.execute("CREATE TABLE other (n INT)")
    ended = threading.Event()

    def write() -> None:
        session = filled.connect()
        with session.cursor() as cursor:
            while not ended.wait(0.005):
                cursor.execute("INSERT INTO other VALUES (1)")
        session.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        config = config_for(filled, table="t", alter="ADD x INT", no_shortcut=True, nice=20.0)
        run = Migrating(engine, config)
        run.wait_until(lambda: any(one.pace for one in run.told.snapshots), "the pace to be shown")
        report = run.end()
    finally:
        ended.set()
        writer.join()
    assert report.least_tasks is not None
    assert report.least_tasks <= 1.0
    known, saw = threading.Event(), adaptive_module.Adaptive.saw

    def noted(self, *seen) -> None:
        saw(self, *seen)
        known.set()

    # Until it is known that nobody else is there, one task works.
    monkeypatch.setattr(adaptive_module.Adaptive, "saw", noted)
    once_at(monkeypatch, "feed.started", lambda: known.wait(DEADLINE))
    quiet = config_for(filled, table="t", alter="ADD y INT", no_shortcut=True)
    report = Migrating(engine, quiet).end()
    assert report.median_tasks in {None, 2.0}
