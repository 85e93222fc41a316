"""Real executors: killed, lost, and fenced while a first attempt still runs on the server (R18)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from spark_cluster import SparkCluster, end
from spirit_py import points
from tests.kits.held_command import assert_migrated, fill, migration


@pytest.fixture
def table(db):
    """A table of a few thousand rows."""
    return fill(db)


@pytest.fixture(scope="module")
def cluster():
    """A standalone master with two workers that have nothing of this process's environment."""
    with SparkCluster(workers=2, cores=2) as running:
        yield running


def parent(number: int) -> int:
    """Return the parent of a process."""
    text = Path(f"/proc/{number}/stat").read_text()
    return int(text.rpartition(")")[2].split()[1])


def fenced(db) -> list[tuple[int, int]]:
    """Return the sessions that hold a chunk's lock while another attempt waits for it."""
    rows = db.query(
        "SELECT first.processlist_id, second.processlist_id"
        " FROM performance_schema.metadata_locks held JOIN performance_schema.metadata_locks wanted"
        " ON held.object_type = 'USER LEVEL LOCK' AND wanted.object_type = held.object_type"
        " AND wanted.object_name = held.object_name AND held.lock_status = 'GRANTED'"
        " AND wanted.lock_status = 'PENDING' AND held.object_name LIKE '%:chunk:%'"
        " JOIN performance_schema.threads first ON first.thread_id = held.owner_thread_id"
        " JOIN performance_schema.threads second ON second.thread_id = wanted.owner_thread_id"
    )
    return [(int(holder), int(waiter)) for holder, waiter in rows]


@pytest.mark.slow
def test_a_second_attempt_waits_for_the_session_of_the_first(table, proxy, tmp_path):
    """R18: a machine is lost while the server executes its chunk: the next attempt waits for it."""
    # Slots for every chunk at once, so that the second attempt does not queue in Spark.
    more = ["--threads", "6", "--spark-master", "local[6,4]", "--host", f"127.0.0.1:{proxy.port}"]
    with migration(table, tmp_path, *more) as (command, listener):
        hold = listener.hold("chunk.executing")
        command.wait_held(hold)
        blocker = table.connect()
        blocker.cursor().execute("LOCK TABLES _t_new READ")
        waiting = len(waiting_for_table(table))
        hold.release()
        command.until(lambda: len(waiting_for_table(table)) > waiting, "no chunk waits")
        proxy.silent = True
        os.kill(hold.pid, signal.SIGKILL)
        command.until(lambda: fenced(table), "no second attempt")
        ((first, second),) = fenced(table)
        assert first in waiting_for_table(table)
        assert second not in waiting_for_table(table), "two attempts run at a time"
        blocker.cursor().execute("UNLOCK TABLES")
        command.until(lambda: not waiting_for_table(table), "the late write does not end")
        assert fenced(table) == [(first, second)], "the fence was given up too early"
        proxy.silent = False
        table.execute(f"KILL {first}")
        report = command.finish()
    assert report["differences_found"] == 0
    assert_migrated(table)


def waiting_for_table(db) -> list[int]:
    """Return the sessions whose statement waits for the table lock that the test holds."""
    rows = db.query(
        "SELECT t.processlist_id FROM performance_schema.metadata_locks l"
        " JOIN performance_schema.threads t ON t.thread_id = l.owner_thread_id"
        " WHERE l.object_type = 'TABLE' AND l.object_name = '_t_new'"
        " AND l.lock_status = 'PENDING'"
    )
    return [number for (number,) in rows]


@pytest.mark.slow
def test_a_migration_survives_the_loss_of_an_executor_and_a_worker(table, cluster, tmp_path):
    """On a standalone cluster an executor is killed, then a whole worker: the result is right."""
    more = ["--spark-master", cluster.url]
    for setting in (
        "spark.driver.host=127.0.0.1",
        "spark.driver.bindAddress=127.0.0.1",
        "spark.executor.memory=512m",
        "spark.executor.cores=1",
        f"spark.executorEnv.{points.VARIABLE}={tmp_path / 'points'}",
    ):
        more += ["--spark-conf", setting]
    with migration(table, tmp_path, *more) as (command, listener):
        hold = listener.hold("chunk.executing")
        command.wait_held(hold)
        assert b"SPIRIT_PY_PASSWORD" not in Path(f"/proc/{hold.pid}/environ").read_bytes()
        daemon = parent(hold.pid)
        os.kill(parent(daemon), signal.SIGKILL)
        hold.release()
        hold = listener.hold("chunk.committed")
        command.wait_held(hold)
        end(cluster.workers[0])
        hold.release()
        report = command.finish()
    assert report["differences_found"] == 0
    assert_migrated(table)
