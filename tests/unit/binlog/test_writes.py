"""Which writes in STATEMENT format are passed over, and what stops the run (R13)."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from spirit_py.binlog.events import Place, StatementSeen
from spirit_py.binlog.statements import TableFinder
from spirit_py.binlog.writes import StatementWrites, target_of
from spirit_py.errors import HiddenChange, StatementWrite, UnreadableChange

FOLLOWED = TableFinder([("shop", "orders"), ("shop", "_orders_new")], ignore_case=False)


def seen(sql: str, schema: str = "d", **more: Any) -> StatementSeen:
    """Build a statement of the stream."""
    return StatementSeen(Place("b.000001", 7), schema, sql, 9, **more)


def writes(*passable: tuple[str, str], ignore_case: bool = False) -> StatementWrites:
    """Return the judge of a run in which the option names these tables."""
    return StatementWrites(
        passable,
        FOLLOWED.has,
        ignore_case=ignore_case,
        onward="run again with {}",
        give_up="give it up",
    )


@pytest.mark.parametrize(
    ("sql", "target"),
    [
        ("INSERT INTO quick VALUES (1)", "d.quick"),
        ("INSERT INTO quick.x VALUES (1)", "quick.x"),
        (
            "REPLACE INTO `percona`.`checksums` (db) SELECT COUNT(*) FROM t /*chunk*/",
            "percona.checksums",
        ),
        ("INSERT t VALUES (1)", "d.t"),
        ("INSERT IGNORE\n\tINTO s . t(a) VALUES (1)", "s.t"),
        ("  insert low_priority ignore t set a = 1", "d.t"),
        ("INSERT INTO t SELECT * FROM u", "d.t"),
        ("INSERT INTO t WITH c AS (SELECT 1) SELECT * FROM c", "d.t"),
        ("INSERT INTO t VALUES ('/*!99999 ' , '/* /*', \"orders\")", "d.t"),
        ("REPLACE DELAYED t TABLE u", "d.t"),
        ("INSERT INTO `odd``.name`.`x y` VALUE (1)", "odd`.name.x y"),
        ("UPDATE LOW_PRIORITY t SET a = 1", "d.t"),
        ("UPDATE IGNORE s.t SET a = (SELECT 1 FROM orders)", "s.t"),
        ("DELETE FROM t", "d.t"),
        ("DELETE QUICK FROM s.t WHERE a = 1", "s.t"),
        ("DELETE FROM t ORDER BY a LIMIT 1", "d.t"),
        ("LOAD DATA INFILE 'x' REPLACE INTO TABLE `s`.`t` (a)", "s.t"),
        ("LOAD DATA LOCAL INFILE '/a b' INTO TABLE `t` FIELDS TERMINATED BY '\\t' (`a`) ", "d.t"),
    ],
)
def test_the_target_of_a_plain_write_is_read(sql: str, target: str) -> None:
    """R13: heartbeats, pt-table-checksum, and what the server itself writes for LOAD DATA."""
    assert str(target_of(sql, "d")) == target


@pytest.mark.parametrize(
    "sql",
    [
        "/* app */ INSERT INTO t VALUES (1)",
        "-- app\nINSERT INTO t VALUES (1)",
        "INSERT /*!80000 IGNORE */ INTO t VALUES (1)",
        "INSERT /*+ SET_VAR(sql_mode='ANSI_QUOTES') */ INTO t VALUES (1)",
        "INSERT INTO /*!99999 a */ t VALUES (1)",
        "INSERT INTO t/**/.orders VALUES (1)",
        "INSERT INTO t /**/ .orders VALUES (1)",
        "INSERT INTO t # \n .orders VALUES (1)",
        "INSERT INTO .t VALUES (1)",
        "INSERT INTO a.b.c VALUES (1)",
        'INSERT INTO "t" VALUES (1)',
        "INSERT INTO t\u00a0x VALUES (1)",
        "INSERT INTO \u00e4 VALUES (1)",
        "INSERT INTO `t VALUES (1)",
        "IN\u017fERT INTO t VALUES (1)",
        "UPDATE /* a /* b */ c */ t SET x = 1",
        "UPDATE t AS x SET a = 1",
        "UPDATE t, orders SET a = 1",
        "UPDATE t JOIN orders ON 1 SET a = 1",
        "UPDATE t SET\u00a0, orders SET a = 1",
        "UPDATE t set_, orders SET a = 1",
        "UPDATE t .orders, u SET a = 1",
        "DELETE t FROM t JOIN orders",
        "DELETE FROM t, orders USING t JOIN orders",
        "DELETE FROM t USING t JOIN orders",
        "DELETE t, orders FROM t JOIN orders",
        "DELETE quick FROM quick, orders",
        "DELETE FROM t AS o WHERE 1",
        "DELETE FROM t whereever WHERE 1",
        "DELETE FROM t /* all */",
        "WITH c AS (SELECT 1) UPDATE t SET a = 1",
        "WITH c AS (SELECT 1) DELETE FROM t",
        "LOAD DATA INFILE 'it\\'s' INTO TABLE t (a)",
        "LOAD DATA INFILE 'it''s' INTO TABLE t (a)",
        'LOAD DATA INFILE "x" INTO TABLE t (a)',
        "LOAD XML INFILE 'x' INTO TABLE t (a)",
        "SELECT f(1)",
        "DO f(1)",
        "CALL p()",
        "SET @a = f()",
    ],
)
def test_no_other_target_is_read(sql: str) -> None:
    """R13: comments, other quotes, several tables and what is not understood fail closed."""
    assert target_of(sql, "d") is None
    with pytest.raises(StatementWrite, match="an unknown table"):
        writes(("d", "t"), ("d", "orders")).take(seen(sql))


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO mysql.rds_heartbeat2(id, value) values (1,5) ON DUPLICATE KEY UPDATE value=5",
        "DELETE FROM `mysql`.rds_sysinfo where name = 'innodb_txn_key'",
        "UPDATE mysql.ha_health_check SET id = 1",
    ],
)
def test_writes_to_the_schema_mysql_are_passed_over(sql: str) -> None:
    """R13: managed servers write their heartbeats to it."""
    writes().take(seen(sql))
    writes().take(seen(sql.replace("mysql.", "").replace("`mysql`.", ""), "mysql"))
    with pytest.raises(StatementWrite):
        writes().take(seen(sql.replace("mysql", "MYSQL"), "mysql"))
    writes(ignore_case=True).take(seen(sql.replace("mysql", "MYSQL"), "mysql"))


@pytest.mark.parametrize(
    "sql",
    [
        "REPLACE INTO `percona`.`checksums` (db) SELECT 'shop', COUNT(*) FROM shop.orders /*c*/",
        "UPDATE `percona`.`checksums` SET chunk_time = 1 WHERE db = 'shop' AND tbl = 'orders'",
        "DELETE FROM percona.checksums WHERE db = 'shop'",
        "LOAD DATA INFILE 'x' INTO TABLE percona.checksums (a)",
        "insert into percona . checksums values ('orders')",
    ],
)
def test_writes_to_a_table_that_the_option_names_are_passed_over(sql: str) -> None:
    """R13: reading a followed table, or naming it in a string, changes nothing of it."""
    passing = writes(("hb", "heartbeat"), ("percona", "checksums"))
    passing.take(seen(sql))
    with pytest.raises(StatementWrite):
        passing.take(seen(sql.replace("checksums", "Checksums")))
    writes(("percona", "checksums"), ignore_case=True).take(seen(sql.replace("sums", "SUMS")))


def test_any_other_write_stops_resumably_with_all_that_is_known() -> None:
    """R13: session, statement, place, target, the option, and what the operator answers for."""
    with pytest.raises(StatementWrite) as raised:
        writes(("hb", "heartbeat")).take(seen("INSERT INTO x\n VALUES (1)", "hb"))
    error = pickle.loads(pickle.dumps(raised.value))
    assert error.resumable
    assert error.exit_code == 1
    for part in ("hb.x in STATEMENT", "INSERT INTO x VALUES (1)", "session 9 at b.000001:7"):
        assert part in str(error)
    for part in ("run again with --pass-statement-writes hb.x;", "trigger", "binlog_format=ROW"):
        assert part in error.hint


@pytest.mark.parametrize(
    ("sql", "option"),
    [
        ("INSERT INTO `a$b`.c VALUES (1)", "'a$b.c'"),
        ("INSERT INTO `a b`.`c.``d` VALUES (1)", "'`a b`.`c.``d`'"),
    ],
)
def test_the_option_is_named_as_a_shell_takes_it(sql: str, option: str) -> None:
    """Names with a dot or a backquote are quoted, and what the shell would read too."""
    with pytest.raises(StatementWrite) as raised:
        writes().take(seen(sql))
    assert f"--pass-statement-writes {option};" in raised.value.hint


def test_a_write_without_a_target_says_that_no_option_helps() -> None:
    """R13: it stops resumably, too; what to do is the operator's choice."""
    with pytest.raises(StatementWrite) as raised:
        writes(("a", "b")).take(seen("WITH c AS (SELECT 1) DELETE FROM a.b"))
    assert raised.value.resumable
    assert "give it up" in raised.value.hint


