"""The checksum on a real server: what it must find, and what it must never find."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import threading
from functools import partial
from typing import Any

import MySQLdb
import pytest

from spirit_py import points
from spirit_py.applier.applier import SqlApplier
from spirit_py.checksum import query, reading, snapshot, table_pass, worker
from spirit_py.checksum.checker import Checker
from spirit_py.checksum.query import SOURCE, TARGET
from spirit_py.checksum.result import ChecksumProgress, Counts
from spirit_py.checksum.worker import Comparison, SnapshotReader
from spirit_py.chunk.chunk import chunk_predicate
from spirit_py.chunk.chunker import OptimisticChunker
from spirit_py.errors import (
    ChecksumFailure,
    DuplicateForUnique,
    Interrupted,
    ServerFault,
    WorkersLost,
)
from spirit_py.locks.look import LockedBy, waits_for_all
from spirit_py.locks.table import LockWatch, open_lock_session
from spirit_py.migration.figures import Figures, Journal
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import LOCK_WAIT_TIMEOUT
from spirit_py.spark.gang import Gang
from spirit_py.status.report import MigrationReport
from spirit_py.table.keys import KeyBound
from tests.kits.background import BackgroundCall
from tests.kits.checksum import Application, Pair, fill, followed, found
from tests.kits.draw import seed_of
from tests.kits.engine import ThreadEngine
from tests.kits.locking import BLIND, policy
from tests.kits.resume import once_at
from tests.kits.waiting import DEADLINE, until


def test_equal_tables_pass_with_every_row_read(db):
    """A clean pass reads every row of both tables, under one short lock."""
    fill(db)
    result = Pair(db, "ADD COLUMN x INT").copy().check()
    assert (result.passes, result.differences, result.rows) == (1, 0, 5000)
    assert (result.snapshots, result.repaired_chunks) == (1, 0)
    assert result.chunks > 1
    assert result.lock_held_ms > 0
    assert result.seconds > 0


def test_empty_tables_are_one_chunk(db):
    """An empty table is read as one chunk."""
    fill(db)
    db.execute("DELETE FROM t")
    result = Pair(db).copy().check()
    assert (result.passes, result.chunks, result.rows, result.differences) == (1, 1, 0, 0)


@pytest.mark.slow
def test_rows_missing_extra_and_changed_are_found_anywhere(db):
    """Rows below, between and above the source's, gaps, and content are found and repaired."""
    fill(db)
    pair = Pair(db).copy()
    db.execute("DELETE FROM _t_new WHERE id IN (1, 2500, 5000)")
    db.execute("UPDATE _t_new SET n = n + 1 WHERE id = 2501")
    db.execute("DELETE FROM t WHERE id = 3000")
    db.execute("INSERT INTO _t_new VALUES (-5, 'x', 1), (99999, 'same', 1), (100000, 'same', 1)")
    expected = {
        "(1)": "missing",
        "(2500)": "missing",
        "(5000)": "missing",
        "(2501)": "changed",
        "(3000)": "extra",
        "(-5)": "extra",
        "(99999)": "extra",
        "(100000)": "extra",
    }
    assert found(pair.check()) == expected
    repaired = pair.repair()
    assert found(repaired) == expected
    assert (repaired.passes, repaired.differences) == (2, 8)
    assert 1 < repaired.repaired_chunks <= 8
    assert db.query("SELECT COUNT(*) FROM t NATURAL JOIN _t_new") == [(4999,)]


def test_values_swapped_between_two_rows_are_found(db):
    """Each row is hashed as a whole: swapping two values within a column shows."""
    fill(db, 100)
    pair = Pair(db).copy()
    db.execute("UPDATE _t_new SET v = IF(id = 7, 'row 8', 'row 7') WHERE id IN (7, 8)")
    assert found(pair.check()) == {"(7)": "changed", "(8)": "changed"}


def test_two_equal_extra_rows_are_found(db):
    """Equal rows cancel out in an XOR; the count shows them, or the rows that they replace."""
    fill(db, 100, "id INT NOT NULL")
    db.execute("ALTER TABLE t ADD UNIQUE KEY uk (id)")
    pair = Pair(db).copy()
    db.execute("ALTER TABLE _t_new DROP KEY uk, ADD KEY uk (id)")
    db.execute("INSERT INTO _t_new VALUES (50, 'twin', 0), (50, 'twin', 0)")
    assert found(pair.check()) == {"(50)": "changed"}
    db.execute("DELETE FROM _t_new WHERE id IN (1, 2)")
    assert found(pair.check()) == {"(50)": "changed", "(1)": "missing", "(2)": "missing"}
    db.execute(
        "DELETE FROM _t_new WHERE id = 50; INSERT INTO _t_new VALUES (-1, '', 0), (-1, '', 0)"
    )
    assert found(pair.check()).keys() == {"(1)", "(2)", "(50)", "(-1)"}


@pytest.mark.slow
def test_an_empty_new_table_is_found_and_filled(db):
    """An empty new table differs in every row, and the repair fills it."""
    fill(db)
    pair = Pair(db)
    result = pair.check(examples=3)
    assert (result.differences, len(result.examples)) == (5000, 3)
    assert pair.repair().passes == 2


@pytest.mark.slow
def test_a_pass_repairs_a_bounded_number_of_rows(db):
    """A pass repairs a bounded number of rows, the next one finds the rest."""
    fill(db, 3000)
    pair = Pair(db)
    result = pair.repair(tasks=1, max_repairs=1600)
    assert (result.passes, result.differences) == (3, 3000 + 1400)
    db.execute("DELETE FROM _t_new")
    with pytest.raises(ChecksumFailure, match="still differ in 1000 rows after 3 passes"):
        pair.repair(tasks=1, max_repairs=1000)


