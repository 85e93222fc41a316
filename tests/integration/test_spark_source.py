"""Spark's data source: a table in partitions, with the server's filters, and in one snapshot."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from MySQLdb import OperationalError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from mysql_server import ServerOptions, running
from spirit_py import register_source
from spirit_py.api.source import SpiritSource
from spirit_py.archiving import snapshot
from spirit_py.archiving.columns import StoredTable
from spirit_py.archiving.snapshot import Meeting
from spirit_py.binlog.position import read_position
from spirit_py.classes import replace
from spirit_py.config import ConnectionOptions
from spirit_py.errors import (
    AnotherServer,
    MigrationFailure,
    Refusal,
    SchemaChanged,
    ServerFault,
    UsageFault,
)
from spirit_py.locks.named import take_named_lock
from spirit_py.locks.table import TableLock
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import kill_session
from tests.fixtures.mysql import PROVIDER
from tests.kits.connection import account, options_of
from tests.kits.tables import open_session
from tests.kits.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

WAITING = (
    "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = %s"
    " AND STATE = 'Waiting for table metadata lock'"
)
LOOSE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'"


@pytest.fixture
def spark(spark_engine: Any) -> Iterator[SparkSession]:
    """Return a session that knows the source, over the Spark of all tests."""
    session = SparkSession(spark_engine.context())
    register_source(session)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    yield session
    SparkSession._instantiatedSession = None


@pytest.fixture
def read(spark: SparkSession, db: Any, tmp_path: Any) -> Any:
    """Return what makes a DataFrame of table ``t``, with the password in an option file."""
    file = tmp_path / "client.cnf"
    file.write_text(f'[client]\npassword = "{db.server.password}"\n')

    def make(**more: object) -> Any:
        given = {"host": db.server.host, "port": db.server.port, "user": db.server.user}
        options = {"defaults_file": str(file), "table": f"{db.name}.t", "beside": "false"}
        options = {k: str(v) for k, v in (options | given | more).items() if v is not None}
        return spark.read.format("spirit").options(**options).load()

    return make


def fill(db: Any, rows: int = 3000) -> None:
    """Make a table with a text key of a collation without case, with gaps and odd dates."""
    db.execute(
        "CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci NOT NULL, n INT NOT NULL,"
        " at DATE, seen DATETIME(3), amount DECIMAL(9,2), big BIGINT UNSIGNED, PRIMARY KEY (k, n))"
    )
    db.execute(LOOSE)
    db.execute(
        "SET SESSION cte_max_recursion_depth = 100000; INSERT INTO t"
        f" WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
        " SELECT CONCAT(IF(i % 2, 'key', 'KEY'), i % 37), i, IF(i % 10, '2026-01-01' + INTERVAL i %"
        " 60 DAY, IF(i % 20, NULL, '0000-00-00')), '2026-01-01' + INTERVAL i SECOND, i * 1.25,"
        " 18446744073709551615 - i FROM n; ANALYZE TABLE t"
    )


@pytest.mark.slow
def test_a_table_is_a_data_frame_in_partitions(db, read):
    """Every row once, with the server's types, cut by a text key of a collation without case."""
    fill(db)
    frame = read(partitions=3)
    assert frame.rdd.getNumPartitions() == 3
    assert dict(frame.dtypes) == {
        "k": "string", "n": "int", "at": "date", "seen": "timestamp_ntz",
        "amount": "decimal(9,2)", "big": "decimal(20,0)",
    }  # fmt: skip
    rows = sorted(frame.collect(), key=lambda row: row.n)
    assert [row.n for row in rows] == list(range(1, 3001))
    assert rows[0].big == 18446744073709551614
    assert rows[19].at is None
    assert rows[0].seen == dt.datetime(2026, 1, 1, 0, 0, 1)  # noqa: DTZ001 - it has none


@pytest.mark.slow
def test_columns_conditions_and_what_is_beside_are_chosen(db, read):
    """The server reads no other column, and returns no other row."""
    fill(db, 100)
    frame = read(columns="n, at", where="n > 50", beside="true")
    assert frame.columns == ["n", "at", "_mysql"]
    rows = sorted(frame.collect(), key=lambda row: row.n)
    assert [row.n for row in rows] == list(range(51, 101))
    assert [row["_mysql"] for row in rows if row.n == 60] == [{"at": "0000-00-00"}]


