"""A table and its new table to compare, with threads in Spark's place."""

from __future__ import annotations

import contextlib
import random
import threading
from typing import TYPE_CHECKING, Any, Self

import MySQLdb

from spirit_py.applier.applier import SqlApplier
from spirit_py.binlog.source import BinlogSource
from spirit_py.checksum.checker import Checker
from spirit_py.checksum.result import ChecksumOptions
from spirit_py.checksum.worker import Comparison
from spirit_py.config import FeedOptions
from spirit_py.feed.feed import ChangeFeed
from spirit_py.mysql.connect import connect
from spirit_py.pace import Unhindered
from spirit_py.sql import identifier_list
from spirit_py.threads import StopSwitch
from tests.kits.connection import connection_options
from tests.kits.engine import ThreadEngine
from tests.kits.tables import map_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.checksum.result import ChecksumResult
    from tests.fixtures.mysql import Database


SEQUENCE = """WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {})
SELECT i, CONCAT('row ', i), i * 3 FROM s"""


def fill(db, rows: int = 5000, columns: str = "id INT PRIMARY KEY AUTO_INCREMENT") -> None:
    """Create ``t`` with a text and a number beside the key."""
    db.execute(f"CREATE TABLE t ({columns}, v VARCHAR(30), n INT)")
    db.execute(f"SET SESSION cte_max_recursion_depth = {rows}")
    db.execute(f"INSERT INTO t {SEQUENCE.format(rows)}")


def found(result) -> dict[str, str]:
    """Return the examples' keys and kinds."""
    return {each.key: each.kind for each in result.examples}


class Pair:
    """A source table ``t`` and its new table ``_t_new``, copied, with their mapping."""

    def __init__(self, db: Database, alter: str = "ENGINE=InnoDB") -> None:
        self.db = db
        self.options = connection_options(db)
        ((zone,),) = db.query("SELECT @@global.time_zone")
        self.mapping = map_table(db, alter, time_zone=str(zone))
        self.stop = StopSwitch()

    def copy(self) -> Pair:
        """Fill the new table as the copier does."""
        old = identifier_list(pair.old.name for pair in self.mapping.pairs)
        new = identifier_list(pair.new.name for pair in self.mapping.pairs)
        with connect(self.options, database=self.db.name, role="copy") as session:
            if self.mapping.time_zone:
                session.execute("SET SESSION time_zone = %s", (self.mapping.time_zone,))
            session.execute(f"REPLACE INTO _t_new ({new}) SELECT {old} FROM t")
        return self

    def checker(
        self,
        *,
        applier: SqlApplier | None = None,
        engine: Any = None,
        on_progress: Any = None,
        resume_above: Any = None,
        pace: Any = None,
        feed: Any = None,
        **options: Any,
    ) -> Checker:
        """Return a checker of the two tables; ``options`` are those of :class:`ChecksumOptions`.

        The first chunks are small, so that a few thousand rows are several.
        """
        comparison = Comparison(
            mapping=self.mapping,
            source=self.options,
            engine=engine or ThreadEngine(),
            stop=self.stop,
            pace=pace or Unhindered(),
            feed=feed,
            options=ChecksumOptions(**({"first_rows": 1000} | options)),
        )
        return Checker(
            comparison, applier=applier, on_progress=on_progress, resume_above=resume_above
        )

    def check(self, **options: Any) -> ChecksumResult:
        """Compare the two tables once."""
        return self.checker(**options).run()

    def repair(self, **options: Any) -> ChecksumResult:
        """Compare the two tables, and repair with the real applier until they are equal."""
        applier = SqlApplier(self.options, sessions=1, batch_rows=1000, stop=self.stop)
        try:
            return self.checker(applier=applier, **options).run()
        finally:
            applier.close()


DEADLOCK = 1213


class Application:
    """Writers that insert, update, delete and move keys until they are told to stop."""

    def __init__(self, db, seed: int, writers: int = 3) -> None:
        self._stop = threading.Event()
        self.written = 0
        self.errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._write, args=(db.connect(), random.Random(seed + number)))
            for number in range(writers)
        ]

    def _write(self, connection: Any, rng: random.Random) -> None:
        statements = (
            lambda: (
                f"UPDATE t SET v = '{rng.random()}', n = n + 1 WHERE id = {rng.randint(1, 3000)}"
            ),
            lambda: f"DELETE FROM t WHERE id = {rng.randint(1, 3000)}",
            lambda: f"REPLACE INTO t VALUES ({rng.randint(1, 3500)}, 'new', {rng.randint(1, 99)})",
            lambda: (
                f"UPDATE IGNORE t SET id = {rng.randint(1, 3500)} WHERE id = {rng.randint(1, 3000)}"
            ),
        )

        def transaction() -> None:
            connection.begin()
            with connection.cursor() as cursor:
                for _ in range(rng.randint(1, 4)):
                    cursor.execute(rng.choice(statements)())
            (connection.commit if rng.random() < 0.9 else connection.rollback)()
            self.written += 1

        try:
            while not self._stop.is_set():
                try:
                    transaction()
                except MySQLdb.OperationalError as error:
                    # Also in the last one of all, whose outcome nobody waits for.
                    if error.args[0] != DEADLOCK:
                        raise
                    connection.rollback()
        except BaseException as error:
            self.errors.append(error)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@contextlib.contextmanager
def followed(pair: Pair) -> Iterator[tuple[Any, SqlApplier]]:
    """Copy the pair's rows and keep the new table current with the real change feed."""
    applier = SqlApplier(pair.options, sessions=2, batch_rows=200, stop=pair.stop)
    feed = ChangeFeed(
        BinlogSource(pair.options, FeedOptions()), applier, options=FeedOptions(), stop=pair.stop
    )
    try:
        subscription = feed.add_subscription(pair.mapping)
        feed.start()
        pair.copy()
        subscription.copy_finished()
        feed.end_watermark_optimization()
        yield feed, applier
    finally:
        feed.close()
        applier.close()
