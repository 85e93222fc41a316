"""The copy on a real server, by tasks of both kinds: R1, R3, R4, R10, R18, the driver's loop."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import uuid
from functools import partial
from pathlib import Path

import pytest

from spirit_py.chunk.chunker import make_chunker
from spirit_py.copier import task
from spirit_py.copier.chunk_sql import chunk_lock, copying_slots
from spirit_py.copier.copier import BoundaryReader
from spirit_py.copier.meter import ChunkCopied, LostValue
from spirit_py.copier.task import ChunkOrder, JoinCopy
from spirit_py.errors import CopyFailure, Interrupted, ServerFault, ValueLost, WorkersLost
from spirit_py.locks.look import LockedBy
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import INTERRUPTED
from spirit_py.mysql.own_sessions import take_slot
from spirit_py.mysql.session import Session
from spirit_py.spark.choice import DriverEngine
from spirit_py.threads import StopSwitch
from tests.kits.chunks import chunk
from tests.kits.connection import connection_options
from tests.kits.copying import chunk_sessions, copying
from tests.kits.paces import SetPace
from tests.kits.resume import once_at
from tests.kits.tables import map_table, open_session
from tests.kits.waiting import DEADLINE, until

ROWS = 5000


def fill(db, rows: int = ROWS, definition: str = "v VARCHAR(20)", value: str = "CONCAT('v', n)"):
    """Create ``t`` with an AUTO_INCREMENT key and this many rows."""
    db.execute(f"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, {definition})")
    db.execute("SET SESSION cte_max_recursion_depth = 1000000")
    db.execute(
        "INSERT INTO t WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r"
        f" WHERE n < {rows}) SELECT n, {value} FROM r"
    )
    db.execute("ANALYZE TABLE t")


def differences(db) -> int:
    """Count rows of either table that the other has not."""
    ((missing,),) = db.query("SELECT COUNT(*) FROM (TABLE t EXCEPT TABLE _t_new) d")
    ((extra,),) = db.query("SELECT COUNT(*) FROM (TABLE _t_new EXCEPT TABLE t) d")
    return missing + extra


def copied(db) -> int:
    """Count the rows of the new table."""
    ((rows,),) = db.query("SELECT COUNT(*) FROM _t_new")
    return rows


def test_every_row_is_copied(db, engine):
    """All rows, every chunk dispatched before it ran and committed after, and no session left."""
    fill(db)
    mapping = map_table(db)
    with copying(db, mapping, engine, first_rows=1000) as run:
        run.copier.run()
        seen = run.copier.statistics()
        assert differences(db) == 0
        assert (seen.rows, seen.in_flight, seen.fraction) == (ROWS, 0, 1.0)
        assert seen.chunks == len(run.feed.dispatched) >= 3
        assert run.feed.tracker.settled == run.feed.tracker.dispatched == seen.chunks
        assert run.feed.finished
        assert seen.rows_per_second is not None
        assert seen.chunk_seconds_p90 is not None
    until(lambda: not chunk_sessions(db), "the tasks' sessions to end")


@pytest.mark.parametrize("slots", [2, 32])
def test_each_task_copies_a_range_of_its_own(db, slots):
    """Two tasks meet where their lanes do, not at every chunk; whatever could be more tasks."""
    fill(db)
    mapping = map_table(db)
    with copying(db, mapping, DriverEngine(slots), first_rows=100) as run:
        run.copier.pace = SetPace(most_tasks=2, chunk_seconds=0.01)
        run.copier.run()
        assert differences(db) == 0
        chunks = run.feed.dispatched
        assert len(chunks) > 8
        lanes = {each.lane_end for each in chunks if each.lane_end is not None}
        assert 1 <= len(lanes) <= 4
        assert run.feed.copied().finished


@pytest.mark.slow
def test_a_text_key_without_gtids_waits_for_nothing(db_file, engine):
    """A key that Python cannot order, on a server without GTIDs: nothing to wait for."""
    db_file.execute("CREATE TABLE t (k VARCHAR(20) PRIMARY KEY, n INT)")
    db_file.execute("SET SESSION cte_max_recursion_depth = 1000000")
    db_file.execute(
        "INSERT INTO t WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r"
        " WHERE n < 3000) SELECT CONCAT(CHAR(97 + n % 26), n), n FROM r"
    )
    mapping = map_table(db_file)
    with copying(db_file, mapping, engine) as run:
        run.copier.run()
        assert run.feed.tracker.settled == len(run.feed.dispatched)
    assert differences(db_file) == 0


def test_an_empty_table_is_one_chunk(db, engine):
    """One chunk over everything, no rows."""
    db.execute("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY)")
    with copying(db, map_table(db), engine) as run:
        run.copier.run()
        assert run.copier.statistics().chunks == 1
    assert copied(db) == 0


def test_the_source_is_read_without_locks(db, engine):
    """Writers' open transactions do not hold a chunk up, and a chunk locks no row (R1)."""
    fill(db, 100)
    mapping = map_table(db)
    writer = db.connect()
    writer.autocommit(False)
    cursor = writer.cursor()
    cursor.execute("UPDATE t SET v = 'changed' WHERE id BETWEEN 10 AND 20")
    cursor.execute("INSERT INTO t VALUES (1000, 'new')")
    cursor.execute("DELETE FROM t WHERE id = 30")
    other = db.connect()
    blocker = other.cursor()
    blocker.execute("BEGIN")
    blocker.execute("INSERT INTO _t_new VALUES (50, 'mine')")
    with copying(db, mapping, engine) as run:
        run.start()

        # The chunk is in the middle of its statement: it waits for row 50 of the new table.
        # It gives up after some seconds, and waits again: its locks are looked at with the wait.
        # The server reads the two tables one after the other, so the wait may have just begun.
        def waiting() -> list[tuple[str, ...]]:
            locks = db.query(
                "SELECT l.object_name, l.lock_type, l.lock_mode FROM performance_schema.data_locks"
                " l JOIN performance_schema.data_lock_waits w"
                " ON l.thread_id = w.requesting_thread_id"
            )
            return locks if any(kind == "RECORD" for _, kind, _ in locks) else []

        locks = until(waiting, "the chunk to wait for the row lock in the new table")
        assert {name for name, kind, _ in locks if kind == "RECORD"} == {"_t_new"}
        # IS on the table would be harmless; there is not even that.
        assert [lock for lock in locks if lock[0] == "t"] == []
        db.execute("UPDATE t SET v = 'free' WHERE id = 70")
        blocker.execute("ROLLBACK")
        run.join()
    assert copied(db) == 100
    assert db.query("SELECT v FROM _t_new WHERE id IN (10, 30)") == [("v10",), ("v30",)]
    writer.rollback()


