"""The applier against a real server: both paths, conversions, new unique keys, faults."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest

from spirit_py.applier import stage
from spirit_py.applier.applier import SqlApplier
from spirit_py.applier.workers import Workers
from spirit_py.classes import replace
from spirit_py.errors import DuplicateForUnique, ServerFault, SpiritError, ValueLost
from spirit_py.locks.look import LockedBy
from spirit_py.mysql.connect import connect
from spirit_py.mysql.evaluation import evaluating
from spirit_py.mysql.faults import connection_lost, excused
from spirit_py.mysql.session import Session
from spirit_py.table.expressions import RowExpression
from spirit_py.table.values import KeyedChange, RenderedRow
from tests.fixtures.feed import fill
from tests.kits.connection import account
from tests.kits.waiting import DEADLINE, until
from tests.oracle.zones import zones

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.contracts import SqlSession
    from spirit_py.table.mapping import TableMapping
    from tests.fixtures.feed import Scene
    from tests.kits.tcp_proxy import TcpProxy


@pytest.fixture
def applier(scene: Scene) -> Iterator[SqlApplier]:
    """Return an applier of two sessions."""
    made = SqlApplier(scene.options(), sessions=2, batch_rows=100, stop=scene.stop)
    yield made
    made.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a statement of a worker wait for a row as long as a test may take."""
    waiting_long = partial(connect, innodb_lock_wait_timeout=int(DEADLINE))
    monkeypatch.setattr("spirit_py.applier.workers.connect", waiting_long)


def rows(*texts: str) -> list[RenderedRow]:
    """Build rendered rows."""
    return [RenderedRow(sql=text) for text in texts]