@pytest.mark.slow
def test_what_no_type_holds_is_beside_or_null_where_asked_or_an_error(db, read):
    """A zero date would be NULL in the DataFrame without a word."""
    fill(db, 100)
    frame = read(columns="n, at", where="n > 50", partitions=1, beside=None)
    assert frame.columns == ["n", "at"]
    with pytest.raises(Exception, match="column at: date of Spark cannot hold each") as lost:
        frame.collect()
    # Spark keeps what ends a task.
    assert "0000-00-00" not in str(lost.value)
    there = read(columns="n, at", where="n = 61", beside=None)
    assert there.first()["at"] == dt.date(2026, 1, 2)
    assert read(columns="n, at", where="n = 60").first()["at"] is None


@pytest.mark.slow
def test_a_filter_changes_no_later_answer(db, read):
    """Spark keeps a reader whose filters were passed on, also for queries without one."""
    fill(db, 200)
    frame = read(partitions=1)
    assert frame.filter("k = 'key3'").count() == 3
    assert frame.count() == 200


@pytest.mark.slow
def test_conditions_reach_the_server(db, read):
    """The server's statement has the condition: it sends fewer rows."""
    fill(db, 500)
    before = _sent(db)
    assert read(where="n = 77").count() == 1
    assert _sent(db) - before < 100


def _sent(db: Any) -> int:
    ((sent,),) = db.query(
        "SELECT SUM(SUM_ROWS_SENT) FROM performance_schema.events_statements_summary_by_digest"
        " WHERE DIGEST_TEXT LIKE CONCAT('SELECT%%', %s, '%%`t`%%')",
        (db.name,),
    )
    return int(sent or 0)


@pytest.mark.slow
def test_partitions_are_read_in_one_snapshot(db, read):
    """Rows that move between partitions meanwhile are there once, and the place fits to it."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT); SET autocommit = 1")
    db.execute(
        "SET SESSION cte_max_recursion_depth = 100000; INSERT INTO t"
        " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)"
        " SELECT i * 2, i FROM n; ANALYZE TABLE t"
    )
    ended, moved = threading.Event(), 0

    def move() -> None:
        nonlocal moved
        connection = db.connect()
        cursor = connection.cursor()
        low, high = 1, 7999
        cursor.execute(f"INSERT INTO t VALUES ({low}, 0)")
        while not ended.wait(0.001):
            # One row is always at one of two ends.
            cursor.execute(
                f"UPDATE t SET id = {low + high} - id, v = v + 1 WHERE id IN ({low}, {high})"
            )
            moved += 1
        connection.close()

    thread = threading.Thread(target=move)
    thread.start()
    try:
        for _ in range(3):
            frame = read(partitions=2, snapshot="true", position="true")
            rows = frame.collect()
            assert len(rows) == 4001
            (odd,) = [row for row in rows if row.id % 2]
            assert odd.id in {1, 7999}
            places = {row["_position"] for row in rows}
            read_position(places.pop())
    finally:
        ended.set()
        thread.join()
    assert moved


def server_of(db: Any) -> ConnectionOptions:
    """Return how the server is reached."""
    server = db.server
    return ConnectionOptions(
        host=server.host, port=server.port, user=server.user, password=server.password
    )


def given(db: Any, **more: str) -> dict[str, str]:
    """Return the source's options of table ``t``; the password comes from the environment."""
    where = {"host": db.server.host, "port": str(db.server.port), "user": db.server.user}
    return {**where, "table": f"{db.name}.t", "beside": "false", **more}


def rows_of(reader: Any) -> list[dict[str, Any]]:
    """Read all partitions in this process."""
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.slow
def test_all_partitions_are_of_one_server(db, proxy, monkeypatch):
    """R14: of two replicas each shows another moment, and one's lock is not the other's."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    monkeypatch.setenv("MYSQL_PWD", db.server.password)
    host, port = proxy.address
    here = given(db, host=host, port=str(port))
    whole = SpiritSource({**here, "snapshot": "true"})
    for source in (SpiritSource(here), whole):
        reader: Any = source.reader(None)
        parts = reader.partitions()
        assert rows_of(reader) == []
        reader._connection = replace(reader._connection, server_uuid="another")
        for read in (lambda one: one.partitions(), lambda one, part=parts[0]: [*one.read(part)]):
            with pytest.raises(AnotherServer, match="not another") as raised:
                read(reader)
            assert raised.value.hint.startswith("load it again")
    proxy.renumbers = True
    # Without a snapshot its tasks only have to be on the server that planned them.
    lone: Any = SpiritSource(here).reader(None)
    assert rows_of(lone) == []
    (part,) = lone.partitions()
    with monkeypatch.context() as patch:
        # As where a proxy sends a transaction to another server than a statement alone.
        patch.setattr("spirit_py.api.source.server_uuid", lambda _: "another")
        with pytest.raises(AnotherServer, match="another, not "):
            list(lone.read(part))
    with pytest.raises(Refusal, match="so a proxy stands between"):
        whole.reader(None)


def test_two_readings_of_one_snapshot_at_a_time_do_not_meet(db):
    """Of one DataFrame in a union or a join: each has the moment of its own."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1); COMMIT")
    meeting = Meeting(name="test", tasks=2, table=(db.name, "t"), patience=60)

    with contextlib.ExitStack() as stack, ThreadPoolExecutor(2) as pool:

        def enter(reading: str, rank: int) -> Any:
            met = replace(meeting, reading=reading).session(server_of(db), rank)
            session, *_ = met.__enter__()
            stack.push(met)
            return session

        opened = list(pool.map(enter, ["a", "a"], [0, 1]))
        db.execute("INSERT INTO t VALUES (2); COMMIT")
        # The sessions of the first are still there.
        opened += pool.map(enter, ["b", "b"], [0, 1])
        counts = [session.value(f"SELECT COUNT(*) FROM {db.name}.t") for session in opened]
    assert counts == [1, 1, 2, 2]


