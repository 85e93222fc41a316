"""Stored generated columns whose values the source's sessions computed in another zone (R22)."""

from __future__ import annotations

import pytest

from tests.kits.command import run_here
from tests.kits.tables import tables

ALTER = ("--no-shortcut", "--alter", "MODIFY v BIGINT")
SECOND = "SELECT CAST(d AS CHAR) FROM t WHERE id = 2"


@pytest.fixture
def written_elsewhere(db):
    """Return a schema with a table of which one row was written in another time zone."""
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP NULL, v INT,"
        " d DATETIME AS (ts) STORED, day VARCHAR(20) AS (DATE(d)) VIRTUAL)"
    )
    db.execute("SET SESSION time_zone = @@GLOBAL.time_zone")
    db.execute("INSERT INTO t (id, ts, v) VALUES (1, '2026-03-01 12:00:00+00:00', 1)")
    db.execute("SET SESSION time_zone = '+09:00'")
    db.execute("INSERT INTO t (id, ts, v) VALUES (2, '2026-03-01 12:00:00+00:00', 2)")
    return db


@pytest.mark.slow
def test_a_stored_value_of_another_zone_is_named(written_elsewhere):
    """The run ends with the row and the column, the source is whole, and the copy is kept."""
    db = written_elsewhere
    done = run_here(db, "migrate", *ALTER)
    assert done.returncode == 1
    assert "other values in generated columns (d)" in done.stderr
    assert "row (2) is changed in d" in done.stderr
    assert "--recompute-generated" in done.stderr
    assert tables(db) == ["_t_chkpnt", "_t_new", "t"]
    assert db.query(SECOND) == [("2026-03-01 21:00:00",)]


@pytest.mark.slow
def test_recomputed_values_are_accepted(written_elsewhere):
    """With the option the same command goes on; the new table has what the server computes."""
    db = written_elsewhere
    assert run_here(db, "migrate", *ALTER).returncode == 1
    done = run_here(db, "migrate", *ALTER, "--recompute-generated")
    assert done.returncode == 0, done.stderr
    assert db.query(SECOND) == db.query(SECOND.replace("2", "1"))


@pytest.mark.slow
def test_rows_written_again_are_equal(written_elsewhere):
    """A value that was stored anew with the server's settings is no difference any more."""
    db = written_elsewhere
    assert run_here(db, "migrate", *ALTER).returncode == 1
    db.execute("SET SESSION time_zone = @@GLOBAL.time_zone")
    db.execute("UPDATE t SET ts = ts + INTERVAL 1 SECOND WHERE id = 2")
    done = run_here(db, "migrate", *ALTER)
    assert done.returncode == 0, done.stderr
