"""Statements in text that reach a followed table without naming it, or not in UTF-8 (R13, R14)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import MySQLdb
import pytest

from spirit_py.codes import ErrorCode
from spirit_py.config import FeedOptions
from spirit_py.errors import MigrationFailure, Refusal, StatementWrite, UnreadableChange
from spirit_py.threads import StopSwitch
from tests.kits.migrate import Migrating, config_for, migrate_here
from tests.kits.waiting import until
from tests.kits.watch import Watching, kinds, values

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spirit_py.spark.gang import GangEngine
    from tests.fixtures.feed import Scene
    from tests.fixtures.mysql import Database

IN_TEXT = "SET SESSION binlog_format = STATEMENT"
ELSEWHERE = "CREATE TABLE other (id INT PRIMARY KEY, n INT)"
TRIGGER = (
    "CREATE TRIGGER tr AFTER INSERT ON other FOR EACH ROW INSERT INTO t VALUES (NEW.id, 'x', 0)"
)
ALONE = "INSERT INTO t (j) SELECT JSON_EXTRACT(JSON_ARRAY({}), '$[0]') FROM src"


def run(db: Database, *statements: str | bytes) -> None:
    """Run statements in a session that ends behind them."""
    with contextlib.closing(db.connect()) as session, session.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.mark.parametrize(
    ("made", "written", "target"),
    [
        ("CREATE VIEW w AS SELECT * FROM t", "UPDATE w SET n = 9 WHERE id = 1", "w"),
        (TRIGGER, "INSERT INTO other VALUES (100, 1)", "other"),
        ("CREATE VIEW r AS SELECT f(300) a", "INSERT INTO other SELECT a, 1 FROM r", "other"),
        ("DO 1", "INSERT INTO other VALUES (f(400), 1)", "other"),
        ("DO 1", "/* app */ INSERT INTO other VALUES (f(400), 1)", ""),
        ("DO 1", "WITH c AS (SELECT f(600) x) UPDATE other, c SET n = x", ""),
        ("DO 1", "UPDATE other JOIN t ON 1 SET t.n = 5, other.n = 5", ""),
        ("DO 1", "DELETE t FROM t LEFT JOIN other ON 0", ""),
        ("DO 1", "SELECT f(200)", ""),
        ("DO 1", "DO f(200)", ""),
    ],
)
def test_a_write_in_text_that_reaches_the_table_stops_the_feed(
    scene: Scene, made: str, written: str, target: str
) -> None:
    """R13: views, triggers and functions write rows that are nowhere in the binlog."""
    db = scene.db
    scene.tables()
    run(
        db,
        ELSEWHERE,
        "INSERT INTO t VALUES (1, 'a', 1)",
        "INSERT INTO other VALUES (1, 1)",
        "CREATE FUNCTION f(k INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA"
        " BEGIN INSERT INTO t VALUES (k, 'f', 0); RETURN k; END",
        made,
    )
    scene.open()
    run(db, IN_TEXT, written)
    fault = scene.fault()
    assert isinstance(fault, StatementWrite)
    named = f"{db.name}.{target}" if target else "an unknown table"
    assert f"wrote to {named} in STATEMENT format" in str(fault)
    assert (f"--pass-statement-writes {named} to resume" in fault.hint) is bool(target)


def test_no_option_passes_a_write_in_text_to_the_table_itself(scene: Scene) -> None:
    """R13: no option brings its rows back; the binlog names the table that LOAD DATA fills."""
    db = scene.db
    scene.tables()
    scene.open()
    run(db, IN_TEXT, "INSERT INTO t VALUES (1, 'a', 1)")
    fault = scene.fault()
    assert isinstance(fault, UnreadableChange)
    assert f"wrote to {db.name}.t in STATEMENT format" in str(fault)


def test_load_data_in_text_has_a_target(scene: Scene, tmp_path: Path) -> None:
    """R13: the server writes the statement anew, and the rows into the binlog before it."""
    db = scene.db
    scene.tables()
    run(db, ELSEWHERE)
    path = tmp_path / "rows"
    path.write_text("1\t1\n")
    for folder in (path, *path.parents[:3]):
        folder.chmod(0o755)
    scene.open(passable=((db.name, "other"),))
    run(db, IN_TEXT, f"LOAD DATA INFILE '{path}' INTO TABLE {db.name}.other SET n = 3")
    db.execute("INSERT INTO t VALUES (1, 'a', 1)")
    scene.drain()
    scene.assert_equal()
    run(db, IN_TEXT, f"LOAD DATA INFILE '{path}' IGNORE INTO TABLE t (id)")
    fault = scene.fault()
    assert isinstance(fault, UnreadableChange)
    assert "LOAD DATA" in str(fault)


def test_a_query_that_fills_a_table_changes_no_other(db: Database) -> None:
    """R13: the server sees to that, through functions and views too, so no option is needed."""
    run(
        db,
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE FUNCTION f(k INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA"
        " BEGIN INSERT INTO t VALUES (k); RETURN k; END",
        "CREATE VIEW w AS SELECT f(1) a",
    )
    for query in ("SELECT f(1)", "TABLE w", "VALUES ROW(f(1))"):
        for kind in ("", "TEMPORARY"):
            with pytest.raises(MySQLdb.Error, match=r"Can't update table 't' while 'x'"):
                run(db, IN_TEXT, f"CREATE {kind} TABLE x {query}")


def test_a_write_in_text_to_a_named_table_is_passed_over(either: Scene) -> None:
    """R13: pt-table-checksum, temporary tables and system tables go on."""
    db = either.db
    either.tables()
    run(db, ELSEWHERE, "CREATE TABLE checksums (tbl CHAR(64), chunk INT, crc CHAR(40), n INT)")
    either.open(passable=tuple((db.name, name) for name in ("other", "checksums", "tmp")))
    run(
        db,
        IN_TEXT,
        "INSERT INTO other VALUES (1, 1)",
        "REPLACE INTO checksums SELECT 't', 1, COALESCE(LOWER(CONV(BIT_XOR(CAST(CRC32("
        "CONCAT_WS('#', id, v)) AS UNSIGNED)), 10, 16)), 0), COUNT(*) FROM t FORCE INDEX(`PRIMARY`)"
        " /*checksum chunk*/",
        "UPDATE checksums SET n = 1 WHERE tbl = 't'",
        "DELETE FROM checksums WHERE tbl = 't'",
        "CREATE TEMPORARY TABLE tmp (a INT)",
        "INSERT INTO tmp VALUES (1)",
        "CREATE TEMPORARY TABLE third (a INT)",
        "DROP TEMPORARY TABLE third",
        "CREATE TABLE filled AS SELECT * FROM t",
        "INSERT INTO mysql.servers (Server_name, Host, Db, Username, Password, Port, Socket,"
        " Wrapper, Owner) VALUES ('spirit_py', '', '', '', '', 0, '', '', '')",
        "DELETE FROM mysql.servers WHERE Server_name = 'spirit_py'",
    )
    db.execute("INSERT INTO t VALUES (1, 'a', 1)")
    either.drain()
    either.assert_equal()
    assert either.stop.reason is None


@contextlib.contextmanager
def account(scene: Scene) -> Iterator[str]:
    """Create an account with what the README asks for."""
    db = scene.db
    user = f"u{db.name[-8:]}"
    run(
        db,
        f"CREATE USER {user} IDENTIFIED BY 'Secret-12'",
        "GRANT SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX, TRIGGER, LOCK TABLES,"
        f" CREATE TEMPORARY TABLES ON {db.name}.* TO {user}",
        f"GRANT SELECT ON performance_schema.* TO {user}",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT, PROCESS, XA_RECOVER_ADMIN, RELOAD ON *.*"
        f" TO {user}",
    )
    try:
        yield user
    finally:
        scene.close()
        run(db, f"DROP USER {user}")


def test_heartbeats_in_text_need_no_more_grants(scene: Scene) -> None:
    """R13: of managed servers, of a named table in a schema that the account may not see."""
    db = scene.db
    scene.tables()
    other = f"{db.name}_hb"
    run(
        db,
        "CREATE TABLE mysql.spirit_py_heartbeat2 (id INT PRIMARY KEY, value BIGINT)",
        f"CREATE DATABASE {other}",
        f"CREATE TABLE {other}.heartbeat (id INT PRIMARY KEY, ts TEXT)",
        f"CREATE PROCEDURE {other}.p(k INT) BEGIN DELETE FROM heartbeat WHERE id = k; END",
    )
    try:
        with account(scene) as user:
            connection = scene.options(user=user, password="Secret-12")
            scene.open(connection=connection, passable=((other, "heartbeat"),))
            run(
                db,
                IN_TEXT,
                "INSERT INTO mysql.spirit_py_heartbeat2(id, value) values (1,1531492860000)"
                " ON DUPLICATE KEY UPDATE value = 1531492860000",
                f"REPLACE INTO `{other}`.`heartbeat` (id, ts) VALUES (1, NOW())",
                f"UPDATE {other}.heartbeat SET ts = 'y' WHERE id = 1",
                "SET NAMES utf8mb4",
                f'insert into {other}.heartbeat values (2, "hi \U0001f600 f(1)")',
                f"CALL {other}.p(1)",
            )
            db.execute("INSERT INTO t VALUES (1, 'a', 1)")
            scene.drain()
            scene.assert_equal()
            assert scene.stop.reason is None
    finally:
        run(db, "DROP TABLE mysql.spirit_py_heartbeat2", f"DROP DATABASE {other}")


def test_the_feed_goes_on_behind_a_write_whose_table_is_named_later(either: Scene) -> None:
    """R13: it stops in front of the statement, and its place brings the statement again."""
    db = either.db
    either.tables()
    run(db, ELSEWHERE)
    either.open()
    run(db, "INSERT INTO t VALUES (1, 'a', 1)", IN_TEXT, "REPLACE INTO other VALUES (1, 1)")
    db.execute("INSERT INTO t VALUES (2, 'b', 2)")
    for passable in ((), (("elsewhere", "other"),)):
        assert isinstance(either.fault(), StatementWrite)
        position = either.feed.position()
        either.close()
        either.stop = StopSwitch()
        either.open(position=position, passable=passable)
    assert isinstance(either.fault(), StatementWrite)
    position = either.feed.position()
    either.close()
    either.stop = StopSwitch()
    either.open(position=position, passable=((db.name, "other"),))
    either.drain()
    either.assert_equal()
    assert len(either.rows("t")) == 2


@pytest.mark.slow
def test_a_migration_carries_on_behind_a_write_to_a_named_table(
    db: Database, engine: GangEngine
) -> None:
    """R13: copy and place are kept; the same command with the option ends it."""
    run(db, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    run(db, ELSEWHERE)
    asked = {"table": "t", "alter": "ADD x INT DEFAULT 7", "no_shortcut": True}
    stopped = Migrating(engine, config_for(db, **asked, defer_cutover=True))
    stopped.wait_until(lambda: "_t_snt" in stopped.told.text, "wait for the sentinel")
    run(db, IN_TEXT, "REPLACE INTO other VALUES (1, 1)")
    run(db, "INSERT INTO t VALUES (3, 3)", "DROP TABLE IF EXISTS _t_snt")
    with pytest.raises(StatementWrite, match=rf"wrote to {db.name}\.other"):
        stopped.end()
    assert "the copy and its checkpoint are kept" in stopped.told.text
    left = {row[0] for row in db.query("SHOW TABLES")}
    assert {"_t_new", "_t_chkpnt"} <= left
    for name in ("t", "_t_new"):
        feed = FeedOptions(passable=((db.name, name),))
        with pytest.raises(Refusal, match="which is migrated"):
            migrate_here(engine, config_for(db, **asked, feed=feed))
    feed = FeedOptions(passable=((db.name, "other"),))
    report, told = migrate_here(engine, config_for(db, **asked, feed=feed))
    assert report.resumed, told.text
    assert report.rows_copied_before == 2
    assert db.query("SELECT * FROM t ORDER BY id") == [(1, 1, 7), (2, 2, 7), (3, 3, 7)]


@pytest.mark.slow
def test_ddl_of_others_between_heartbeats_is_nobody_s_business(scene: Scene) -> None:
    """R14: DDL of other tables passes, whatever it is called."""
    db = scene.db
    scene.tables()
    run(db, ELSEWHERE)
    scene.open(passable=((db.name, "other"),))
    for number in range(20):
        run(
            db,
            IN_TEXT,
            f"UPDATE other SET n = {number} WHERE id = 1",
            f"CREATE VIEW v{number} AS SELECT 1",
            f"DROP VIEW v{number}",
            "CREATE TABLE y (view INT)",
            "ALTER TABLE y ADD COLUMN `function` INT",
            "DROP TABLE y",
            "DROP FUNCTION IF EXISTS nothing",
        )
    scene.drain()
    assert scene.stop.reason is None


def test_an_application_that_creates_its_tables_at_its_start_ends_no_feed(either: Scene) -> None:
    """R14: the server logs the statement although the table is there, and nothing is changed."""
    scene = either
    db = scene.db
    scene.tables()
    run(db, "INSERT INTO t VALUES (1, 'a', 1)")
    scene.open()
    run(
        db,
        f"CREATE TABLE IF NOT EXISTS {db.name}.t (id INT PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS t LIKE _t_new",
        "UPDATE t SET n = 7 WHERE id = 1",
    )
    scene.drain()
    assert scene.stop.reason is None
    assert db.query("SELECT id, n FROM _t_new") == [(1, 7)]


def test_comments_hide_no_target(scene: Scene) -> None:
    """R13: MariaDB's are comments to the server, and in front of a target nothing is passed."""
    db = scene.db
    scene.tables()
    run(db, ELSEWHERE, "INSERT INTO t VALUES (1, 'a', 1)")
    scene.open(passable=((db.name, "other"),))
    run(db, IN_TEXT, "UPDATE /*M! other SET n = 1, */ t SET v = 'lost' WHERE id = 1")
    fault = scene.fault()
    assert isinstance(fault, StatementWrite)
    assert "wrote to an unknown table" in str(fault)