def test_a_task_that_is_gone_under_the_lock_of_a_snapshot_ends_it(db, monkeypatch):
    """Writers wait for the lock: it is given back at once, whatever patience is."""
    monkeypatch.setattr(snapshot, "_UNDER_LOCK_SECONDS", 3600.0)
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    meeting = Meeting(name="test", tasks=2, table=(db.name, "t"), patience=3600)
    with connect(server_of(db), role="test") as other, ThreadPoolExecutor(1) as pool:
        meeting._take(other, 1, "here")
        first = pool.submit(meeting.session(server_of(db), 0).__enter__)
        meeting._await(other, [meeting._lock(0, "go")])
        other.close()
        with pytest.raises(MigrationFailure, match="a task of Spark has ended"):
            first.result()


@pytest.mark.slow
def test_a_task_that_does_not_open_holds_writers_for_a_moment(db):
    """As of a host that is gone: the server keeps its locks, and patience is for slots."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    meeting = Meeting(name="test", tasks=2, table=(db.name, "t"), patience=3600)
    with connect(server_of(db), role="test") as other:
        meeting._take(other, 1, "here")
        with pytest.raises(MigrationFailure, match="did not open its snapshot"):
            meeting.session(server_of(db), 0).__enter__()
    db.execute("INSERT INTO t VALUES (1)")


def test_a_snapshot_is_of_one_lock_however_often_its_first_task_is_tried(db):
    """Whoever opened under the lock of a try that is gone shows an earlier moment than others."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    meeting = Meeting(name="test", tasks=2, table=(db.name, "t"), patience=3600)
    with contextlib.ExitStack() as stack:
        look, first, second = (
            stack.enter_context(connect(server_of(db), role="test")) for _ in range(3)
        )
        pool = stack.enter_context(ThreadPoolExecutor(1))
        for what in ("here", "go"):
            meeting._take(first, 0, what)
        task = pool.submit(meeting.session(server_of(db), 1).__enter__)
        meeting._await(look, [meeting._lock(1, "open")])
        # The next try has these locks before anybody has seen that they were free.
        kill_session(look, first.id)
        for what in ("here", "go", "seen"):
            until(partial(take_named_lock, second, meeting._lock(0, what)))
        with pytest.raises(MigrationFailure, match="before all had opened"):
            task.result()


