"""Modes that the operator chooses for tables which only older ones accept."""

from __future__ import annotations

import pytest

from spirit_py.config import SessionModes
from spirit_py.errors import Refusal
from spirit_py.migration.listing import migrations
from spirit_py.mysql.connect import connect
from spirit_py.mysql.evaluation import under_modes
from spirit_py.mysql.facts import read_facts
from tests.kits.connection import account
from tests.kits.migrate import config_for, migrate_here
from tests.kits.resume import Interruption, assert_nothing_left, start
from tests.kits.reverse import SwappedTable
from tests.kits.tables import tables

ZEROS = SessionModes(allow_zero_dates=True)
OLD = SessionModes(sql_mode="ALLOW_INVALID_DATES,STRICT_TRANS_TABLES")
TABLE = (
    "SET SESSION sql_mode = ''; CREATE TABLE t (id INT PRIMARY KEY, a INT,"
    " d DATE NOT NULL DEFAULT '0000-00-00')"
)


def make_table(db, definition=TABLE, rows=3000):
    """Make a table, and fill it, in a session with an old mode."""
    db.execute(definition)
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t (id, a) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < {rows}) SELECT i, i FROM n"
    )
    db.execute("ANALYZE TABLE t")


def changed(engine, db, alter, modes=SessionModes(), **more):  # noqa: B008 - it is frozen
    """Run the migration to its end; return its report."""
    config = config_for(db, table="t", alter=alter, modes=modes, **more)
    return migrate_here(engine, config)[0]


@pytest.fixture
def interrupt(monkeypatch):
    """End migrations at their points."""
    return Interruption(monkeypatch)


@pytest.mark.parametrize("alter", ["ADD COLUMN z INT", "MODIFY a BIGINT"])
def test_a_refused_definition_names_the_option(db, engine, alter):
    """In place or by copying: what the server refuses under its modes is refused, with the way."""
    make_table(db, rows=3)
    with pytest.raises(Refusal, match="Invalid default value for 'd'") as refused:
        changed(engine, db, alter=alter)
    assert "--allow-zero-dates" in refused.value.hint
    assert tables(db) == ["t"]


def test_a_statement_that_no_mode_accepts_names_none(db, engine):
    """A wrong default of the statement itself is a mistake under any mode."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    with pytest.raises(Refusal, match="Invalid default value") as refused:
        changed(engine, db, alter="MODIFY a BIGINT DEFAULT 'x'")
    assert "--sql-mode" not in refused.value.hint
    assert "correct the statement" in refused.value.hint


def test_the_shortcut_is_taken_under_the_chosen_modes(db, engine):
    """An instant change of such a table is instant."""
    make_table(db, rows=3)
    report = changed(engine, db, alter="ADD COLUMN z INT", modes=ZEROS)
    assert report.algorithm == "instant"
    assert any("--allow-zero-dates" in line for line in report.warnings)


@pytest.mark.slow
def test_other_modes_do_not_carry_on(db, engine, interrupt):
    """The choice is in the checkpoint; a run with another one is refused by name, R17."""
    make_table(db)
    config = {"alter": "MODIFY a BIGINT", "target_chunk_time": 0.05}
    interrupt.at(engine, db, "chunk.committed", 2, **config, modes=ZEROS)
    kept = tables(db)
    (shown,) = migrations(config_for(db).connection, database=db.name, table="t", max_age=9999.0)
    assert "  modes      --allow-zero-dates" in shown.lines()
    assert shown.to_dict()["modes"] == "--allow-zero-dates"
    for other, said in ((SessionModes(), "add --allow-zero-dates"), (OLD, "--allow-zero-dates")):
        with pytest.raises(Refusal, match="begun with --allow-zero-dates") as refused:
            start(engine, db, **config, modes=other).end()
        assert said in refused.value.hint
        assert tables(db) == kept
    report = start(engine, db, **config, modes=ZEROS).end()
    assert "resumed" in report.resumed
    assert_nothing_left(db)


@pytest.mark.slow
def test_a_choice_does_not_carry_on_without_it(db, engine, interrupt):
    """A migration that was begun under the server's modes goes on under them alone."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    make_table(db, "SET SESSION sql_mode = ''")
    config = {"alter": "MODIFY a BIGINT", "target_chunk_time": 0.05}
    interrupt.at(engine, db, "chunk.committed", 2, **config)
    with pytest.raises(Refusal, match="begun under the server's modes"):
        start(engine, db, **config, modes=ZEROS).end()
    assert "resumed" in start(engine, db, **config).end().resumed