@pytest.mark.slow
def test_watch_passes_over_writes_to_named_tables(db: Database) -> None:
    """R13: what is followed cannot be, because it could not be printed."""
    run(db, "CREATE TABLE t (id INT PRIMARY KEY)", ELSEWHERE)
    found = Watching(db, "--table", "t")
    try:
        found.started()
        run(db, "INSERT INTO t VALUES (1)", IN_TEXT, "DELETE FROM other")
        db.execute("INSERT INTO t VALUES (2)")
        assert found.ended() == 1
        option = f"--pass-statement-writes {db.name}.other"
        assert option in found.errors
        position = found.lines[-1]["position"]
    finally:
        found.close()
    found = Watching(db, "--table", "t", "--from", position, "--until", "now", *option.split())
    try:
        assert found.ended() == 0, found.errors
        rows = [line for line in found.lines if line["kind"] == "insert"]
        assert [values(row["after"])["id"] for row in rows] == ["2"]
    finally:
        found.close()
    found = Watching(db, *option.split())
    try:
        assert found.ended() == 2
        assert "cannot be printed" in found.errors
    finally:
        found.close()


@pytest.mark.slow
def test_ddl_is_read_in_the_character_set_of_its_client(db: Database) -> None:
    """R14: the binlog holds the bytes that the client sent."""
    db.execute("CREATE TABLE `t\u00ebst` (id INT PRIMARY KEY)")
    found = Watching(db, "--table", "t\u00ebst")
    try:
        found.started()
        run(db, "SET NAMES latin1", b"TRUNCATE TABLE `t\xebst`")
        run(db, "SET NAMES latin1", b"RENAME TABLE `t\xebst` TO `t\xebst2`")
        found.until(lambda lines: len(kinds(lines)) == 2)
        assert [line["sql"] for line in found.lines[1:]] == [
            "TRUNCATE TABLE `t\u00ebst`",
            "RENAME TABLE `t\u00ebst` TO `t\u00ebst2`",
        ]
    finally:
        found.close()


