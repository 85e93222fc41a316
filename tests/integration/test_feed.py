"""The change feed against a real server: what one table's changes become in the new table."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spirit_py.errors import (
    ChangesNotFlushed,
    FeedFailure,
    PacketTooSmall,
    PositionNotFound,
    SchemaChanged,
    UnreadableChange,
)
from spirit_py.feed.partitions import SPLIT_ROWS
from spirit_py.mysql.connect import connect
from tests.fixtures.feed import fill
from tests.kits.chunks import chunk
from tests.kits.connection import account
from tests.kits.waiting import DEADLINE, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.feed import Scene
    from tests.kits.tcp_proxy import TcpProxy

WAITS = (
    "SELECT 1 FROM performance_schema.metadata_locks WHERE object_type = 'USER LEVEL LOCK'"
    " AND object_name = %s AND lock_status = 'PENDING'"
)
PARTIAL_JSON = (
    "SET SESSION binlog_row_value_options = PARTIAL_JSON; UPDATE t SET j = JSON_SET(j, '$.a', 2)"
)


def test_inserts_updates_and_deletes_follow(either: Scene) -> None:
    """R5: what the source holds after any changes, the new table holds after a drain."""
    either.tables()
    either.open()
    fill(either.db, 500)
    either.db.execute("UPDATE t SET v = 'changed', n = n + 1 WHERE id % 3 = 0")
    either.db.execute("UPDATE t SET v = NULL WHERE id = 7")
    either.db.execute("DELETE FROM t WHERE id % 5 = 0")
    either.drain()
    either.assert_equal()
    assert len(either.rows("t")) == 400


def test_many_changes_of_one_row_are_applied_once(scene: Scene) -> None:
    """R6: the latest image stands for all."""
    scene.tables()
    scene.open()
    scene.db.execute("INSERT INTO t VALUES (1, 'a', 0)")
    for n in range(1, 51):
        scene.db.execute(f"UPDATE t SET n = {n}")
    scene.drain()
    scene.assert_equal()
    found = scene.feed.statistics()
    assert (found.received, found.applied, found.deduplicated) == (51, 1, 50)


@pytest.mark.slow
def test_a_locked_row_holds_up_its_partition_only(scene: Scene) -> None:
    """What waits for another session's lock stalls neither other keys nor what comes later."""
    rows = 6 * SPLIT_ROWS
    scene.tables()
    scene.db.execute("INSERT INTO _t_new (id, v, n) VALUES (1, 'old', 0)")
    feed = scene.open(flush_interval=0.1)
    holder = scene.db.connect()
    with holder.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM _t_new WHERE id = 1 FOR UPDATE")
    before = feed.position()
    fill(scene.db, rows)
    feed.block_wait()
    until(lambda: scene.db.query(f"SELECT 1 FROM _t_new WHERE id = {rows}") != [])
    scene.db.execute(f"UPDATE t SET v = 'later' WHERE id > {rows - 10}")
    until(lambda: scene.db.query(f"SELECT v FROM _t_new WHERE id = {rows}")[0][0] == "later")
    assert scene.db.query("SELECT v FROM _t_new WHERE id = 1") == [("old",)]
    assert feed.position() == before
    with holder.cursor() as cursor:
        cursor.execute("COMMIT")
    holder.close()
    scene.drain()
    scene.assert_equal()
    assert scene.subscription.buffer.partitions.splits > 0


def test_a_changed_key_moves_the_row(either: Scene) -> None:
    """R6: a key update deletes the old key and writes the new one; keys may also swap."""
    either.tables()
    either.open()
    fill(either.db, 100)
    either.drain()
    either.db.execute("UPDATE t SET id = id + 1000 WHERE id % 2 = 0")
    either.db.execute(
        "BEGIN; UPDATE t SET id = -1 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 3;"
        " UPDATE t SET id = 3 WHERE id = -1; COMMIT"
    )
    either.drain()
    either.assert_equal()


