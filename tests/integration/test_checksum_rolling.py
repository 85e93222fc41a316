"""A comparison in short snapshots, while the feed applies and an application writes."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py import points
from spirit_py.checksum import reading, recheck, table_pass
from spirit_py.chunk.chunk import chunk_predicate
from spirit_py.classes import replace
from spirit_py.errors import ChecksumFailure, MigrationFailure, WorkersLost
from spirit_py.pace import Work
from spirit_py.table import values
from spirit_py.table.build import build_mapping
from tests.kits.checksum import Application, Pair, fill, followed, found
from tests.kits.draw import seed_of
from tests.kits.held_command import fill as fill_plain
from tests.kits.held_command import migration
from tests.kits.paces import SetPace
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.mysql import Database

ROLLING: dict[str, Any] = {"rolling": True, "target_seconds": 0.002, "first_rows": 100}


def unlogged(db: Database, sql: str) -> None:
    """Write rows that are in no event."""
    with db.connect() as session, session.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute(sql)
        session.commit()


@pytest.fixture(autouse=True)
def _few_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rows that really differ be judged soon."""
    monkeypatch.setattr(recheck, "_PAUSES", (0.0, 0.05, 0.1))


def locks_of(db: Database) -> int:
    """Count the LOCK TABLES of the server, which is the test's alone."""
    return int(db.query("SHOW GLOBAL STATUS LIKE 'Com_lock_tables'")[0][1])


def at_chunk(monkeypatch: pytest.MonkeyPatch, nth: int, act: Callable[[], object]) -> None:
    """Do something before the nth chunk is compared."""
    seen = 0
    mutex = threading.Lock()

    def reach(name: str) -> None:
        nonlocal seen
        if name != "checksum.chunk":
            return
        with mutex:
            seen += 1
            if seen == nth:
                act()

    monkeypatch.setattr(points, "reach", reach)


@pytest.mark.slow
def test_no_lock_is_requested_before_the_swap(db: Database, tmp_path: Any) -> None:
    """R23: neither the beginning of a comparison nor rows that change meanwhile take one."""
    fill_plain(db)
    before = locks_of(db)
    with migration(db, tmp_path) as (command, listener):
        compared = listener.hold("checksum.chunk", 2)
        command.wait_held(compared)
        db.execute("UPDATE t SET b = 'under way' WHERE id % 100 = 0")
        swap = listener.hold("cutover.lock")
        compared.release()
        command.wait_held(swap)
        assert locks_of(db) == before
        swap.release()
        report = command.finish()
    assert locks_of(db) > before, "the swap's own is counted, so the others would be"
    assert report["checksum_lock_held_ms"] == 0
    assert report["differences_found"] == 0
    assert db.query("SELECT COUNT(*) FROM t WHERE b = 'under way'") == [(30,)]


