"""Sharded schemas, writers to all of them, and batches that are run in this process."""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from spirit_py.batch.entry import run_batch
from spirit_py.batch.planning import plan_batch
from spirit_py.command_config import BatchConfig
from spirit_py.threads import StopSwitch
from tests.kits.engine import SharedEngine
from tests.kits.migrate import config_for
from tests.kits.reporter import RecordingReporter
from tests.kits.resume import PAUSE, SEED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.batch.plan import BatchPlan
    from spirit_py.batch.report import BatchReport
    from tests.fixtures.mysql import Database

ROWS = 3000
MINUTE = 60.0
Row = tuple[int, str]


class Shards:
    """Schemas with one table ``orders`` each, named after the test's own schema."""

    def __init__(self, db: Database, count: int, rows: int = ROWS) -> None:
        self.db = db
        self.schemas = [f"{db.name}_{number}" for number in range(1, count + 1)]
        db.execute("SET SESSION cte_max_recursion_depth = 100000")
        for schema in self.schemas:
            db.execute(f"CREATE DATABASE {schema}")
            db.execute(
                f"CREATE TABLE {schema}.orders"
                " (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(50))"
            )
            db.execute(
                f"INSERT INTO {schema}.orders WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT"
                f" i + 1 FROM n WHERE i < {rows}) SELECT i * 2, i * 3, CONCAT('row ', i) FROM n"
            )
            db.execute(f"ANALYZE TABLE {schema}.orders")

    @property
    def pattern(self) -> str:
        """The pattern that all shards match, and nothing else does."""
        return f"{self.db.name}\\_%.orders"

    @property
    def names(self) -> list[str]:
        """Each table with its schema."""
        return [f"{schema}.orders" for schema in self.schemas]

    def tables(self) -> dict[str, list[str]]:
        """Return the names of all tables of each schema."""
        return {
            schema: sorted(name for (name,) in self.db.query(f"SHOW TABLES FROM {schema}"))
            for schema in self.schemas
        }

    def type_of(self, column: str) -> list[str]:
        """Return the type of a column in each shard; empty where there is no such column."""
        found = [self.db.query(f"SHOW COLUMNS FROM {one} LIKE '{column}'") for one in self.names]
        return [str(rows[0][1]) if rows else "" for rows in found]

    def rows(self, schema: str) -> dict[int, Row]:
        """Return all rows of a shard by their key."""
        found = self.db.query(f"SELECT id, a, b FROM {schema}.orders")
        return {int(row[0]): (int(row[1]), row[2]) for row in found}

    def drop(self) -> None:
        """Drop the schemas."""
        for schema in self.schemas:
            self.db.execute(f"DROP DATABASE {schema}")


@contextlib.contextmanager
def shards(db: Database, count: int, rows: int = ROWS) -> Iterator[Shards]:
    """Make schemas, and drop them at the end."""
    made = Shards(db, count, rows)
    try:
        yield made
    finally:
        made.drop()


class ShardWriters:
    """Writes to all shards, journalled; every acknowledged row is compared at the end."""

    def __init__(self, made: Shards) -> None:
        self._made = made
        self._random = random.Random(SEED)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._journals = {schema: made.rows(schema) for schema in made.schemas}
        self._failure: BaseException | None = None
        self._writes = 0

    def _write(self) -> None:
        connection = self._made.db.connect()
        try:
            for schema, journal in itertools.cycle(self._journals.items()):
                if self._ended.wait(PAUSE):
                    return
                self._one(connection.cursor(), schema, journal)
                self._writes += 1
        except Exception as error:
            self._failure = error
        finally:
            connection.close()

    def _one(self, cursor: Any, schema: str, journal: dict[int, Row]) -> None:
        """Insert, change or delete one row."""
        what, key = self._random.random(), self._random.choice(list(journal))
        value = self._random.randrange(1 << 30)
        row = (value, f"at {value}")
        if what < 0.4:
            cursor.execute(f"INSERT INTO {schema}.orders (a, b) VALUES (%s, %s)", row)
            journal[cursor.lastrowid] = row
        elif what < 0.8:
            cursor.execute(f"UPDATE {schema}.orders SET a = %s, b = %s WHERE id = %s", (*row, key))
            journal[key] = row
        else:
            cursor.execute(f"DELETE FROM {schema}.orders WHERE id = %s", (key,))
            del journal[key]

    def __enter__(self) -> Self:
        """Begin."""
        sys.stdout.write(f"SPIRIT_PY_TEST_SEED={SEED} repeats the writes\n")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, and wait for the last write."""
        self._ended.set()
        self._thread.join(MINUTE)
        assert not self._thread.is_alive(), "a write hangs"
        assert self._failure is None, self._failure
        assert self._writes, "nothing was written"

    def assert_kept(self) -> None:
        """Each shard holds exactly what was acknowledged."""
        for schema, journal in self._journals.items():
            assert self._made.rows(schema) == journal, schema


def batch_config(db: Database, *patterns: str, alter: str = "", **more: Any) -> BatchConfig:
    """Return the configuration of a batch; fields of a migration may be among ``more``."""
    own = {"exclude", "statements", "file", "parallel", "on_failure", "records"}
    of_batch = {name: more.pop(name) for name in own & more.keys()}
    each = config_for(db, **{"database": "", "alter": alter, **more})
    return BatchConfig(each=each, patterns=patterns, **of_batch)


class Batching:
    """A batch that runs in a thread of its own, from its plan to its report."""

    def __init__(self, engine: Any, config: BatchConfig, stop: StopSwitch | None = None) -> None:
        self.told = RecordingReporter()
        self.stop = stop or StopSwitch()
        self.error: BaseException | None = None
        self.plan: BatchPlan | None = None
        self._report: BatchReport | None = None
        self._engine: Any = SharedEngine(engine)
        self._config = config
        self._thread = threading.Thread(target=self._run, name="batching", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.plan = plan_batch(self._config)
            self._report = run_batch(
                self._config,
                self.plan,
                reporter=self.told,
                engine_factory=lambda _: self._engine,
                stop=self.stop,
            )
        except BaseException as error:
            self.error = error

    def wait_until(self, condition: Callable[[], Any], what: str, seconds: float = 120.0) -> None:
        """Wait until a condition holds, while the batch runs."""
        deadline = time.monotonic() + seconds
        while not condition():
            alive = self._thread.is_alive() or condition()
            assert alive, f"ended before {what}: {self.error!r}\n{self.told.text}"
            assert time.monotonic() < deadline, f"no {what} in {seconds} s\n{self.told.text}"
            time.sleep(0.05)

    def end(self, seconds: float = 300.0) -> BatchReport:
        """Wait for the end; return the report, or raise what ended it."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"still running: {self.told.text}"
        if self.error is not None:
            raise self.error
        assert self._report is not None
        return self._report


def batch_here(engine: Any, config: BatchConfig) -> tuple[BatchReport, RecordingReporter]:
    """Run a batch to its end; return the report and what was said."""
    batching = Batching(engine, config)
    return batching.end(), batching.told