@pytest.mark.slow
def test_what_cannot_be_read_is_not_passed_over(db: Database) -> None:
    """R14: Python's codec for cp932 is not quite the server's."""
    db.execute("CREATE TABLE `t\u00ebst` (id INT PRIMARY KEY)")
    found = Watching(db, "--table", "t\u00ebst")
    try:
        found.started()
        run(db, "SET NAMES cp932", b"CREATE TABLE `\x83\x5c` (id INT)")
        assert found.ended() == 1
        assert "cannot be parsed for certain" in found.errors
    finally:
        found.close()


def alone_of(name: str) -> str:
    """Return a column's value as a JSON document of its own."""
    return f"JSON_EXTRACT(JSON_ARRAY({name}), '$[0]')"


def test_every_opaque_type_in_json_survives(scene: Scene) -> None:
    """R9: each kind of BLOB keeps its type code, at the top and inside."""
    columns = "a TINYBLOB, b BLOB, c MEDIUMBLOB, d LONGBLOB, e VARBINARY(9), f BINARY(3), g BIT(9)"
    scene.tables("id INT PRIMARY KEY AUTO_INCREMENT, j JSON")
    run(
        scene.db,
        f"CREATE TABLE src ({columns})",
        "INSERT INTO src VALUES ('a', 'b', 'c', 'd', 'e', 'f', b'101'),"
        " ('', '', '', '', '', 'f', b'0'), (REPEAT('a', 255), REPEAT('b', 65535), 'c', 'd', '', '',"
        " b'1')",
    )
    scene.open()
    names = "abcdefg"
    run(
        scene.db,
        f"INSERT INTO t (j) SELECT JSON_ARRAY({', '.join(names)}) FROM src",
        *(ALONE.format(name) for name in names),
        "INSERT INTO t (j) SELECT JSON_OBJECT('x', 1.50, 'y', JSON_ARRAY(a)) FROM src",
    )
    scene.drain()
    scene.assert_equal()
    assert any("type249" in str(row) for row in scene.rows("_t_new"))


