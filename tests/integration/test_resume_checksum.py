"""What a resumed run trusts of the comparison that an earlier run made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spirit_py.errors import Refusal
from tests.kits.resume import ROWS, Interruption, assert_nothing_left, make_table, start

SMALL_SNAPSHOTS: dict[str, Any] = {"checksum_yield_timeout": 0.001, "threads": 1}


def stop_between_snapshots(engine, db, monkeypatch):
    """Interrupt a migration whose checksum has compared a part; return how far it came."""
    make_table(db)
    interruption = Interruption(monkeypatch)
    interruption.at(engine, db, "checksum.begin", 2, **SMALL_SNAPSHOTS)
    record = json.loads(str(db.query("SELECT record FROM _t_chkpnt")[0][0]))
    (bound,) = record["tables"][0]["checked_up_to"]
    assert record["phase"] == "checksum"
    assert record["settled_at"]
    return int(bound)


def finish(engine, db):
    """Run the same command to its end; return its messages and its report."""
    run = start(engine, db, **SMALL_SNAPSHOTS)
    report = run.end()
    assert int(db.query("SELECT COUNT(*) FROM t WHERE a = id DIV 2 * 3")[0][0]) == ROWS
    assert_nothing_left(db)
    return run.told.text, report


@pytest.mark.slow
def test_what_was_compared_is_not_compared_again(db, engine, monkeypatch):
    """Changes of the source do not matter, before the stop nor after it: the feed has them."""
    bound = stop_between_snapshots(engine, db, monkeypatch)
    db.execute("UPDATE t SET b = 'later' WHERE id < 100")
    told, report = finish(engine, db)
    assert "goes on where the earlier run's stopped" in told
    assert report.checksum_rows <= ROWS - bound // 2 + 1
    assert report.differences_found == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "where", "rows"),
    [("db", "id IN (6, 8)", 2), ("db", "TRUE", ROWS), ("db_file", "id IN (6, 8)", 2)],
)
def test_a_write_to_the_new_table_between_two_runs_is_found(
    request, engine, monkeypatch, kind, where, rows
):
    """Only a comparison of all rows brings such rows back; without GTIDs the place shows it."""
    db = request.getfixturevalue(kind)
    stop_between_snapshots(engine, db, monkeypatch)
    db.execute(f"DELETE FROM _t_new WHERE {where}")
    told, report = finish(engine, db)
    assert "_t_new was written to after the checkpoint" in told
    assert report.differences_found == rows


@pytest.mark.slow
def test_a_hidden_change_between_two_runs_is_found(db, engine, monkeypatch):
    """R13: everything is compared again, since nothing shows which rows it changed."""
    stop_between_snapshots(engine, db, monkeypatch)
    db.execute("SET SESSION binlog_format = STATEMENT")
    db.execute("UPDATE t SET b = 'in text' WHERE id IN (6, 8)")
    told, report = finish(engine, db)
    assert "changes that are not in the binlog as rows were skipped" in told
    assert report.differences_found == 2


@pytest.mark.slow
def test_a_new_table_that_was_truncated_is_another_one(db, engine, monkeypatch):
    """TRUNCATE gives it another number: nothing proves that it is the one that was filled."""
    stop_between_snapshots(engine, db, monkeypatch)
    db.execute("TRUNCATE TABLE _t_new")
    with pytest.raises(Refusal, match="_t_new is not the table that the migration"):
        start(engine, db, **SMALL_SNAPSHOTS).end()
    db.execute("DROP TABLE _t_new")
    told, report = finish(engine, db)
    assert "_t_new is gone" in told
    assert report.differences_found == 0


@pytest.mark.slow
def test_after_a_killed_run_everything_is_compared_again(db, engine, monkeypatch):
    """It could not note where it stopped writing, so any later write may be another session's."""
    stop_between_snapshots(engine, db, monkeypatch)
    db.execute("UPDATE _t_chkpnt SET record = JSON_SET(record, '$.settled_at', '') WHERE id = 1")
    db.execute("UPDATE _t_new SET a = 1 WHERE id = 8")
    told, report = finish(engine, db)
    assert "_t_new was written to after the checkpoint" in told
    assert report.differences_found == 1


@pytest.mark.slow
def test_what_was_converted_in_another_zone_is_compared_again(db, engine, monkeypatch):
    """R22: rows up to where the comparison came would keep the times of the zone of before.

    No later row has a time: a difference in the rest would have all of them compared once more.
    """
    make_table(db)
    db.set_global("time_zone", "+00:00")
    db.reconnect()
    db.execute("ALTER TABLE t ADD at TIMESTAMP NULL")
    changed = db.execute("UPDATE t SET at = '2024-01-01 12:00:00' ORDER BY id LIMIT 5")
    asked: dict[str, Any] = {"alter": "MODIFY at DATETIME", **SMALL_SNAPSHOTS}
    Interruption(monkeypatch).at(engine, db, "checksum.begin", 2, **asked)
    db.set_global("time_zone", "+02:00")
    run = start(engine, db, **asked)
    report = run.end()
    assert db.query("SELECT DISTINCT CAST(at AS CHAR) FROM t WHERE at > 0") == [
        ("2024-01-01 14:00:00",)
    ]
    assert "time_zone, sql_mode or their like are others since" in run.told.text
    assert report.differences_found == changed == 5