def test_a_task_that_is_tried_again_while_the_first_one_waits_opens_no_later_moment(db):
    """The first one keeps its locks for a third task, which has not seen them yet."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    meeting = Meeting(name="test", tasks=3, table=(db.name, "t"), patience=60, again=True)
    with connect(server_of(db), role="test") as first:
        for what in ("here", "go", "seen"):
            meeting._take(first, 0, what)
        with pytest.raises(MigrationFailure, match="no task can open it again"):
            meeting.session(server_of(db), 1).__enter__()


def test_an_earlier_try_that_is_still_there_is_named(db):
    """As where its executor was lost: no speculation is to blame."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    meeting = Meeting(name="test", tasks=1, table=(db.name, "t"), patience=60)
    again = replace(meeting, again=True).session(server_of(db), 0)
    with (
        meeting.session(server_of(db), 0),
        pytest.raises(MigrationFailure, match="an earlier try of this task is still there"),
    ):
        again.__enter__()


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("again", [True, False])
def test_a_task_that_is_tried_again_does_not_blame_the_slots(db, rank, again):
    """The others have read and are gone: it would wait for them in vain each time."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    meeting = Meeting(name="test", tasks=2, table=(db.name, "t"), patience=0.1, again=again)
    says = "a task of this snapshot was lost" if again else "needs as many tasks at a time"
    with pytest.raises(MigrationFailure, match=says):
        meeting.session(server_of(db), rank).__enter__()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "where"),
    [(1213, "acquire"), (1317, "acquire"), (1205, "acquire"), (1040, "open_lock_session")],
)
def test_a_snapshot_whose_lock_fails_for_a_moment_is_opened_all_the_same(
    db, monkeypatch, code, where
):
    """A deadlock, a killed request, or no room for a further session: the lock is tried again."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1); COMMIT")
    of: Any = snapshot if where == "open_lock_session" else TableLock
    real, tries = getattr(of, where), itertools.count()

    def fail_first(*given: Any, **named: Any) -> Any:
        if next(tries) == 0:
            raise ServerFault(code, "not now", where="archive-lock")
        return real(*given, **named)

    monkeypatch.setattr(of, where, fail_first)
    meeting = Meeting(name="test", tasks=1, table=(db.name, "t"), patience=60)
    with meeting.session(server_of(db), 0) as (session, *_):
        assert session.value(f"SELECT COUNT(*) FROM {db.name}.t") == 1


@pytest.mark.slow
def test_an_srid_beside_a_whole_value_is_no_loss(db, read):
    """The column is not NULL: nothing of the DataFrame is another value."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, g GEOMETRY, at DATE);"
        " INSERT INTO t VALUES (1, ST_SRID(POINT(1, 2), 4326), NULL)"
    )
    assert bytes(read(beside=None).first()["g"])[-16:] == struct.pack("<dd", 1, 2)


def test_two_tasks_in_one_place_of_a_snapshot_are_an_error(db):
    """As of speculation: the second one would open a later snapshot unseen."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)")
    meeting = Meeting(name="test", tasks=1, table=(db.name, "t"), patience=60)
    again = meeting.session(server_of(db), 0)
    with meeting.session(server_of(db), 0), pytest.raises(MigrationFailure, match="another task"):
        again.__enter__()


@pytest.mark.slow
def test_a_data_frame_that_is_read_twice_in_one_query_has_all_rows_twice(db, read):
    """Both readings have the partitions of one plan."""
    fill(db, 3000)
    frame = read(partitions=2, snapshot="true", columns="k, n")
    assert frame.union(frame).count() == 6000
    assert frame.join(frame.groupBy("k").count(), "k").count() == 3000


@pytest.mark.slow
def test_a_table_without_snapshots_is_refused(db, read):
    """MyISAM shows each session what is there when it looks."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=MyISAM")
    with pytest.raises(PySparkException, match="of the engine MyISAM, which has no snapshot"):
        read(snapshot="true").count()


@pytest.mark.slow
def test_a_member_that_shows_a_question_mark_is_read_in_a_snapshot(db, read):
    """Its definition is read by a temporary table, which a read-only transaction refuses."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a?', 'b')); INSERT INTO t VALUES (1,1)")
    (row,) = read(snapshot="true").collect()
    assert row.e == "a?"


def test_now_is_one_moment_for_all_partitions(db, tmp_path, monkeypatch):
    """That of the plan: a condition with NOW() divides the rows once."""
    fill(db, 3000)
    monkeypatch.setenv("MYSQL_PWD", db.server.password)
    where = "UNIX_TIMESTAMP(NOW(6)) = 1000000000.5"
    reader = SpiritSource(given(db, where=where, partitions="3")).reader(None)
    parts: list[Any] = list(reader.partitions())
    assert len({one.moment for one in parts}) == 1

    def rows(moment: float) -> int:
        there: list[Any] = [replace(one, moment=moment) for one in parts]
        batches: list[Any] = [batch for one in there for batch in reader.read(one)]
        return sum(batch.num_rows for batch in batches)

    assert (rows(1000000000.5), rows(1000000000.6)) == (3000, 0)


def test_whoever_needs_a_few_rows_does_not_read_all_others(db):
    """As ``limit`` does: the session is closed instead."""
    fill(db, 3000)
    db.execute("COMMIT")
    with connect(server_of(db), role="archive") as session:
        rows: Any = session.stream(f"SELECT * FROM {db.name}.t, {db.name}.t AS u", 10)
        next(rows)
        rows.close()
        assert not session.alive()


@pytest.mark.slow
def test_a_snapshot_without_enough_slots_is_an_error(db, read):
    """It says what is missing, and leaves no lock."""
    fill(db, 4000)
    frame = read(partitions=4, snapshot="true", patience=1)
    with pytest.raises(PySparkException, match="needs as many tasks at a time"):
        frame.collect()
    db.execute("UPDATE t SET n = n + 100000 LIMIT 1")