KEYS = {
    "composite": ("a INT, b VARCHAR(9), PRIMARY KEY (a, b)", "i % 7, i", ("3", "'zz'")),
    "descending": ("a INT, b INT, PRIMARY KEY (a DESC, b)", "i % 5, i", ("-1", "9")),
    "text": ("a VARCHAR(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY", "i", ("'ÿ'",)),
    "bytes": ("a VARBINARY(9) PRIMARY KEY", "i", ("X'00'",)),
    "enum": ("a ENUM('x','y','z'), b INT, PRIMARY KEY (a, b)", "1 + i % 2, i", ("'z'", "1")),
    "unique": ("a BIGINT UNSIGNED NOT NULL, UNIQUE KEY u (a)", "i", ("18446744073709551615",)),
    "decimal": ("a DECIMAL(20,5) PRIMARY KEY", "i / 8", ("-0.00001",)),
    "time": ("a DATETIME(3) PRIMARY KEY", "'2024-01-01' + INTERVAL i DAY", ("'9999-01-01'",)),
}


def test_a_key_that_only_the_new_table_can_hold_is_in_the_last_chunk(db):
    """Rows whose key only the new table's ENUM can hold are inside the last chunk."""
    db.execute("CREATE TABLE t (a ENUM('x', 'y'), b INT, PRIMARY KEY (a, b))")
    number = "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 900)"
    db.execute(f"INSERT INTO t {number} SELECT 1 + i % 2, i FROM s")
    pair = Pair(db, "MODIFY a ENUM('x', 'y', 'z')").copy()
    db.execute("INSERT INTO _t_new VALUES ('z', 1)")
    assert found(pair.check(target_seconds=0.001, tasks=1)) == {"(_utf8mb4 X'7a', 1)": "extra"}


@pytest.mark.draws(2)
@pytest.mark.parametrize("name", KEYS)
def test_chunks_of_every_kind_of_key_cover_the_new_table(db, name):
    """Chunks of any key cover the new table as well: an extra row beyond the ends is found."""
    columns, values, extra = KEYS[name]
    db.execute(f"CREATE TABLE t ({columns}, n INT)")
    number = "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 900)"
    db.execute(f"INSERT INTO t {number} SELECT {values}, i FROM s")
    pair = Pair(db, "ADD COLUMN x INT").copy()
    assert pair.check(target_seconds=0.001).differences == 0
    db.execute(f"INSERT INTO _t_new VALUES ({', '.join(extra)}, 0, 0)")
    db.execute("UPDATE _t_new SET n = -1 WHERE n = 450; DELETE FROM _t_new WHERE n = 451")
    result = pair.repair(target_seconds=0.001)
    assert sorted(found(result).values()) == ["changed", "extra", "missing"]
    assert result.passes == 2


@pytest.mark.slow
def test_a_key_that_the_alter_orders_anew_is_compared_by_a_join(db):
    """Where a new collation reorders the key, rows are joined; an extra row shows all the same."""
    db.execute("CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, n INT)")
    number = "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 900)"
    db.execute(f"INSERT INTO t {number} SELECT CONCAT(IF(i % 2, 'A', 'b'), i), i FROM s")
    pair = Pair(db, "MODIFY k VARCHAR(30) COLLATE utf8mb4_bin").copy()
    assert pair.check(target_seconds=0.001).differences == 0
    db.execute("INSERT INTO _t_new VALUES ('extra', 0)")
    db.execute("UPDATE _t_new SET n = -1 WHERE n = 450; DELETE FROM _t_new WHERE n = 451")
    db.execute("UPDATE _t_new SET k = LOWER(k) WHERE n = 453")
    # By the old collation 'a453' is a key of the source, by the new one it is not.
    for result in (pair.check(), pair.repair()):
        kinds = sorted(each.kind for each in result.examples)
        assert kinds == ["changed", "extra", "extra", "missing", "missing"]
        assert result.differences == 5
    assert result.passes == 2


def test_a_search_for_rows_of_the_target_alone_runs_too(db):
    """It reads the whole new table, and asks for no chunk: no commits are timed beside it."""
    db.execute("CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, n INT)")
    pair = Pair(db, "MODIFY k VARCHAR(30) COLLATE utf8mb4_bin").copy()
    db.execute("INSERT INTO _t_new VALUES ('extra', 0)")
    shown: list[ChecksumProgress] = []
    assert pair.check(on_progress=shown.append).differences == 1
    assert next(one.outstanding for one in shown if "only the target" in one.doing)
    assert not shown[-1].outstanding


@pytest.mark.slow
def test_rows_with_null_in_a_key_made_nullable_are_compared(db):
    """Rows are compared by it all the same, and a row that holds NULL there is not passed over."""
    db.execute("CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, n INT, UNIQUE KEY u (a, b))")
    db.execute("SET SESSION cte_max_recursion_depth = 5000")
    number = "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 4000)"
    db.execute(f"INSERT INTO t {number} SELECT i DIV 1000, i, i FROM s")
    pair = Pair(db, "MODIFY b INT NULL").copy()
    assert pair.check(yield_seconds=0.0, tasks=1).differences == 0
    db.execute("INSERT INTO _t_new VALUES (0, NULL, 1), (1, NULL, 1), (1, NULL, 1)")
    db.execute("UPDATE _t_new SET n = -1 WHERE b = 2400")
    result = pair.check(yield_seconds=0.0, tasks=1)
    assert result.snapshots > 1
    assert sorted(str(each) for each in result.examples) == [
        "row (0, NULL) is extra",
        "row (1, NULL) is extra",
        "row (2, 2400) is changed in n",
    ]
    with pytest.raises(ChecksumFailure, match="still differ in 2 rows after 3 passes"):
        pair.repair()


def test_columns_whose_names_need_quoting_are_compared(db):
    """Columns named like keywords, with quotes, backquotes, braces and percent signs."""
    db.execute(
        "CREATE TABLE t (`se``lect` INT PRIMARY KEY, `a b'\"%s{x}` VARCHAR(9), `r` INT, `s` INT)"
    )
    db.execute("INSERT INTO t VALUES (1, 'x', 1, 1), (2, 'y', 2, 2)")
    pair = Pair(db, "MODIFY `s` VARCHAR(9)").copy()
    assert pair.check().differences == 0
    db.execute("UPDATE _t_new SET `a b'\"%%s{x}` = 'z', s = 'q' WHERE `se``lect` = 2", ())
    (example,) = pair.check().examples
    assert example.columns == ("a b'\"%s{x}", "s")
    assert str(example) == "row (2) is changed in a b'\"%s{x}, s"


