"""Statements in text that reach a followed table without naming it, or not in UTF-8 (R13, R14)."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

import MySQLdb
import pytest

from spirit_py.change.native import NATIVE, NATIVE_WITH_A_BLANK
from spirit_py.errors import UnjudgedWrite, UnreadableChange
from spirit_py.stop import StopSwitch
from tests.fix_feed import Scene, until
from tests.watch_kit import Watching, kinds, values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fix_mysql import Database

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
    ("made", "written", "reason"),
    [
        ("CREATE VIEW w AS SELECT * FROM t", "UPDATE w SET n = 9 WHERE id = 1", "is a view"),
        (TRIGGER, "INSERT INTO other VALUES (100, 1)", "has the trigger tr"),
        ("CREATE VIEW r AS SELECT f(300) a", "INSERT INTO other SELECT a, 1 FROM r", "the view"),
        ("DO 1", "INSERT INTO other VALUES (f(400), 1)", "the function"),
        ("DO 1", "SELECT f(200)", "not certain"),
        ("DO 1", "DO f(200)", "not certain"),
    ],
)
def test_a_write_in_text_that_reaches_the_table_stops_the_feed(
    scene: Scene, made: str, written: str, reason: str
) -> None:
    """R13: views, triggers and functions write rows that are nowhere in the binlog."""
    db = scene.db
    scene.tables()
    run(
        db,
        ELSEWHERE,
        "INSERT INTO t VALUES (1, 'a', 1)",
        "CREATE FUNCTION f(k INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA"
        " BEGIN INSERT INTO t VALUES (k, 'f', 0); RETURN k; END",
        made,
    )
    scene.open()
    run(db, IN_TEXT, written)
    fault = scene.fault()
    assert isinstance(fault, UnreadableChange)
    assert reason in str(fault)


def test_a_write_in_text_that_is_proven_foreign_is_let_pass(either: Scene) -> None:
    """R13: pt-table-checksum, temporary tables and system tables go on."""
    db = either.db
    either.tables()
    run(db, ELSEWHERE, "CREATE TABLE checksums (tbl CHAR(64), chunk INT, crc CHAR(40), n INT)")
    either.open()
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


def test_ordinary_writes_in_text_need_no_more_grants(scene: Scene) -> None:
    """R13: heartbeats of managed servers, and every way to write to the table's own schema."""
    db = scene.db
    scene.tables()
    run(
        db,
        ELSEWHERE,
        "CREATE TABLE mysql.spirit_py_heartbeat (id INT PRIMARY KEY, value BIGINT)",
        "CREATE PROCEDURE p(k INT) BEGIN DELETE FROM other WHERE id = k; END",
        "CREATE TABLE txt (s LONGTEXT)",
    )
    try:
        with account(scene) as user:
            scene.open(connection=scene.options(user=user, password="Secret-12"))
            run(
                db,
                IN_TEXT,
                "insert into mysql.spirit_py_heartbeat(id, value) values (1,2)"
                " on duplicate key update value = 2",
                f"UPDATE {db.name}.other AS o SET o.n = COALESCE (n, NOW()) WHERE o.id IN (1)",
                "INSERT INTO other (id, n) VALUES (1, UNIX_TIMESTAMP()), (2, 3)",
                "UPDATE other a JOIN txt b ON b.s = a.id SET a.n = 1",
                "WITH c AS (SELECT 1 x) DELETE FROM other WHERE id IN (SELECT x FROM c)",
                "DELETE FROM other WHERE id IN (SELECT id FROM t) OR n IN (SELECT n FROM t)",
                "SET NAMES utf8mb4",
                'insert into txt(s) values ("hi \U0001f600 f(1)")',
                "CALL p(1)",
            )
            db.execute("INSERT INTO t VALUES (1, 'a', 1)")
            scene.drain()
            scene.assert_equal()
            assert scene.stop.reason is None
    finally:
        run(db, "DROP TABLE mysql.spirit_py_heartbeat")