def test_unique_values_that_move_between_rows_settle(scene: Scene) -> None:
    """R5: REPLACE may push a row out for a moment; its own image brings it back."""
    scene.tables("id INT PRIMARY KEY, v VARCHAR(20), n INT, UNIQUE KEY (n)")
    scene.open(batch_rows=3, apply_threads=2)
    fill(scene.db, 30)
    scene.drain()
    for at in range(1, 30, 2):
        scene.db.execute(
            f"BEGIN; UPDATE t SET n = NULL WHERE id = {at}; UPDATE t SET n = {at} WHERE id ="
            f" {at + 1}; UPDATE t SET n = {at + 1} WHERE id = {at}; COMMIT"
        )
    scene.drain()
    scene.assert_equal()


@pytest.mark.slow
def test_a_distant_server_gets_more_sessions(scene: Scene, proxy: TcpProxy) -> None:
    """Each statement waits for the network, so that further sessions apply more."""
    scene.tables()
    there = scene.options(host=proxy.host, port=proxy.port, ssl_mode="DISABLED")
    feed = scene.open(there=there, batch_rows=200, flush_interval=0.02)
    fill(scene.db, 40_000)
    proxy.delay = 0.01
    begun_with = feed.knee.tasks
    until(lambda: _changed_again(scene) and proxy.connections > 2 * begun_with, seconds=120)
    assert feed.knee.tasks > begun_with
    proxy.delay = 0.0
    scene.drain()
    scene.assert_equal()


def _changed_again(scene: Scene) -> bool:
    """Change every row once more, unless changes wait."""
    if scene.feed.pending() < 20_000:
        scene.db.execute("UPDATE t SET n = n + 1")
    return True


def test_a_compressed_transaction_is_decoded(scene: Scene) -> None:
    """R13: any session may compress its transactions."""
    scene.tables()
    scene.open()
    scene.db.execute("SET SESSION binlog_transaction_compression = ON")
    fill(scene.db, 5000)
    scene.db.execute("UPDATE t SET v = 'changed' WHERE id % 2 = 0")
    scene.drain()
    scene.assert_equal()
    assert scene.feed.statistics().received == 7500


@pytest.mark.slow
def test_the_dump_thread_may_be_killed_again_and_again(either: Scene) -> None:
    """R12: the feed reconnects behind the last complete transaction; nothing is lost."""
    either.tables()
    feed = either.open()
    kills = 0
    for round_ in range(6):
        before = feed.statistics().reconnects
        kills += either.db.kill_dumps()
        base = round_ * 1000
        either.db.execute(
            "BEGIN; "
            + "; ".join(f"INSERT INTO t VALUES ({base + i}, 'x', {i})" for i in range(50))
            + "; COMMIT"
        )
        until(lambda before=before: feed.statistics().reconnects > before)  # type: ignore[misc]
        either.db.execute(f"UPDATE t SET n = n + 1 WHERE id >= {base}")
    either.drain()
    either.assert_equal()
    assert kills >= 6
    assert either.stop.reason is None


def test_a_black_holed_connection_is_noticed(scene: Scene, proxy: TcpProxy) -> None:
    """R12: silence is a fault; heartbeats make it measurable."""
    scene.tables()
    feed = scene.open(
        connection=scene.options(host=proxy.host, port=proxy.port, ssl_mode="DISABLED"),
        wait_timeout=2.0,
    )
    scene.db.execute("INSERT INTO t VALUES (1, 'before', 1)")
    feed.block_wait(DEADLINE)
    proxy.black_hole = True
    scene.db.execute("INSERT INTO t VALUES (2, 'during', 2)")
    until(lambda: feed._stream.trouble != "")
    proxy.cut()
    proxy.black_hole = False
    until(lambda: feed.statistics().reconnects > 0)
    scene.db.execute("INSERT INTO t VALUES (3, 'after', 3)")
    feed.block_wait(DEADLINE)
    scene.drain()
    scene.assert_equal()