def test_two_servers_are_compared(db):
    """With a server for each side, both snapshots are taken and compared."""
    fill(db, 1000)
    pair = Pair(db, "MODIFY n VARCHAR(10)").copy()
    db.execute("UPDATE _t_new SET v = 'x' WHERE id = 500")
    comparison = Comparison(
        mapping=pair.mapping,
        source=pair.options,
        target=pair.options,
        engine=ThreadEngine(),
        stop=pair.stop,
    )
    result = Checker(comparison).run()
    assert [(each.key, each.columns) for each in result.examples] == [("(500)", ("v",))]


def test_a_new_snapshot_goes_on_where_the_last_one_ended(db):
    """When the snapshot's time is over, the next one begins above the low watermark."""
    fill(db, 4000)
    pair = Pair(db).copy()
    db.execute("UPDATE _t_new SET n = 0 WHERE id IN (1, 2000, 4000)")
    result = pair.check(yield_seconds=0.0, tasks=1, first_rows=300)
    assert found(result) == {"(1)": "changed", "(2000)": "changed", "(4000)": "changed"}
    assert result.rows == 4000
    assert result.locks == result.snapshots == result.chunks > 2


@pytest.mark.slow
@pytest.mark.parametrize("seen", ["by a look", "by the wait of a key"])
def test_a_snapshot_ends_for_a_table_lock_that_waits_for_it(db, monkeypatch, caplog, seen):
    """Its counts are small, and the next one lets whoever waits go first; no work is lost."""
    monkeypatch.setattr(reading, "_LOCK_SECONDS", 0.0)
    monkeypatch.setattr(reading, "_LOOK_SECONDS", 0.0 if seen == "by a look" else math.inf)
    monkeypatch.setattr(table_pass, "_LOOK_SECONDS", 1)
    fill(db, 4000, "id INT PRIMARY KEY")
    pair = Pair(db).copy()
    other = db.connect()
    locking: list[BackgroundCall] = []
    waits = (
        "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE OBJECT_NAME = 't'"
        f" AND OBJECT_SCHEMA = '{db.name}' AND LOCK_STATUS = 'PENDING'"
    )

    def lock() -> None:
        other.query("LOCK TABLES t WRITE")
        other.query("UNLOCK TABLES")

    def begin() -> None:
        locking.append(BackgroundCall(lock))
        until(lambda: db.query(waits)[0][0], "the lock to wait")

    chunks = iter(range(1000))

    def passed(name: str) -> None:
        # Its task has read the table by the second one.
        if name == "checksum.chunk" and next(chunks, 0) == 1:
            begin()

    monkeypatch.setattr(points, "_listener", "here")
    monkeypatch.setattr(points, "_announce", passed)
    shown: list[ChecksumProgress] = []
    result = pair.check(tasks=1, first_rows=100, target_seconds=0.001, on_progress=shown.append)
    locking[0].result()
    assert (result.snapshots, result.differences, result.rows) == (2, 0, 4000)
    who = f"the table lock of session {other.thread_id()} of "
    assert any(one.waiting_for.startswith(who) for one in shown) == (seen == "by a look")
    assert "starts over" not in caplog.text
    other.close()


def test_only_behind_its_own_snapshot_a_chunk_is_cut_with_little_patience(db, monkeypatch):
    """Before the first chunk is read nobody waits for the snapshot, and others' locks may last."""
    told: list[str] = []

    def noted(work: Any) -> Any:
        def note(sql: str) -> Any:
            told.append(sql.split(maxsplit=1)[0])
            return work(sql)

        return note

    def opened(options: Any, **more: Any) -> Any:
        session = connect(options, **more)
        if more["role"] == "checksum-cut":
            assert "lock_wait_timeout" not in more
            for name in ("query", "execute"):
                monkeypatch.setattr(session, name, noted(getattr(session, name)))
        return session

    monkeypatch.setattr(table_pass, "connect", opened)
    fill(db, 2000, "id VARCHAR(20) PRIMARY KEY")
    assert Pair(db).copy().check(first_rows=100, tasks=1).rows == 2000
    assert told[:3] == ["SELECT", "SET", "SELECT"]
    assert "SET" not in told[3:]


@pytest.mark.slow
def test_a_comparison_waits_for_as_long_as_others_lock_the_table(db, monkeypatch):
    """A lock of minutes costs tries of the segment, and none of them counts."""
    for module in (worker, table_pass):
        monkeypatch.setattr(module, "connect", partial(connect, lock_wait_timeout=1))
    monkeypatch.setattr(table_pass, "_GANG_ATTEMPTS", 2)
    monkeypatch.setattr(table_pass, "_LOCKED_SECONDS", 0.1)
    looks, looked = threading.Semaphore(0), LockedBy.__call__

    def look(self) -> str:
        seen = looked(self)
        looks.release()
        return seen

    monkeypatch.setattr(LockedBy, "__call__", look)
    fill(db, 1000)
    pair = Pair(db).copy()
    other = db.connect()
    other.query("LOCK TABLES t WRITE")
    comparing = BackgroundCall(partial(pair.check, lock=False, tasks=1))
    for _ in range(3):
        assert looks.acquire(timeout=DEADLINE)
    other.close()
    assert comparing.result().rows == 1000


def test_a_lock_of_others_excuses_no_other_fault(db, monkeypatch):
    """A dump's lock of hours hinders no reader: tasks are lost three times in turn, and no more."""
    fill(db, 10)
    pair = Pair(db).copy()
    tries = iter(range(1000))

    def lost(_: SnapshotReader, order: str) -> str:
        if json.loads(order)["do"] == "compare" and next(tries) < 9:
            raise ServerFault(1213, "Deadlock found", where="test")
        return handled(_, order)

    handled = SnapshotReader.handle
    monkeypatch.setattr(SnapshotReader, "handle", lost)
    with contextlib.closing(db.connect()) as other:
        other.query("LOCK TABLES t READ")
        with pytest.raises(WorkersLost, match="Deadlock found"):
            pair.check(lock=False, tasks=1)
    assert next(tries) == 3