@pytest.mark.gtid
def test_a_chunk_waits_until_a_transaction_is_visible(db, engine):
    """A chunk reads only when the transactions dropped before it can be read (R3)."""
    fill(db, 100)
    mapping = map_table(db)
    future = str(uuid.uuid4())
    with copying(db, mapping, engine) as run:
        run.feed.visibility = f"{future}:1"
        run.start()
        until(
            lambda: [s for s in chunk_sessions(db).values() if "WAIT_FOR_EXECUTED" in s],
            "the chunk to wait for the transaction",
        )
        assert copied(db) == 0
        db.execute(f"SET gtid_next = '{future}:1'")
        db.execute("UPDATE t SET v = 'seen' WHERE id = 7")
        db.execute("SET gtid_next = 'AUTOMATIC'")
        run.join()
    assert db.query("SELECT v FROM _t_new WHERE id = 7") == [("seen",)]
    assert differences(db) == 0


@pytest.mark.gtid
def test_an_interrupted_wait_for_visibility_goes_on(db):
    """KILL QUERY ends a statement that only waits: neither the copy, nor the waiting (R3)."""
    fill(db, 100)
    mapping = map_table(db)
    future = str(uuid.uuid4())
    with copying(db, mapping, DriverEngine(1)) as run:
        run.feed.visibility = f"{future}:1"
        run.start()
        killed: set[tuple[int, int]] = set()
        for _ in range(3):
            (waiting,) = until(
                lambda: waiting_statements(db) - killed, "the chunk to wait for the transaction"
            )
            killed.add(waiting)
            db.execute(f"KILL QUERY {waiting[0]}")
        until(lambda: waiting_statements(db) - killed, "the chunk to wait once more")
        assert run.running
        assert copied(db) == 0
        db.execute(f"SET gtid_next = '{future}:1'")
        db.execute("UPDATE t SET v = 'seen' WHERE id = 7")
        db.execute("SET gtid_next = 'AUTOMATIC'")
        run.join()
        assert run.copier.statistics().replaced_chunks == 3
    assert db.query("SELECT v FROM _t_new WHERE id = 7") == [("seen",)]


