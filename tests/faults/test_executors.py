"""Real executors: killed, lost, and fenced while a first attempt still runs on the server (R18)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_cluster import SparkCluster, end
from spirit_py import points
from tests.faults.listener import PointListener

ROWS = 3000
ALTER = "MODIFY a BIGINT, ADD COLUMN z INT NOT NULL DEFAULT 5"
REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE = 200.0


@pytest.fixture
def table(db):
    """A table of a few thousand rows."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(50))")
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
        f" {ROWS}) SELECT i, i * 3, CONCAT('row ', i) FROM n"
    )
    return db


@pytest.fixture(scope="module")
def cluster():
    """A standalone master with two workers that have nothing of this process's environment."""
    with SparkCluster(workers=2, cores=2) as running:
        yield running


class Command:
    """``spirit-py migrate`` as a process, which can be held at its points."""

    def __init__(self, db, listener, folder, *more):
        server = db.server
        host = f"{server.host}:{server.port}"
        self.report_file = folder / "report.json"
        self.log = folder / "log"
        words = [
            *(sys.executable, "-m", "spirit_py", "migrate", "--no-shortcut", "--no-repair"),
            *("--host", host, "--user", server.user),
            *("--database", db.name, "--table", "t", "--alter", ALTER, "--threads", "2"),
            *("--report-json", str(self.report_file), *more),
        ]
        environ = {**os.environ, "SPIRIT_PY_PASSWORD": server.password}
        environ[points.VARIABLE] = str(listener.path)
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                words, cwd=REPOSITORY, env=environ, stdout=output, stderr=output
            )

    def wait_held(self, hold):
        """Wait until the program stands at the point."""
        self.until(hold.held.is_set, f"{hold.point} was not reached")

    def until(self, condition, otherwise):
        """Wait for a condition while the command runs."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, f"ended: {self.log.read_text()}"
            assert time.monotonic() < deadline, f"{otherwise}: {self.log.read_text()}"
            time.sleep(0.02)

    def finish(self):
        """Wait for its end; give the exit code and the report."""
        code = self.process.wait(PATIENCE)
        assert code == 0, self.log.read_text()
        return json.loads(self.report_file.read_text())

    def close(self):
        """End it, whatever it is doing."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def migration(db, folder, *more):
    """Run the command with a listener on its points."""
    with PointListener(folder / "points") as listener:
        command = Command(db, listener, folder, *more)
        try:
            yield command, listener
        finally:
            command.close()


def assert_migrated(db):
    """Every row is there with the new definition, and nothing else is."""
    assert sorted(row[0] for row in db.query("SHOW TABLES")) == ["t"]
    found = db.query(
        "SELECT COUNT(*), SUM(a = id * 3), SUM(b = CONCAT('row ', id)), SUM(z = 5) FROM t"
    )
    assert tuple(int(number) for number in found[0]) == (ROWS,) * 4


def parent(number: int) -> int:
    """Give the parent of a process."""
    text = Path(f"/proc/{number}/stat").read_text()
    return int(text.rpartition(")")[2].split()[1])


def fenced(db) -> list[tuple[int, int]]:
    """Give the sessions that hold a chunk's lock while another attempt waits for it."""
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
    """Give the sessions whose statement waits for the table lock that the test holds."""
    rows = db.query(
        "SELECT t.processlist_id FROM performance_schema.metadata_locks l"
        " JOIN performance_schema.threads t ON t.thread_id = l.owner_thread_id"
        " WHERE l.object_type = 'TABLE' AND l.object_name = '_t_new'"
        " AND l.lock_status = 'PENDING'"
    )
    return [number for (number,) in rows]


@pytest.mark.slow
def test_a_cluster_loses_an_executor_and_a_worker(table, cluster, tmp_path):
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
