"""The dry run: the whole migration under the real load, and nothing of it left."""

from __future__ import annotations

import threading

import pytest

from spirit_py.errors import ValueLost
from tests.kits.migrate import config_for, migrate_here

ROWS = 4000


@pytest.fixture
def table(db):
    """A table of a few thousand rows."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE"
        f" i < {ROWS}) SELECT i, i * 3 FROM n"
    )
    return db


def statements(db):
    """Count the RENAMEs that the server has run."""
    return db.query("SHOW GLOBAL STATUS LIKE 'Com_rename_table'")[0][1]


def assert_untouched(db, rows):
    """The table has its old definition and its rows; nothing else is there."""
    assert [row[0] for row in db.query("SHOW TABLES")] == ["t"]
    assert [(row[0], row[1]) for row in db.query("SHOW COLUMNS FROM t")] == [
        ("id", "int"),
        ("v", "int"),
    ]
    assert db.query("SELECT COUNT(*) FROM t") == [(rows,)]


@pytest.mark.parametrize("checksum", ["rolling", "snapshot"])
def test_a_dry_run_does_everything_but_the_swap(table, engine, checksum):
    """Rows are copied and compared under writes, the cost is told, and nothing stays."""
    ended, written = threading.Event(), 0

    def write():
        nonlocal written
        with table.connect() as connection, connection.cursor() as cursor:
            while not ended.wait(0.002):
                written += 1
                cursor.execute(f"INSERT INTO t VALUES ({ROWS + written}, 0)")

    renames = statements(table)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        change = {"alter": "MODIFY v BIGINT", "dry_run": True, "checksum": checksum}
        report, told = migrate_here(engine, config_for(table, table="t", **change))
    finally:
        ended.set()
        writer.join()
    assert_untouched(table, ROWS + written)
    # As without --dry-run, where the table itself is asked: no failure.
    assert told.said("copying, because ALGORITHM=INSTANT is not supported")
    assert statements(table) == renames
    assert (report.outcome, report.algorithm, report.cutover_attempts) == ("rehearsed", "copy", 0)
    assert report.rows_copied >= ROWS
    assert report.checksum_passes == 1
    assert report.rehearsal is not None
    assert report.rehearsal["disk_bytes"] > 0
    assert ROWS < report.rehearsal["own_binlog_bytes"] < report.rehearsal["binlog_bytes"]
    assert report.rehearsal["longest_lock_ms"] == report.checksum_lock_held_ms
    assert (report.rehearsal["locks"] > 0) is (checksum == "snapshot")
    text = "\n".join(report.summary())
    assert "would change" in text
    assert "nothing was changed" in text
    assert "cutover " not in text


def test_it_tells_that_a_change_would_be_instant(table, engine):
    """An INSTANT change is tried on an empty copy; the table stays as it is."""
    config = config_for(table, table="t", alter="ADD COLUMN n INT", dry_run=True)
    report, _ = migrate_here(engine, config)
    assert_untouched(table, ROWS)
    assert (report.outcome, report.algorithm) == ("rehearsed", "instant")
    assert report.rows_copied == 0


@pytest.mark.slow
def test_it_finds_what_would_fail(table, engine):
    """A value that does not fit is found; nothing stays."""
    config = config_for(table, table="t", alter="MODIFY v TINYINT", dry_run=True)
    with pytest.raises(ValueLost):
        migrate_here(engine, config)
    assert_untouched(table, ROWS)