@pytest.mark.slow
def test_block_wait_fails_when_the_feed_is_not_live(scene: Scene, proxy: TcpProxy) -> None:
    """R12: the cutover refuses a feed that hears nothing, soon and with the reason."""
    scene.tables()
    feed = scene.open(
        connection=scene.options(
            host=proxy.host, port=proxy.port, ssl_mode="DISABLED", connect_timeout=2
        ),
        wait_timeout=2.0,
    )
    feed.block_wait(DEADLINE)
    proxy.black_hole = True
    scene.db.execute("INSERT INTO t VALUES (1, 'a', 1)")
    with pytest.raises(FeedFailure):
        feed.block_wait()
    proxy.cut()
    proxy.black_hole = False
    feed.block_wait(DEADLINE)
    assert feed.pending() == 1


@pytest.mark.slow
def test_close_does_not_wait_for_a_black_hole(scene: Scene, proxy: TcpProxy) -> None:
    """A question on its way to a server that never answers ends when the feed is closed."""
    scene.tables()
    feed = scene.open(
        connection=scene.options(
            host=proxy.host, port=proxy.port, ssl_mode="DISABLED", connect_timeout=2
        ),
        wait_timeout=5 * DEADLINE,
    )
    failures: list[Exception] = []

    def ask() -> None:
        try:
            feed.block_wait()
        except FeedFailure as error:
            failures.append(error)

    proxy.black_hole = True
    asking = threading.Thread(target=ask, name="asking")
    asking.start()
    until(feed._stream._control._turn.locked)  # type: ignore[attr-defined]
    feed.close()
    asking.join(DEADLINE)
    assert not asking.is_alive()
    assert len(failures) == 1
    proxy.cut()
    proxy.black_hole = False
    # The server learns with its next heartbeats that nobody reads.
    scene.db.kill_dumps()


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("ALTER TABLE t ADD y INT", SchemaChanged),
        ("TRUNCATE t", SchemaChanged),
        ("RENAME TABLE t TO t2", SchemaChanged),
        ("DROP TABLE t", SchemaChanged),
        ("CREATE INDEX i ON t (n)", SchemaChanged),
        ("CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET @a = 1", SchemaChanged),
        ("SET SESSION binlog_format = STATEMENT; UPDATE t SET v = 'x'", UnreadableChange),
        ("SET SESSION binlog_row_image = MINIMAL; UPDATE t SET v = 'x'", UnreadableChange),
        ("SET SESSION binlog_row_image = NOBLOB; UPDATE t SET b = 'x'", UnreadableChange),
        (PARTIAL_JSON, UnreadableChange),
    ],
)
def test_what_others_do_to_the_table_stops_the_feed(
    scene: Scene, sql: str, error: type[Exception]
) -> None:
    """R13, R14: a foreign DDL or an unreadable change is named, and the stop switch knows."""
    scene.tables("id INT PRIMARY KEY, v VARCHAR(200), n INT, b TEXT, j JSON")
    scene.db.execute(
        "INSERT INTO t VALUES (1, 'a', 1, REPEAT('b', 5000),"
        " JSON_OBJECT('a', 1, 'b', REPEAT('c', 5000)))"
    )
    feed = scene.open()
    session = scene.db.connect()
    with session.cursor() as cursor:
        for part in sql.split("; "):
            cursor.execute(part)
    fault = scene.fault()
    assert isinstance(fault, error)
    assert f"{scene.db.name}.t" in str(fault)
    with pytest.raises(error):
        feed.flush()
    with pytest.raises(error):
        feed.block_wait()


def test_ddl_elsewhere_is_let_pass(scene: Scene) -> None:
    """R14: other tables, the same name in another schema, and ANALYZE are nobody's business."""
    scene.tables()
    scene.open()
    scene.db.execute("CREATE TABLE other (id INT PRIMARY KEY, t INT)")
    scene.db.execute("ALTER TABLE other ADD t2 INT; ANALYZE TABLE t; TRUNCATE other")
    scene.db.execute("ALTER TABLE _t_new COMMENT 'ours'; DROP TABLE other")
    fill(scene.db, 10)
    scene.drain()
    scene.assert_equal()


