"""Several tables in one migration: all of them change, together or not at all."""

from __future__ import annotations

import threading

import pytest

from spirit_py.errors import Refusal, ValueLost
from tests.kits.migrate import Migrating, config_for, migrate_here
from tests.kits.tables import tables

ROWS = 3000
BOTH = "ALTER TABLE a MODIFY v BIGINT; ALTER TABLE b ADD COLUMN n INT NOT NULL DEFAULT 3, FORCE"


@pytest.fixture
def two(db):
    """Two tables of a few thousand rows each."""
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    for name in ("a", "b"):
        db.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT);"
            f"INSERT INTO {name} WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
            f" WHERE i < {ROWS}) SELECT i, i * 3 FROM n"
        )
    return db


def columns(db, table):
    """Return names and types of a table's columns."""
    return [(row[0], row[1]) for row in db.query(f"SHOW COLUMNS FROM {table}")]


def waits(migrating):
    """Whether the migration waits for its sentinel."""
    seen = migrating.told.snapshots
    return bool(seen) and "to be dropped" in seen[-1].waiting_for


@pytest.mark.slow
def test_two_tables_change_in_one_rename(two, engine):
    """Both are copied, checked and swapped by one RENAME while writers go on."""
    ended = threading.Event()
    written = {"a": 0, "b": 0}

    def write():
        with two.connect() as connection, connection.cursor() as cursor:
            number = ROWS
            while not ended.wait(0.002):
                number += 1
                for table in written:
                    cursor.execute(f"INSERT INTO {table} (id, v) VALUES ({number}, 7)")
                    written[table] += 1
                cursor.execute(f"UPDATE a SET v = v + 1 WHERE id = {number % ROWS + 1}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        report, told = migrate_here(engine, config_for(two, statement=BOTH))
    finally:
        ended.set()
        writer.join()
    assert columns(two, "a") == [("id", "int"), ("v", "bigint")]
    assert columns(two, "b") == [("id", "int"), ("v", "int"), ("n", "int")]
    for table, more in written.items():
        assert two.query(f"SELECT COUNT(*) FROM {table}") == [(ROWS + more,)]
    assert two.query(f"SELECT COUNT(*) FROM b WHERE v <> IF(id > {ROWS}, 7, id * 3)") == [(0,)]
    assert two.query("SELECT COUNT(*) FROM b WHERE n <> 3") == [(0,)]
    assert tables(two) == ["a", "b"]
    assert report.tables == [f"{two.name}.a", f"{two.name}.b"]
    assert report.rows_copied >= 2 * ROWS
    assert report.checksum_passes == 2
    assert report.chunks_repaired == 0, report.difference_examples
    assert report.cutover_attempts == 1, told.text


@pytest.mark.slow
def test_one_that_cannot_change_keeps_all_as_they_are(two, engine):
    """A value that the second table's new type cannot hold leaves the first unchanged too."""
    statement = "ALTER TABLE a MODIFY v BIGINT; ALTER TABLE b MODIFY v TINYINT"
    with pytest.raises(ValueLost):
        migrate_here(engine, config_for(two, statement=statement))
    assert columns(two, "a") == columns(two, "b") == [("id", "int"), ("v", "int")]
    # The copies stay: once the value is changed the same command goes on.
    assert tables(two) == ["_a_chkpnt", "_a_new", "_b_chkpnt", "_b_new", "a", "b"]


@pytest.mark.slow
def test_refusals_of_all_tables_are_told_together(two, engine):
    """What stands in the way of each table is said in one answer; nothing is written."""
    two.execute("CREATE TRIGGER g BEFORE INSERT ON a FOR EACH ROW SET NEW.v = 1")
    two.execute("CREATE TABLE keyless (v INT)")
    statement = "ALTER TABLE a MODIFY v BIGINT; ALTER TABLE keyless MODIFY v BIGINT"
    with pytest.raises(Refusal) as refused:
        migrate_here(engine, config_for(two, statement=statement, triggers="refuse"))
    text = "\n".join(refused.value.details)
    assert "trigger g" in text
    assert "keyless" in text
    assert tables(two) == ["a", "b", "keyless"]


@pytest.mark.slow
def test_instant_changes_of_several_are_copied_too(two, engine):
    """In place the tables would change one after the other: only the copy has one moment."""
    statement = "ALTER TABLE a ADD COLUMN n INT; ALTER TABLE b ADD COLUMN n INT"
    report, _ = migrate_here(engine, config_for(two, statement=statement))
    assert report.algorithm == "copy"
    assert "a command of its own" in report.reason
    assert report.rows_copied == 2 * ROWS
    assert columns(two, "a")[-1] == columns(two, "b")[-1] == ("n", "int")
    assert tables(two) == ["a", "b"]


@pytest.mark.slow
def test_one_that_must_be_copied_makes_all_wait_for_it(two, engine):
    """An INSTANT change of one table is not made before the other one's copy is swapped in."""
    statement = "ALTER TABLE a ADD COLUMN n INT; ALTER TABLE b MODIFY v BIGINT"
    two.execute("CREATE TABLE _b_snt (id INT)")
    migrating = Migrating(engine, config_for(two, statement=statement, recheck_interval=3600.0))
    try:
        migrating.wait_until(lambda: waits(migrating), "the wait for the operator")
        assert columns(two, "a") == [("id", "int"), ("v", "int")]
    finally:
        two.execute("DROP TABLE IF EXISTS _b_snt")
    assert migrating.end().algorithm == "copy"
    assert columns(two, "a")[-1] == ("n", "int")
    assert columns(two, "b")[-1] == ("v", "bigint")