@pytest.mark.slow
def test_the_privilege_that_a_snapshot_needs_is_named(db, read, tmp_path):
    """LOCK TABLES; without a snapshot SELECT is enough."""
    fill(db, 10)
    with account(db, f"SELECT ON `{db.name}`.`t`") as options:
        file = tmp_path / "other.cnf"
        file.write_text(f'[client]\npassword = "{options.password}"\n')
        reader = {"user": options.user, "defaults_file": str(file)}
        assert read(**reader).count() == 10
        with pytest.raises(PySparkException, match="lacks LOCK TABLES on"):
            read(**reader, snapshot="true").count()


WRONG: tuple[tuple[dict[str, str], str], ...] = (
    ({"password": "x"}, "the password is no option of Spark"),
    ({"table": "nothing"}, "the table is not given"),
    ({"columns": "x"}, "has no column x"),
    ({"partitions": "0"}, "partitions is '0'"),
    ({"hots": "db1"}, "there is no option hots"),
    ({"position": "true"}, "position goes with snapshot"),
    ({"dsn": "mysql://u:sesame@127.0.0.1/s"}, "the password is no option of Spark"),
    ({"port": "abc"}, "port is 'abc'"),
    ({"columns": "n, N"}, "columns names N twice"),
    # It would be true of all rows of every partition: each row would be there several times.
    ({"where": "1)) OR ((1"}, "the parentheses of where are not closed"),
    ({"where": "n IN (1"}, "the parentheses of where are not closed"),
    ({"where": "1 /*!) OR (1*/)"}, "that some servers execute"),
)


@pytest.mark.gtid
def test_a_snapshot_without_its_place_needs_no_sight_of_the_binlog(db, monkeypatch):
    """REPLICATION CLIENT is needed where the place is asked for, and has no GTIDs."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1); COMMIT")
    with account(db, "SELECT, LOCK TABLES ON {db}.*") as options:
        monkeypatch.setenv("MYSQL_PWD", options.password)
        mine = {"user": options.user, "snapshot": "true"}
        db.execute("SET GLOBAL gtid_mode = ON_PERMISSIVE")
        try:
            assert rows_of(SpiritSource(given(db, **mine)).reader(None)) == [{"id": 1}]
            with pytest.raises(Refusal, match="lacks REPLICATION CLIENT on"):
                SpiritSource(given(db, **mine, position="true")).reader(None)
        finally:
            db.execute("SET GLOBAL gtid_mode = ON")


@pytest.mark.slow
@pytest.mark.gtid
def test_a_server_without_a_binary_log_has_no_place(request):
    """But for a replica with GTIDs: from those one follows on its primary."""
    options = ServerOptions(buffer_pool="32M", extra=("--skip-log-bin",))
    ours = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7"
    with (
        running(options, provider=request.config.stash[PROVIDER]) as server,
        connect(options_of(server), role="test") as session,
    ):
        # Of its own transactions it counts none.
        session.execute("CREATE DATABASE d")
        with pytest.raises(Refusal, match="writes no binary log"):
            snapshot.position_of(session)
        session.execute(f"SET GLOBAL gtid_purged = '+{ours}'")
        assert ours in snapshot.position_of(session)
        read_position(snapshot.position_of(session))
        session.execute("SET GLOBAL gtid_mode = ON_PERMISSIVE")
        with pytest.raises(Refusal, match="writes no binary log"):
            snapshot.position_of(session)


EMPTY_OR_MORE: tuple[tuple[dict[str, str], str], ...] = (
    ({"where": ""}, "where is empty"),
    ({"ssl_mode": " "}, "ssl_mode is empty"),
    ({"where": "n IN (SELECT 1)", "snapshot": "true"}, "where has a query of its own"),
    ({"where": "n IN (TABLE u)", "snapshot": "true"}, "where has a query of its own"),
    ({"where": "n IN (VALUES ROW(1) UNION TABLE u)", "snapshot": "true"}, "a query of its own"),
    ({"where": "other.`f` (n) = 1", "snapshot": "true"}, "where calls a stored function"),
    ({"where": "1=1 /*!99999 (( */ )) OR ((TRUE /*!99999 )) */"}, "that some servers execute"),
)


@pytest.mark.parametrize(("more", "why"), EMPTY_OR_MORE)
def test_options_that_would_say_another_thing_are_refused(db, monkeypatch, more, why):
    """Empty ones come from variables that are unset; what a snapshot cannot hold is no part.

    Nor is what this server reads otherwise: rows of other partitions would come, too.
    """
    db.execute("CREATE TABLE t (n INT PRIMARY KEY)")
    monkeypatch.setenv("MYSQL_PWD", db.server.password)
    with pytest.raises(Refusal, match=why):
        SpiritSource(given(db, **more)).reader(None)


def test_a_stored_function_without_its_schema_is_not_found(db, monkeypatch):
    """So a snapshot's condition calls none, with or without it: no session has a schema."""
    db.execute("CREATE TABLE t (n INT PRIMARY KEY)")
    db.execute("CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1")
    monkeypatch.setenv("MYSQL_PWD", db.server.password)
    reader: Any = SpiritSource(given(db, where="f() = 1", snapshot="true")).reader(None)
    with pytest.raises(ServerFault, match=r"f does not exist|No database selected"):
        rows_of(reader)