def test_what_triggers_and_events_of_others_write_follows(either: Scene) -> None:
    """R13: their row images are those of the table, in the transaction of who fired them."""
    either.tables()
    db = either.db
    db.execute("CREATE TABLE other (id INT PRIMARY KEY, n INT)")
    db.execute(
        "CREATE TRIGGER copies AFTER INSERT ON other FOR EACH ROW"
        " INSERT INTO t VALUES (NEW.id, 'by a trigger', NEW.n)"
    )
    db.execute(
        "CREATE TRIGGER moves AFTER UPDATE ON other FOR EACH ROW"
        " UPDATE t SET id = id + 1000, n = NEW.n WHERE id = NEW.id"
    )
    db.execute("CREATE TRIGGER drops AFTER DELETE ON other FOR EACH ROW DELETE FROM t WHERE id > 0")
    either.open()
    db.execute("INSERT INTO other VALUES (1, 1), (2, 2), (3, 3)")
    db.execute("UPDATE other SET n = 7 WHERE id = 2")
    db.set_global("event_scheduler", "ON")
    db.execute(
        "CREATE EVENT fires ON SCHEDULE AT CURRENT_TIMESTAMP DO"
        f" INSERT INTO {db.name}.t VALUES (50, 'by an event', 0)"
    )
    until(lambda: bool(db.query("SELECT 1 FROM t WHERE id = 50")))
    db.set_global("event_scheduler", "OFF")
    until(lambda: not any("event_scheduler" in text for text in db.sessions().values()))
    either.drain()
    either.assert_equal()
    assert {row[0] for row in either.rows("_t_new")} == {1, 3, 50, 1002}
    db.execute("DELETE FROM other WHERE id = 1")
    either.drain()
    either.assert_equal()
    assert either.rows("_t_new") == []


def test_our_own_rename_ends_the_feed(scene: Scene) -> None:
    """What comes behind the swap belongs to the new table and is taken from nowhere."""
    scene.tables()
    feed = scene.open()
    fill(scene.db, 10)
    scene.drain()
    with connect(scene.options(), database=scene.db.name, role="test") as session:
        rename = "RENAME TABLE t TO _t_old, _t_new TO t"
        feed.expect_own_ddl(session.id, rename)
        session.execute(rename)
    scene.db.execute("INSERT INTO t VALUES (100, 'new', 1, 5)")
    # The reader sees a table that it does not know, and ends; that is nobody's fault now.
    until(lambda: not feed._threads[0].running)
    store = feed._store
    until(lambda: store._put == store._get == store._ack)
    assert scene.stop.reason is None
    assert feed.pending() == 0


def test_a_position_is_resumed_from(either: Scene) -> None:
    """R7: what was committed after the safe position comes again, and nothing is lost."""
    either.tables()
    feed = either.open()
    fill(either.db, 20)
    either.drain()
    position = feed.position()
    either.db.execute("UPDATE t SET v = 'pending' WHERE id <= 5")
    feed.block_wait()
    assert feed.position() == position or feed.pending() == 0
    safe = feed.position()
    either.close()
    either.db.execute("UPDATE t SET v = 'while away' WHERE id > 15; DELETE FROM t WHERE id = 8")
    either.open(position=safe)
    either.drain()
    either.assert_equal()


