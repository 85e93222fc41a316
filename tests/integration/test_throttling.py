"""A running migration steps back when the server is busy, and comes back, with nothing lost."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pytest

from spirit_py.errors import CriticalLoad, Refusal
from tests.kits.migrate import Migrating, config_for
from tests.kits.resume import once_at
from tests.kits.waiting import DEADLINE, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.config import MigrationConfig

ROWS = 40_000
ALTER = "ADD COLUMN extra INT NOT NULL DEFAULT 7"
BUSY = 30
LIMIT = (("Threads_running", 15.0),)


@pytest.fixture
def filled(db):
    """Return the test's schema with a table of some rows."""
    db.execute("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(200) NOT NULL)")
    db.execute("INSERT INTO t (v) VALUES (REPEAT('x', 200))")
    while db.query("SELECT COUNT(*) FROM t")[0][0] < ROWS:
        db.execute("INSERT INTO t (v) SELECT v FROM t")
    db.execute("ANALYZE TABLE t")
    return db


@contextlib.contextmanager
def running_sessions(db, number: int) -> Iterator[None]:
    """Keep so many sessions of somebody else running."""
    sessions = [db.connect() for _ in range(number)]
    numbers = [session.thread_id() for session in sessions]

    def sleep(session) -> None:
        with contextlib.suppress(Exception), session.cursor() as cursor:
            cursor.execute("SELECT SLEEP(600)")

    threads = [threading.Thread(target=sleep, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    until(lambda: running(db) > number, "the sessions to run")
    try:
        yield
    finally:
        for one in numbers:
            db.execute(f"KILL {one}")
        for thread in threads:
            thread.join()


def running(db) -> int:
    """Return Threads_running."""
    return int(db.query("SHOW GLOBAL STATUS LIKE 'Threads_running'")[0][1])


class Held:
    """Holds a copy behind its first chunk, so that it cannot end before the load is there."""

    def __init__(self, monkeypatch) -> None:
        self.begun, self._go_on = threading.Event(), threading.Event()
        once_at(monkeypatch, "chunk.committed", self._hold)

    def _hold(self) -> None:
        self.begun.set()
        assert self._go_on.wait(DEADLINE)

    def release(self) -> None:
        """Let it go on."""
        self._go_on.set()


def slowly(db, **more) -> MigrationConfig:
    """Return the configuration of a copy of many chunks, with rests between them."""
    given = {"table": "t", "alter": ALTER, "no_shortcut": True, "target_chunk_time": 0.02}
    return config_for(db, **{**given, "nice": 4.0, **more})


def assert_changed(db) -> None:
    """Every row is there, with the new column."""
    rows, new, length = db.query("SELECT COUNT(*), SUM(extra = 7), SUM(LENGTH(v)) FROM t")[0]
    assert rows >= ROWS
    assert (int(new), int(length)) == (rows, 200 * rows)


def test_the_copy_waits_while_the_load_is_high_and_comes_back(filled, spark_engine, monkeypatch):
    """No chunk is handed out above --max-load; the reason is shown, logged and in the report."""
    held = Held(monkeypatch)
    run = Migrating(spark_engine, slowly(filled, max_load=LIMIT))
    run.wait_until(held.begun.is_set, "the copy to begin")
    with running_sessions(filled, BUSY):
        held.release()
        run.wait_until(lambda: run.told.said("waiting for the server's load"), "the wait")
        assert any("Threads_running" in one.waiting_for for one in run.told.snapshots)
        # What was handed out before has ended: two counts, some looks apart, are equal.
        until(lambda: _stands_still(filled), "the copy to stand still")
        assert run.running
    report = run.end()
    assert run.told.said("no longer waiting for: load")
    assert report.throttled_seconds["load"] > 0
    assert report.differences_found == 0
    assert_changed(filled)


def _stands_still(db) -> bool:
    """Return whether no row is added to the new table between two counts."""
    before = db.query("SELECT COUNT(*) FROM _t_new")
    threading.Event().wait(0.3)
    return before == db.query("SELECT COUNT(*) FROM _t_new")


def test_a_critical_load_ends_the_run_and_the_same_command_carries_on(
    filled, spark_engine, monkeypatch
):
    """The error names the counter; the next run copies what is left."""
    held = Held(monkeypatch)
    run = Migrating(spark_engine, slowly(filled, critical_load=LIMIT))
    run.wait_until(held.begun.is_set, "the copy to begin")
    with running_sessions(filled, BUSY):
        held.release()
        with pytest.raises(CriticalLoad, match="Threads_running"):
            run.end()
    report = Migrating(spark_engine, slowly(filled, nice=0.0)).end()
    assert report.rows_copied_before > 0
    assert_changed(filled)


def test_a_limit_of_no_counter_is_refused(filled, spark_engine):
    """A misspelt name would be a limit that is never reached."""
    limit = (("Threads_runing", 25.0),)
    run = Migrating(spark_engine, slowly(filled, max_load=limit))
    with pytest.raises(Refusal, match="Threads_runing"):
        run.end()