def test_values_of_few_expressions_keep_their_type_in_json_too(scene: Scene) -> None:
    """R9: what COALESCE makes of BIT, and empty binary text of a fixed length."""
    scene.tables("id INT PRIMARY KEY AUTO_INCREMENT, j JSON")
    columns = "a BIT(64), b BIT(33), c BINARY(0), d SET('x', 'y') CHARACTER SET binary"
    numbers = [0, 5, 10**7, 10**8, 10**9, 2**32, 2**33 - 1, 2**64 - 1]
    values = ", ".join(f"({one}, {one % 2**33}, '', {one % 4})" for one in numbers)
    run(scene.db, f"CREATE TABLE src ({columns})", f"INSERT INTO src VALUES {values}")
    scene.open()
    made = ["COALESCE(a, a)", "IFNULL(b, b)", "GREATEST(a, a)", "a", "c", "d", "IF(1, d, d)"]
    run(
        scene.db,
        f"INSERT INTO t (j) SELECT JSON_ARRAY({', '.join(made)}) FROM src",
        *(f"INSERT INTO t (j) SELECT CAST({one} AS JSON) FROM src" for one in made),
    )
    scene.drain()
    scene.assert_equal()
    sizes = "SELECT id, JSON_STORAGE_SIZE(j), JSON_TYPE(JSON_EXTRACT(j, '$[0]')) FROM {}"
    assert scene.db.query(sizes.format("t")) == scene.db.query(sizes.format("_t_new"))
    assert "type16:MTg0NDY3NDQwNzM3MDk1NTE2MTU=" in str(scene.rows("_t_new"))