@pytest.mark.slow
def test_changes_wait_for_as_long_as_a_dump_holds_its_lock(
    scene: Scene, applier: SqlApplier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``mysqldump`` locks the new table as well, for longer than any number of tries."""
    monkeypatch.setattr("spirit_py.applier.workers.connect", partial(connect, lock_wait_timeout=1))
    monkeypatch.setattr("spirit_py.applier.applier._ATTEMPTS", 2)
    looks, looked = threading.Semaphore(0), LockedBy.__call__

    def look(self: LockedBy) -> str:
        found = looked(self)
        looks.release()
        return found

    monkeypatch.setattr(LockedBy, "__call__", look)
    mapping = scene.tables()
    dump = scene.db.connect()
    dump.query("LOCK TABLES _t_new READ")
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(applier.upsert_rows, mapping, rows("(1, 'a', 1)"))
        for _ in range(3):
            assert looks.acquire(timeout=DEADLINE)
        dump.close()
        assert done.result() == 1
    assert scene.db.query("SELECT id FROM _t_new") == [(1,)]


def test_rows_are_replaced_and_deleted(scene: Scene, applier: SqlApplier) -> None:
    """The direct path writes new column names, and a key that is not there is no fault."""
    mapping = scene.tables(alter="RENAME COLUMN v TO w")
    assert applier.upsert_rows(mapping, rows("(1, 'a', 1)", "(2, 'b', 2)")) == 2
    assert applier.upsert_rows(mapping, rows("(2, 'c', 3)")) == 1
    assert applier.delete_keys(mapping, ["(1)", "(77)"]) == 2
    assert scene.db.query("SELECT id, w, n FROM _t_new") == [(2, "c", 3)]


@pytest.mark.parametrize("alter", ["ADD x INT", "MODIFY n VARCHAR(20)"], ids=["direct", "staged"])
def test_changes_in_order_are_written_all_or_none(
    scene: Scene, applier: SqlApplier, alter: str
) -> None:
    """R6, R10: the last change of a key counts, and a value that is lost takes all others back."""
    mapping = scene.tables("id DOUBLE PRIMARY KEY, v VARCHAR(5), n INT", alter)

    def change(key: str, row: str = "") -> KeyedChange:
        return KeyedChange(f"({key})", RenderedRow(sql=row) if row else None)

    changes = [
        change("1e0", "(1e0, 'a', 1)"),
        change("2e0", "(2e0, 'b', 2)"),
        change("1e0"),
        change("0e0", "(0e0, 'c', 3)"),
        change("2e0", "(2e0, 'd', 4)"),
        change("-0e0"),
        change("1e0", "(1e0, 'e', 5)"),
    ]
    applier.write_in_order(mapping, changes, None)
    rows = "SELECT id, v, CAST(n AS SIGNED) FROM _t_new ORDER BY id"
    assert scene.db.query(rows) == [(1.0, "e", 5), (2.0, "d", 4)]
    scene.db.execute("ALTER TABLE _t_new MODIFY v VARCHAR(3)")
    with pytest.raises(ValueLost, match="does not fit into column v"):
        applier.write_in_order(mapping, [change("1e0"), change("3e0", "(3e0, 'abcd', 1)")], None)
    assert scene.db.query(rows) == [(1.0, "e", 5), (2.0, "d", 4)]


@pytest.mark.parametrize(
    ("alter", "row", "column"),
    [
        ("MODIFY v VARCHAR(3)", "(1, 'abcd', 1)", "v"),
        ("MODIFY n TINYINT", "(1, 'a', 300)", "n"),
        ("MODIFY n INT NOT NULL", "(1, 'a', NULL)", "n"),
        ("MODIFY v VARCHAR(20) CHARACTER SET latin1", "(1, _utf8mb4 X'f09f9880', 1)", "v"),
        ("ADD CONSTRAINT positive CHECK (n > 0)", "(1, 'a', -1)", "positive"),
    ],
)
def test_a_value_that_does_not_fit_is_named(
    scene: Scene, applier: SqlApplier, alter: str, row: str, column: str
) -> None:
    """R10: no silent conversion; the error names the column."""
    mapping = scene.tables(alter=alter)
    with pytest.raises(ValueLost, match=column):
        applier.upsert_rows(mapping, rows("(0, 'b', 5)", row))
    assert scene.db.query("SELECT * FROM _t_new") == []


def test_a_row_that_cannot_be_looked_at_is_not_taken_for_the_same(
    scene: Scene, applier: SqlApplier
) -> None:
    """The operator would be told to change it; what has to be mended is what the server says."""
    mapping = scene.tables()
    (row,) = rows("(1, 'a', 1)")
    scene.db.execute("INSERT INTO t VALUES (1, 'a', 1)")
    assert not applier.superseded(mapping, "(1)", row)
    scene.db.execute("UPDATE t SET v = 'b'")
    assert applier.superseded(mapping, "(1)", row)
    scene.db.execute("RENAME TABLE t TO elsewhere")
    with pytest.raises(ServerFault, match="error 1146"):
        applier.superseded(mapping, "(1)", row)


def test_an_enum_without_a_member_is_carried(scene: Scene, applier: SqlApplier) -> None:
    """The number 0 of an ENUM, an error under the strict mode, takes the staged path."""
    mapping = scene.tables("id INT PRIMARY KEY, e ENUM('a', 'b'), n INT")
    applier.upsert_rows(mapping, [RenderedRow(sql="(1, '', 5)", staged=True), *rows("(2, 'b', 6)")])
    found = scene.db.query("SELECT id, e + 0, n FROM _t_new ORDER BY id")
    assert [(row[0], int(row[1]), row[2]) for row in found] == [(1, 0, 5), (2, 2, 6)]


def test_a_warning_on_the_way_to_the_stage_is_an_error(scene: Scene, applier: SqlApplier) -> None:
    """Only the ENUM's 0 may warn there: a literal that does not fit the old column is a bug."""
    mapping = scene.tables("id INT PRIMARY KEY, e ENUM('a', 'b'), n TINYINT")
    with pytest.raises(ValueLost, match="'n'"):
        applier.upsert_rows(mapping, [RenderedRow(sql="(1, '', 500)", staged=True)])


def test_converted_columns_take_the_servers_conversion(scene: Scene, applier: SqlApplier) -> None:
    """A literal put straight into the new column could be read otherwise."""
    mapping = scene.tables(
        "id INT PRIMARY KEY, t TIME(3), y YEAR, d DATETIME",
        "MODIFY t VARCHAR(20), MODIFY y INT, MODIFY d BIGINT",
    )
    assert mapping.converted
    applier.upsert_rows(mapping, rows("(1, '-00:00:01.500', 1999, '2024-02-29 01:02:03')"))
    scene.db.execute("INSERT INTO t VALUES (1, '-00:00:01.500', 1999, '2024-02-29 01:02:03')")
    scene.db.execute("CREATE TABLE twin LIKE t; INSERT INTO twin SELECT * FROM t")
    scene.db.execute("ALTER TABLE twin MODIFY t VARCHAR(20), MODIFY y INT, MODIFY d BIGINT")
    assert scene.db.query("SELECT * FROM _t_new") == scene.db.query("SELECT * FROM twin")


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("key", ["MODIFY id BIGINT", "MODIFY id VARCHAR(30) COLLATE utf8mb4_bin"])
def test_an_index_of_computed_times_is_kept(
    scene: Scene, applier: SqlApplier, key: str, staged: bool
) -> None:
    """A delete and a replaced row look for their entries in the zone in which they were written."""
    mapping = scene.tables(
        "id VARCHAR(20) PRIMARY KEY, ts TIMESTAMP NULL, local DATETIME AS (ts), KEY (local)"
        if "VARCHAR" in key
        else "id INT PRIMARY KEY, ts TIMESTAMP NULL, local DATETIME AS (ts), KEY (local)",
        f"{key}, ADD KEY ((HOUR(ts)))",
        time_zone="+05:30",
    )
    at = "2026-10-25 00:30:00+00:00"
    images = [RenderedRow(sql=f"('{n}', '{at}')", staged=staged) for n in range(1, 5)]
    applier.upsert_rows(mapping, images)
    applier.upsert_rows(mapping, rows("('2', '2026-01-25 00:30:00+00:00')"))
    applier.delete_keys(mapping, ["('3')", "('4')"])
    scene.db.execute("SET SESSION time_zone = '+05:30'")
    assert scene.db.query("CHECK TABLE _t_new")[0][3] == "OK"
    found = scene.db.query("SELECT id, CAST(local AS CHAR) FROM _t_new ORDER BY id")
    assert [(str(key), at) for key, at in found] == [
        ("1", "2026-10-25 06:00:00"),
        ("2", "2026-01-25 06:00:00"),
    ]


def test_a_default_of_the_moment_is_the_servers_local_time(
    scene: Scene, applier: SqlApplier
) -> None:
    """A new column's CURRENT_TIMESTAMP is what a native ALTER in the server's zone would write."""
    mapping = scene.tables(
        alter="ADD made DATETIME DEFAULT CURRENT_TIMESTAMP, ADD day DATE DEFAULT (CURDATE())",
        time_zone="+05:30",
    )
    applier.upsert_rows(mapping, rows("(1, 'a', 1)"))
    half_hours = "ROUND(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), made) / 1800)"
    ((ahead, same_day),) = scene.db.query(f"SELECT {half_hours}, day = DATE(made) FROM _t_new")
    assert (int(ahead), same_day) == (11, 1)


def test_new_columns_without_a_default_are_filled(scene: Scene, applier: SqlApplier) -> None:
    """As the native ALTER fills them for rows that are there."""
    mapping = scene.tables(alter="ADD z INT NOT NULL, ADD s VARCHAR(5) NOT NULL")
    applier.upsert_rows(mapping, rows("(1, 'a', 1)"))
    assert scene.db.query("SELECT id, z, s FROM _t_new") == [(1, 0, "")]


def test_a_delete_finds_its_row_by_the_converted_key(scene: Scene, applier: SqlApplier) -> None:
    """The server converts the key as it converted the row."""
    mapping = scene.tables(
        "id VARCHAR(20) CHARACTER SET latin1 PRIMARY KEY, n INT",
        "MODIFY id VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    )
    applier.upsert_rows(mapping, rows("(_latin1 X'e4', 1)", "(_latin1 X'80', 2)", "('c', 3)"))
    assert scene.db.query("SELECT id FROM _t_new ORDER BY n") == [("ä",), ("€",), ("c",)]
    applier.delete_keys(mapping, ["(_latin1 X'e4')", "(_latin1 X'80')"])
    assert scene.db.query("SELECT id, n FROM _t_new") == [("c", 3)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("VARBINARY(8)", "BINARY(8)"),
        ("VARCHAR(8) COLLATE utf8mb4_0900_bin", "CHAR(8) COLLATE utf8mb4_0900_bin"),
    ],
)
def test_a_delete_finds_its_row_by_the_padded_key(
    scene: Scene, applier: SqlApplier, old: str, new: str
) -> None:
    """A literal of the old value does not find what the new column made of it."""
    mapping = scene.tables(f"id {old} PRIMARY KEY, n INT", f"MODIFY id {new} NOT NULL")
    applier.upsert_rows(mapping, rows("('a ', 1)", "('b', 2)"))
    applier.delete_keys(mapping, ["('a ')"])
    assert scene.db.query("SELECT n FROM _t_new") == [(2,)]


def test_a_repair_makes_rows_equal_to_the_source(scene: Scene, applier: SqlApplier) -> None:
    """Missing, extra and changed rows of the keys; other rows are not touched."""
    mapping = scene.tables()
    fill(scene.db, 10)
    scene.db.execute("INSERT INTO _t_new (id, v, n) SELECT * FROM t")
    scene.db.execute("UPDATE _t_new SET v = 'wrong' WHERE id IN (1, 2); DELETE FROM t WHERE id = 3")
    scene.db.execute("DELETE FROM _t_new WHERE id = 4")
    assert applier.recopy(mapping, ["(1)", "(3)", "(4)"]) == 3
    found = dict(scene.db.query("SELECT id, v FROM _t_new"))
    assert found[1] == "row 1"
    assert found[2] == "wrong"
    assert 3 not in found
    assert found[4] == "row 4"


def test_a_repair_keeps_the_empty_member_of_a_set(scene: Scene, applier: SqlApplier) -> None:
    """Its text is that of the empty set, so it is staged by its number."""
    mapping = scene.tables("id INT PRIMARY KEY, v SET('', 'q'), e ENUM('', 'q')")
    scene.run("SET sql_mode = ''; INSERT INTO t VALUES (1, 1, 0), (2, 3, 1), (3, 0, 2)")
    keys = ["(1)", "(2)", "(3)"]
    applier.recopy(mapping, keys)
    numbers = "SELECT id, v + 0, e + 0 FROM {} ORDER BY id"
    assert scene.db.query(numbers.format("_t_new")) == scene.db.query(numbers.format("t"))


def test_another_instant_of_a_repeated_hour_is_no_conflict(
    scene: Scene, applier: SqlApplier
) -> None:
    """R22: in the server's zone both have one local time, and the server compares by that."""
    columns = "id INT PRIMARY KEY, at TIMESTAMP NOT NULL, day DATE AS (DATE(at)) STORED"
    with zones(scene.db):
        mapping = scene.tables(f"{columns}, UNIQUE (at) INVISIBLE", time_zone="Test/Berlin")
        own = RowExpression(
            expression="(`id` > 0)", columns=mapping.source.columns[:1], time_zone="+00:00"
        )
        scene.db.execute(
            "INSERT INTO _t_new (id, at) VALUES (1, '2026-10-25 00:30:00+00:00'),"
            " (2, '2026-10-25 01:30:00+00:00')"
        )
        row = RenderedRow(sql="(3, '2026-10-25 00:30:00+00:00')")
        changes = [KeyedChange("(3)", row)]
        applier.write_state(replace(mapping, owned=own), lambda: [changes], complete=False)
    found = scene.db.query("SELECT id, UNIX_TIMESTAMP(at) FROM _t_new ORDER BY id")
    assert [(key, int(at)) for key, at in found] == [(2, 1792891800), (3, 1792888200)]


@pytest.mark.usefixtures("patient")
def test_a_deadlock_is_retried(scene: Scene, applier: SqlApplier) -> None:
    """A batch that the server has rolled back for another session is written again."""
    mapping = scene.tables()
    other = scene.db.connect()
    other.begin()
    with ThreadPoolExecutor(1) as pool, other.cursor() as cursor:
        # The server rolls back who has written less.
        texts = ", ".join(f"({number}, 'other', 0)" for number in range(2, 50))
        cursor.execute(f"INSERT INTO _t_new (id, v, n) VALUES {texts}")
        done = pool.submit(applier.upsert_rows, mapping, rows("(1, 'a', 1)", "(2, 'b', 2)"))
        until(lambda: scene.db.query("SELECT 1 FROM performance_schema.data_lock_waits"))
        before = deadlocks(scene)
        cursor.execute("INSERT INTO _t_new (id, v, n) VALUES (1, 'other', 0)")
        until(lambda: deadlocks(scene) > before, "the deadlock to be counted")
        assert not done.done()
        other.commit()
        assert done.result(DEADLINE) == 2
    assert scene.db.query("SELECT id, v, n FROM _t_new WHERE id < 4") == [
        (1, "a", 1),
        (2, "b", 2),
        (3, "other", 0),
    ]


def deadlocks(scene: Scene) -> int:
    """Return how many transactions the server has rolled back for others."""
    ((count,),) = scene.db.query(
        "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'"
    )
    return int(count)


@pytest.mark.usefixtures("patient")
def test_a_lost_session_is_replaced_only_when_it_is_gone(scene: Scene, applier: SqlApplier) -> None:
    """R18: killed in the middle, the work is done again in another session."""
    mapping = scene.tables()
    applier.upsert_rows(mapping, rows("(1, 'a', 1)"))
    blocker = scene.db.connect()
    blocker.begin()
    with blocker.cursor() as cursor:
        cursor.execute("SELECT * FROM _t_new WHERE id = 1 FOR UPDATE")
    done = threading.Thread(target=applier.upsert_rows, args=(mapping, rows("(1, 'b', 2)")))
    done.start()
    (number,) = until(lambda: waiting(scene))
    scene.db.execute(f"KILL {number}")
    until(lambda: bool(waiting(scene)) and number not in waiting(scene))
    blocker.commit()
    done.join(30)
    assert not done.is_alive()
    assert scene.db.query("SELECT id, v FROM _t_new") == [(1, "b")]


@pytest.mark.usefixtures("patient")
def test_a_session_that_lost_its_client_cannot_write_late(scene: Scene, proxy: TcpProxy) -> None:
    """R18: the lost statement still waits on the server; it is gone before its successor runs."""
    mapping = scene.tables()
    options = scene.options(host=proxy.host, port=proxy.port, ssl_mode="DISABLED")
    applier = SqlApplier(options, sessions=1, batch_rows=100, stop=scene.stop)
    applier.upsert_rows(mapping, rows("(1, 'a', 1)"))
    blocker = scene.db.connect()
    blocker.begin()
    with blocker.cursor() as cursor:
        cursor.execute("SELECT * FROM _t_new WHERE id = 1 FOR UPDATE")
    done = threading.Thread(target=applier.upsert_rows, args=(mapping, rows("(1, 'b', 2)")))
    done.start()
    (lost,) = until(lambda: waiting(scene))
    proxy.cut()
    until(lambda: bool(set(waiting(scene)) - {lost}))
    assert lost not in waiting(scene), "two sessions would write the same rows"
    blocker.commit()
    done.join(30)
    assert not done.is_alive()
    applier.close()
    assert scene.db.query("SELECT id, v FROM _t_new") == [(1, "b")]


@pytest.mark.usefixtures("patient")
def test_what_a_batch_left_behind_ends_before_anybody_writes(scene: Scene, proxy: TcpProxy) -> None:
    """R18: the fence is the batch's: its rows may come again from another worker or session."""
    mapping = scene.tables()
    scene.db.execute("INSERT INTO _t_new (id) VALUES (1)")
    workers = Workers(scene.options(host=proxy.host, port=proxy.port, ssl_mode="DISABLED"), count=2)
    blocker = scene.db.connect()
    blocker.begin()
    with blocker.cursor() as cursor:
        cursor.execute("SELECT * FROM _t_new WHERE id = 1 FOR UPDATE")
    late = f"REPLACE INTO `{scene.db.name}`.{mapping.target.name} (id) VALUES (1)"
    faults: list[ServerFault] = []

    def give_up() -> None:
        try:
            with workers.borrow() as worker:
                worker.run(lambda session: session.execute(late))
        except ServerFault as fault:
            faults.append(fault)

    with workers.borrow() as other:
        batch = threading.Thread(target=give_up)
        batch.start()
        until(lambda: len(waiting(scene)) == 1)
        proxy.cut()
        batch.join(DEADLINE)
        assert len(faults) == 1
        assert len(waiting(scene)) == 1, "it was to be left over"
        assert other.run(lambda _: waiting(scene)) == []
    with connect(scene.options(), role="test") as session:
        workers.require_alone(session)
    workers.close()
    blocker.rollback()


def test_work_waits_for_an_open_session_where_the_server_refuses_another(scene: Scene) -> None:
    """The number of sessions is tried, and a server may have room for fewer."""
    mapping = scene.tables()
    user = f"{scene.db.name[:20]}_few"
    scene.db.execute(
        f"CREATE USER `{user}` IDENTIFIED BY 'pw' WITH MAX_USER_CONNECTIONS 2;"
        f" GRANT ALL ON `{scene.db.name}`.* TO `{user}`"
    )
    options = scene.options(user=user, password="pw")
    applier = SqlApplier(options, sessions=6, batch_rows=100, stop=scene.stop)
    together = threading.Barrier(6)

    def write(number: int) -> int:
        together.wait(DEADLINE)
        return sum(
            applier.upsert_rows(mapping, rows(f"({number * 100 + at}, 'a', 1)")) for at in range(20)
        )

    try:
        applier.upsert_rows(mapping, rows("(0, 'a', 1)"))
        with ThreadPoolExecutor(6) as pool:
            assert list(pool.map(write, range(6))) == [20] * 6
    finally:
        applier.close()
        scene.db.execute(f"DROP USER `{user}`")
    assert scene.db.query("SELECT COUNT(*) FROM _t_new") == [(120,)]


QUESTIONS = 200


@pytest.fixture
def limited(scene: Scene) -> Iterator[Session]:
    """Return a session of an account that may send so many statements in an hour."""
    with account(scene.db, "ALL ON {db}.*", "SESSION_VARIABLES_ADMIN ON *.*") as options:
        scene.db.execute(f"ALTER USER {options.user} WITH MAX_QUERIES_PER_HOUR {QUESTIONS}")
        with connect(options, role="apply") as session:
            yield session


def leave(scene: Scene, session: Session, questions: int) -> None:
    """Leave the session's account so many of its statements."""
    scene.db.execute("FLUSH USER_RESOURCES")
    for _ in range(QUESTIONS - questions):
        session.execute("DO 0")


@pytest.mark.parametrize("left", range(5))
def test_a_transaction_that_could_not_be_ended_takes_no_later_write_with_it(
    scene: Scene, limited: Session, left: int
) -> None:
    """The account's last statement may be the COMMIT, of which the session is not set back."""
    scene.tables()
    leave(scene, limited, left)
    with contextlib.suppress(ServerFault), stage.whole(limited):
        limited.execute(f"REPLACE INTO `{scene.db.name}`._t_new (id) VALUES (1)")
    scene.db.execute("FLUSH USER_RESOURCES")
    later = f"REPLACE INTO `{scene.db.name}`._t_new (id) VALUES (2)"
    written = excused(partial(limited.execute, later), 0, connection_lost)
    there = [(1, left > 2), (2, written > 0)]
    assert scene.db.query("SELECT id FROM _t_new") == [(key,) for key, found in there if found]


def test_half_of_a_transaction_is_not_committed_after_its_rollback_failed(
    scene: Scene, limited: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account's hour may end between ROLLBACK and what would set the session back."""
    execute = Session.execute

    def hour_ends(self: Session, sql: str) -> int:
        try:
            return execute(self, sql)
        finally:
            if sql == "ROLLBACK":
                scene.db.execute("FLUSH USER_RESOURCES")

    monkeypatch.setattr(Session, "execute", hour_ends)
    scene.tables()
    leave(scene, limited, 2)
    with contextlib.suppress(ServerFault), stage.whole(limited):
        for number in (1, 2):
            limited.execute(f"REPLACE INTO `{scene.db.name}`._t_new (id) VALUES ({number})")
    assert scene.db.query("SELECT id FROM _t_new") == []


@pytest.mark.parametrize("left", range(3))
def test_a_session_that_was_not_set_back_is_not_used(
    scene: Scene, limited: Session, left: int
) -> None:
    """R22: literals of instants are meant as UTC, and the session may have another zone."""
    mapping = replace(scene.tables(), time_zone="+05:00")
    leave(scene, limited, left)
    with contextlib.suppress(ServerFault), evaluating(limited, mapping):
        limited.execute("DO 0")
    scene.db.execute("FLUSH USER_RESOURCES")
    zone = partial(limited.value, "SELECT @@SESSION.time_zone")
    assert excused(zone, "lost", connection_lost) in {"+00:00", "lost"}


def test_a_later_session_may_have_a_smaller_packet(scene: Scene, applier: SqlApplier) -> None:
    """A global that is lowered holds for the session that comes after a lost one."""
    mapping = scene.tables(columns="id INT PRIMARY KEY, v LONGTEXT")
    many = rows(*(f"({number}, '{'x' * 100_000}')" for number in range(30)))
    applier.upsert_rows(mapping, many[:1])
    scene.db.set_global("max_allowed_packet", 1 << 20)
    ((number,),) = scene.db.query(
        "SELECT PROCESSLIST_ID FROM performance_schema.user_variables_by_thread"
        " JOIN performance_schema.threads USING (THREAD_ID)"
        " WHERE VARIABLE_NAME = 'spirit_py_role' AND VARIABLE_VALUE = 'apply'"
    )
    scene.db.execute(f"KILL {number}")
    applier.upsert_rows(mapping, many)
    assert scene.db.query("SELECT COUNT(*) FROM _t_new") == [(30,)]


def waiting(scene: Scene) -> list[int]:
    """Return the sessions that run a REPLACE now."""
    return [number for number, text in scene.db.sessions().items() if "REPLACE INTO" in text]


def test_nothing_is_retried_in_a_given_session(scene: Scene, applier: SqlApplier) -> None:
    """The locking session must not be left for another connection."""
    mapping = scene.tables()
    with connect(scene.options(), role="test") as session:
        scene.db.execute(f"KILL {session.id}")
        with pytest.raises(ServerFault):
            applier.upsert_rows(mapping, rows("(1, 'a', 1)"), session)
    assert scene.db.query("SELECT * FROM _t_new") == []


def state(
    applier: SqlApplier,
    mapping: TableMapping,
    *changes: KeyedChange,
    session: SqlSession | None = None,
    complete: bool = True,
) -> bool:
    """Write a state of one part."""
    return applier.write_state(mapping, lambda: iter([changes]), session, complete=complete)


def put(key: str, row: str, *, fresh: bool = False) -> KeyedChange:
    """Build the change that writes a row."""
    return KeyedChange(key, RenderedRow(row), fresh)


def gone(key: str, *, fresh: bool = False) -> KeyedChange:
    """Build the change that deletes a row."""
    return KeyedChange(key, None, fresh)


def test_a_state_lets_values_move(scene: Scene, applier: SqlApplier) -> None:
    """R11: in a whole state two rows may exchange a value, and a deleted row is in nobody's way."""
    mapping = scene.tables(alter="ADD UNIQUE KEY u (n)")
    assert mapping.merging
    state(applier, mapping, *(put(f"({n})", f"({n}, 'a', {n})") for n in (1, 2, 3)))
    moved = [put("(1)", "(1, 'b', 2)"), put("(2)", "(2, 'b', 1)"), gone("(3)")]
    assert not state(applier, mapping, *moved, put("(4)", "(4, 'b', 3)"))
    assert scene.db.query("SELECT id, n FROM _t_new ORDER BY id") == [(1, 2), (2, 1), (4, 3)]


@pytest.mark.parametrize("locked", [False, True])
def test_a_state_with_a_duplicate_is_not_written(
    scene: Scene, applier: SqlApplier, locked: bool
) -> None:
    """R11: no row of it is written, and the rows are named with their values; under the lock too.

    In the locking session only the tables' own names are locked, no alias of them.
    """
    mapping = scene.tables(
        "id VARCHAR(10) COLLATE utf8mb4_bin PRIMARY KEY, v VARCHAR(20) COLLATE utf8mb4_bin, n INT",
        "MODIFY v VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, ADD UNIQUE KEY u (v)",
    )
    state(applier, mapping, put("('k1')", "('k1', 'same', 1)"))
    changes = [put("('k2')", "('k2', 'SAME', 2)"), put("('k3')", "('k3', 'other', 2)")]
    with connect(scene.options(), role="test") as session:
        if locked:
            name = scene.db.name
            session.execute(f"LOCK TABLES `{name}`.t WRITE, `{name}`._t_new WRITE")
        with pytest.raises(DuplicateForUnique, match=r"1 rows .* duplicates") as caught:
            state(applier, mapping, *changes, session=session if locked else None)
    (named,) = caught.value.details
    assert "6b32" in named.lower()
    assert "Duplicate entry 'SAME' for key '_t_new.u'" in named
    assert scene.db.query("SELECT id, n FROM _t_new") == [("k1", 1)]


def test_an_incomplete_state_is_written_over_others(scene: Scene, applier: SqlApplier) -> None:
    """What is in its way may move away in what is still to come; it says that it did so."""
    mapping = scene.tables(alter="ADD UNIQUE KEY u (n)")
    state(applier, mapping, put("(1)", "(1, 'a', 1)"), put("(2)", "(2, 'a', 2)"))
    assert not state(applier, mapping, put("(3)", "(3, 'b', 3)"), complete=False)
    assert state(applier, mapping, put("(1)", "(1, 'b', 2)"), complete=False)
    assert not state(applier, mapping, put("(2)", "(2, 'b', 1)"))
    assert scene.db.query("SELECT id, n FROM _t_new ORDER BY id") == [(1, 2), (2, 1), (3, 3)]


def test_the_latest_image_of_a_key_counts_by_the_servers_equality(
    scene: Scene, applier: SqlApplier
) -> None:
    """A state of a queue has several changes of a key, written in several ways."""
    mapping = scene.tables(
        "id VARCHAR(10) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, n INT", "ADD UNIQUE KEY u (n)"
    )
    changes = [put("('a')", "('a', 1)", fresh=True), gone("('A')"), put("('Á')", "('Á', 3)")]
    state(applier, mapping, *changes, put("('b')", "('b', 1)", fresh=True), gone("('B')"))
    assert scene.db.query("SELECT id, n FROM _t_new") == [("Á", 3)]


@pytest.mark.parametrize("kind", ["TIMESTAMP(3)", "DATETIME"])
def test_a_key_that_the_server_updates_by_itself_is_staged_as_it_is(
    scene: Scene, applier: SqlApplier, kind: str
) -> None:
    """The second change of a key updates its staged row, and that alone."""
    now = f"CURRENT_TIMESTAMP{kind.removeprefix('TIMESTAMP').removeprefix('DATETIME')}"
    mapping = scene.tables(
        f"id {kind} NOT NULL DEFAULT {now} ON UPDATE {now} PRIMARY KEY, n INT",
        "ADD UNIQUE KEY u (n)",
    )
    first, second = "('2024-01-01 01:00:00')", "('2024-01-02 02:00:00')"
    rows = [f"{one.removesuffix(')')}, {n})" for n, one in enumerate((first, second), 1)]
    state(applier, mapping, put(first, rows[0]), put(second, rows[1]))
    state(applier, mapping, put(first, rows[0]), gone(first), put(second, rows[1]), gone(second))
    assert scene.db.query("SELECT * FROM _t_new") == []


def test_a_fresh_key_deletes_no_other_row(scene: Scene, applier: SqlApplier) -> None:
    """Where keys merge, a key that the source did not have is not in the new table."""
    mapping = scene.tables("id VARBINARY(4) PRIMARY KEY, n INT", "MODIFY id BINARY(4)")
    assert mapping.key_merging
    state(applier, mapping, put("(X'61')", "(X'61', 1)", fresh=True))
    state(applier, mapping, gone("(X'6100')", fresh=True))
    with pytest.raises(DuplicateForUnique):
        state(applier, mapping, put("(X'6100')", "(X'6100', 2)", fresh=True))
    assert scene.db.query("SELECT n FROM _t_new") == [(1,)]
    state(applier, mapping, gone("(X'61')"), put("(X'6100')", "(X'6100', 2)", fresh=True))
    assert scene.db.query("SELECT n FROM _t_new") == [(2,)]


def test_every_spelling_of_a_key_is_deleted(scene: Scene, applier: SqlApplier) -> None:
    """The copy may have read any state of a row whose key the new table spells in several ways."""
    mapping = scene.tables(
        "id VARCHAR(10) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, n INT",
        "MODIFY id VARCHAR(10) COLLATE utf8mb4_0900_as_cs",
    )
    scene.db.execute("INSERT INTO _t_new VALUES ('A', 1)")
    state(applier, mapping, gone("('a')"), put("('A')", "('A', 1)"), gone("('A')"),
          put("('a')", "('a', 2)"), gone("('a')"), put("('A')", "('A', 3)"))  # fmt: skip
    assert scene.db.query("SELECT id, n FROM _t_new") == [("A", 3)]
    state(applier, mapping, gone("('A')"), put("('a')", "('a', 4)", fresh=True))
    assert scene.db.query("SELECT id, n FROM _t_new") == [("a", 4)]
    scene.db.execute("INSERT INTO _t_new VALUES ('B', 5)")
    with pytest.raises(DuplicateForUnique):
        state(applier, mapping, gone("('b')"), put("('B')", "('B', 6)", fresh=True))


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        ("INT", "SMALLINT UNSIGNED, ADD UNIQUE u (n)", ("1", "65535", "100000")),
        ("VARCHAR(9)", "VARCHAR(4) COLLATE utf8mb4_0900_as_cs", ("'a'", "'bcde'", "'bcdef'")),
        ("VARCHAR(9)", "VARCHAR(9) CHARACTER SET latin1", ("'a'", "'?'", "'\u2603'")),
    ],
)
def test_a_key_that_does_not_fit_has_no_row(
    scene: Scene, applier: SqlApplier, old: str, new: str, keys: tuple[str, str, str]
) -> None:
    """What came and went meanwhile ends nothing, and takes no other row along."""
    mapping = scene.tables(f"id {old} PRIMARY KEY, n INT", f"MODIFY id {new}")
    first, near, beyond = (f"({key})" for key in keys)
    scene.db.execute(f"INSERT INTO _t_new VALUES ({keys[0]}, 1), ({keys[1]}, 2)")
    state(applier, mapping, gone(beyond), gone(first))
    assert scene.db.query("SELECT n FROM _t_new") == [(2,)]
    applier.delete_keys(mapping, [beyond, near])
    assert scene.db.query("SELECT n FROM _t_new") == []