def test_a_purged_position_is_not_found(either: Scene) -> None:
    """R17: a place that the server no longer has is proof that nothing can be resumed."""
    either.tables()
    feed = either.open()
    fill(either.db, 5)
    either.drain()
    position = feed.position()
    either.close()
    either.db.execute("DELETE FROM t; FLUSH BINARY LOGS; FLUSH BINARY LOGS")
    last = either.db.query("SHOW BINARY LOGS")[-1][0]
    # A log that anybody still reads is not purged, and that is only a warning.
    until(lambda: either.db.kill_dumps() == 0, "the end of all who read the binlog")
    either.db.execute(f"PURGE BINARY LOGS TO '{last}'")
    with pytest.raises(PositionNotFound):
        either.open(position=position)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(text.split(";")[1], "00000000-0000-0000-0000-000000000001"),
        lambda text: text + ":900000000",
        lambda _: "nonsense",
    ],
    ids=["another server", "never executed", "damaged"],
)
def test_a_foreign_position_is_not_found(scene: Scene, change: Callable[[str], str]) -> None:
    """R14, R17: another server's, a never executed, or a damaged position is refused."""
    scene.tables()
    position = scene.open().position()
    scene.close()
    with pytest.raises(PositionNotFound):
        scene.open(position=change(position))


def test_a_tiny_buffer_holds_the_reader_back_and_loses_nothing(scene: Scene) -> None:
    """R19: memory stays bounded, a transaction of any size streams through."""
    scene.tables()
    feed = scene.open(soft_limit_bytes=1 << 20, copying=True)
    scene.subscription.dispatch(chunk(0, None, None))
    fill(scene.db, 8_000)
    until(lambda: feed.statistics().backpressure)
    assert feed.statistics().parked == "the buffers are full, the reader waits"
    scene.db.execute("UPDATE t SET v = REPEAT('x', 200)")
    until(lambda: (reach := feed.statistics().retention) is not None and reach.unread_bytes > 0)
    found = feed.statistics()
    assert found.retention is not None
    assert found.retention.kept == 2_592_000
    assert found.retention.age < DEADLINE
    assert found.buffered_bytes < 3 << 20
    assert found.pending < 8_000
    scene.subscription.committed(chunk(0, None, None))
    scene.subscription.copy_finished()
    feed.block_wait(DEADLINE)
    scene.drain()
    scene.assert_equal()
    assert feed.statistics().backpressure_seconds > 0
    assert (feed.statistics().backpressure, feed.statistics().parked) == (False, "")
    assert feed.statistics().peak_buffered_bytes < 4 << 20


LARGE = (
    "id INT PRIMARY KEY, b LONGBLOB, u LONGTEXT CHARACTER SET utf8mb4, l LONGTEXT CHARACTER SET"
    " latin1, w LONGTEXT CHARACTER SET utf16, j JSON, g GEOMETRY, e ENUM('it''s', 'X''00'''),"
    " n INT"
)


@pytest.mark.slow
@pytest.mark.parametrize("alter", ["ADD x INT DEFAULT 7", "MODIFY n VARCHAR(20)"])
def test_rows_above_the_packet_are_applied(scene: Scene, alter: str) -> None:
    """Values up to max_allowed_packet arrive unchanged, straight and through the staging table."""
    scene.db.set_global("max_allowed_packet", 1 << 20)
    scene.tables(LARGE, alter)
    assert scene.mapping.converted == ("MODIFY" in alter)
    scene.open()
    scene.run(
        "SET NAMES utf8mb4; SET @points = REPEAT('(1.25 2.5),', 20000);"
        "INSERT INTO t VALUES (1, NULL, 'small', 'small', 'small', NULL, NULL, 'it''s', 1);"
        "INSERT INTO t SELECT 2, REPEAT(X'00FF27225C', 209715), REPEAT('ä😀', 170000),"
        " REPEAT('ä€', 200000), REPEAT('ä😀', 150000), JSON_ARRAY(REPEAT('ä', 400000), 1.5, 7),"
        " ST_GeomFromText(CONCAT('MULTIPOINT(', @points, '(3 4))')), 'X''00''', 2;"
        "INSERT INTO t VALUES (3, NULL, 'small', 'small', 'small', NULL, NULL, NULL, 3);"
        "UPDATE t SET b = CONCAT(b, '!') WHERE id = 2"
    )
    scene.drain()
    columns = ("b", "u", "l", "w", "j", "g", "e", "n")
    read = ", ".join(f"SHA2(CAST({name} AS BINARY), 256)" for name in columns)
    old, new = (
        scene.db.query(f"SELECT id, LENGTH(b), {read} FROM {table} ORDER BY id")
        for table in ("t", "_t_new")
    )
    assert new == old
    assert new[1][1] == 5 * 209715 + 1