def test_rows_that_differ_are_checked_once_more_after_others_lock_the_table(db, monkeypatch):
    """Behind such a lock no try counts."""
    fill(db, 10)
    pair = Pair(db).copy()
    monkeypatch.setattr(pair.stop, "pause", lambda _: None)
    tries = iter(range(1000))

    def look() -> None:
        if next(tries) < 9:
            raise ServerFault(LOCK_WAIT_TIMEOUT, "Lock wait timeout", where="test")

    shown: list[ChecksumProgress] = []
    with contextlib.closing(db.connect()) as other:
        other.query("LOCK TABLES t WRITE")
        pair.checker(on_progress=shown.append)._patiently(look)
    assert shown[0].waiting_for.startswith(f"the end of a lock on {db.name}.t and ")


def test_under_the_table_lock_tasks_open_their_snapshots_and_no_more(db, monkeypatch):
    """Others wait for each further statement."""
    fill(db, 10)
    seen: list[list[Any]] = []
    real = SnapshotReader.handle

    def handle(self: SnapshotReader, order: str) -> str:
        if json.loads(order)["do"] != "snapshot":
            return real(self, order)
        with monkeypatch.context() as patch:
            patch.setattr(self.session, "execute", lambda *sql: seen[-1].append(sql[0]))
            seen.append([])
            return real(self, order)

    monkeypatch.setattr(SnapshotReader, "handle", handle)
    assert Pair(db).copy().check(tasks=1).rows == 10
    assert [one for each in seen for one in each] == [
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
    ]


@pytest.mark.slow
def test_the_server_ends_a_snapshot_whose_process_stands_still(db, monkeypatch):
    """As after SIGSTOP, or a power failure: nothing asks the server, and nobody closes anything."""
    monkeypatch.setattr(worker, "QUIET_SECONDS", 3)
    fill(db, 100)
    pair = Pair(db).copy()
    reader = pair.checker().what.join(0)
    reader.handle(json.dumps({"do": "snapshot", "short": False}))
    there = f"SELECT 1 FROM performance_schema.threads WHERE PROCESSLIST_ID = {reader.session.id}"
    until(lambda: not db.query(there), "the end of the session")
    reader.close()