def waiting_statements(db) -> set[tuple[int, int]]:
    """Return the statements that wait for a transaction: session and number in it."""
    return set(
        db.query(
            "SELECT t.PROCESSLIST_ID, s.EVENT_ID"
            " FROM performance_schema.events_statements_current s"
            " JOIN performance_schema.threads t USING (THREAD_ID)"
            " WHERE s.SQL_TEXT LIKE 'SELECT WAIT_FOR_EXECUTED%' AND s.END_EVENT_ID IS NULL"
        )
    )


def test_an_interrupted_release_of_a_lock_is_tried_again(db, monkeypatch):
    """A chunk that is written is reported, and its lock is free, whatever is interrupted (R18)."""
    fill(db, 100)
    mapping = map_table(db)
    join = JoinCopy(connection=connection_options(db), mapping=mapping, licence=f"test-{db.name}")
    order = ChunkOrder(chunk=chunk(0, None, None))
    query, failed = Session.query, []

    def interrupted(self, sql, *given):
        found = query(self, sql, *given)
        if "IS_USED_LOCK" in sql and sql not in failed and self.role == "chunk":
            failed.append(sql)
            raise ServerFault(INTERRUPTED, "Query execution was interrupted", where="test")
        return found

    monkeypatch.setattr(Session, "query", interrupted)
    with open_session(db, role="driver") as driver:
        assert driver.value("SELECT GET_LOCK(%s, 0)", (join.licence,))
        writer = join(0)
        try:
            assert ChunkCopied.decode(writer.handle(order.encode())).rows == 100
            assert (
                driver.value(
                    "SELECT IS_USED_LOCK(%s)",
                    (chunk_lock(mapping, order.chunk, join.connection.origin),),
                )
                is None
            )
        finally:
            writer.close()
    assert len(failed) == 2


@pytest.mark.gtid
def test_a_transaction_that_never_becomes_visible_stops_the_copy(db, engine):
    """The wait of R3 is bounded, and its end is an error, never a read without it."""
    fill(db, 100)
    mapping = map_table(db)
    with copying(db, mapping, engine, visibility_timeout=0.3) as run:
        run.feed.visibility = f"{uuid.uuid4()}:1"
        with pytest.raises(CopyFailure, match="are not visible after"):
            run.copier.run()
        assert not run.feed.finished
    assert copied(db) == 0


def test_a_lost_task_is_fenced_before_its_chunk_is_copied_again(db, spark_engine):
    """An executor is killed while its chunk runs on the server: that session is ended first (R18).

    The chunk is then copied in the driver, because Spark's tasks are lost as a whole.
    """
    fill(db, 100)
    mapping = map_table(db)
    gate = db.connect().cursor()
    gate.execute("LOCK TABLES _t_new WRITE")
    with copying(db, mapping, spark_engine) as run:
        run.start()
        (first,) = until(
            lambda: [k for k, s in chunk_sessions(db).items() if "REPLACE" in s],
            "the first attempt to execute",
        )
        kill_python_workers(spark_engine)
        until(
            lambda: [k for k, s in chunk_sessions(db).items() if k != first and "REPLACE" in s],
            "the second attempt to execute",
        )
        assert first not in chunk_sessions(db)
        gate.execute("UNLOCK TABLES")
        run.join()
        seen = run.copier.statistics()
        assert seen.chunks == len(run.feed.dispatched)
        assert seen.replaced_chunks == 1
    assert differences(db) == 0


def test_a_task_that_was_given_up_copies_nothing(db):
    """Once the driver's licence is gone, an order that a task still has is refused (R18)."""
    fill(db, 100)
    mapping = map_table(db)
    join = JoinCopy(connection=connection_options(db), mapping=mapping, licence=f"test-{db.name}")
    order = ChunkOrder(chunk=chunk(0, None, None)).encode()
    with open_session(db, role="driver") as driver:
        assert driver.value("SELECT GET_LOCK(%s, 0)", (join.licence,))
        writer = join(0)
        try:
            assert ChunkCopied.decode(writer.handle(order)).rows == 100
            driver.query("SELECT RELEASE_LOCK(%s)", (join.licence,))
            db.execute("DELETE FROM _t_new")
            with pytest.raises(WorkersLost, match="given up"):
                writer.handle(order)
        finally:
            writer.close()
    assert copied(db) == 0


