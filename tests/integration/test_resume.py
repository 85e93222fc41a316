"""Killed anywhere, run again: the same command carries on, and not a row is lost (R16, R17)."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from spirit_py.points import VARIABLE
from tests.faults.listener import PointListener

ROWS = 6000
ALTER = "MODIFY a BIGINT, ADD COLUMN z INT NOT NULL DEFAULT 5, ADD INDEX (b)"
SAME_ALTER = "modify `a` bigint ,  add z int not null default 5 , add index(`b`)"
MINUTE = 60.0
SEED = int(os.environ.get("SPIRIT_PY_TEST_SEED", "0")) or random.randrange(1, 1 << 30)

#: Where a run is killed, and how often the point was passed before.
QUICK_KILLS = (("chunk.committed", 4), ("checksum.locked", 1), ("cutover.renamed", 1))
MORE_KILLS = (
    ("create.done", 1),
    ("feed.started", 1),
    ("checkpoint.written", 1),
    ("checkpoint.writing", 2),
    ("chunk.dispatched", 1),
    ("chunk.executing", 3),
    ("chunk.executed", 5),
    ("feed.flushing", 1),
    ("feed.flushed", 1),
    ("drain.begun", 1),
    ("checksum.lock", 1),
    ("checksum.compare", 1),
    ("checksum.chunk", 2),
    ("cutover.lock", 1),
    ("cutover.locked", 1),
    ("cutover.rename", 1),
    ("cutover.unlocked", 1),
    ("cleanup.old_table", 1),
    ("cleanup.checkpoint", 1),
)
KILLS = QUICK_KILLS + (MORE_KILLS if os.environ.get("SPIRIT_PY_TEST_KILLS") == "all" else ())


@pytest.fixture
def table(db):
    """A table of a few thousand rows with gaps."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(50))")
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
        f" {ROWS}) SELECT i * 2, i * 3, CONCAT('row ', i) FROM n"
    )
    return db


@pytest.fixture
def points(tmp_path):
    """Hear the points of every run of the test."""
    with PointListener(tmp_path / "points") as listener:
        yield listener


def command(db, *more, alter=ALTER, chunk_time="0.02"):
    """Give the command line of a migration."""
    server = db.server
    line = [sys.executable, "-m", "spirit_py", "migrate", "--no-shortcut", "--database", db.name]
    line += ["--host", f"{server.host}:{server.port}", "--user", server.user]
    line += ["--table", "t", "--alter", alter, "--threads", "2", "--target-chunk-time", chunk_time]
    return [*line, *more]


def start(db, *more, listener=None, **how):
    """Start a migration as a process in a session of its own."""
    environment = {**os.environ, "SPIRIT_PY_PASSWORD": db.server.password}
    environment.pop(VARIABLE, None)
    if listener is not None:
        environment[VARIABLE] = str(listener.path)
    return subprocess.Popen(
        command(db, *more, **how),
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kill(process):
    """End a run and everything that it started, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.communicate(timeout=MINUTE)[1]


def kill_at(db, listener, point, nth=1, *more, **how):
    """Start a run and kill it at a point; gives what it said."""
    hold = listener.hold(point, nth)
    process = start(db, *more, listener=listener, **how)
    try:
        deadline = time.monotonic() + 2 * MINUTE
        while not hold.held.wait(0.1):
            assert process.poll() is None, f"ended before {point}: {process.communicate()[1]}"
            assert time.monotonic() < deadline, f"never reached {point}"
    finally:
        said = kill(process)
        hold.release()
    return said


def finish(db, tmp_path, *more, code=0, **how):
    """Run the command to its end; gives what it said and its report."""
    report = tmp_path / "report.json"
    process = start(db, "--report-json", str(report), *more, **how)
    _, said = process.communicate(timeout=4 * MINUTE)
    assert process.returncode == code, said
    return said, json.loads(report.read_text())


def tables(db):
    """Name all tables of the schema."""
    return sorted(row[0] for row in db.query("SHOW TABLES"))


class Writers:
    """Writes that go on while runs come and go; every acknowledged row is in the journal."""

    def __init__(self, db, seed=SEED):
        self._db = db
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.journal = {
            int(row[0]): (int(row[1]), row[2]) for row in db.query("SELECT id, a, b FROM t")
        }
        self.failure = None

    def _write(self):
        connection = self._db.connect()
        try:
            while not self._ended.is_set():
                self._one(connection.cursor())
        except Exception as error:
            self.failure = error
        finally:
            connection.close()

    def _one(self, cursor):
        """Insert, change, move or delete one row."""
        what, key = self._random.random(), self._random.choice(list(self.journal))
        value = self._random.randrange(1 << 30)
        if what < 0.3:
            cursor.execute("INSERT INTO t (a, b) VALUES (%s, %s)", (value, f"new {value}"))
            self.journal[cursor.lastrowid] = (value, f"new {value}")
        elif what < 0.6:
            cursor.execute("UPDATE t SET a = %s, b = %s WHERE id = %s", (value, f"up {value}", key))
            self.journal[key] = (value, f"up {value}")
        elif what < 0.7:
            to = self._random.randrange(1, 4 * ROWS)
            if to not in self.journal:
                cursor.execute("UPDATE t SET id = %s WHERE id = %s", (to, key))
                self.journal[to] = self.journal.pop(key)
        else:
            cursor.execute("DELETE FROM t WHERE id = %s", (key,))
            del self.journal[key]

    def __enter__(self):
        """Begin."""
        print(f"seed {SEED}: SPIRIT_PY_TEST_SEED={SEED} repeats it")
        self._thread.start()
        return self

    def __exit__(self, *_):
        """End, and wait for the last write."""
        self._ended.set()
        self._thread.join(MINUTE)
        assert self.failure is None, self.failure

    def assert_kept(self):
        """The table holds exactly what was acknowledged, with the new columns."""
        found = {
            int(row[0]): (int(row[1]), row[2], int(row[3]))
            for row in self._db.query("SELECT id, a, b, z FROM t")
        }
        assert found == {key: (*row, 5) for key, row in self.journal.items()}


def assert_nothing_left(db):
    """Only the table is there, and no session of the program."""
    assert tables(db) == ["t"]
    assert not db.query(
        "SELECT 1 FROM performance_schema.user_variables_by_thread"
        " WHERE VARIABLE_NAME = 'spirit_py_run'"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("point", "nth"), KILLS)
def test_killed_anywhere_the_same_command_finishes(table, points, tmp_path, point, nth):
    """kill -9 of all processes, writers that go on, the same command: every row is there."""
    with Writers(table) as writers:
        kill_at(table, points, point, nth)
        assert "_t_chkpnt" in tables(table)
        said, report = finish(table, tmp_path)
    assert report["outcome"] == "done"
    assert report["resumed"], said
    assert report["differences_found"] == 0, said
    writers.assert_kept()
    assert_nothing_left(table)
