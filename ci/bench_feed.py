"""How fast the change feed applies changes, on a server of the benchmark's.

The same stretch of the binlog is read by the feed, which applies it to a new table, and by
mysql-replication alone, which only decodes it. Beside it the same rows are written without any
feed: as a loop of one REPLACE for each, and as REPLACE statements of as many rows, over as many
sessions, as the feed's, which is the most that the server can take.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import UpdateRowsEvent

from mysql_words import binlog_end
from spirit_py.applier.applier import SqlApplier
from spirit_py.binlog.source import BinlogSource
from spirit_py.config import FeedOptions
from spirit_py.feed.feed import ChangeFeed
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.definition import read_table
from spirit_py.statement.parse import alter_of
from spirit_py.stop import StopSwitch
from spirit_py.table.build import build_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session
    from spirit_py.table.mapping import TableMapping

SCHEMA = "spirit_py_bench_feed"
ALTER = "ADD COLUMN added INT NOT NULL DEFAULT 7"
#: Rows that one statement of the application changes, and the rows of a hot set.
STATEMENT_ROWS, HOT_ROWS = 1000, 1000
#: REPLACE statements that are timed; they are too slow for all changes.
LOOP_ROWS = 5000
_SAMPLE = 0.1


@dataclass(frozen=True, kw_only=True)
class Applied:
    """One stretch of changes, in seconds.

    Attributes:
        cpu: CPU seconds of the feed's process.
        loop: what a loop of REPLACE would take for all changes, from what some of them took.
        server: what the same rows take as statements of many rows, without a feed.
    """

    changes: int
    feed: float
    cpu: float
    library: float
    loop: float
    server: float
    applied: int


class FeedBench:
    """A table whose changes are in the binlog, and a new table."""

    def __init__(self, connection: ConnectionOptions, rows: int) -> None:
        """Create and fill the tables."""
        self._connection = connection
        self._rows = rows
        with connect(connection, role="bench") as session:
            session.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
            session.execute(f"CREATE DATABASE {SCHEMA}")
        with self._session() as session:
            session.execute(
                "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL,"
                " pad CHAR(60) NOT NULL)"
            )
            session.execute(f"SET SESSION cte_max_recursion_depth = {rows + 1}")
            session.execute(
                "INSERT INTO t WITH RECURSIVE s AS (SELECT 1 i UNION ALL SELECT i + 1 FROM s"
                f" WHERE i < {rows}) SELECT i, 0, REPEAT('c', 119), REPEAT('p', 59) FROM s"
            )

    @contextlib.contextmanager
    def _session(self) -> Iterator[Session]:
        with connect(self._connection, database=SCHEMA, role="bench") as session:
            yield session

    def close(self) -> None:
        """Drop everything."""
        with self._session() as session:
            session.execute(f"DROP DATABASE {SCHEMA}")

    def measure(self, *, hot: bool) -> Applied:
        """Write as many changes as there are rows, then read them each way."""
        mapping = self._fresh_target()
        with self._feed(mapping) as feed:
            feed.start()
            start = feed.position()
        file, offset = self._end()
        self._change(hot=hot)
        cpu = time.process_time()
        seconds, applied = self._apply(mapping, start)
        return Applied(
            changes=self._rows,
            feed=seconds,
            cpu=time.process_time() - cpu,
            library=self._decode(file, offset),
            loop=self._loop() * self._rows / min(LOOP_ROWS, self._rows),
            server=self._in_bulk(HOT_ROWS if hot else self._rows),
            applied=applied,
        )

    def _fresh_target(self) -> TableMapping:
        """Make a new table as it is when the copy has ended."""
        with self._session() as session:
            session.execute("DROP TABLE IF EXISTS _t_new")
            session.execute("CREATE TABLE _t_new LIKE t")
            session.execute(f"ALTER TABLE _t_new {ALTER}")
            session.execute("INSERT INTO _t_new (id, k, c, pad) SELECT * FROM t")
            source = read_table(session, SCHEMA, "t")
            target = read_table(session, SCHEMA, "_t_new")
        if source is None or target is None:
            raise LookupError(SCHEMA)
        return build_mapping(source, target, alter_of(SCHEMA, "t", ALTER), "+00:00")

    @contextlib.contextmanager
    def _feed(self, mapping: TableMapping) -> Iterator[ChangeFeed]:
        """Make a feed as a migration has it after the copy."""
        stop, options = StopSwitch(), FeedOptions(wait_timeout=600.0)
        sessions, rows = options.apply_threads, options.batch_rows
        with contextlib.ExitStack() as stack:
            applier = SqlApplier(self._connection, sessions=sessions, batch_rows=rows, stop=stop)
            stack.callback(applier.close)
            feed = ChangeFeed(
                BinlogSource(self._connection, options), applier, options=options, stop=stop
            )
            stack.callback(feed.close)
            feed.add_subscription(mapping).copy_finished()
            yield feed

    def _end(self) -> tuple[str, int]:
        """Return the end of the binlog."""
        with self._session() as session:
            return binlog_end(session.query)

    def _change(self, *, hot: bool) -> None:
        """Change every row once, or the rows of the hot set again and again."""
        with self._session() as session:
            for first in range(0, self._rows, STATEMENT_ROWS):
                low = 0 if hot else first
                session.execute(
                    f"UPDATE t SET k = k + 1 WHERE id > {low} AND id <= {low + STATEMENT_ROWS}"
                )

    def _apply(self, mapping: TableMapping, start: str) -> tuple[float, int]:
        """Let the feed read and apply from a position to the end."""
        with self._feed(mapping) as feed:
            began = time.perf_counter()
            feed.start_from_position(start)
            feed.block_wait()
            feed.flush()
            seconds = time.perf_counter() - began
            applied, flushed = feed.statistics().applied, feed.all_changes_flushed()
        with self._session() as session:
            differs = session.value(
                "SELECT COUNT(*) FROM t LEFT JOIN _t_new n USING (id)"
                " WHERE NOT (n.k <=> t.k AND n.c <=> t.c)"
            )
        if differs or not flushed:
            raise SystemExit(f"the feed left {differs} rows behind")
        return seconds, applied

    def _decode(self, file: str, offset: int) -> float:
        """Let mysql-replication decode the changes, and do nothing with them."""
        options = self._connection
        settings = {
            "host": options.host,
            "port": options.port,
            "user": options.user,
            "passwd": options.password,
        }
        count = 0
        began = time.perf_counter()
        reader = BinLogStreamReader(
            connection_settings=settings,
            server_id=os.getpid() + 1000,
            only_events=[UpdateRowsEvent],
            log_file=file,
            log_pos=offset,
            resume_stream=True,
            blocking=True,
            enable_logging=False,
        )
        for event in reader:
            count += len(event.rows)
            if count >= self._rows:
                break
        seconds = time.perf_counter() - began
        reader.close()
        return seconds

    def _in_bulk(self, rows: int) -> float:
        """Write rows as the feed's applier does, in statements that are ready beforehand."""
        self._fresh_target()
        options = FeedOptions()
        with self._session() as session:
            found = session.query(
                "SELECT CONCAT('(', id, ', ', k, ', _utf8mb4 X''', HEX(c), ''', _utf8mb4 X''',"
                f" HEX(pad), ''')') FROM t WHERE id <= {rows} ORDER BY id"
            )
        texts = [str(row[0]) for row in found]
        head = "REPLACE INTO _t_new (id, k, c, pad) VALUES "
        size, sessions = options.batch_rows, options.apply_threads
        statements = [head + ", ".join(texts[at : at + size]) for at in range(0, len(texts), size)]

        def write(number: int) -> None:
            share = len(statements) / sessions
            with self._session() as session:
                for each in statements[round(number * share) : round((number + 1) * share)]:
                    session.execute(each)

        began = time.perf_counter()
        with ThreadPoolExecutor(sessions) as pool:
            list(pool.map(write, range(sessions)))
        return time.perf_counter() - began

    def _loop(self) -> float:
        """Write some of the rows one REPLACE at a time."""
        with self._session() as session:
            rows = session.query(f"SELECT id, k, c, pad FROM t LIMIT {LOOP_ROWS}")
            began = time.perf_counter()
            for row in rows:
                session.execute("REPLACE INTO _t_new (id, k, c, pad) VALUES (%s, %s, %s, %s)", row)
            return time.perf_counter() - began