def test_staged_and_direct_rows_of_a_key_keep_their_order(
    scene: Scene, applier: SqlApplier
) -> None:
    """An ENUM's 0 takes the staged path, and what follows it of the same key follows it there."""
    mapping = scene.tables("id INT PRIMARY KEY, e ENUM('a', 'b')")
    none = RenderedRow(sql="(1, '')", staged=True)
    applier.upsert_rows(mapping, [none, *rows("(1, 'b')")])
    assert scene.db.query("SELECT e FROM _t_new") == [("b",)]
    applier.upsert_rows(mapping, [*rows("(1, 'a')"), none])
    assert scene.db.query("SELECT CAST(e AS SIGNED) FROM _t_new") == [(0,)]


@pytest.mark.slow
def test_a_row_in_the_limits_of_the_packet_is_written(scene: Scene, applier: SqlApplier) -> None:
    """One row may be as large as the server takes."""
    mapping = scene.tables("id INT PRIMARY KEY, v LONGBLOB, n INT")
    size = 20 << 20
    applier.upsert_rows(mapping, rows(f"(1, X'{'ab' * size}', 1)", "(2, X'00', 2)"))
    assert scene.db.query("SELECT id, LENGTH(v) FROM _t_new ORDER BY id") == [(1, size), (2, 1)]


@pytest.mark.slow
def test_an_interrupt_does_not_wait_for_a_black_hole(scene: Scene, proxy: TcpProxy) -> None:
    """A statement on its way to a server that never answers ends when the applier is ended."""
    mapping = scene.tables()
    options = scene.options(host=proxy.host, port=proxy.port, ssl_mode="DISABLED")
    applier = SqlApplier(options, sessions=1, batch_rows=100, stop=scene.stop)
    applier.upsert_rows(mapping, rows("(1, 'a', 1)"))
    failures: list[Exception] = []

    def write() -> None:
        try:
            applier.upsert_rows(mapping, rows("(2, 'b', 2)"))
        except SpiritError as error:
            failures.append(error)

    proxy.black_hole = True
    writing = threading.Thread(target=write, name="writing")
    writing.start()
    until(lambda: not applier._workers._idle())
    applier.interrupt()
    writing.join(DEADLINE)
    assert not writing.is_alive()
    assert len(failures) == 1
    proxy.cut()
    proxy.black_hole = False
    applier.close()