def test_a_part_whose_rows_are_longer_than_others_is_halved(db, monkeypatch):
    """Its transaction is too large for the server; a row that is too large alone ends the copy."""
    fill(db, 40, "v LONGTEXT", "REPEAT('v', IF(n > 20, 20000, 20))")
    mapping = map_table(db)
    join = JoinCopy(connection=connection_options(db), mapping=mapping, licence=f"test-{db.name}")
    order = ChunkOrder(chunk=chunk(0, None, None)).encode()
    tried: list[tuple[str, ...]] = []
    with open_session(db, role="driver") as driver:
        assert driver.value("SELECT GET_LOCK(%s, 0)", (join.licence,))
        db.set_global("max_binlog_cache_size", 131_072)
        with contextlib.closing(join(0)) as writer:
            assert ChunkCopied.decode(writer.handle(order)).rows == 40
            assert differences(db) == 0
            write = writer._write

            def limited(order, part, piece):
                if piece.upper is None or int(piece.upper.literals[0]) >= 33:
                    raise ServerFault(3100, "the hook before_commit", where="test")
                tried.append(piece.upper.literals)
                return write(order, part, piece)

            monkeypatch.setattr(writer, "_write", limited)
            with pytest.raises(CopyFailure, match="before_commit"):
                writer.handle(order)
            assert tried[-1] == ("32",)

            def lossy(order, part, piece):
                if piece.lower is None:
                    return limited(order, part, piece)
                raise LostValue("lost", "at row 3", chunk=0, part=0, code=1264, hint="")

            monkeypatch.setattr(writer, "_write", lossy)
            with pytest.raises(LostValue) as lost:
                writer.handle(order)
            assert lost.value.row == 0


def kill_python_workers(engine) -> None:
    """Kill the Python processes that run tasks; Spark starts others."""
    for pid in engine._spark._process._members():
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        above = Path(f"/proc/{parent}/cmdline").read_bytes()
        if b"pyspark.daemon" in command and b"pyspark.daemon" in above:
            os.kill(pid, signal.SIGKILL)


def test_chunks_that_still_run_are_ended_first(db, engine):
    """A chunk of a lost task must not write into what is copied anew (R18)."""
    fill(db, 100)
    mapping = map_table(db)
    with (
        copying(db, mapping, engine) as run,
        connect(run.connection, database=db.name, role="chunk") as stale,
    ):
        take_slot(stale.query, stale.id, copying_slots(mapping, run.connection.origin))
        run.copier.run()
        assert not stale.alive()
    assert differences(db) == 0


def test_a_killed_session_is_a_transient_fault(db, engine):
    """A chunk whose session is killed is repeated on another one, and counted."""
    fill(db, 100)
    mapping = map_table(db)
    gate = db.connect().cursor()
    gate.execute("LOCK TABLES _t_new WRITE")
    with copying(db, mapping, engine) as run:
        run.start()
        (victim,) = until(
            lambda: [k for k, s in chunk_sessions(db).items() if "REPLACE" in s],
            "the chunk to execute",
        )
        db.execute(f"KILL {victim}")
        until(
            lambda: [k for k, s in chunk_sessions(db).items() if k != victim and "REPLACE" in s],
            "the chunk to be repeated",
        )
        gate.execute("UNLOCK TABLES")
        run.join()
        assert run.copier.statistics().replaced_chunks >= 1
    assert differences(db) == 0


@pytest.mark.parametrize(
    ("definition", "value", "alter", "text"),
    [
        (
            "v VARCHAR(20)",
            "IF(n = 77, 'too long for it', 'ok')",
            "MODIFY v VARCHAR(5)",
            "truncated",
        ),
        ("v INT", "IF(n = 77, 70000, 1)", "MODIFY v SMALLINT", "Out of range"),
        ("v INT", "IF(n = 77, NULL, 1)", "MODIFY v INT NOT NULL", "cannot be null"),
        ("v DECIMAL(8,4)", "IF(n = 77, 1.2345, 1)", "MODIFY v DECIMAL(6,2)", "truncated"),
        (
            "v VARCHAR(20)",
            "IF(n = 77, 'ü中', 'a')",
            "MODIFY v VARCHAR(20) CHARACTER SET latin1",
            "v",
        ),
        ("v VARCHAR(20)", "IF(n = 77, 'x', '1')", "MODIFY v INT", "'x'"),
    ],
    ids=["long", "range", "null", "scale", "charset", "number"],
)
def test_a_value_that_would_be_lost_stops_the_copy(db, engine, definition, value, alter, text):
    """Truncation, range, NULL, rounding and unknown characters are errors that name the row."""
    db.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
    fill(db, 100, definition, value)
    mapping = map_table(db, alter)
    before = db.query("CHECKSUM TABLE t")
    with copying(db, mapping, engine) as run, pytest.raises(ValueLost) as lost:
        run.copier.run()
    assert text in str(lost.value)
    assert "'v'" in str(lost.value)
    assert lost.value.details == ("in or near the row with id = 77",)
    assert db.query("CHECKSUM TABLE t") == before