def test_names_that_look_like_a_query_are_none(db, monkeypatch):
    """A column or a variable may be called as a word of SQL."""
    db.execute(
        "CREATE TABLE t (`table` INT PRIMARY KEY, `select` INT); INSERT INTO t VALUES (1, 2)"
    )
    db.execute("COMMIT")
    monkeypatch.setenv("MYSQL_PWD", db.server.password)
    where = "t.table = 1 AND t.select = 2 AND `select` = 2 AND @table IS NULL"
    reader = SpiritSource(given(db, where=where, snapshot="true")).reader(None)
    assert rows_of(reader) == [{"table": 1, "select": 2}]


@pytest.mark.slow
def test_wrong_options_are_refused(db, read):
    """Each says what is wrong; the password is never shown."""
    fill(db, 10)
    for given, why in WRONG:
        with pytest.raises(PySparkException, match=why) as raised:
            read(**given).collect()
        assert "sesame" not in str(raised.value)


@pytest.mark.slow
def test_a_condition_may_have_parentheses_quotes_and_comments(db, read):
    """Only what is open or closed too often is refused."""
    fill(db, 20)
    for where in (
        "(n) IN (1, (2))",
        "k <> ')' AND n < 3 -- (",
        "n < 3 /* ) */",
        'k <> "(" AND n < 3',
    ):
        assert sorted(row.n for row in read(where=where).collect()) == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("snapshot", ["true", "false"])
def test_a_table_that_is_altered_after_it_was_loaded_is_not_misread(snapshot, db, read):
    """A TIMESTAMP that became a DATETIME would be hours off; a new column harms nobody."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP, v INT)")
    db.execute("INSERT INTO t VALUES (1, '2026-01-01', 1)")
    frame = read(snapshot=snapshot)
    (before,) = frame.collect()
    db.execute("ALTER TABLE t ADD COLUMN w INT FIRST, ALTER COLUMN v SET DEFAULT 3")
    assert frame.collect() == [before]
    db.execute("ALTER TABLE t MODIFY at DATETIME")
    with pytest.raises(PySparkException, match="was altered, dropped or renamed since"):
        frame.collect()
    assert read(snapshot=snapshot, columns="id, v").count() == 1


def test_a_table_that_takes_the_place_of_another_behind_the_lock_is_not_read(db, monkeypatch):
    """As of gh-ost: to a snapshot of before, rows that were copied after it do not exist."""
    db.execute(
        "SET SESSION timestamp = UNIX_TIMESTAMP() - 60; CREATE TABLE t (id INT PRIMARY KEY);"
        " INSERT INTO t VALUES (1), (2), (3); SET SESSION timestamp = DEFAULT;"
        " CREATE TABLE copy LIKE t; INSERT INTO copy VALUES (1); COMMIT"
    )
    monkeypatch.setenv("MYSQL_PWD", db.server.password)
    reader: Any = SpiritSource(given(db, snapshot="true")).reader(None)
    locked = snapshot._locked

    def lock_and_swap(*there: Any) -> Any:
        found = locked(*there)
        db.execute("INSERT INTO copy VALUES (2), (3); COMMIT")
        db.execute("RENAME TABLE t TO old, copy TO t")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "_locked", lock_and_swap)
        with pytest.raises(SchemaChanged, match="was altered, dropped or renamed"):
            rows_of(reader)
    again: Any = SpiritSource(given(db, snapshot="true")).reader(None)
    assert len(rows_of(again)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["true", "false"])
def test_a_table_that_was_looked_at_stays_the_same_until_it_is_read(db, monkeypatch, mode):
    """Between the look at its definition, by a temporary table, and its rows nobody alters it."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP, e ENUM('a?', 'b'))")
    db.execute("INSERT INTO t VALUES (1, NOW(), 1); COMMIT")
    monkeypatch.setenv("MYSQL_PWD", db.server.password)
    reader: Any = SpiritSource(given(db, snapshot=mode)).reader(None)
    looked = reader._require_unaltered

    def look_and_alter(*there: Any) -> None:
        looked(*there)
        db.execute("SET SESSION lock_wait_timeout = 1")
        with pytest.raises(OperationalError, match="Lock wait timeout"):
            db.execute("ALTER TABLE t MODIFY at DATETIME")

    monkeypatch.setattr(reader, "_require_unaltered", look_and_alter)
    assert len(rows_of(reader)) == 1