@pytest.mark.parametrize("table", ["shop.orders", "`shop`.`_orders_new`", "orders"])
def test_a_write_to_a_followed_table_is_hidden_even_if_it_is_named(table: str) -> None:
    """R13: its rows are nowhere, whatever the operator says; nobody writes so to a new table."""
    judge = writes(("shop", "orders"), ("shop", "_orders_new"))
    with pytest.raises(HiddenChange, match="in STATEMENT format") as raised:
        judge.take(seen(f"UPDATE {table} SET v = 1", "shop"))
    assert raised.value.resumable
    assert "compares every row" in raised.value.hint


def test_a_write_passes_only_when_every_reading_of_it_does() -> None:
    """R13: its characters may be those of the client, or UTF-8."""
    judge = writes(("d", "t\u00ebst"))
    plain, mojibake = (f"INSERT INTO `{t}` VALUES (1)" for t in ("t\u00ebst", "t\u00c3\u00abst"))
    judge.take(seen(plain))
    for event in (seen(mojibake, other=plain), seen(plain, other=mojibake)):
        with pytest.raises(StatementWrite, match="t\u00c3\u00abst"):
            judge.take(event)
    with pytest.raises(StatementWrite, match="an unknown table"):
        judge.take(seen(plain, other='DELETE FROM "x"'))
    with pytest.raises(StatementWrite, match="an unknown table"):
        judge.take(seen("INSERT INTO mysql.t VALUES ('\\x83')", certain=False))
    with pytest.raises(UnreadableChange):
        writes().take(seen("DELETE FROM `x`", other="DELETE FROM shop.orders"))


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO orders VALUES (1)",
        "INSERT IGNORE shop.orders SET id = 1",
        "REPLACE orders SELECT * FROM other",
        "UPDATE LOW_PRIORITY orders SET v = 1",
        "UPDATE other, shop.orders SET orders.v = other.v",
        "UPDATE other o JOIN orders r ON o.id = r.id, x SET r.v = 1",
        "UPDATE x, (SELECT 1) y, (other JOIN orders) SET v = 1",
        "UPDATE /*M! other SET v=1, */ orders SET v = 1",
        "UPDATE /* 99999 x (* y *) other SET v=1, */ orders SET v = 1",
        "DELETE r FROM other AS o, orders AS r",
        "DELETE FROM r USING other o JOIN orders r USING (id)",
        "WITH c AS (SELECT 1) DELETE FROM orders",
        "DELETE FROM orders WHERE id = 1",
        "DELETE orders FROM orders JOIN other USING (id)",
        "WITH c AS (SELECT 1) UPDATE orders SET v = 1",
        "LOAD DATA INFILE 'x' REPLACE INTO TABLE orders FIELDS TERMINATED BY ','",
        "UPDATE a JOIN b ON a.x = b.key JOIN orders ON 1 SET orders.v = 1",
        "UPDATE a JOIN b ON a.x = b.for JOIN orders ON 1 SET orders.v = 1",
        "DELETE orders FROM a JOIN b ON a.id = b.key JOIN orders WHERE 1",
        "UPDATE a JOIN b ON a.set = b.id JOIN orders ON 1 SET orders.v = 1",
        "UPDATE a JOIN b ON @set IS NULL JOIN orders ON 1 SET orders.v = 1",
        "UPDATE a JOIN b ON a.\u017fet = 1 JOIN orders ON 1 SET orders.v = 1",
        "UPDATE a JOIN b ON a.x = @'v' JOIN orders ON 1 SET orders.v = 1",
        'UPDATE a JOIN b ON a.x = @"v" JOIN orders ON 1 SET orders.v = 1',
        "UPDATE a JOIN b ON a.x = 1. JOIN orders ON 1 SET orders.v = 1",
    ],
)
def test_writes_to_a_followed_table_are_seen(sql: str) -> None:
    """R13: their rows are nowhere in the binlog, in whatever form they are written."""
    with pytest.raises((UnreadableChange, StatementWrite)):
        writes(("shop", "other")).take(seen(sql, "shop"))


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO log SELECT * FROM orders",
        "UPDATE log SET text = 'orders'",
        "INSERT INTO log VALUES ('it\\'s orders')",
        "SAVEPOINT orders",
        "DELETE FROM oc WHERE orders = 1",
        "DELETE FROM other WHERE id IN (SELECT id FROM orders)",
        "UPDATE other SET v = (SELECT MAX(v) FROM orders)",
        "WITH c AS (SELECT * FROM orders) DELETE FROM other",
        "UPDATE other, third SET orders = 1",
        'INSERT INTO log VALUES ("orders")',
    ],
)
def test_writes_that_only_read_a_followed_table_need_a_word(sql: str) -> None:
    """R13: they are passed over where their target is certain and named."""
    judge = writes(("shop", "log"), ("shop", "oc"), ("shop", "other"))
    if sql.startswith(("WITH", "UPDATE other, third")):
        with pytest.raises(StatementWrite):
            judge.take(seen(sql, "shop"))
        return
    judge.take(seen(sql, "shop"))
    if not sql.startswith("SAVEPOINT"):
        with pytest.raises(StatementWrite):
            writes().take(seen(sql, "shop"))
