"""Real executors: killed, lost, and fenced while a first attempt still runs on the server (R18)."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from spark_cluster import SparkCluster, end
from spirit_py import points
from tests.kits.batch import shards
from tests.kits.fleet import Listed, named
from tests.kits.held_command import assert_migrated, fill, migration
from tests.kits.point_listener import PointListener


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


IN_SPARK = "small-chunks,spark-first"


@pytest.mark.slow
def test_a_late_write_is_ended_before_its_chunk_is_copied_again(table, proxy, tmp_path):
    """R18: a machine is lost while the server executes its chunk, and the server hears nothing."""
    more = ["--host", f"127.0.0.1:{proxy.port}"]
    with migration(table, tmp_path, *more, hooks=IN_SPARK) as (command, listener):
        hold = listener.hold("chunk.executing")
        command.wait_held(hold)
        blocker = table.connect()
        blocker.cursor().execute("LOCK TABLES _t_new READ")
        before = set(waiting_for_table(table))
        hold.release()
        command.until(lambda: set(waiting_for_table(table)) - before, "no chunk waits")
        first = set(waiting_for_table(table))
        proxy.silent = True
        os.kill(hold.pid, signal.SIGKILL)
        assert first <= set(waiting_for_table(table)), "the server has noticed"
        proxy.silent = False
        command.until(lambda: set(waiting_for_table(table)) - first, "no second attempt")
        assert not first & set(waiting_for_table(table)), "two attempts run at a time"
        blocker.cursor().execute("UNLOCK TABLES")
        report = command.finish()
    assert report["differences_found"] == 0
    assert_migrated(table)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["worker", "jvm"])
@pytest.mark.parametrize("point", ["chunk.executing", "chunk.part", "chunk.executed"])
def test_nothing_is_lost_with_a_process_of_spark(table, tmp_path, victim, point):
    """R4, R18: killed before the first part, between two, and after the commit, amid changes.

    The copy goes on without Spark where the JVM is gone, and nothing repairs the new table.
    """
    with migration(table, tmp_path, hooks=IN_SPARK) as (command, listener):
        hold = listener.hold(point, nth=2)
        command.wait_held(hold)
        assert hold.pid != command.process.pid, "the copy is not in Spark's tasks"
        table.execute("UPDATE t SET b = 'changed' WHERE id % 7 = 0")
        table.execute("DELETE FROM t WHERE id % 11 = 0")
        table.execute("INSERT INTO t SELECT id, 1, 'again' FROM _t_new WHERE id % 22 = 0")
        wanted = table.query("SELECT id, a, b, 5 FROM t ORDER BY id")
        os.kill(hold.pid if victim == "worker" else parent(parent(hold.pid)), signal.SIGKILL)
        hold.release()
        report = command.finish()
    assert report["differences_found"] == 0
    assert table.query("SELECT id, a, b, z FROM t ORDER BY id") == wanted


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
        cluster.conf,
        f"spark.executorEnv.{points.VARIABLE}={tmp_path / 'points'}",
    ):
        more += ["--spark-conf", setting]
    with migration(table, tmp_path, *more, hooks=IN_SPARK) as (command, listener):
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


@pytest.mark.slow
def test_a_fleet_survives_the_loss_of_the_executor_of_a_server(db, tmp_path):
    """Each server's process is below a task: killed with its executor, it is begun again."""
    with shards(db, 3) as made, SparkCluster(workers=2, cores=1) as running:
        fleet = Listed(made, tmp_path)
        more = ["--spark-master", running.url, "--alter", "ADD COLUMN z INT, FORCE"]
        for setting in (
            "spark.driver.host=127.0.0.1",
            "spark.driver.bindAddress=127.0.0.1",
            "spark.executor.memory=512m",
            "spark.executor.cores=1",
            running.conf,
            f"spark.executorEnv.{points.VARIABLE}={tmp_path / 'points'}",
        ):
            more += ["--spark-conf", setting]
        with PointListener(tmp_path / "points") as listener:
            hold = listener.hold("chunk.dispatched")
            process = fleet.start(*more)
            deadline = time.monotonic() + 240
            while not hold.held.wait(0.1):
                assert process.poll() is None, process.communicate()[1]
                assert time.monotonic() < deadline
            assert b"SPIRIT_PY_PASSWORD" not in Path(f"/proc/{hold.pid}/environ").read_bytes()
            worker = parent(hold.pid)
            os.kill(parent(parent(worker)), signal.SIGKILL)
            hold.release()
            report, events = fleet.end(process)
        assert report["outcome"] == "done", report
        assert made.type_of("z") == ["int"] * 3
        assert max(one["report"]["runs"] for one in report["servers"]) == 2
        assert len(named(events, "server.ended")) == 3
        assert set(map(tuple, made.tables().values())) == {("orders",)}
