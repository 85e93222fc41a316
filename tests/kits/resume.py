"""Runs that are killed or interrupted at a point, the writers meanwhile, and the final checks."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from spirit_py import points
from spirit_py.errors import Interrupted
from tests.kits.command import command_line, environment
from tests.kits.draw import seed_of
from tests.kits.migrate import Migrating, config_for
from tests.kits.tables import tables
from tests.kits.waiting import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from spirit_py.spark.gang import GangEngine
    from tests.fixtures.mysql import Database
    from tests.kits.point_listener import Hold, PointListener

ROWS = 6000
ALTER = "MODIFY a BIGINT, ADD COLUMN z INT NOT NULL DEFAULT 5, ADD INDEX (b)"
MINUTE = 60.0
#: Between two writes: so many changes, and yet a slow machine keeps up with them.
PAUSE = 0.004
SEED = seed_of("SPIRIT_PY_TEST_SEED")


def make_table(db: Database, rows: int = ROWS) -> None:
    """Make a table with gaps in its key."""
    db.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(50))")
    db.execute("SET SESSION cte_max_recursion_depth = 100000")
    db.execute(
        "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
        f" {rows}) SELECT i * 2, i * 3, CONCAT('row ', i) FROM n"
    )
    db.execute("ANALYZE TABLE t")


def kill_at(
    db: Database,
    listener: PointListener,
    point: str,
    nth: int,
    *more: str,
    change: tuple[str, ...] = ("--table", "t", "--alter", ALTER),
    late: float | None = None,
    on_the_way: tuple[str, Callable[[], object]] | None = None,
) -> bool:
    """Run the command in a process, and kill all that it started at a point.

    Args:
        change: what the command is asked for.
        on_the_way: an earlier point, and what is done while the command is held there.
        late: kill it so many seconds after it was let go from the point.

    Returns:
        Whether it was killed: with ``late`` it may have ended before.
    """
    # Only a comparison of one snapshot reaches that point.
    locks = ("--checksum", "snapshot") if point == "checksum.locked" else ()
    chosen = ("--no-shortcut", *change, "--threads", "2", *locks, *more)
    hold = listener.hold(*((on_the_way[0], 1) if on_the_way else (point, nth)))
    process = subprocess.Popen(
        command_line(db, "migrate", *chosen, hooks="small-chunks"),
        env=environment(db, **{points.VARIABLE: str(listener.path)}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _await_held(process, hold)
        if on_the_way:
            on_the_way[1]()
            here, hold = hold, listener.hold(point, nth)
            here.release()
            _await_held(process, hold)
        if late is not None:
            hold.release()
            time.sleep(late)
        return process.poll() is None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=MINUTE)
        hold.release()


def _await_held(process: subprocess.Popen[str], hold: Hold) -> None:
    """Wait until a command is held at a point."""
    deadline = time.monotonic() + 8 * MINUTE
    while not hold.held.wait(0.1):
        assert process.poll() is None, f"ended before {hold.point}: {process.communicate()[1]}"
        assert time.monotonic() < deadline, f"never reached {hold.point}"


class Interruption:
    """Ends a migration of this process when it passes a point for the nth time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def at(
        self,
        engine: GangEngine,
        db: Database,
        point: str,
        nth: int = 1,
        *,
        when: Callable[[], bool] = lambda: True,
        **config: Any,
    ) -> Migrating:
        """Run a migration, and return it when it has ended.

        Args:
            when: asked from the nth time on; the first time that it holds counts.
        """
        left = nth
        run: Migrating

        def passed(name: str) -> None:
            nonlocal left
            left -= name == point
            if name == point and left <= 0 and not run.stop.requested and when():
                run.stop.request(Interrupted(signal.SIGINT))

        with self._monkeypatch.context() as patched:
            patched.setattr(points, "_listener", "here")
            patched.setattr(points, "_announce", passed)
            run = start(engine, db, **config)
            try:
                run.end()
            except Interrupted:
                return run
        raise AssertionError(f"it was not interrupted at {point}: {run.told.text}")


def once_at(monkeypatch: pytest.MonkeyPatch, point: str, action: Callable[[], object]) -> None:
    """Do something when a migration of this process first passes a point."""
    left = [action]

    def passed(name: str) -> None:
        if name == point and left:
            left.pop()()

    monkeypatch.setattr(points, "_listener", "here")
    monkeypatch.setattr(points, "_announce", passed)


def start(engine: GangEngine, db: Database, **config: Any) -> Migrating:
    """Begin the migration of the kit's table in this process."""
    given = {"table": "t", "alter": ALTER, "no_shortcut": True, "target_chunk_time": 0.5}
    return Migrating(engine, config_for(db, **{**given, **config}))


def assert_nothing_left(db: Database, *expected: str) -> None:
    """Only the tables are there, and no session of the program."""
    assert tables(db) == sorted(expected or ("t",))
    deadline = time.monotonic() + DEADLINE
    # The server takes a moment to forget a session that was closed.
    while left := db.query(
        "SELECT t.PROCESSLIST_ID, CONVERT(r.VARIABLE_VALUE USING utf8mb4), t.PROCESSLIST_INFO"
        " FROM performance_schema.user_variables_by_thread v"
        " JOIN performance_schema.threads t ON t.THREAD_ID = v.THREAD_ID"
        " LEFT JOIN performance_schema.user_variables_by_thread r"
        " ON r.THREAD_ID = v.THREAD_ID AND r.VARIABLE_NAME = 'spirit_py_role'"
        " WHERE v.VARIABLE_NAME = 'spirit_py_run'"
    ):
        assert time.monotonic() < deadline, f"sessions are left: {left}"
        time.sleep(0.02)


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
        self.writes = 0

    def _write(self):
        connection = self._db.connect()
        try:
            while not self._ended.wait(PAUSE):
                self._one(connection.cursor())
                self.writes += 1
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
        sys.stdout.write(f"SPIRIT_PY_TEST_SEED={SEED} repeats the writes\n")
        self._thread.start()
        return self

    def __exit__(self, *_):
        """End, and wait for the last write."""
        self._ended.set()
        self._thread.join(MINUTE)
        assert not self._thread.is_alive(), "a write hangs"
        assert self.failure is None, self.failure
        assert self.writes, "nothing was written"

    def assert_kept(self):
        """The table holds exactly what was acknowledged, with the new columns."""
        found = {
            int(row[0]): (int(row[1]), row[2], int(row[3]))
            for row in self._db.query("SELECT id, a, b, z FROM t")
        }
        assert found == {key: (*row, 5) for key, row in self.journal.items()}