def test_wide_text_in_json_keeps_its_bytes_and_type(scene: Scene) -> None:
    """R9: the server puts text of ucs2, utf16 and utf32 into JSON as binary data of type 253."""
    scene.tables("id INT PRIMARY KEY AUTO_INCREMENT, j JSON")
    run(
        scene.db,
        "CREATE TABLE src (a TEXT CHARACTER SET ucs2, b CHAR(9) CHARACTER SET utf16,"
        " c VARCHAR(9) CHARACTER SET utf32, d VARCHAR(9) CHARACTER SET utf16le)",
        "INSERT INTO src VALUES (X'D83DDE0000410000', '\U0001f600', '\U0001f600', '\u00e4'),"
        " (X'DC00D800', '', 'x', ''), ('', 'plain', '', '\U0001f600')",
    )
    scene.open()
    made = ["JSON_ARRAY(a, b, c, d)", "JSON_OBJECT('x', a, 'y', 1.50)", *map(alone_of, "abcd")]
    run(scene.db, *(f"INSERT INTO t (j) SELECT {one} FROM src" for one in made))
    scene.drain()
    shown = "SELECT id, HEX(j), JSON_STORAGE_SIZE(j), JSON_TYPE(j) FROM {}"
    found = scene.db.query(shown.format("t"))
    assert found == scene.db.query(shown.format("_t_new"))
    sums = "SELECT SUM(JSON_TYPE(JSON_EXTRACT(j, '$[0]')) = 'BLOB') FROM {}"
    assert scene.db.query(sums.format("t")) == scene.db.query(sums.format("_t_new"))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("SELECT 7, CAST(d AS JSON) FROM src", "type code 254, 309 bytes"),
        ("SELECT 7, JSON_OBJECT(u, 1) FROM src", "has a surrogate"),
    ],
    ids=["a long SET", "a surrogate"],
)
def test_json_that_no_literal_gives_is_refused_by_name(scene: Scene, value: str, said: str) -> None:
    """R9: with table, row and column; nothing else is stored in its place."""
    scene.tables("id INT PRIMARY KEY, j JSON")
    members = ", ".join(f"'{n}{'x' * 60}'" for n in range(5))
    run(
        scene.db,
        f"CREATE TABLE src (d SET({members}) CHARACTER SET binary, u TEXT CHARACTER SET ucs2)",
        "INSERT INTO src VALUES (31, X'D83DDE00')",
    )
    scene.open()
    run(scene.db, f"INSERT INTO t {value}")
    with pytest.raises(UnreadableChange, match=said) as caught:
        scene.drain()
    assert f"row (7) of {scene.db.name}.t, column j" in caught.value.message
    assert scene.db.query("SELECT COUNT(*) FROM _t_new") == [(0,)]