@pytest.mark.slow
@pytest.mark.parametrize("rolling", [False, True])
def test_nothing_is_read_while_a_global_lock_waits(db, monkeypatch, rolling):
    """No throttler is needed for it: ``spirit-py checksum`` and a revert have none."""
    monkeypatch.setattr(reading, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(reading, "_LOCK_SECONDS", 0.0)
    looks, looked = threading.Semaphore(0), waits_for_all

    def look(session: Any) -> tuple[str, int]:
        found = looked(session)
        if found[0]:
            looks.release()
        return found

    monkeypatch.setattr(table_pass, "waits_for_all", look)
    monkeypatch.setattr(table_pass, "_LOCK_PAUSE", 0.01, raising=False)
    # So many that no task has the last one while the other one locks.
    fill(db, 10_000)
    db.execute("CREATE TABLE other (id INT); INSERT INTO other VALUES (1)")
    pair, slow, backup = Pair(db).copy(), db.connect(), db.connect()
    reads, waits = slow.thread_id(), backup.thread_id()
    calls: list[BackgroundCall] = []
    seen = "SELECT PROCESSLIST_STATE FROM performance_schema.threads WHERE PROCESSLIST_ID = {}"

    def lock() -> None:
        calls.append(BackgroundCall(lambda: slow.query("SELECT SLEEP(600) FROM other")))
        until(lambda: db.query(seen.format(reads)) == [("User sleep",)], "the statement")
        calls.append(BackgroundCall(lambda: backup.query("FLUSH TABLES WITH READ LOCK")))
        until(lambda: "Waiting" in str(db.query(seen.format(waits))), "the lock to wait")

    once_at(monkeypatch, "checksum.chunk", lock)
    shown: list[ChecksumProgress] = []
    more = {"first_rows": 50, "target_seconds": 0.001, "on_progress": shown.append}
    with followed(pair) if rolling else contextlib.nullcontext((None, None)) as (feed, _):
        comparing = BackgroundCall(partial(pair.check, rolling=rolling, feed=feed, **more))
        who = f"the global lock of session {waits} of "
        try:
            until(lambda: any(one.waiting_for.startswith(who) for one in shown), "the wait")
            for _ in range(30):
                assert looks.acquire(timeout=DEADLINE)
        finally:
            db.execute(f"KILL {reads}")
            for call in calls:
                with contextlib.suppress(MySQLdb.Error):
                    call.result()
            backup.close()
        result = comparing.result()
    # The second one began when the lock was gone.
    assert (result.differences, result.snapshots) == (0, 2)
    slow.close()


@pytest.mark.slow
def test_a_later_run_goes_on_above_the_low_watermark(db):
    """It compares no row below, all above, and a second pass is over the whole table again."""
    fill(db, 4000)
    pair = Pair(db).copy()
    marks: list[Any] = []
    checker: Checker = pair.checker(
        yield_seconds=0.0, tasks=1, on_progress=lambda _: marks.append(checker.low_watermark)
    )
    assert checker.low_watermark is None
    checker.run()
    assert checker.low_watermark is None
    keys = [int(mark.literals[0]) for mark in marks if mark is not None]
    assert keys == sorted(keys)
    above = keys[0]
    db.execute("UPDATE _t_new SET n = 0 WHERE id IN (%s, %s)", (above, above + 1))
    # As a checkpoint holds it: by its literals alone.
    resumed = pair.check(resume_above=KeyBound(literals=(str(above),)))
    assert found(resumed) == {f"({above + 1})": "changed"}
    assert resumed.rows == 4000 - above
    repaired = pair.repair(resume_above=KeyBound(literals=(str(above),)))
    assert (repaired.passes, repaired.rows) == (3, 4000)
    assert pair.check().differences == 0


def test_a_pass_with_a_difference_has_no_low_watermark(db):
    """From the first difference on it cannot be resumed, also behind clean snapshots."""
    fill(db, 4000)
    pair = Pair(db).copy()
    db.execute("UPDATE _t_new SET n = 0 WHERE id = 1500")
    marks: list[tuple[int, Any]] = []
    checker: Checker = pair.checker(
        yield_seconds=0.0,
        tasks=1,
        on_progress=lambda seen: marks.append((seen.differences, checker.low_watermark)),
    )
    checker.run()
    assert any(mark is not None for differences, mark in marks if not differences)
    assert [mark for differences, mark in marks if differences] != []
    assert all(mark is None for differences, mark in marks if differences)


@pytest.mark.slow
def test_a_key_in_another_order_has_no_low_watermark(db):
    """There a range of the key is no range of the new table: nothing is resumed."""
    db.execute("CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY)")
    number = "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 300)"
    db.execute(f"INSERT INTO t {number} SELECT CONCAT('k', i) FROM s")
    pair = Pair(db, "MODIFY k VARCHAR(30) COLLATE utf8mb4_bin").copy()
    marks: list[Any] = []
    checker: Checker = pair.checker(
        target_seconds=0.001,
        first_rows=30,
        yield_seconds=0.0,
        on_progress=lambda _: marks.append(checker.low_watermark),
    )
    assert checker.run().snapshots > 1
    assert set(marks) == {None}
    db.execute("DELETE FROM _t_new WHERE k = 'k1'")
    assert pair.check(resume_above=KeyBound(literals=("_utf8mb4 X'6b35'",))).differences == 1


@pytest.mark.slow
def test_a_key_in_another_order_is_compared_over_several_snapshots(db):
    """Rows that are missing, changed or extra are found, each wherever its snapshot is."""
    db.execute("CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, n INT)")
    number = "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 300)"
    db.execute(f"INSERT INTO t {number} SELECT CONCAT('k', i), i FROM s")
    pair = Pair(db, "MODIFY k VARCHAR(30) COLLATE utf8mb4_bin").copy()
    given = {"yield_seconds": 0.0, "tasks": 2, "first_rows": 30, "target_seconds": 0.001}
    clean = pair.check(**given)
    assert clean.snapshots > 2
    assert (clean.rows, clean.differences) == (300, 0)
    db.execute("DELETE FROM _t_new WHERE k = 'k101'")
    db.execute("UPDATE _t_new SET n = 0 WHERE k = 'k99'")
    db.execute("INSERT INTO _t_new VALUES ('A', 1), ('z', 1)")
    expected = {
        f"(_utf8mb4 X'{key.encode().hex()}')": kind
        for key, kind in {"k101": "missing", "k99": "changed", "A": "extra", "z": "extra"}.items()
    }
    assert found(pair.check(**given)) == expected
    assert pair.repair(**given).remaining == 0
    assert pair.check().differences == 0


class Meanwhile:
    """Does something each time that a recheck is waited for."""

    def __init__(self, *steps: Any) -> None:
        self._steps = list(steps)

    def __call__(self, progress: ChecksumProgress) -> None:
        """Hear how far the checksum is."""
        if progress.waiting_for.startswith("the recheck") and self._steps:
            self._steps.pop(0)()


LOOKS = (0.0, 0.0)


@pytest.mark.parametrize("alter", ["ADD COLUMN x INT", "MODIFY n VARCHAR(20), MODIFY v TEXT"])
def test_rows_in_motion_are_no_differences(db, alter):
    """What is equal at a recheck only lagged; the rest is named with its columns."""
    fill(db, 2000)
    pair = Pair(db, alter).copy()
    db.execute("UPDATE _t_new SET n = 0 WHERE id <= 20; DELETE FROM _t_new WHERE id = 30")
    db.execute("INSERT INTO _t_new (id) VALUES (9000), (9001)")

    def follow() -> None:
        db.execute("UPDATE _t_new SET n = id * 3 WHERE id < 20; DELETE FROM _t_new WHERE id > 9000")

    result = pair.check(on_progress=Meanwhile(follow), recheck_pauses=LOOKS)
    assert found(result) == {"(20)": "changed", "(30)": "missing", "(9000)": "extra"}
    assert [each.columns for each in result.examples if each.kind == "changed"] == [("n",)]
    assert (result.in_motion, result.remaining, result.differences) == (20, 3, 3)
    assert result.counts == Counts(missing=1, extra=1, changed=1)


def test_a_row_that_follows_one_step_behind_is_in_motion(db):
    """The new table's row has become what the source's was: it lags, and will be equal."""
    fill(db, 100)
    pair = Pair(db).copy()
    db.execute("UPDATE _t_new SET n = -1 WHERE id IN (1, 2)")

    def first() -> None:
        db.execute("UPDATE t SET n = 1000 WHERE id IN (1, 2)")

    def second() -> None:
        db.execute("UPDATE _t_new SET n = 1000 WHERE id = 1; UPDATE t SET n = 1001 WHERE id < 3")

    result = pair.check(on_progress=Meanwhile(first, second), recheck_pauses=LOOKS)
    assert found(result) == {"(2)": "changed"}
    assert result.in_motion == 1


def test_a_recheck_finds_rows_whose_key_is_ordered_anew(db):
    """Extra rows are looked for by the key taken back, changed ones by the converted key."""
    db.execute("CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, n INT)")
    db.execute("INSERT INTO t VALUES ('a', 1), ('B', 2), ('c', 3)")
    pair = Pair(db, "MODIFY k VARCHAR(30) COLLATE utf8mb4_bin").copy()
    db.execute("UPDATE _t_new SET n = 0; INSERT INTO _t_new VALUES ('x', 1), ('y', 1)")

    def follow() -> None:
        db.execute("UPDATE _t_new SET n = 1 WHERE k = 'a'; DELETE FROM _t_new WHERE k = 'x'")

    result = pair.check(on_progress=Meanwhile(follow), recheck_pauses=LOOKS)
    assert sorted(str(each) for each in result.examples) == [
        "row ('B') is changed in n",
        "row ('c') is changed in n",
        "row ('y') is extra",
    ]
    assert result.in_motion == 2


def test_only_what_stays_different_is_repaired(db):
    """A row in motion is left to whoever moves it."""
    fill(db, 100)
    pair = Pair(db).copy()
    db.execute("UPDATE _t_new SET n = -1 WHERE id IN (1, 2)")

    def follow() -> None:
        db.execute("UPDATE _t_new SET n = 3 WHERE id = 1")

    result = pair.repair(on_progress=Meanwhile(follow), recheck_pauses=LOOKS)
    assert (result.passes, result.differences, result.in_motion) == (2, 1, 1)
    assert found(result) == {"(2)": "changed"}


def test_comparisons_that_prove_nothing_are_told_after_a_while(db, monkeypatch, caplog):
    """Each is followed by another while rows are overwritten; the third is a warning."""
    fill(db, 100)
    pair = Pair(db).copy()
    counts = iter([0, 1, 1, 2, 2, 3, 3, 4, 4, 4])
    monkeypatch.setattr(Checker, "_overwrites", lambda _: next(counts))
    applier = SqlApplier(pair.options, sessions=1, batch_rows=100, stop=pair.stop)
    with contextlib.closing(applier):
        checker = pair.checker(applier=applier)
        assert checker.run().passes == 5
    assert checker.proven == 4
    (warned,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert "equal in comparison 3, but is compared once more" in warned


def test_a_chunker_that_leaves_a_gap_is_no_pass(db, monkeypatch):
    """A range that is not read fails the checksum, however equal the rest is."""
    fill(db, 4000)
    pair = Pair(db).copy()
    honest = OptimisticChunker.next_chunk

    def skipping(self: OptimisticChunker, rows: int) -> Any:
        honest(self, rows)
        return honest(self, rows)

    monkeypatch.setattr(OptimisticChunker, "next_chunk", skipping)
    with pytest.raises(ChecksumFailure, match="does not follow"):
        pair.check(tasks=1)


def test_a_reader_that_passes_rows_over_is_no_pass(db, monkeypatch):
    """Rows that no chunk held are noticed by the independent count."""
    fill(db, 4000)
    pair = Pair(db).copy()
    honest = query.aggregate
    monkeypatch.setattr(query, "aggregate", lambda *args: honest(*args) + " AND id <> 77")
    with pytest.raises(ChecksumFailure, match="held 3999 rows of the source, a count 4000"):
        pair.check()


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_a_row_that_falls_between_chunks_is_no_pass(db, monkeypatch, tasks):
    """Bounds that lose a row on both sides leave all hashes equal; a divided count notices it."""
    fill(db, 12_000)
    pair = Pair(db).copy()
    lossy: set[str] = set()

    def losing(columns: Any, chunk: Any, directions: Any) -> str:
        found = chunk_predicate(columns, chunk, directions)
        if chunk.lower is None:
            return found
        lossy.add(chunk.lower.literals[0])
        return f"{found} AND `r`.id <> {chunk.lower.literals[0]} + 1"

    monkeypatch.setattr("spirit_py.checksum.query.chunk_predicate", losing)
    with pytest.raises(ChecksumFailure, match="rows of the source, a count"):
        pair.check(tasks=tasks, target_seconds=0.001, first_rows=400)
    assert len(lossy) > 10


@pytest.mark.slow
@pytest.mark.draws(3)
@pytest.mark.parametrize("tasks", [1, 2, 3, 8])
@pytest.mark.parametrize("collation", ["utf8mb4_0900_bin", "utf8mb4_0900_ai_ci"])
def test_there_are_counts_for_all_tasks(db, monkeypatch, tasks, collation):
    """The parts of a count add up to all rows of each side."""
    fill(db, 6000)
    db.execute("ALTER TABLE t MODIFY id VARCHAR(20) COLLATE utf8mb4_0900_bin NOT NULL")
    pair = Pair(db, f"MODIFY id VARCHAR(20) COLLATE {collation} NOT NULL").copy()
    honest = SnapshotReader.handle
    counted: list[str] = []

    def noting(reader: SnapshotReader, order: str) -> str:
        said = json.loads(order)
        if said["do"] == "count":
            counted.append(said["side"])
        return honest(reader, order)

    monkeypatch.setattr(SnapshotReader, "handle", noting)
    result = pair.check(tasks=tasks, target_seconds=0.001, first_rows=100)
    assert (result.differences, result.rows, result.rows_counted) == (0, 6000, True)
    assert set(counted) == {SOURCE, TARGET}
    assert len(counted) >= tasks


def test_differences_that_a_unique_key_made_are_named(db):
    """Rows eaten by a new UNIQUE key stop the migration with the duplicates (R11)."""
    fill(db, 100)
    db.execute("UPDATE t SET v = 'row 5' WHERE id = 6")
    pair = Pair(db, "ADD UNIQUE KEY (v)").copy()
    applier = SqlApplier(pair.options, sessions=1, batch_rows=100, stop=pair.stop)
    checker = pair.checker(applier=applier)
    with contextlib.closing(applier), pytest.raises(DuplicateForUnique) as raised:
        checker.run()
    assert raised.value.details == ("v: v='row 5' in 2 rows",)


def test_differences_that_come_back_end_the_checksum(db):
    """After the last pass nothing is repaired: the checksum fails and shows examples."""
    fill(db, 100)
    pair = Pair(db).copy()
    db.execute("CREATE TRIGGER spoil BEFORE INSERT ON _t_new FOR EACH ROW SET NEW.n = -1")
    db.execute("UPDATE _t_new SET n = 0 WHERE id = 7")
    with pytest.raises(ChecksumFailure, match="1 rows after 3 passes") as raised:
        pair.repair()
    assert "row (7) is changed in n" in raised.value.details


@pytest.mark.slow
def test_a_lock_that_is_not_granted_fails_and_lets_writers_through(db):
    """The lock is asked for in short turns, writers get through between, and at last it fails."""
    fill(db, 100)
    pair = Pair(db).copy()
    holder = db.connect()
    holder.begin()
    holder.cursor().execute("UPDATE t SET n = 0 WHERE id = 1")
    writer = db.connect()
    writer.cursor().execute("SET SESSION lock_wait_timeout = 10")
    errors: list[BaseException] = []

    def check() -> None:
        try:
            pair.check(locking=policy(old=BLIND, wait=1.0, timeout=2.5, longest_pause=0.3))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=check)
    thread.start()
    written = 0
    while thread.is_alive():
        writer.cursor().execute("UPDATE t SET n = n + 1 WHERE id = 2")
        written += 1
        thread.join(0.01)
    holder.rollback()
    assert isinstance(errors[0], ChecksumFailure)
    assert "could not lock" in errors[0].message
    who = f"blocked by: session {holder.thread_id()} of"
    (named,) = [text for text in errors[0].details if text.startswith(who)]
    assert "idle in a transaction" in named
    assert written > 1


def test_no_lock_is_requested_while_a_writer_is_in_front(db):
    """R23: the writer is named and waited for; who only reads is in nobody's way."""
    fill(db)
    pair = Pair(db).copy()
    reader, writer = db.connect(), db.connect()
    for each, statement in ((reader, "SELECT * FROM t"), (writer, "UPDATE t SET n = 0")):
        each.begin()
        each.cursor().execute(f"{statement} LIMIT 1")
    shown: list[str] = []

    def look(progress: ChecksumProgress) -> None:
        shown.append(progress.waiting_for)
        if "is requested" in progress.waiting_for:
            writer.rollback()

    pair.checker(on_progress=look, locking=policy(old=0.0)).run()
    waits = [text for text in shown if "before the table lock of its snapshot is requested" in text]
    assert waits
    assert all(text.startswith(f"session {writer.thread_id()} of") for text in waits)
    assert not any("blocked" in text for text in shown)
    reader.rollback()


def server_ends_it(monkeypatch) -> None:
    """Leave the end of a lock request to the server."""

    def late(*given, wait, **more):
        return LockWatch(*given, wait=wait + 60, **more)

    monkeypatch.setattr(snapshot, "LockWatch", late)


def watch_ends_it(monkeypatch) -> None:
    """Leave the end of a lock request to the watch."""

    def patient(*given, wait, **more):
        return open_lock_session(*given, wait=wait + 60, **more)

    monkeypatch.setattr(snapshot, "open_lock_session", patient)


@pytest.mark.slow
@pytest.mark.parametrize("ends_it", [server_ends_it, watch_ends_it])
def test_a_pause_shows_the_blocker_of_the_request_before_it(db, monkeypatch, ends_it):
    """In the pause no request waits: the blocker is named as it was at the request.

    The server and the watch have the same limit: whichever ends the request, it is said alike.
    """
    ends_it(monkeypatch)
    fill(db)
    pair = Pair(db).copy()
    holder = db.connect()
    holder.begin()
    holder.cursor().execute("UPDATE t SET n = 0 WHERE id = 1")
    who = f"session {holder.thread_id()} of"
    shown: list[str] = []

    def look(progress: ChecksumProgress) -> None:
        shown.append(progress.waiting_for)
        # On a busy machine the request may end before the watch has looked.
        if "pause" in progress.waiting_for and any(f"blocked by: {who}" in text for text in shown):
            holder.rollback()

    asked = policy(old=BLIND, wait=1.0, longest_pause=0.3)
    pair.checker(on_progress=look, locking=asked).run()
    pauses = list(dict.fromkeys(text for text in shown if "pause" in text))
    assert "(a pause for writers after request 1, the next in " in pauses[0]
    assert f"; blocked at the request by: {who}" in pauses[-1]
    assert not any("interrupted" in text for text in pauses)
    assert shown[-1] == ""


def test_a_stop_ends_the_checksum(db):
    """The reason of the stop switch is raised, and nothing is left on the server."""
    fill(db)
    pair = Pair(db).copy()
    pair.stop.request(Interrupted(15))
    with pytest.raises(Interrupted):
        pair.check()


class Killer:
    """Kills a task's session when the first chunk of a gang is compared, so many times.

    Args:
        engine: counts the gangs, of which each is struck once.
    """

    def __init__(self, db, engine: ThreadEngine, times: int) -> None:
        self._db = db
        self._engine = engine
        self.left = times
        self._struck = 0

    def __call__(self, progress: ChecksumProgress) -> None:
        """Hear how far the checksum is; what it says of its wait for the lock is passed over."""
        if progress.waiting_for or not progress.rows or not self.left:
            return
        if self._struck == self._engine.runs:
            return
        # The one that was killed before may not have left the list yet.
        ((victim,),) = self._db.query(
            "SELECT MAX(t.processlist_id) FROM performance_schema.threads t"
            " JOIN performance_schema.user_variables_by_thread v USING (thread_id)"
            " WHERE v.variable_name = 'spirit_py_role' AND v.variable_value = 'checksum-1'"
        )
        if victim and self._db.kill(victim):
            self._struck = self._engine.runs
            self.left -= 1


def test_counts_run_as_chunks_do(db, monkeypatch):
    """Commits without the work are not timed beside a count, which may take minutes."""
    fill(db)
    checker = Pair(db).copy().checker(tasks=1)
    figures = Figures(Journal(MigrationReport()))
    figures.checking(checker, checker.what.mapping.source)
    seen = []
    collect = Gang.collect

    def looked(gang):
        seen.append((checker.progress.rows, figures.in_flight()))
        return collect(gang)

    monkeypatch.setattr(Gang, "collect", looked)
    checker.run()
    assert seen[-1] == (5000, True)
    assert not figures.in_flight()


def test_nothing_runs_of_a_comparison_that_was_ended(db):
    """Of chunks that are never answered; a measure would wait for them otherwise."""
    fill(db, 20_000)
    pair = Pair(db).copy()

    def end(progress):
        if progress.handed_out:
            pair.stop.request(Interrupted(signal.SIGTERM))

    checker = pair.checker(on_progress=end, target_seconds=0.001)
    figures = Figures(Journal(MigrationReport()))
    figures.checking(checker, checker.what.mapping.source)
    with pytest.raises(Interrupted):
        checker.run()
    assert not figures.in_flight()


@pytest.mark.slow
def test_a_lost_task_is_replaced(db):
    """The gang begins anew as a whole, in a new snapshot, and the result is complete."""
    fill(db, 20_000)
    pair = Pair(db).copy()
    db.execute("UPDATE _t_new SET n = 0 WHERE id = 19999")
    engine = ThreadEngine()
    killer = Killer(db, engine, 2)
    result = pair.check(engine=engine, on_progress=killer, target_seconds=0.001)
    assert (killer.left, engine.runs, result.snapshots) == (0, 3, 3)
    assert (result.rows, result.differences) == (20_000, 1)


@pytest.mark.slow
def test_a_comparison_goes_on_with_the_sessions_that_the_server_has_room_for(db, monkeypatch):
    """A session that is refused costs no try: half as many tasks compare, and are not many."""
    monkeypatch.setattr(table_pass, "_ASSEMBLE_SECONDS", 10.0)
    monkeypatch.setattr(table_pass, "_GANG_ATTEMPTS", 2)
    fill(db, 100)
    engine, joining = ThreadEngine(), worker.JoinChecksum.__call__

    def join(self, rank: int) -> SnapshotReader:
        if rank:
            raise ServerFault(1040, "Too many connections", where="test")
        return joining(self, rank)

    monkeypatch.setattr(worker.JoinChecksum, "__call__", join)
    result = Pair(db).copy().check(engine=engine, tasks=8)
    assert (engine.runs, result.rows, result.differences) == (4, 100, 0)


@pytest.mark.parametrize(("code", "where"), [(1040, "task"), (1226, "task"), (1040, "driver")])
def test_a_comparison_outlasts_a_server_without_room(db, monkeypatch, code, where):
    """A session that is refused is tried again, more often than a task that is lost."""
    monkeypatch.setattr(table_pass, "_GANG_ATTEMPTS", 2)
    monkeypatch.setattr(table_pass, "_FULL_SECONDS", 0.0)
    fill(db, 100)
    engine, refused = ThreadEngine(), [0, 0, 0]
    of, name = (worker.JoinChecksum, "__call__") if where == "task" else (table_pass, "connect")
    opening = getattr(of, name)

    def open_session(*given: Any, **named: Any) -> Any:
        if refused and named.get("role", "checksum-cut") == "checksum-cut":
            refused.pop()
            raise ServerFault(code, "Too many connections", where="test")
        return opening(*given, **named)

    monkeypatch.setattr(of, name, open_session)
    result = Pair(db).copy().check(engine=engine, tasks=1)
    assert (engine.runs, result.rows, result.differences) == (4, 100, 0)


@pytest.mark.slow
def test_tasks_that_are_lost_again_and_again_end_the_checksum(db):
    """After some attempts the checksum fails with the loss."""
    fill(db, 20_000)
    pair = Pair(db).copy()
    engine = ThreadEngine()
    killer = Killer(db, engine, 9)
    with pytest.raises(WorkersLost):
        pair.check(engine=engine, on_progress=killer, target_seconds=0.001)
    assert killer.left == 6


@pytest.mark.slow
def test_a_python_worker_that_dies_costs_one_gang(db, spark_engine):
    """Spark's own second attempt is sent home; new gangs compare the whole table, and repair it."""
    fill(db, 20_000)
    pair = Pair(db, "MODIFY n VARCHAR(12), ADD COLUMN x INT").copy()
    db.execute("DELETE FROM _t_new WHERE id = 1; UPDATE _t_new SET n = '' WHERE id = 20000")
    deaths: list[str] = []

    def die(progress: ChecksumProgress) -> None:
        if progress.rows and not deaths:
            deaths.append(
                db.query(
                    "SELECT a.attr_value FROM performance_schema.session_connect_attrs a"
                    " JOIN performance_schema.threads t USING (processlist_id)"
                    " JOIN performance_schema.user_variables_by_thread v USING (thread_id)"
                    " WHERE v.variable_name = 'spirit_py_role'"
                    " AND v.variable_value = 'checksum-1' AND a.attr_name = '_pid'"
                )[0][0]
            )
            os.kill(int(deaths[0]), signal.SIGKILL)

    result = pair.check(engine=spark_engine, on_progress=die, target_seconds=0.001)
    assert (result.rows, result.differences, result.snapshots) == (20_000, 2, 2)
    result = pair.repair(engine=spark_engine)
    assert found(result) == {"(1)": "missing", "(20000)": "changed"}
    assert (result.passes, result.rows) == (2, 20_000)


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize("alter", ["ADD COLUMN x INT", "MODIFY n VARCHAR(20), MODIFY v TEXT"])
@pytest.mark.parametrize("server", ["db", "db_file"])
@pytest.mark.parametrize("rolling", [False, True])
def test_no_false_difference_is_found_under_load(request, server, alter, rolling):
    """While an application writes and the feed applies, every snapshot is equal on both sides."""
    db = request.getfixturevalue(server)
    fill(db, 3000)
    pair = Pair(db, alter)
    seed = seed_of("SPIRIT_PY_TEST_SEED")
    print(f"SPIRIT_PY_TEST_SEED={seed}")  # noqa: T201 - to repeat a failure
    with followed(pair) as (feed, applier), Application(db, seed) as application:
        for _ in range(4):
            before = application.written
            how = {"rolling": rolling, "target_seconds": 0.01}
            result = pair.checker(applier=applier, feed=feed, **how).run()
            assert (result.passes, result.differences, result.examples) == (1, 0, ())
            assert application.written > before
    assert not application.errors


@pytest.mark.slow
def test_a_repair_under_load_is_not_undone(db):
    """Rows that are copied again while their changes stream in end up equal."""
    fill(db, 3000)
    pair = Pair(db)
    with followed(pair) as (feed, applier), Application(db, 7) as application:
        feed.flush()
        db.execute("UPDATE _t_new SET v = 'planted' WHERE id % 100 = 0")
        comparison = Comparison(
            mapping=pair.mapping,
            source=pair.options,
            engine=ThreadEngine(),
            stop=pair.stop,
            feed=feed,
        )
        result = Checker(comparison, applier=applier).run()
        assert result.passes == 2
        assert 0 < result.differences <= 30
    assert not application.errors