def test_a_check_constraint_stops_the_copy(db, engine):
    """A row that a new CHECK refuses stops the copy with the constraint's name."""
    fill(db, 100, "v INT", "n")
    mapping = map_table(db, "ADD CONSTRAINT small CHECK (v < 50)")
    with copying(db, mapping, engine) as run, pytest.raises(ValueLost, match="small"):
        run.copier.run()


def test_a_missing_table_stops_the_copy(db, engine):
    """A fault that repeating does not cure is raised at once, in one line, with the chunk."""
    fill(db, 100)
    mapping = map_table(db)
    db.execute("DROP TABLE _t_new")
    with (
        copying(db, mapping, engine) as run,
        pytest.raises(CopyFailure, match=r"chunk \d+ of .* could not be copied: .*doesn't exist"),
    ):
        run.copier.run()


def impatient(monkeypatch) -> None:
    """Let a task wait for a second for a table lock, and try twice."""
    monkeypatch.setattr(task, "connect", partial(connect, lock_wait_timeout=1))
    monkeypatch.setattr(task, "_ATTEMPTS", 2)


@pytest.mark.slow
@pytest.mark.parametrize("held", ["LOCK TABLES t READ, _t_new READ", "FLUSH TABLES WITH READ LOCK"])
def test_a_chunk_waits_for_as_long_as_a_dump_holds_its_lock(db, engine, monkeypatch, caplog, held):
    """A dump's lock of minutes is no fault of the chunk; the log names whose it is."""
    impatient(monkeypatch)
    retried = threading.Semaphore(0)
    looked = LockedBy.__call__

    def look(self) -> str:
        found = looked(self)
        retried.release()
        return found

    monkeypatch.setattr(LockedBy, "__call__", look)
    fill(db, 300)
    mapping = map_table(db)
    dump = db.connect()
    holder = dump.thread_id()
    with copying(db, mapping, engine) as run, contextlib.closing(dump):
        dump.query(held)
        run.start()
        for _ in range(3):
            assert retried.acquire(timeout=DEADLINE)
        assert copied(db) == 0
        dump.query("UNLOCK TABLES")
        run.join()
    assert copied(db) == 300
    assert f"{db.name}._t_new: session {holder} of " in caplog.text


def test_a_stop_ends_the_wait_for_a_dump(db, engine, monkeypatch):
    """The task is in its wait, or between two of them, and writes nothing later."""
    impatient(monkeypatch)
    fill(db, 300)
    mapping = map_table(db)
    dump = db.connect()
    with copying(db, mapping, engine, grace=0.1) as run, contextlib.closing(dump):
        dump.query("LOCK TABLES _t_new READ")
        run.start()
        until(lambda: run.copier.statistics().rows or chunk_sessions(db), "a chunk to execute")
        run.stop.request(Interrupted(15))
        with pytest.raises(Interrupted):
            run.join()
        dump.query("UNLOCK TABLES")
    until(lambda: not chunk_sessions(db), "the sessions to end")
    assert copied(db) == 0


@pytest.mark.slow
def test_a_stop_ends_running_chunks_on_the_server(db, spark_engine):
    """Stopped while chunks hang: they are killed, nothing is written later, no session stays."""
    fill(db, 5000)
    mapping = map_table(db)
    gate = db.connect().cursor()
    gate.execute("LOCK TABLES _t_new WRITE")
    with copying(db, mapping, spark_engine, grace=0.5) as run:
        run.start()
        until(
            lambda: [s for s in chunk_sessions(db).values() if "REPLACE" in s], "a chunk to execute"
        )
        run.stop.request(Interrupted(15))
        with pytest.raises(Interrupted):
            run.join()
        assert not run.feed.finished
        handed_out = len(run.feed.dispatched)
    held = db.query(
        "SELECT COUNT(*) FROM performance_schema.metadata_locks"
        " WHERE object_name LIKE 'spirit-py:chunk:%'"
    )
    assert held == [(0,)]
    until(lambda: not chunk_sessions(db), "the sessions to end")
    gate.execute("UNLOCK TABLES")
    assert copied(db) == 0
    assert handed_out < 12


