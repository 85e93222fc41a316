"""Changes that the server has rolled back and logged all the same: none is swapped in.

In these tests the server swallows the deadlock of a foreign key's cascade after the last comparison
(:mod:`spirit_py.binlog.cascades`).
"""

from __future__ import annotations

import json
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.binlog.cascades import DoubtfulKeys
from spirit_py.config import FeedOptions
from spirit_py.events.copy import ChecksumDone, DoubtsCompared
from spirit_py.events.swap import CutoverHeldBack
from spirit_py.feed import subscription
from spirit_py.migration import doubts
from spirit_py.migration.doubts import count_deadlocks
from tests.integration.test_foreign_key_feed import logged
from tests.integration.test_foreign_key_migrations import await_sentinel
from tests.kits.migrate import Migrating, config_for
from tests.kits.resume import Interruption, once_at, start
from tests.kits.reverse import SwappedTable
from tests.kits.undone_cascade import WEIGHT, undo_a_cascade
from tests.kits.waiting import DEADLINE, until

if TYPE_CHECKING:
    from spirit_py.events.event import Event
    from tests.kits.reporter import RecordingReporter

pytestmark = pytest.mark.logged_cascades

FAMILY = (
    "CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1), (2), (3);"
    "CREATE TABLE c (id INT PRIMARY KEY, p INT, CONSTRAINT of_c FOREIGN KEY (p) REFERENCES p (id)"
    " ON DELETE CASCADE ON UPDATE CASCADE);"
    "INSERT INTO c VALUES (1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3);"
    "CREATE TABLE s (id INT PRIMARY KEY, p INT, CONSTRAINT of_s FOREIGN KEY (p) REFERENCES s (id)"
    " ON DELETE CASCADE); INSERT INTO s VALUES (1, NULL), (2, NULL), (3, 2), (4, 2);"
) + ";".join(WEIGHT)
ROWS = {
    "p": [(1,), (2,), (3,)],
    "c": [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3)],
    "s": [(1, None), (2, None), (3, 2), (4, 2)],
}


@pytest.fixture
def family(db):
    """Parents and children, on a server that logs what foreign keys do."""
    if not logged(db):
        pytest.skip("this server writes what foreign keys do into no binlog")
    db.execute(FAMILY)
    return db


def deadlock(db: Any) -> None:
    """Let a deadlock happen that has nothing to do with foreign keys."""
    one, other = db.connect(), db.connect()
    for connection, row in ((one, 1), (other, 2)):
        connection.autocommit(False)
        connection.query(f"UPDATE weight SET v = 5 WHERE id = {row}")

    def wait() -> None:
        other.query("UPDATE weight SET v = 6 WHERE id = 1")

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    until(lambda: waits(db), "the wait for the row")
    before = deadlocks(db)
    try:
        one.query("UPDATE weight SET v = 6 WHERE id = 2")
    except Exception as victim:
        assert "Deadlock" in str(victim)  # noqa: PT017
    one.rollback()
    waiting.join(DEADLINE)
    other.rollback()
    assert deadlocks(db) > before


def waits(db: Any) -> bool:
    """Whether a session waits for a row of the test's schema."""
    waiting = "LOCK_STATUS = 'WAITING' AND OBJECT_SCHEMA = DATABASE()"
    return bool(db.query(f"SELECT 1 FROM performance_schema.data_locks WHERE {waiting}"))


def deadlocks(db: Any) -> int:
    """Return InnoDB's count."""
    metrics = "information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'"
    return int(db.query(f"SELECT COUNT FROM {metrics}")[0][0])


def deferred(engine: Any, db: Any, table: str = "c", *, flush_interval: float = 0.05) -> Migrating:
    """Begin a migration; return when its first comparison is over, and no other one comes."""
    config = config_for(
        db,
        table=table,
        alter="ADD z INT",
        no_shortcut=True,
        defer_cutover=True,
        recheck_interval=3600.0,
        feed=FeedOptions(flush_interval=flush_interval),
    )
    run = Migrating(engine, config)
    await_sentinel(run)
    return run