@pytest.mark.slow
def test_a_servers_own_innodb_strict_mode_needs_no_option(db, engine):
    """Where the server does not check the length of rows, a native ALTER does not either.

    Nor any privilege: no session has to set it. What is refused of a server is refused so too.
    """
    long = ", ".join(f"c{number} VARCHAR(250) NOT NULL DEFAULT ''" for number in range(40))
    made = f"CREATE TABLE t (id INT PRIMARY KEY, a INT, {long}) CHARSET=latin1 ROW_FORMAT=COMPACT"
    make_table(db, f"SET SESSION innodb_strict_mode = 0; {made}", rows=5)
    db.set_global("innodb_strict_mode", 0)
    on_schema = (
        "SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX, TRIGGER, LOCK TABLES,"
        " CREATE TEMPORARY TABLES ON {db}.*"
    )
    on_server = "REPLICATION SLAVE, REPLICATION CLIENT, PROCESS ON *.*"
    with account(db, on_schema, on_server) as plain:
        report = changed(engine, db, alter="MODIFY a BIGINT", connection=plain)
        db.set_global("binlog_row_image", "MINIMAL")
        with pytest.raises(Refusal, match="binlog_row_image is MINIMAL"):
            changed(engine, db, alter="MODIFY a INT", connection=plain)
    assert report.algorithm == "copy"
    assert not any("innodb_strict_mode" in line for line in report.warnings)


def test_a_mode_that_the_server_does_not_know_is_refused(db, engine):
    """NO_AUTO_CREATE_USER is gone since 8.0; nothing is written before."""
    make_table(db, rows=3)
    gone = SessionModes(sql_mode="NO_AUTO_CREATE_USER")
    with pytest.raises(Refusal, match="sql_mode cannot be 'NO_AUTO_CREATE_USER'"):
        changed(engine, db, alter="MODIFY a BIGINT", modes=gone)
    assert tables(db) == ["t"]


def test_modes_are_spelled_by_the_server(db):
    """A combination is spelled out, and only the chosen variable differs from the server's."""
    with connect(config_for(db).connection, role="test") as session:
        own = read_facts(session)
        before = session.value("SELECT @@SESSION.sql_mode")
        under = under_modes(session, own, SessionModes(sql_mode="ansi", innodb_strict_mode="off"))
        assert session.value("SELECT @@SESSION.sql_mode") == before
    assert "PIPES_AS_CONCAT" in under.sql_mode
    assert not under.is_on("innodb_strict_mode")
    assert {name for name, value in under.variables.items() if own.variables[name] != value} == {
        "sql_mode",
        "innodb_strict_mode",
    }


def test_a_revert_goes_on_under_the_modes_of_the_migration(db, engine):
    """The old table computes a date that only these modes accept; the record names them."""
    db.execute(f"SET SESSION sql_mode = '{OLD.sql_mode}'")
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20), f DATE AS (CAST(s AS DATE)) STORED)"
    )
    db.execute("INSERT INTO t (id, s) VALUES (1, '2021-02-30'), (2, '2021-03-01')")
    swapped = SwappedTable(db, "ADD COLUMN extra INT", engine=engine, modes=OLD)
    db.execute("INSERT INTO t (id, s) VALUES (3, '2021-02-31')")
    swapped.revert()
    assert swapped.columns() == ["id", "s", "f"]
    assert db.query("SELECT id, CAST(f AS CHAR) FROM t ORDER BY id") == [
        (1, "2021-02-30"),
        (2, "2021-03-01"),
        (3, "2021-02-31"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("zeros", ["NO_AUTO_VALUE_ON_ZERO", ""])
def test_a_zero_in_a_column_that_becomes_auto_increment_is_named(db, engine, zeros):
    """It is kept; a native ALTER numbers it afresh unless the mode says otherwise."""
    db.execute("SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("INSERT INTO t VALUES (0, 1), (5, 2)")
    modes = SessionModes(sql_mode=zeros)
    report = changed(engine, db, alter="MODIFY id INT NOT NULL AUTO_INCREMENT", modes=modes)
    assert db.query("SELECT id FROM t ORDER BY id") == [(0,), (5,)]
    warned = any("keeps its 0" in line for line in report.warnings)
    assert warned is (zeros == "")


TWICE = "e ENUM('a', 'a') DEFAULT 'a', d DATE NOT NULL DEFAULT '0000-00-00'"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tables_made", "alter"),
    [
        (
            (
                "p (id INT PRIMARY KEY)",
                f"t (id INT PRIMARY KEY, v INT, {TWICE}, FOREIGN KEY (v) REFERENCES p (id))",
            ),
            "MODIFY e ENUM('a')",
        ),
        (
            (
                "t (id INT PRIMARY KEY, v INT)",
                f"p (id INT PRIMARY KEY, {TWICE}, FOREIGN KEY (id) REFERENCES t (id))",
            ),
            "MODIFY v BIGINT",
        ),
    ],
    ids=["the old table", "a child"],
)
def test_keys_are_moved_between_tables_that_only_older_modes_accept(db, engine, tables_made, alter):
    """The statements beside the RENAME are refused for no definition that is there already."""
    db.execute("SET SESSION sql_mode = ''")
    for made in tables_made:
        db.execute(f"CREATE TABLE {made}")
        db.execute(f"INSERT INTO {made.split()[0]} (id) VALUES (1)")
    changed(engine, db, alter=alter, modes=ZEROS)
    assert tables(db) == ["p", "t"]
    assert db.query(
        "SELECT TABLE_NAME, REFERENCED_TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS"
        " WHERE CONSTRAINT_SCHEMA = DATABASE()"
    ) in ([("t", "p")], [("p", "t")])