def test_ucs2_text_with_surrogates_is_carried_byte_by_byte(scene: Scene) -> None:
    """R9: alone, in pairs, in keys; by insert, update, a changed key, and delete."""
    ucs2 = "VARCHAR(9) CHARACTER SET ucs2"
    scene.tables(f"k {ucs2} PRIMARY KEY, v {ucs2}, w TEXT CHARACTER SET ucs2, n INT")
    scene.open()
    run(
        scene.db,
        "INSERT INTO t VALUES (X'D800', X'D83DDE00', X'DC00', 1), (X'0041D83DDE00', X'D800', '', 2)"
        ", (X'DFFF', 'x', X'DE00D83D', 3), ('plain', X'D801', NULL, 4)",
        "UPDATE t SET v = X'DC00D800', n = 11 WHERE n = 1",
        "UPDATE t SET k = X'DFFE' WHERE n = 3",
        "DELETE FROM t WHERE n = 2",
    )
    scene.drain()
    shown = "SELECT HEX(k), HEX(v), HEX(w), n FROM {} ORDER BY n"
    found = scene.db.query(shown.format("_t_new"))
    assert found == scene.db.query(shown.format("t"))
    assert found[-1][:3] == ("D800", "DC00D800", "DC00")


def test_utf8_text_with_a_surrogate_is_refused_by_name(scene: Scene) -> None:
    """R9: a utf8mb4 column gets it from a ucs2 column; no literal gives it."""
    scene.tables("id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET utf8mb4")
    run(
        scene.db,
        "CREATE TABLE src (u TEXT CHARACTER SET ucs2)",
        "INSERT INTO src VALUES (X'D800')",
    )
    scene.open()
    run(scene.db, "INSERT INTO t VALUES (6, 'x')", "INSERT INTO t SELECT 7, u FROM src")
    with pytest.raises(MigrationFailure) as caught:
        scene.drain()
    assert caught.value.error_code is ErrorCode.VALUE_LOST
    assert "the row has the key (7)" in caught.value.details