def told(said: RecordingReporter, kind: type[Event]) -> list[Any]:
    """Return the fields of each event of this kind."""
    return [event.fields for event in said.named(kind)]


def rows_of(db: Any, table: str) -> list[Any]:
    """Return a table's rows without the column that the migration adds."""
    return list(db.query(f"SELECT {'id' if 'p' in table else 'id, p'} FROM {table} ORDER BY id"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "statement", "held", "locked", "session"),
    [
        (
            *("c", "UPDATE p SET id = id + 10 WHERE id < 3", 4, "c"),
            "SET SESSION binlog_transaction_compression = ON",
        ),
        ("p", "DELETE FROM p WHERE id < 3", 4, "c", ""),
        ("s", "DELETE FROM s WHERE id < 3", 4, "s", ""),
    ],
    ids=["two parents, compressed", "the parent", "to itself"],
)
def test_what_a_swallowed_deadlock_left_in_the_binlog_is_repaired(
    family, engine, table, statement, held, locked, session
):
    """The rows in doubt differ, so the table is compared once more before the swap."""
    db = family
    run = deferred(engine, db, table)
    undo_a_cascade(db, statement, held=held, table=locked, session=session)
    assert rows_of(db, table) == ROWS[table]
    until(lambda: rows_of(db, f"_{table}_new") != ROWS[table], "false changes")
    db.execute(f"DROP TABLE _{table}_snt")
    report = run.end()
    assert rows_of(db, table) == ROWS[table]
    assert report.chunks_repaired == 1
    (looked,) = told(run.told, DoubtsCompared)
    assert looked["differences"] > 0
    assert len(told(run.told, ChecksumDone)) == 2


@pytest.mark.slow
def test_a_row_that_a_false_one_has_removed_is_repaired(family, engine):
    """By a second unique key: the false row was changed since, and is right; the other is gone."""
    db = family
    db.execute("CREATE TABLE u (id INT PRIMARY KEY, p INT UNIQUE, v INT NOT NULL DEFAULT 0)")
    db.execute("INSERT INTO u (id, p) VALUES (8, 1), (9, 2)")
    db.execute("ALTER TABLE u ADD FOREIGN KEY (p) REFERENCES p (id) ON UPDATE CASCADE")
    run = deferred(engine, db, "u", flush_interval=0.3)
    undo_a_cascade(db, "UPDATE p SET id = id + 10 WHERE id < 3", held=4)
    # Applied together, in the order of the keys: row 8 removes row 7.
    db.execute("INSERT INTO p VALUES (11); INSERT INTO u (id, p) VALUES (7, 11)")
    until(lambda: db.query("SELECT 1 FROM _u_new WHERE p = 11"), "false changes")
    db.execute("UPDATE u SET v = 1 WHERE id > 7")
    db.execute("DROP TABLE _u_snt")
    run.end()
    assert db.query("SELECT id, p, v FROM u ORDER BY id") == [(7, 11, 0), (8, 1, 1), (9, 2, 1)]


@pytest.mark.slow
def test_without_a_deadlock_nothing_is_compared_again(family, engine, monkeypatch):
    """Cascades alone cost neither a look nor a comparison."""
    db = family
    read = []

    def counted(session: Any) -> frozenset[Any]:
        """Read the count; other tests may use the server."""
        read.append(count_deadlocks(session))
        return frozenset()

    monkeypatch.setattr(doubts, "count_deadlocks", counted)
    run = deferred(engine, db)
    db.execute("DELETE FROM p WHERE id < 3")
    db.execute("DROP TABLE _c_snt")
    run.end()
    assert rows_of(db, "c") == [(5, 3), (6, 3)]
    assert not told(run.told, DoubtsCompared)
    assert len(told(run.told, ChecksumDone)) == 1
    # Before the comparison, before the try, and under the lock, where it can be read too.
    assert len(read) == 3
    assert None not in read