def test_a_value_above_the_packet_stops_the_feed(scene: Scene) -> None:
    """What no function of the server can put together is named, with the variable to raise."""
    scene.tables("id INT PRIMARY KEY, b LONGBLOB, n INT")
    writer = scene.db.connect()
    scene.db.set_global("max_allowed_packet", 1 << 20)
    feed = scene.open()
    with writer.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (1, REPEAT('x', 1500000), 1)")
    feed.block_wait()
    with pytest.raises(PacketTooSmall, match=r"1500000 bytes, more than .* max_allowed_packet"):
        feed.flush()


def test_a_large_backlog_is_refused_under_the_lock(scene: Scene) -> None:
    """The application waits while the lock is held; so the flush there must be short."""
    scene.tables()
    feed = scene.open(under_lock_changes=50)
    fill(scene.db, 100)
    feed.block_wait()
    with connect(scene.options(), database=scene.db.name, role="test") as session:
        session.execute("LOCK TABLES t WRITE, _t_new WRITE")
        with pytest.raises(ChangesNotFlushed):
            feed.flush_under_table_lock(session)
        session.execute("UNLOCK TABLES")
    scene.drain()
    scene.assert_equal()


@pytest.mark.parametrize(
    "alter", ["ADD x INT DEFAULT 7", "MODIFY n BIGINT UNSIGNED", "ADD z INT NOT NULL"]
)
def test_a_flush_under_the_lock_applies_everything(either: Scene, alter: str) -> None:
    """R15: through the locking session, direct and staged path alike."""
    either.tables(alter=alter)
    feed = either.open()
    fill(either.db, 50)
    feed.block_wait()
    with (
        feed.applies_paused(),
        connect(either.options(), database=either.db.name, role="test") as session,
    ):
        session.execute("LOCK TABLES t WRITE, _t_new WRITE")
        feed.block_wait()
        feed.flush_under_table_lock(session)
        assert feed.all_changes_flushed()
        session.execute("UNLOCK TABLES")
    either.assert_equal()


def test_paused_applies_change_nothing(scene: Scene) -> None:
    """While a repair copies rows again, no older image may be written."""
    scene.tables()
    feed = scene.open(flush_interval=0.01)
    with feed.applies_paused():
        fill(scene.db, 50)
        feed.block_wait()
        assert feed.pending() == 50
        assert scene.rows("_t_new") == []
    until(lambda: feed.pending() == 0)
    scene.assert_equal()


def test_changes_are_flushed_periodically(scene: Scene) -> None:
    """The backlog and the safe position move without anybody asking."""
    scene.tables()
    feed = scene.open(flush_interval=0.05)
    fill(scene.db, 50)
    until(lambda: feed.statistics().applied == 50)
    scene.assert_equal()


def test_closing_leaves_no_thread_and_no_session(either: Scene) -> None:
    """R16: close is quick, complete, and may be repeated; the fixture looks for sessions."""
    either.tables()
    feed = either.open()
    feed.close()
    feed.close()
    assert not [t.name for t in threading.enumerate() if t.name.startswith("spirit-py-feed")]


def test_every_session_of_a_feed_says_whose_it_is(either: Scene) -> None:
    """R16, R24: only a session that proves to be ours is killed, and a dump must be at the end."""
    either.tables()
    feed = either.open()
    told = (
        "SELECT t.PROCESSLIST_ID FROM performance_schema.threads t"
        " JOIN performance_schema.user_variables_by_thread v ON v.THREAD_ID = t.THREAD_ID"
        " WHERE v.VARIABLE_NAME = 'spirit_py_role' AND t.PROCESSLIST_COMMAND LIKE 'Binlog Dump%'"
    )
    dumps = {number for number, text in either.db.sessions().items() if "Binlog Dump" in text}
    assert dumps
    assert {int(row[0]) for row in either.db.query(told)} == dumps
    feed.close()