@pytest.mark.slow
def test_rows_of_an_older_xa_transaction_are_not_lost_without_a_word(db: Database) -> None:
    """R8: an account that may not see prepared transactions is told so, and of each decision."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    user = f"u{db.name[-8:]}"
    grants = "SELECT, REPLICATION SLAVE, REPLICATION CLIENT"
    db.execute(f"CREATE USER {user} IDENTIFIED BY 'Secret-12'")
    db.execute(f"GRANT {grants} ON *.* TO {user}")
    xid = f"'{db.name}'"
    run(db, f"XA START {xid}", "INSERT INTO t VALUES (1)", f"XA END {xid}", f"XA PREPARE {xid}")
    found = Watching(db, "--user", user, "--password", "Secret-12")
    try:
        found.started()
        run(db, f"XA COMMIT {xid}")
        found.until(lambda lines: "xa_commit" in kinds(lines))
        assert "prepared before the start" in found.lines[-1]["note"]
        until(lambda: "XA_RECOVER_ADMIN" in found.errors)
    finally:
        found.close()
        db.execute(f"DROP USER {user}")


@pytest.mark.slow
def test_a_place_inside_an_event_is_blamed_on_the_position(db_file: Database) -> None:
    """The server itself speaks of max_allowed_packet, or of a full disk."""
    db_file.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    uuid = db_file.query("SELECT @@server_uuid")[0][0]
    file = db_file.query("SHOW BINARY LOGS")[-1][0]
    found = Watching(db_file, "--from", f"file;{uuid};{file};5", "--until", "now")
    try:
        assert found.ended() == 1
        assert f"no event of the binlog begins at {file}:5" in found.errors
        assert "--from" in found.errors.rpartition("hint:")[2]
    finally:
        found.close()


@pytest.mark.slow
def test_names_cannot_command_the_terminal(db: Database) -> None:
    """Newlines and escapes in names are shown as such; the year 0 is that of the server."""
    name = "a\nerror: fake\x1b[31m"
    db.execute(f"CREATE TABLE `{name}` (id INT PRIMARY KEY, y YEAR)")
    found = Watching(db, "--table", name)
    try:
        found.started()
        run(db, f"INSERT INTO `{name}` VALUES (1, 0)", IN_TEXT, f"DELETE FROM `{name}`")
        assert found.ended() == 1
        assert values(found.lines[2]["after"])["y"] == "0000"
        assert "a\\nerror: fake\\x1b[31m" in found.errors
        assert "\x1b" not in found.errors
    finally:
        found.close()