@pytest.mark.slow
@pytest.mark.parametrize("most", [100, 1])
def test_rows_that_are_equal_are_enough_where_all_are_known(family, engine, monkeypatch, most):
    """A deadlock of others: the rows in doubt are read, and the table only if they are too many."""
    db = family
    monkeypatch.setattr(subscription, "DoubtfulKeys", partial(DoubtfulKeys, most))
    run = deferred(engine, db)
    db.execute("DELETE FROM p WHERE id < 3")
    deadlock(db)
    db.execute("DROP TABLE _c_snt")
    report = run.end()
    assert rows_of(db, "c") == [(5, 3), (6, 3)]
    assert report.chunks_repaired == 0
    known = most > 1
    looks = [{"rows": 4, "differences": 0, "examples": []}] if known else []
    assert told(run.told, DoubtsCompared) == looks
    assert len(told(run.told, ChecksumDone)) == (1 if known else 2)


@pytest.mark.slow
def test_a_deadlock_while_the_lock_is_waited_for_holds_the_swap_back(family, engine, monkeypatch):
    """R15: under the lock the count has changed, and rows are in doubt since the last look."""
    db = family
    run = deferred(engine, db)
    happens = partial(undo_a_cascade, db, "DELETE FROM p WHERE id = 1", held=2)
    once_at(monkeypatch, "cutover.lock", happens)
    db.execute("DROP TABLE _c_snt")
    report = run.end()
    assert rows_of(db, "c") == ROWS["c"]
    assert report.chunks_repaired == 1
    (held,) = told(run.told, CutoverHeldBack)
    assert "deadlock" in held["reason"]
    assert len(told(run.told, ChecksumDone)) == 2


@pytest.mark.slow
def test_what_was_compared_before_rows_came_in_doubt_is_compared_again_by_a_later_run(
    family, engine, monkeypatch
):
    """R17: no later run knows the keys, so no part of the comparison counts for it."""
    db = family
    db.execute("SET SESSION cte_max_recursion_depth = 10000")
    db.execute(
        "INSERT INTO c WITH RECURSIVE n (i) AS (SELECT 7 UNION ALL SELECT i + 1 FROM n WHERE"
        " i < 6000) SELECT i, 3 FROM n"
    )
    change = {"table": "c", "alter": "ADD z INT", "checksum_yield_timeout": 0.001, "threads": 1}

    def happens() -> bool:
        undo_a_cascade(db, "DELETE FROM p WHERE id = 1", held=2)
        return True

    Interruption(monkeypatch).at(
        engine, db, "checksum.begin", 2, when=happens, feed=FeedOptions(), **change
    )
    record = json.loads(str(db.query("SELECT record FROM _c_chkpnt")[0][0]))
    assert record["phase"] == "checksum"
    run = start(engine, db, **change)
    report = run.end()
    assert rows_of(db, "c")[:6] == ROWS["c"]
    assert "goes on where" not in run.told.text
    assert report.differences_found <= 1


@pytest.mark.slow
def test_a_swap_back_notices_it_too(family, engine, monkeypatch):
    """What a trigger wrote in the statement is rolled back as well, and stays in the binlog."""
    db = family
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (9, 9)")
    db.execute(
        "CREATE TRIGGER gone AFTER DELETE ON p FOR EACH ROW INSERT INTO t SET id = OLD.id, v = 1"
    )
    changed = SwappedTable(db, "ADD COLUMN z INT", engine=engine)
    following = changed.keep()
    happens = partial(undo_a_cascade, db, "DELETE FROM p WHERE id < 3", held=4)
    once_at(monkeypatch, "cutover.lock", happens)
    said = changed.revert()
    assert following.result() is True
    assert db.query("SELECT * FROM t") == [(9, 9)]
    assert told(changed.notes, CutoverHeldBack) or told(said, CutoverHeldBack)