@pytest.mark.slow
def test_rows_that_are_not_applied_yet_are_no_difference(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R23: they are read again when the feed has applied them, and no lock is asked for."""
    fill(db, 3000)
    pair = Pair(db)
    waiting = contextlib.ExitStack()
    settle = recheck.Suspects.settle
    settled: list[int] = []

    def go_on(suspects: recheck.Suspects) -> Any:
        waiting.close()
        settled.append(len(suspects.rows))
        return settle(suspects)

    with followed(pair) as (feed, applier):

        def hold(name: str) -> None:
            if name == "checksum.begin":
                waiting.enter_context(feed.applies_paused())
                db.execute("UPDATE t SET n = -n WHERE id % 100 = 0")
                db.execute("DELETE FROM t WHERE id % 1000 = 1")
                db.execute("INSERT INTO t VALUES (-4, 'new', 0)")

        monkeypatch.setattr(points, "reach", hold)
        monkeypatch.setattr(recheck.Suspects, "settle", go_on)
        result = pair.checker(applier=applier, feed=feed, **ROLLING).run()
    assert settled == [34]
    assert (result.passes, result.differences, result.lock_held_ms) == (1, 0, 0.0)


@pytest.mark.slow
def test_what_differs_at_the_end_is_settled_although_a_connection_is_lost(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last segment has ended, and its rows are not forgotten."""
    fill(db, 3000)
    pair = Pair(db)
    settle = recheck.Suspects.settle
    lost: list[bool] = []

    def lose(suspects: recheck.Suspects) -> Any:
        if not lost:
            lost.append(True)
            raise WorkersLost("the connection is lost")
        return settle(suspects)

    with followed(pair) as (feed, _):
        db.execute("SET SESSION sql_log_bin = 0")
        db.execute("UPDATE _t_new SET n = -1 WHERE id = 3000")
        monkeypatch.setattr(recheck.Suspects, "settle", lose)
        result = pair.checker(feed=feed, **ROLLING).run()
    assert lost
    assert found(result) == {"(3000)": "changed"}


@pytest.mark.slow
@pytest.mark.parametrize("alter", ["ADD COLUMN x INT", "MODIFY n VARCHAR(20), MODIFY v TEXT"])
def test_rows_missing_extra_and_changed_are_found_anywhere(db: Database, alter: str) -> None:
    """R5: also while an application writes, and each exactly once."""
    fill(db, 4000)
    db.execute("DELETE FROM t WHERE id > 3500")
    pair = Pair(db, alter)
    seed = seed_of("SPIRIT_PY_TEST_SEED")
    print(f"SPIRIT_PY_TEST_SEED={seed}")  # noqa: T201 - to repeat a failure
    db.execute("INSERT INTO t VALUES (-9, 'a', 1), (3800, 'b', 2), (9000, 'c', 3)")
    with followed(pair) as (feed, applier), Application(db, seed) as application:
        # Of rows that the application leaves alone.
        with db.connect() as session, session.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0")
            cursor.execute("DELETE FROM _t_new WHERE id IN (-9, 9000)")
            cursor.execute("UPDATE _t_new SET n = 77 WHERE id = 3800")
            cursor.execute("INSERT INTO _t_new (id, v, n) VALUES (-20, '', 1), (3900, '', 1)")
            session.commit()
        checker = pair.checker(applier=applier, feed=feed, **ROLLING)
        result = checker.run()
        assert application.written
    assert found(result) == {
        "(-9)": "missing",
        "(9000)": "missing",
        "(3800)": "changed",
        "(-20)": "extra",
        "(3900)": "extra",
    }
    assert (result.passes, result.differences) == (2, 5)
    assert not application.errors
    assert db.query("SELECT id FROM _t_new WHERE id IN (-20, -9, 3800, 3900, 9000)") == [
        (-9,),
        (3800,),
        (9000,),
    ]


@pytest.mark.slow
def test_a_snapshot_lasts_for_a_piece(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is damaged while others are compared is found when its turn comes."""
    fill(db, 20_000)
    pair = Pair(db)

    def damage() -> None:
        with db.connect() as session, session.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0")
            cursor.execute("UPDATE _t_new SET n = -1 WHERE id IN (1, 20000)")
            session.commit()

    with followed(pair) as (feed, _):
        at_chunk(monkeypatch, 6, damage)
        result = pair.checker(feed=feed, tasks=1, **ROLLING).run()
    assert found(result) == {"(20000)": "changed"}


@pytest.mark.slow
def test_a_row_that_changes_all_the_time_does_not_differ(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: it is never seen equal, and one short lock proves it."""
    fill(db, 1000)
    pair = Pair(db)
    ended, read = threading.Event(), recheck.rows_that_differ

    def changed() -> Any:
        """Wait for a change that is newer than what was applied."""
        number = "SELECT n FROM t WHERE id = 500"
        before = db.query(number)
        return until(lambda: db.query(number) > before, "another change")

    def lagging(*given: Any, between: Callable[[], object], **more: Any) -> Any:
        return read(*given, between=lambda: (between(), changed()), **more)

    monkeypatch.setattr(recheck, "rows_that_differ", lagging)
    monkeypatch.setattr(points, "reach", lambda name: name == "checksum.begin" and changed())

    def count() -> None:
        session = db.connect()
        with session.cursor() as cursor:
            while not ended.is_set():
                cursor.execute("UPDATE t SET n = n + 1 WHERE id = 500")

    writer = threading.Thread(target=count)
    with followed(pair) as (feed, applier):
        writer.start()
        try:
            result = pair.checker(applier=applier, feed=feed, **ROLLING).run()
        finally:
            ended.set()
            writer.join()
    assert (result.passes, result.differences) == (1, 0)
    assert result.lock_held_ms > 0


@pytest.mark.slow
def test_many_rows_that_differ_are_compared_in_one_snapshot(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no row under way, but a table that was not copied, is found and filled as ever."""
    monkeypatch.setattr("spirit_py.checksum.rows.MOST_TOLD", 30)
    fill(db, 3000)
    pair = Pair(db)
    with followed(pair) as (feed, applier):
        db.execute("SET SESSION sql_log_bin = 0")
        db.execute("DELETE FROM _t_new WHERE id > 1500")
        result = pair.checker(applier=applier, feed=feed, **ROLLING).run()
    assert (result.passes, result.differences) == (2, 1500)
    assert result.lock_held_ms > 0
    assert db.query("SELECT COUNT(*) FROM t NATURAL JOIN _t_new") == [(3000,)]


def kill_reader(db: Database) -> None:
    """End the session of the first task, as the server may."""
    rows = db.query(
        "SELECT t.processlist_id FROM performance_schema.user_variables_by_thread v"
        " JOIN performance_schema.threads t USING (thread_id)"
        " JOIN performance_schema.session_connect_attrs a USING (processlist_id)"
        " WHERE v.variable_name = 'spirit_py_role' AND v.variable_value = 'checksum-0'"
        " AND a.attr_name = '_pid' AND a.attr_value = %s",
        (os.getpid(),),
    )
    for (number,) in rows:
        db.kill(number)


@pytest.mark.slow
@pytest.mark.parametrize("shorter", [False, True])
def test_a_session_that_is_killed_costs_its_segment(
    db: Database, monkeypatch: pytest.MonkeyPatch, shorter: bool
) -> None:
    """What differed before is neither forgotten nor counted twice, wherever the next try ends."""
    fill(db, 8000)
    pair = Pair(db)

    def end() -> None:
        if shorter:
            monkeypatch.setattr(reading, "_ROLLING_SECONDS", 0.0)
        kill_reader(db)

    with followed(pair) as (feed, _):
        unlogged(db, "UPDATE _t_new SET n = -1 WHERE id % 200 = 1")
        at_chunk(monkeypatch, 9, end)
        result = pair.checker(feed=feed, examples=200, **ROLLING).run()
    assert result.differences == 40
    assert len(found(result)) == 40
    assert result.snapshots > 2


@pytest.mark.slow
def test_a_row_that_falls_between_chunks_is_no_pass(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: rows that chunks lose on both sides alike are counted in the snapshot of their piece."""
    fill(db, 12_000)
    pair = Pair(db)
    lossy: set[str] = set()

    def losing(columns: Any, chunk: Any, directions: Any) -> str:
        predicate = chunk_predicate(columns, chunk, directions)
        if chunk.lower is None:
            return predicate
        lossy.add(chunk.lower.literals[0])
        return f"{predicate} AND `r`.id <> {chunk.lower.literals[0]} + 1"

    with followed(pair) as (feed, _):
        monkeypatch.setattr("spirit_py.checksum.query.chunk_predicate", losing)
        with pytest.raises(ChecksumFailure, match="rows of the source, a count"):
            pair.checker(feed=feed, **ROLLING).run()
    assert len(lossy) > 10


@pytest.mark.slow
def test_no_snapshot_is_kept_while_the_comparison_waits(db: Database) -> None:
    """R23: a piece that has begun is read to its end, and its snapshot is released at once."""
    fill(db, 20_000)
    pair = Pair(db)
    pace = SetPace()
    free: list[bool] = []
    looked = [0.0]

    def why(work: Work) -> str:
        """Hold it back between pieces, until no session has a snapshot."""
        if work is not Work.CHECKSUM or pace.asked[work] <= 4 or free:
            return ""
        # The server shows the answer of before to who asks more than ten times a second.
        if time.monotonic() > looked[0] + 0.2:
            if not db.query("SELECT 1 FROM information_schema.INNODB_TRX"):
                free.append(True)
            looked[0] = time.monotonic()
        return "the load"

    pace.why = why
    with followed(pair) as (feed, _):
        result = pair.checker(feed=feed, pace=pace, tasks=2, **ROLLING).run()
    assert free
    # Kept to the end of the wait, it would have been given back, and another segment begun.
    assert (result.rows, result.differences, result.snapshots) == (20_000, 0, 1)


@pytest.mark.parametrize("side", ["t", "_t_new"])
def test_a_row_with_null_in_its_key_is_found(
    db: Database, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    """R5: no query by key finds it again, so such a table is compared in one snapshot."""
    db.execute("CREATE TABLE t (k INT NULL, v VARCHAR(30), UNIQUE KEY (k))")
    db.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    nullable = partial(build_mapping, nullable_key=True)
    monkeypatch.setattr("tests.kits.tables.build_mapping", nullable)
    pair = Pair(db)
    with followed(pair) as (feed, _):
        unlogged(db, f"INSERT INTO {side} VALUES (NULL, 'only here')")
        rolling = {**ROLLING, "rolling": recheck.may_roll(pair.mapping)}
        assert pair.checker(feed=feed, **rolling).run().differences == 1


@pytest.mark.slow
def test_a_pass_that_was_stopped_says_what_it_left_open(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a deferred swap, when its sentinel is dropped: what differs for real forbids the swap."""
    fill(db, 20_000)
    pair = Pair(db)
    with followed(pair) as (feed, _):
        for damage in (None, "UPDATE _t_new SET n = -1 WHERE id = 1"):
            if damage:
                unlogged(db, damage)
            stop = pair.stop.linked()
            ended = partial(stop.request, MigrationFailure("the sentinel was dropped"))
            at_chunk(monkeypatch, 6, ended)
            checker = pair.checker(feed=feed, tasks=1, **ROLLING)
            checker.what = replace(checker.what, stop=stop)
            with pytest.raises(MigrationFailure, match="sentinel"):
                checker.run()
            assert checker.progress.differences == 0
            assert checker.settle_open(pair.stop) is bool(damage)


@pytest.mark.slow
def test_rows_are_looked_at_again_when_their_turn_has_come(db: Database) -> None:
    """R23: not in a pause, in which no lock is asked for."""
    fill(db, 20_000)
    pair = Pair(db)
    pace = SetPace()
    before = locks_of(db)
    seen: list[int] = []

    def why(work: Work) -> str:
        """Hold it back from the second piece on, for longer than a segment is kept."""
        if work is not Work.CHECKSUM or pace.asked[work] <= 4 or len(seen) > 100:
            return ""
        seen.append(locks_of(db) - before)
        return "a pause"

    pace.why = why
    with followed(pair) as (feed, _), pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "_HOLD_SECONDS", 0.05)
        unlogged(db, "UPDATE _t_new SET n = -1 WHERE id = 1")
        result = pair.checker(feed=feed, pace=pace, tasks=1, **ROLLING).run()
    assert set(seen) == {0}
    assert (result.differences, result.lock_held_ms > 0) == (1, True)


@pytest.mark.slow
def test_many_single_rows_that_differ_are_counted_in_one_snapshot(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their repair is bounded, and no lock is asked for again and again."""
    monkeypatch.setattr(table_pass, "_MOST_SUSPECTS", 20)
    monkeypatch.setattr(table_pass, "_MOST_REAL", 30)
    fill(db, 20_000)
    pair = Pair(db)
    before = locks_of(db)
    with followed(pair) as (feed, _):
        unlogged(db, "UPDATE _t_new SET n = -1 WHERE id % 50 = 0")
        checker = pair.checker(feed=feed, tasks=1, max_repairs=10, **ROLLING)
        kept: list[int] = []
        book = checker._book

        def noted(coverage: Any, rows: Any) -> None:
            kept.append(len(rows))
            book(coverage, rows)

        monkeypatch.setattr(checker, "_book", noted)
        assert checker.run().differences == 400
    assert kept == [10]
    assert 2 <= locks_of(db) - before <= 4


@pytest.mark.slow
def test_many_rows_that_change_at_once_are_under_way(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R23: the segment is read again when they are applied, without a lock."""
    # Less than the keys of a chunk, however few rows it has on a slow machine.
    monkeypatch.setattr("spirit_py.checksum.rows.MOST_TOLD", 30)
    # Nothing is applied before the segment is read again.
    monkeypatch.setattr(table_pass, "_FLUSH_SECONDS", 3600.0)
    fill(db, 20_000)
    pair = Pair(db)
    with followed(pair) as (feed, applier):
        at_chunk(monkeypatch, 6, lambda: db.execute("UPDATE t SET n = -n WHERE id > 10000"))
        result = pair.checker(feed=feed, applier=applier, tasks=1, **ROLLING).run()
    assert (result.passes, result.differences, result.lock_held_ms) == (1, 0, 0.0)
    assert result.snapshots > 1


@pytest.mark.slow
def test_two_spellings_of_a_key_differ_once(db: Database) -> None:
    """Each batch finds both rows."""
    db.execute("CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, n INT)")
    db.execute("SET SESSION cte_max_recursion_depth = 3000")
    number = "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 700)"
    db.execute(f"INSERT INTO t {number} SELECT CONCAT('key', i), i FROM s")
    pair = Pair(db)
    with followed(pair) as (feed, _):
        unlogged(db, "UPDATE _t_new SET k = UPPER(k)")
        result = pair.checker(feed=feed, **ROLLING).run()
    assert (result.counts.missing, result.counts.extra) == (700, 700)


def test_a_row_that_its_key_does_not_find_is_not_seen_equal(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at by its key it is nowhere, as a deleted row is; one snapshot of all rows has it."""
    db.execute("CREATE TABLE t (e ENUM('a', 'b', '') NOT NULL, n INT, PRIMARY KEY (e, n))")
    db.execute("INSERT INTO t VALUES ('a', 1), ('a', 2), ('b', 1), ('b', 2)")
    pair = Pair(db)
    with followed(pair) as (feed, _):
        unlogged(db, "DELETE FROM t WHERE e = 'b' AND n = 2")
        monkeypatch.setattr(values, "string_literal", lambda _text: "'what no row has'")
        result = pair.checker(feed=feed, **ROLLING).run()
    assert (result.differences, result.counts.extra) == (1, 1)


def test_changes_are_applied_often_for_as_long_as_anybody_wants(db: Database) -> None:
    """A comparison within the wait for a swap leaves the swap's interval."""
    fill(db, 300)
    pair = Pair(db)
    with followed(pair) as (feed, _), feed.flushed_often(0.1):
        pair.checker(feed=feed, **ROLLING).run()
        assert feed._flusher is not None
        assert feed._flusher._asked_for == [0.1]