@pytest.mark.gtid
def test_the_feed_names_an_account_that_may_not_read(scene: Scene) -> None:
    """A missing privilege is named with its GRANT, not retried for ever."""
    scene.tables()
    scene.db.execute("CREATE USER feedless IDENTIFIED BY 'secret'")
    try:
        scene.db.execute(f"GRANT ALL ON `{scene.db.name}`.* TO feedless")
        scene.db.execute("GRANT PROCESS, REPLICATION CLIENT ON *.* TO feedless")
        options = scene.options(user="feedless", password="secret")
        with pytest.raises(FeedFailure, match="may not read") as caught:
            scene.open(connection=options)
        assert "REPLICATION SLAVE" in caught.value.hint
        assert "secret" not in str(caught.value)
    finally:
        scene.db.execute("DROP USER feedless")


def test_a_server_that_forgot_the_password_is_logged_in_to(scene: Scene) -> None:
    """FLUSH PRIVILEGES empties the server's cache, and PyMySQL alone could not log in."""
    scene.tables()
    feed = scene.open(connection=scene.options(ssl_mode="DISABLED"))
    scene.db.execute("FLUSH PRIVILEGES")
    scene.db.kill_dumps()
    until(lambda: feed.statistics().reconnects > 0)
    fill(scene.db, 10)
    scene.drain()
    scene.assert_equal()


@pytest.mark.parametrize("mode", ["REQUIRED", "PREFERRED", "DISABLED"])
def test_the_feed_reads_in_every_tls_mode(scene: Scene, mode: str) -> None:
    """The modes mean what they mean to the rest of the program; a password may have any letters."""
    scene.tables()
    with account(scene.db, "ALL ON *.*") as made:
        scene.db.execute(f"ALTER USER {made.user} IDENTIFIED BY 'pä名'")
        options = replace(made, password="pä名", ssl_mode=mode)
        feed = scene.open(connection=options)
        fill(scene.db, 10)
        scene.drain()
        scene.assert_equal()
        secure = bool(feed._stream._reader.connection._connection._secure)  # type: ignore[attr-defined]
        feed.close()
    assert secure == (mode != "DISABLED")


@pytest.mark.gtid
def test_tagged_transactions_are_part_of_the_position(scene: Scene) -> None:
    """R7: tags are part of the position, across a kill of the dump and a resume."""
    ((version,),) = scene.db.query("SELECT VERSION()")
    tag = ":app" if tuple(map(int, version.split(".")[:2])) >= (8, 3) else ""
    tagged = f"SET SESSION gtid_next = 'AUTOMATIC{tag}'"
    scene.tables()
    scene.open()
    scene.run(f"{tagged}; INSERT INTO t VALUES (1, 'a', 0); INSERT INTO t VALUES (2, 'b', 0)")
    scene.db.execute("INSERT INTO t VALUES (3, 'plain', 0)")
    scene.drain()
    scene.db.kill_dumps()
    scene.run(f"{tagged}; DELETE FROM t WHERE id = 2")
    scene.drain()
    position = scene.feed.position()
    assert f"{tag}:1-" in position
    scene.close()
    scene.run(f"{tagged}; UPDATE t SET n = 1")
    scene.open(position=position)
    scene.drain()
    scene.assert_equal()


def test_a_reconnect_goes_on_behind_the_last_transaction(either: Scene) -> None:
    """R12: from the last safe place, not from the place where the stream once began."""
    either.tables()
    feed = either.open()
    for round_ in range(1, 4):
        either.db.execute(f"INSERT INTO t VALUES ({round_}, 'x', 0)")
        feed.block_wait()
        either.db.kill_dumps()
        until(lambda round_=round_: feed.statistics().reconnects == round_)  # type: ignore[misc]
    either.drain()
    either.assert_equal()
    assert feed.statistics().received == 3


