"""The deferred cutover: the migration waits for its sentinel, and goes on checking."""

from __future__ import annotations

import pytest

from spirit_py.errors import Interrupted, MigrationFailure
from spirit_py.phases import Phase
from tests.migrate_kit import Migrating, config_for

ALTER = "MODIFY v BIGINT"


@pytest.fixture
def table(db):
    """A small table."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
    return db


def waits(migrating):
    """Tell whether the migration waits for its sentinel."""
    seen = migrating.told.snapshots
    return bool(seen) and seen[-1].phase is Phase.SENTINEL and "dropped" in seen[-1].waiting_for


def passes(migrating):
    """Count the clean passes that were told."""
    return sum("clean" in line for line in migrating.told.lines)


def type_of_v(db):
    """Give the type of the column that changes."""
    return db.query("SHOW COLUMNS FROM t LIKE 'v'")[0][1]


def test_it_swaps_when_the_sentinel_is_dropped(table, spark_engine):
    """It creates the sentinel, keeps applying and checking, and swaps when it is gone."""
    migrating = Migrating(
        spark_engine,
        config_for(table, table="t", alter=ALTER, defer_cutover=True, recheck_interval=0.2),
    )
    try:
        migrating.wait_until(lambda: waits(migrating), "the wait for the operator")
        table.execute("UPDATE t SET v = 11 WHERE id = 1")
        before = passes(migrating)
        migrating.wait_until(lambda: passes(migrating) >= before + 2, "two more passes")
        assert type_of_v(table) == "int"
    finally:
        table.execute("DROP TABLE IF EXISTS _t_snt")
    report = migrating.end()
    assert type_of_v(table) == "bigint"
    assert table.query("SELECT v FROM t ORDER BY id") == [(11,), (20,), (30,)]
    assert [row[0] for row in table.query("SHOW TABLES")] == ["t"]
    assert report.checksum_passes >= 3
    assert report.phases["sentinel"] > 0


def test_a_difference_that_comes_while_waiting_is_found(table, spark_engine):
    """A row changed behind the feed's back is found and repaired before the swap."""
    migrating = Migrating(
        spark_engine,
        config_for(table, table="t", alter=ALTER, defer_cutover=True, recheck_interval=0.2),
    )
    try:
        migrating.wait_until(lambda: waits(migrating), "the wait for the operator")
        table.execute("UPDATE _t_new SET v = 99 WHERE id = 2")
        migrating.wait_until(lambda: repaired(migrating), "a repair")
    finally:
        table.execute("DROP TABLE IF EXISTS _t_snt")
    report = migrating.end()
    assert report.chunks_repaired == 1
    assert table.query("SELECT v FROM t ORDER BY id") == [(10,), (20,), (30,)]


def repaired(migrating):
    """Tell whether a checksum has told of a repaired chunk."""
    return any("'repaired_chunks': 1" in line for line in migrating.told.lines)


def test_the_wait_ends_with_its_time(table, spark_engine):
    """After the time limit the migration ends cleanly, and says that it can go on."""
    config = config_for(table, table="t", alter=ALTER, defer_cutover=True, defer_timeout=1.0)
    with pytest.raises(MigrationFailure, match="deferred") as failed:
        Migrating(spark_engine, config).end()
    assert failed.value.resumable
    assert "same command" in failed.value.hint
    assert type_of_v(table) == "int"


def test_a_signal_ends_the_wait(table, spark_engine):
    """SIGINT while it waits ends it as anywhere else."""
    migrating = Migrating(
        spark_engine, config_for(table, table="t", alter=ALTER, defer_cutover=True)
    )
    migrating.wait_until(lambda: waits(migrating), "the wait for the operator")
    migrating.stop.request(Interrupted(2))
    with pytest.raises(Interrupted):
        migrating.end()
    assert type_of_v(table) == "int"