def test_a_stop_lets_quick_chunks_commit(db, engine, monkeypatch):
    """Stopped in full swing: what was handed out commits, nothing more is handed out."""
    fill(db, 50_000)
    mapping = map_table(db)
    with copying(db, mapping, engine, first_rows=100, target_chunk_time=0.01, grace=20.0) as run:
        # Not by a thread beside it, which might look when all is copied.
        once_at(monkeypatch, "chunk.committed", lambda: run.stop.request(Interrupted(2)))
        run.start()
        with pytest.raises(Interrupted):
            run.join()
        assert run.feed.tracker.settled == len(run.feed.dispatched)
        assert run.copier.statistics().rows == copied(db)


def test_a_lost_boundary_session_is_opened_again(db):
    """The driver's session is killed between two boundaries; the next one is found all the same."""
    fill(db, 100)
    mapping = map_table(db)
    reader = BoundaryReader(connection_options(db), stop=StopSwitch())
    try:
        chunker = make_chunker(mapping, reader.query)
        chunker.next_chunk(10)
        ((number,),) = reader.query("SELECT CONNECTION_ID()")
        db.execute(f"KILL {number}")
        assert chunker.next_chunk(10) == chunk(1, 10, 20)
    finally:
        reader.close()


def test_a_throttled_copy_waits(db, engine):
    """While there is a reason to wait nothing is handed out, and the reason is shown."""
    fill(db, 3000)
    mapping = map_table(db)
    with copying(db, mapping, engine) as run:
        run.throttle.why = "the replica lags"
        run.start()
        until(lambda: run.throttle.asked >= 3, "the throttle to be asked again")
        assert run.feed.dispatched == []
        assert run.copier.statistics().throttled == "the replica lags"
        run.throttle.why = ""
        run.join()
        seen = run.copier.statistics()
        assert seen.throttled == ""
        assert seen.throttled_seconds > 0
    assert differences(db) == 0


def test_timestamps_convert_in_the_servers_zone(db, engine):
    """TIMESTAMP to DATETIME becomes what a native ALTER in that zone would make of it."""
    fill(
        db,
        2000,
        "v TIMESTAMP(2) NULL",
        "TIMESTAMP'2024-10-27 00:00:00' + INTERVAL n * 7 SECOND",
    )
    mapping = map_table(db, "MODIFY v DATETIME(2)", time_zone="+05:30")
    assert mapping.time_zone == "+05:30"
    with copying(db, mapping, engine) as run:
        run.copier.run()
        assert run.copier.statistics().rows == 2000
    db.execute("CREATE TABLE native LIKE t; INSERT INTO native TABLE t")
    db.execute("SET SESSION time_zone = '+05:30'")
    db.execute("ALTER TABLE native MODIFY v DATETIME(2), ALGORITHM=COPY")
    assert db.query("SELECT COUNT(*) FROM (TABLE native EXCEPT TABLE _t_new) d") == [(0,)]
    assert copied(db) == 2000


def test_the_value_zero_stays_zero(db, engine):
    """0 in an AUTO_INCREMENT column, zero dates and ENUM ordinal 0 are copied as they are (R10)."""
    db.execute("SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'")
    db.execute(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, d DATE, e ENUM('a', 'b'), y YEAR)"
    )
    db.execute("INSERT IGNORE INTO t VALUES (0, '0000-00-00', 'nonsense', 0)")
    db.execute("INSERT INTO t VALUES (-5, '2023-02-31', 'a', 2024)")
    mapping = map_table(db, "ADD COLUMN n INT NULL")
    with copying(db, mapping, engine) as run:
        run.copier.run()
    assert db.query("SELECT id, CAST(d AS CHAR), e + 0, y + 0 FROM _t_new ORDER BY id") == [
        (-5, "2023-02-31", 1.0, 2024),
        (0, "0000-00-00", 0.0, 0),
    ]