@pytest.mark.parametrize("mode", ["true", "false"])
def test_an_alter_that_waits_for_a_partition_does_not_hold_up_its_look(db, monkeypatch, mode):
    """Another session that reads a member from the table would wait behind it, and it for us."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a?', 'b')); INSERT INTO t VALUES (1,1)")
    db.execute("COMMIT")
    monkeypatch.setenv("MYSQL_PWD", db.server.password)
    reader: Any = SpiritSource(given(db, snapshot=mode)).reader(None)
    looked = reader._require_unaltered

    def alter() -> None:
        connection = db.connect()
        connection.cursor().execute("ALTER TABLE t MODIFY e ENUM('a?', 'b', 'c') COMMENT 'new'")
        connection.close()

    with ThreadPoolExecutor(1) as pool:

        def look(*there: Any) -> None:
            altering.append(pool.submit(alter))
            until(lambda: db.query(WAITING, (db.name,)) == [(1,)])
            looked(*there)
            assert not altering[0].done()

        altering: list[Any] = []
        monkeypatch.setattr(reader, "_require_unaltered", look)
        assert rows_of(reader) == [{"id": 1, "e": "a?"}]
        altering[0].result()


def test_members_of_a_key_that_look_alike_may_not_change_places(db, monkeypatch):
    """The catalogue shows both as question marks, and bounds are between them."""
    db.execute("CREATE TABLE t (e ENUM('\U0001f600', '\U0001f601') PRIMARY KEY) CHARSET utf8mb4")
    db.execute("INSERT INTO t VALUES (1), (2); COMMIT")
    monkeypatch.setenv("MYSQL_PWD", db.server.password)
    reader: Any = SpiritSource(given(db)).reader(None)
    (part,) = reader.partitions()
    assert sum(batch.num_rows for batch in reader.read(part)) == 2
    db.execute("SET SESSION timestamp = UNIX_TIMESTAMP() + 60")
    db.execute("ALTER TABLE t MODIFY e ENUM('\U0001f601', '\U0001f600') CHARSET utf8mb4 NOT NULL")
    with pytest.raises(SchemaChanged, match="was altered, dropped or renamed since"):
        list(reader.read(part))


@pytest.mark.parametrize(
    ("altered", "mode"), [("MODIFY k INT", "false"), ("ENGINE=MyISAM", "true")]
)
def test_what_partitions_rest_on_may_not_be_altered(db, monkeypatch, altered, mode):
    """NULL is in no range of a key, and MyISAM has no snapshot."""
    db.execute("CREATE TABLE t (k INT NOT NULL UNIQUE, v INT); INSERT INTO t VALUES (1, 1); COMMIT")
    monkeypatch.setenv("MYSQL_PWD", db.server.password)
    reader: Any = SpiritSource(given(db, columns="v", snapshot=mode)).reader(None)
    parts = reader.partitions()
    db.execute(f"ALTER TABLE t {altered}")
    with pytest.raises(SchemaChanged, match="was altered, dropped or renamed since"):
        list(reader.read(parts[0]))


def test_a_condition_is_read_as_the_server_reads_it(db, monkeypatch):
    """Under ANSI_QUOTES a name in double quotes is a column, and not a constant text."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, state INT)")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 0); COMMIT")
    monkeypatch.setenv("MYSQL_PWD", db.server.password)

    def ids(where: str) -> list[int]:
        reader: Any = SpiritSource(given(db, where=where)).reader(None)
        return [row["id"] for row in rows_of(reader)]

    db.set_global("sql_mode", "ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES")
    assert ids('"state" = 1') == [1]
    assert ids("id || state = '20' AND ')' <> '('") == [2]
    with pytest.raises(UsageFault, match="NO_BACKSLASH_ESCAPES"):
        ids(r"'\' <> state")