def test_a_write_that_the_account_may_not_judge_waits_for_the_grant(scene: Scene) -> None:
    """R13: the error names it, and the feed goes on behind it from where it was."""
    db = scene.db
    scene.tables()
    other = f"{db.name}_hb"
    run(
        db,
        f"CREATE DATABASE {other}",
        f"CREATE TABLE {other}.heartbeat (id INT PRIMARY KEY, ts CHAR(9))",
        f"CREATE TABLE {other}.own (a INT)",
        f"CREATE FUNCTION {other}.g(k INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA"
        f" BEGIN INSERT INTO {db.name}.t VALUES (k, 'g', 1); RETURN k; END",
    )
    try:
        with account(scene) as user:
            connection = scene.options(user=user, password="Secret-12")
            scene.open(connection=connection)
            run(
                db,
                "INSERT INTO t VALUES (1, 'a', 1)",
                IN_TEXT,
                f"REPLACE INTO {other}.heartbeat SELECT 1, 'x' FROM {other}.own",
                f"UPDATE {other}.heartbeat SET ts = 'y' WHERE id = 1",
                f"DELETE FROM {other}.own",
            )
            db.execute("INSERT INTO t VALUES (2, 'b', 2)")
            fault = scene.fault()
            assert isinstance(fault, UnjudgedWrite)
            assert f"triggers of {other}.heartbeat" in str(fault)
            given = fault.remedy
            assert given == f"GRANT SELECT, TRIGGER ON `{other}`.* TO '{user}'@'%'"
            position = scene.feed.position()
            scene.close()
            run(db, given)
            scene.stop = StopSwitch()
            scene.open(connection=connection, position=position)
            scene.drain()
            scene.assert_equal()
            assert len(scene.rows("t")) == 2
            run(db, IN_TEXT, f"REPLACE INTO {other}.heartbeat VALUES ({other}.g(9), 'z')")
            fault = scene.fault()
            assert isinstance(fault, UnjudgedWrite)
            given = fault.remedy
            assert given == f"GRANT SHOW_ROUTINE ON *.* TO '{user}'@'%'"
            position = scene.feed.position()
            scene.close()
            run(db, given)
            scene.stop = StopSwitch()
            scene.open(connection=connection, position=position)
            fault = scene.fault()
            assert isinstance(fault, UnreadableChange)
            assert f"the function {other}.g" in str(fault)
    finally:
        run(db, f"DROP DATABASE {other}")


def test_ddl_of_others_between_heartbeats_is_nobody_s_business(scene: Scene) -> None:
    """R13: programs that a passed write could not have run take nothing back."""
    db = scene.db
    scene.tables()
    run(db, ELSEWHERE)
    scene.open()
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


def test_the_server_s_own_functions_are_not_ours(db: Database) -> None:
    """A bare name of a function that the server does not know would mean a stored one."""
    with contextlib.closing(db.connect()) as session, session.cursor() as cursor:

        def code(call: str) -> int:
            try:
                cursor.execute(f"DO {call}")
            except MySQLdb.Error as error:
                return int(error.args[0])
            return 0

        for name in sorted(NATIVE - {"BENCHMARK", "GET_LOCK", "SLEEP"}):
            blanks = ("", " ") if name in NATIVE_WITH_A_BLANK else ("",)
            for blank, values in itertools.product(blanks, ("", "1", "1, 1", "1, 1, 1")):
                assert code(f"{name}{blank}({values})") not in {1305, 1630}, name
        assert code("nobodys(1)") == 1305


def test_comments_count_as_on_the_server(scene: Scene) -> None:
    """R13: MariaDB's are comments, and so is what a later version would execute."""
    db = scene.db
    scene.tables()
    run(db, ELSEWHERE, "INSERT INTO t VALUES (1, 'a', 1)")
    scene.open()
    run(db, IN_TEXT, "UPDATE /*M! other SET n = 1, */ t SET v = 'lost' WHERE id = 1")
    fault = scene.fault()
    assert isinstance(fault, UnreadableChange)
    assert f"wrote to {db.name}.t" in str(fault)


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


def test_what_cannot_be_read_is_not_passed_over(db: Database) -> None:
    """R14: Python's codec for cp932 is not quite the server's."""
    db.execute("CREATE TABLE `t\u00ebst` (id INT PRIMARY KEY)")
    found = Watching(db, "--table", "t\u00ebst")
    try:
        found.started()
        run(db, "SET NAMES cp932", b"CREATE TABLE `\x83\x5c` (id INT)")
        assert found.ended() == 1
        assert "cannot be read for certain" in found.errors
    finally:
        found.close()


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