class CpuMeter:
    """Adds up the CPU time of a process and all its descendants, by looking again and again."""

    def __init__(self, pid: int) -> None:
        """Begin to look."""
        self._pid = pid
        self._ticks: dict[int, int] = {}
        self._kinds: dict[int, str] = {pid: "driver"}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cpu-meter")
        self._thread.start()

    def stop(self) -> dict[str, float]:
        """Look no more; return the seconds of driver, JVM and Spark's Python workers."""
        self._ended.set()
        self._thread.join()
        found = dict.fromkeys(("driver", "jvm", "workers"), 0.0)
        for pid, ticks in self._ticks.items():
            found[self._kinds[pid]] += ticks / os.sysconf("SC_CLK_TCK")
        return found

    def _run(self) -> None:
        while not self._ended.wait(_SAMPLE):
            self._look()

    def _look(self) -> None:
        """Note what every process of the tree has used so far."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                name, _, rest = (folder / "stat").read_text().rpartition(") ")
                fields = rest.split()
                found[int(folder.name)] = (int(fields[1]), int(fields[11]) + int(fields[12]))
                if int(folder.name) != self._pid:
                    self._kinds[int(folder.name)] = "jvm" if "(java" in name else "workers"
        tree = {self._pid, *self._ticks}
        grown = True
        while grown:
            children = {pid for pid, (parent, _) in found.items() if parent in tree}
            grown = not children <= tree
            tree |= children
        for pid in tree & found.keys():
            self._ticks[pid] = max(self._ticks.get(pid, 0), found[pid][1])