def test_a_table_that_is_gone_before_its_rows_are_read_is_said_to_be(db, monkeypatch):
    """Not the server's error: the DataFrame was planned with the table."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    monkeypatch.setenv("MYSQL_PWD", db.server.password)
    reader: Any = SpiritSource(given(db)).reader(None)
    (part,) = reader.partitions()
    for gone in ("RENAME TABLE t TO other", f"DROP DATABASE `{db.name}`"):
        db.execute(gone)
        with pytest.raises(SchemaChanged, match="was altered, dropped or renamed since"):
            list(reader.read(part))


def test_a_new_query_of_an_old_data_frame_reads_the_columns_that_it_has(db, monkeypatch):
    """Spark plans each query anew, with the schema of the load: columns go by their names."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT); INSERT INTO t VALUES (1, 2, 3)")
    monkeypatch.setenv("MYSQL_PWD", db.server.password)
    source = SpiritSource(given(db))
    loaded = StructType([StructField(name, IntegerType()) for name in ("id", "a", "b")])

    def row() -> list[dict[str, Any]]:
        return rows_of(source.reader(loaded))

    db.execute("ALTER TABLE t MODIFY b INT AFTER id, ADD COLUMN at DATE FIRST")
    assert [list(one.items()) for one in row()] == [[("id", 1), ("a", 2), ("b", 3)]]
    for altered in ("MODIFY b BIGINT", "DROP COLUMN b"):
        db.execute(f"ALTER TABLE t {altered}")
        with pytest.raises(SchemaChanged, match="since it was loaded, or another schema was given"):
            row()


@pytest.mark.slow
def test_odd_names_are_read(db, read):
    """A table in backquotes, with a dot; a column called as the one with the place."""
    db.execute("CREATE TABLE `a.b``c` (id INT PRIMARY KEY, `_position` INT)")
    db.execute("INSERT INTO `a.b``c` VALUES (1, 2)")
    named = f"`{db.name}`.`a.b``c`"
    (row,) = read(table=named, snapshot="true", position="true").collect()
    assert (row["id"], row["_position"]) == (1, 2)
    read_position(row["__position"])
    assert read(table=f"{db.name}.a.b`c").count() == 1


def test_columns_in_backquotes_are_read(db, monkeypatch):
    """A name with a comma, or with a blank at its begin."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, `a, b` INT, ` c``` INT, `$d` INT)")
    monkeypatch.setenv("MYSQL_PWD", db.server.password)
    for columns, names in (
        ("id, `a, b`,` c```", ["id", "a, b", " c`"]),
        ("`a, b`", ["a, b"]),
        ("id, $d,", ["id", "$d"]),
        ("`a, b`, id,", ["a, b", "id"]),
    ):
        reader: Any = SpiritSource(given(db, columns=columns)).reader(None)
        assert [one.name for one in reader._shown.columns] == names
    for wrong in ("`a, b` id", "`a, b`, c-d"):
        with pytest.raises(UsageFault, match=f"columns is not a list of names: {wrong}") as raised:
            SpiritSource(given(db, columns=wrong)).reader(None)
        assert "in backquotes" in raised.value.hint


def test_a_member_without_unicode_is_beside(db, monkeypatch):
    """It would be a question mark: sjis and gbk have codes that Unicode lacks."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a', X'F040') CHARACTER SET sjis,"
        " s SET('b', X'A140') CHARACTER SET gbk); INSERT INTO t VALUES (1, 2, 3), (2, 1, 1); COMMIT"
    )
    monkeypatch.setenv("MYSQL_PWD", db.server.password)
    assert rows_of(SpiritSource(given(db, beside="true")).reader(None)) == [
        {"id": 1, "e": None, "s": None, "_mysql": [("e", "F040"), ("s", "622CA140")]},
        {"id": 2, "e": "a", "s": "b", "_mysql": None},
    ]


@pytest.mark.slow
def test_the_password_is_in_no_plan_and_no_setting(db, read, spark):
    """Neither the plan nor Spark's configuration has it."""
    fill(db, 10)
    frame = read()
    frame.collect()
    password = db.server.password
    plan = frame._jdf.queryExecution().toString()
    assert "spirit" in plan
    assert not password or password not in plan
    assert not password or all(
        password not in value for _, value in spark.sparkContext.getConf().getAll()
    )


@pytest.mark.slow
def test_the_schema_is_that_of_an_archive(db, read):
    """The same types as the files of ``spirit-py archive`` have."""
    fill(db, 1)
    with open_session(db) as session:
        from spirit_py.mysql.tables.definition import read_table

        table = read_table(session, db.name, "t")
    assert table is not None
    assert [kind for _, kind in read().dtypes] == [
        one.spark for one in StoredTable.of(table).columns
    ]
