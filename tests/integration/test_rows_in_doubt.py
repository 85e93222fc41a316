"""Changes that the server has rolled back and logged all the same: none is swapped in.

In each test a cascade's deadlock is swallowed by the server after the last comparison.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from spirit_py.config import FeedOptions
from spirit_py.events import EventName
from tests.integration.test_foreign_key_feed import logged
from tests.integration.test_foreign_key_migrations import await_sentinel
from tests.kits.migrate import Migrating, config_for
from tests.kits.waiting import DEADLINE, until

pytestmark = pytest.mark.logged_cascades

PARENT = (
    "CREATE TABLE p (id INT PRIMARY KEY, x INT DEFAULT 0);INSERT INTO p (id) VALUES (1),(2),(3)"
)
CHILD = (
    "CREATE TABLE c (id INT PRIMARY KEY, p INT, x INT, CONSTRAINT of_c FOREIGN KEY (p)"
    " REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE);"
    "INSERT INTO c VALUES (1,1,0),(2,1,0),(3,2,0),(4,2,0),(5,3,0),(6,3,0)"
)
#: What the one holds who survives the deadlock: more changes, so that the other is the victim.
BALLAST = (
    "CREATE TABLE big (id INT PRIMARY KEY AUTO_INCREMENT, x INT);"
    "INSERT INTO big (x) WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n"
    " WHERE i < 50) SELECT i FROM n"
)


@pytest.fixture
def family(db):
    """Parents and children, on a server whose own cascades can be seen."""
    if not logged(db):
        pytest.skip("this server writes what foreign keys do into no binlog")
    db.execute(f"{PARENT}; {CHILD}; {BALLAST}")
    return db


def swallow(db: Any, statement: str, *, held: int, table: str = "c") -> None:
    """Run a statement whose cascade waits for a held row of the child, and ends in a deadlock.

    Args:
        held: the row; the one who holds it asks then for the row before it.
    """
    holder = db.connect()
    holder.autocommit(False)
    cursor = holder.cursor()
    cursor.execute("UPDATE big SET x = x + 1")
    cursor.execute(f"UPDATE {table} SET x = x WHERE id = {held}")
    cursor.execute(f"SELECT 1 FROM {table} WHERE id = {held} FOR UPDATE")
    waits = "SELECT 1 FROM performance_schema.data_lock_waits"
    victim = threading.Thread(target=lambda: db.connect().query(statement), daemon=True)
    victim.start()
    until(lambda: db.query(waits), "wait for the held row")
    cursor.execute(f"SELECT 1 FROM {table} WHERE id = {held - 1} FOR UPDATE")
    victim.join(DEADLINE)
    assert not victim.is_alive()
    holder.rollback()
    holder.close()


def deferred(spark_engine: Any, db: Any, table: str = "c", **more: Any) -> Migrating:
    """Begin a migration, and return when its first comparison is over, and no other comes."""
    config = config_for(
        db,
        table=table,
        alter="ADD z INT",
        no_shortcut=True,
        defer_cutover=True,
        recheck_interval=3600.0,
        feed=FeedOptions(flush_interval=0.05),
        **more,
    )
    run = Migrating(spark_engine, config)
    await_sentinel(run)
    return run


def comparisons(run: Migrating) -> int:
    """Return how many comparisons of the whole table have ended."""
    return sum(event.name is EventName.CHECKSUM_DONE for event in run.told.events)


def test_a_swallowed_deadlock_after_the_last_comparison_loses_no_row(family, spark_engine):
    """The keys in doubt differ, so the table is compared once more, which repairs it."""
    db = family
    run = deferred(spark_engine, db)
    swallow(db, "DELETE FROM p WHERE id = 1", held=2)
    assert db.query("SELECT COUNT(*) FROM c WHERE p = 1") == [(2,)]
    until(lambda: db.query("SELECT COUNT(*) FROM _c_new WHERE p = 1") != [(2,)], "false change")
    db.execute("DROP TABLE _c_snt")
    report = run.end()
    assert db.query("SELECT id, p FROM c ORDER BY id") == [
        (1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3)
    ]  # fmt: skip
    assert report.chunks_repaired == 1
    assert comparisons(run) == 2