@pytest.mark.slow
def test_a_reconnect_inside_a_large_transaction_reads_it_again_whole(
    scene: Scene, proxy: TcpProxy
) -> None:
    """R7, R12: what was received of it comes again, whole; the position waits for its end."""
    scene.tables()
    feed = scene.open(
        connection=scene.options(host=proxy.host, port=proxy.port, ssl_mode="DISABLED"),
        soft_limit_bytes=1 << 20,
        flush_interval=0.05,
    )
    fill(scene.db, 20_000)
    feed.block_wait()
    whole = feed.statistics().received
    proxy.delay = 0.02
    scene.db.execute("UPDATE t SET v = REPEAT('v', 200)")
    until(lambda: feed.statistics().received > whole + 2000)
    before = feed.position()
    proxy.cut()
    assert feed.position() == before, "nothing of the transaction is safe yet"
    proxy.delay = 0.0
    feed.block_wait()
    scene.drain()
    scene.assert_equal()
    assert feed.statistics().received > whole + 20_000, "the part came twice"
    assert feed.position() != before
    scene.close()


def test_a_value_that_moves_while_a_chunk_reads_is_not_pushed_out(scene: Scene) -> None:
    """R4, R5: the chunk that still writes the old owner must not remove the new one.

    1. chunk 0 (row 1) has committed; chunk 1 has read row 15 with n = 7 and waits
    2. n = 7 moves from row 15 to row 1; the feed receives both images and flushes
    3. chunk 1 writes row 15 with n = 7, which would push out row 1 had it been applied
    """
    scene.tables("id INT PRIMARY KEY, v VARCHAR(20), n INT, UNIQUE KEY (n)")
    scene.db.execute("INSERT INTO t VALUES (1, 'new', NULL), (11, 'x', 1), (15, 'old', 7)")
    feed = scene.open(copying=True)
    gate = f"gate-{scene.db.name}"
    scene.db.query("SELECT GET_LOCK(%s, 10)", (gate,))
    scene.subscription.dispatch(chunk(0, None, 10))
    scene.db.execute("INSERT INTO _t_new (id, v, n) SELECT * FROM t WHERE id <= 10")
    scene.subscription.committed(chunk(0, None, 10))
    scene.subscription.dispatch(chunk(1, 10, 20))
    # The lock's name depends on the row, or it would be asked for before the table is read.
    read = f"GET_LOCK(IF(id = 11, '{gate}', '{gate}-free'), 30) = 1"
    copy = (
        "SET SESSION transaction_isolation = 'READ-COMMITTED';"
        " REPLACE INTO _t_new (id, v, n) SELECT id, v, n FROM t WHERE id > 10 AND id <= 20"
    )
    copier = threading.Thread(target=scene.run, args=(f"{copy} AND {read}",))
    copier.start()
    until(lambda: scene.db.query(WAITS, (gate,)) != [])
    scene.db.execute("BEGIN; UPDATE t SET n = NULL WHERE id = 15; UPDATE t SET n = 7 WHERE id = 1")
    scene.db.execute("COMMIT")
    feed.block_wait()
    feed.flush()
    scene.db.query("SELECT RELEASE_LOCK(%s)", (gate,))
    copier.join(DEADLINE)
    assert not copier.is_alive()
    scene.subscription.committed(chunk(1, 10, 20))
    scene.subscription.copy_finished()
    scene.drain()
    scene.assert_equal()


def test_checksums_may_be_switched_off_and_on_again(either):
    """The server sends a file with checksums only to a reader that has said that it reads them."""
    either.tables()
    feed = either.open()
    fill(either.db, 20)
    either.drain()
    for number, checksum in enumerate(("NONE", "CRC32", "NONE")):
        # The place to go on from is in the file before.
        either.db.kill_dumps()
        either.db.set_global("binlog_checksum", checksum)
        either.db.execute("UPDATE t SET v = %s WHERE id < 9", (f"{checksum} {number}",))
        either.drain()
        either.assert_equal()
    assert feed.statistics().reconnects > 0
