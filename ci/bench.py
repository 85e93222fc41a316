"""Measure the copy and the whole migration, side by side, on a throwaway MySQL.

    ci/bench.py [--rows N] [--only NAME ...] [--json FILE]

Each benchmark is a function in ``BENCHES``: it is given the server and the sizes, and returns
its figures. Whatever is compared takes turns in one run, in alternating order, several rounds;
medians are compared, because this machine does other things as well.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import bench_checksum
import bench_cutover
import bench_decode
import bench_feed
import bench_writers
import mysql_server
import raw_events
from mysql_base import ServerOptions
from spirit_py.applier.applier import SqlApplier
from spirit_py.binlog.source import BinlogSource
from spirit_py.chunk.chunker import make_chunker
from spirit_py.config import ConnectionOptions, FeedOptions
from spirit_py.copier.copier import Copier, CopyOptions
from spirit_py.feed.feed import ChangeFeed
from spirit_py.mysql.connect import connect
from spirit_py.mysql.ownwrites import new_run
from spirit_py.mysql.tables.definition import read_table
from spirit_py.spark.engine import SparkEngine
from spirit_py.spark.settings import SparkOptions
from spirit_py.statement.parse import alter_of
from spirit_py.stop import StopSwitch
from spirit_py.table.build import build_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mysql_base import MySQLServer
    from spirit_py.chunk.chunk import Chunk
    from spirit_py.contracts import Subscription
    from spirit_py.copier.task import CopyTask
    from spirit_py.mysql.session import Session
    from spirit_py.table.mapping import TableMapping

SCHEMA = "spirit_py_bench"
#: What sysbench's oltp tables look like.
SBTEST = """
CREATE TABLE sbtest1 (
  id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT 0,
  c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '',
  PRIMARY KEY (id), KEY k_1 (k))"""
#: Rebuilds the table; MySQL offers neither INSTANT nor INPLACE for it.
ALTER = "MODIFY id BIGINT NOT NULL AUTO_INCREMENT"
_LOAD_ROWS = 20_000


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much to measure."""

    rows: int
    rounds: int
    threads: int


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One comparison: seconds of ours and of the other, round by round.

    Attributes:
        goal: the largest ratio that is good enough; None without a goal.
    """

    name: str
    ours: str
    other: str
    our_seconds: list[float]
    other_seconds: list[float]
    goal: float | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """Ours against the other, by medians."""
        return statistics.median(self.our_seconds) / statistics.median(self.other_seconds)


class Bench:
    """A server with the table on it, and the ways to reach it."""

    def __init__(self, server: MySQLServer, sizes: Sizes) -> None:
        """Take a running server."""
        self.server = server
        self.sizes = sizes
        self.options = ConnectionOptions(
            host=server.host, port=server.port, user=server.user, password=server.password
        )

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """Open a session in the schema."""
        with connect(self.options, database=SCHEMA, role="bench") as session:
            yield session

    def load(self) -> None:
        """Create and fill the table, many rows a statement."""
        with connect(self.options, role="bench") as session:
            session.execute(f"CREATE DATABASE {SCHEMA}")
        with self.session() as session:
            session.execute(SBTEST)
            session.execute(f"SET SESSION cte_max_recursion_depth = {_LOAD_ROWS + 1}")
            for first in range(0, self.sizes.rows, _LOAD_ROWS):
                count = min(_LOAD_ROWS, self.sizes.rows - first)
                session.execute(
                    "INSERT INTO sbtest1 (k, c, pad) WITH RECURSIVE r AS (SELECT 1 n UNION ALL"
                    f" SELECT n + 1 FROM r WHERE n < {count})"
                    f" SELECT 1 + FLOOR(RAND(n + {first}) * {self.sizes.rows}),"
                    " LEFT(CONCAT(SHA2(n, 256), SHA2(n + 1, 256)), 119), LEFT(SHA2(n, 256), 59)"
                    " FROM r"
                )
            session.query("ANALYZE TABLE sbtest1")

    def fresh_target(self) -> TableMapping:
        """Create the new table, empty, and give the mapping to it."""
        with self.session() as session:
            session.execute("DROP TABLE IF EXISTS _sbtest1_new")
            session.execute("CREATE TABLE _sbtest1_new LIKE sbtest1")
            session.execute(f"ALTER TABLE _sbtest1_new {ALTER}")
            source = read_table(session, SCHEMA, "sbtest1")
            target = read_table(session, SCHEMA, "_sbtest1_new")
        if source is None or target is None:
            raise SystemExit("the tables of the benchmark are gone")
        return build_mapping(source, target, alter_of(SCHEMA, "sbtest1", ALTER), "+00:00")


class Recorder:
    """A change feed that has nothing to say, and keeps the tasks of the chunks."""

    def dispatch(self, _chunk: Chunk) -> str:
        """Wait for nothing."""
        return ""

    def committed(self, _chunk: Chunk) -> None:
        """Ignore it."""

    def copy_finished(self) -> None:
        """Ignore it."""


class RecordingEngine:
    """Spark, noting every task that it was given, so that threads can run the very same."""

    def __init__(self, engine: SparkEngine) -> None:
        """Wrap a started engine."""
        self._engine = engine
        self.tasks: list[CopyTask] = []
        self.waves = 0

    def run_wave(self, specs: Sequence[Any], function: Callable[[Any], Any], **more: Any) -> None:
        """Note and pass on."""
        self.tasks += specs
        self.waves += 1
        self._engine.run_wave(specs, function, **more)

    def cancel(self, group: str) -> None:
        """Pass on."""
        self._engine.cancel(group)


class Unthrottled:
    """Never a reason to wait."""

    def throttled(self) -> str:
        """Return none."""
        return ""


def copy_on_spark(
    bench: Bench,
    engine: SparkEngine,
    mapping: TableMapping | None = None,
    subscription: Subscription | None = None,
    own_writes: str = "",
) -> tuple[float, RecordingEngine]:
    """Copy the table as a migration does; return the seconds and the tasks that it took."""
    mapping = mapping or bench.fresh_target()
    recording = RecordingEngine(engine)
    with bench.session() as session:
        copier = Copier(
            engine=recording,
            mapping=mapping,
            connection=bench.options,
            chunker=make_chunker(mapping, session.query),
            query=session.query,
            subscription=subscription or Recorder(),
            throttler=Unthrottled(),
            stop=StopSwitch(),
            options=CopyOptions(slots=bench.sizes.threads, own_writes=own_writes),
        )
        began = time.perf_counter()
        copier.run()
        return time.perf_counter() - began, recording


def copy_in_threads(bench: Bench, tasks: Sequence[CopyTask]) -> float:
    """Run the same statements on as many plain threads, each with a session; return the seconds."""
    bench.fresh_target()
    sessions: list[Session] = []
    lock = threading.Lock()
    local = threading.local()

    def run(task: CopyTask) -> int:
        if not hasattr(local, "session"):
            local.session = connect(bench.options, role="bench")
            with lock:
                sessions.append(local.session)
        return int(local.session.execute(task.sql))

    began = time.perf_counter()
    with ThreadPoolExecutor(bench.sizes.threads) as pool:
        rows = sum(pool.map(run, tasks))
    seconds = time.perf_counter() - began
    for session in sessions:
        session.close()
    if rows != bench.sizes.rows:
        raise SystemExit(f"the threads copied {rows} rows instead of {bench.sizes.rows}")
    return seconds


def copy_phase(bench: Bench) -> Figure:
    """Copy phase on Spark against the same chunks on the same number of plain threads."""
    engine = SparkEngine(SparkOptions(threads=bench.sizes.threads))
    began = time.perf_counter()
    engine.start()
    try:
        engine.context()
        started = time.perf_counter() - began
        _, recording = copy_on_spark(bench, engine)  # warms the caches and gives the chunks
        spark: list[float] = []
        threads: list[float] = []
        waves = recording.waves
        for number in range(bench.sizes.rounds):
            order = [True, False] if number % 2 else [False, True]
            for on_spark in order:
                if on_spark:
                    seconds, recording = copy_on_spark(bench, engine)
                    spark.append(seconds)
                else:
                    threads.append(copy_in_threads(bench, recording.tasks))
    finally:
        engine.stop()
    return Figure(
        name="copy phase",
        ours=f"Spark, {bench.sizes.threads} slots",
        other=f"{bench.sizes.threads} threads",
        our_seconds=spark,
        other_seconds=threads,
        goal=1.10,
        notes={
            "chunks": len(recording.tasks),
            "jobs": waves,
            "spark_start_seconds": round(started, 2),
            "rows_per_second": round(bench.sizes.rows / statistics.median(spark)),
        },
    )


def whole_migration(bench: Bench) -> Figure:
    """``spirit-py migrate`` from start to end against ``ALTER TABLE ... ALGORITHM=COPY``."""
    ours: list[float] = []
    native: list[float] = []
    notes: dict[str, Any] = {}
    with bench.session() as session:
        session.execute("DROP TABLE IF EXISTS _sbtest1_new")
    # The two definitions take turns, so that every migration has work to do.
    kinds = ("BIGINT", "INT")
    for number in range(bench.sizes.rounds * 2):
        clause = f"MODIFY id {kinds[number % 2]} NOT NULL AUTO_INCREMENT"
        if (number // 2 + number) % 2:
            ours.append(_migrate(bench, clause, notes))
        else:
            native.append(_native(bench, clause))
    return Figure(
        name="whole migration",
        ours="spirit-py migrate",
        other="ALTER TABLE ... ALGORITHM=COPY",
        our_seconds=ours,
        other_seconds=native,
        notes=notes,
    )


def _native(bench: Bench, clause: str) -> float:
    """Run a native ALTER; give its seconds."""
    with bench.session() as session:
        began = time.perf_counter()
        session.execute(f"ALTER TABLE sbtest1 {clause}, ALGORITHM=COPY")
        return time.perf_counter() - began


def _migrate(bench: Bench, clause: str, notes: dict[str, Any]) -> float:
    """Run the command line as an operator does; give its seconds, and the report's phases."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "spirit_py", "migrate"]
        command += ["--host", bench.server.host, "--port", str(bench.server.port)]
        command += ["--user", bench.server.user, "--database", SCHEMA, "--table", "sbtest1"]
        command += ["--alter", clause, "--threads", str(bench.sizes.threads)]
        command += ["--no-shortcut", "--report-json", str(report)]
        environ = os.environ | {"SPIRIT_PY_PASSWORD": bench.server.password}
        began = time.perf_counter()
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=environ, stdout=pipe, stderr=pipe, text=True) as ended:
            meter = bench_feed.CpuMeter(ended.pid)
            _, complaint = ended.communicate()
            seconds, used = time.perf_counter() - began, meter.stop()
        if ended.returncode:
            raise SystemExit(f"spirit-py ended with {ended.returncode}:\n{complaint}")
        whole = sum(used.values())
        million = 1e6 / bench.sizes.rows
        notes["cpu_seconds_of_the_program"] = round(whole, 1)
        notes["cpu_seconds_per_million_rows"] = round(whole * million, 1)
        for part, spent in used.items():
            notes[f"cpu_seconds_per_million_rows_{part}"] = round(spent * million, 1)
        said = json.loads(report.read_text())
    for name in ("algorithm", "phases", "phase_seconds", "chunks", "differences"):
        if name in said:
            notes[name] = said[name]
    return seconds


def checksum(bench: Bench) -> Figure:
    """The checksum on Spark against the bare SQL aggregate on as many connections."""
    engine = SparkEngine(SparkOptions(threads=bench.sizes.threads))
    engine.start()
    try:
        engine.context()
        measured = bench_checksum.measure(
            bench.options,
            bench.fresh_target(),
            engine,
            threads=bench.sizes.threads,
            rounds=bench.sizes.rounds,
        )
    finally:
        engine.stop()
    return Figure(
        name="checksum",
        ours=f"both tables compared on Spark, {bench.sizes.threads} slots",
        other=f"bare SQL aggregate of both, {bench.sizes.threads} connections",
        our_seconds=measured.seconds,
        other_seconds=measured.bare,
        goal=1.10,
        notes=measured.notes(),
    )


def decoding(bench: Bench) -> Figure:
    """Rows rendered as SQL against mysql-replication's decoding of the same events."""
    server = bench.server
    with connect(bench.options, role="bench") as session:
        results = bench_decode.measure(
            session,
            lambda: raw_events.connect(server.host, server.port, server.user, server.password),
        )
    notes = {
        each.shape: f"{each.rendered:,.0f} rows a CPU second rendered ({each.rendered_ratio:.1f}"
        f" times the library), {each.keys_only:,.0f} where only the key is wanted"
        f" ({each.keys_only_ratio:.0f} times)"
        for each in results
    }
    return Figure(
        name="decoding",
        ours="a million rows of each shape, rendered",
        other="mysql-replication, decoded",
        our_seconds=[sum(1e6 / each.rendered for each in results)],
        other_seconds=[sum(1e6 / each.library for each in results)],
        goal=0.2,
        notes=notes,
    )


def changes_of_distinct_keys(bench: Bench) -> Figure:
    """Changes applied end to end, each of another row."""
    return _changes(bench, "changes", hot=False)


def changes_of_a_hot_set(bench: Bench) -> Figure:
    """Changes applied end to end, all of a thousand rows."""
    return _changes(bench, "hot changes", hot=True)


def _changes(bench: Bench, name: str, *, hot: bool) -> Figure:
    """Let the feed catch up with a stretch of the binlog, against a loop of REPLACE."""
    rows = min(bench.sizes.rows, 200_000)
    with contextlib.closing(bench_feed.FeedBench(bench.options, rows)) as feed:
        found = [feed.measure(hot=hot) for _ in range(bench.sizes.rounds)]
    ours, library, server, cpu = (
        statistics.median(getattr(each, kind) for each in found)
        for kind in ("feed", "library", "server", "cpu")
    )
    written = found[-1].applied
    notes: dict[str, Any] = {
        "changes": rows,
        "rows_written": written,
        "changes_per_second": round(rows / ours),
        "changes_per_cpu_second_of_the_feed": round(rows / cpu),
        "rows_per_second_of_as_many_sessions_without_a_feed": round(written / server),
        "decoded_per_second_by_mysql_replication_alone": round(rows / library),
    }
    if not hot:
        notes["times_as_long_as_those_sessions"] = round(ours / server, 2)
    return Figure(
        name=name,
        ours="received and applied by the feed",
        other="a loop of REPLACE",
        our_seconds=[each.feed for each in found],
        other_seconds=[each.loop for each in found],
        notes=notes,
    )


def cutover(bench: Bench) -> Figure:
    """Stall of the application's writes through a swap, against the same RENAME done bare."""
    swaps = int(os.environ.get("BENCH_SWAPS", str(bench_cutover.SWAPS)))
    with contextlib.closing(bench_cutover.CutoverBench(bench.options)) as made:
        stalls = made.measure(swaps, bench_writers.Load())
    return Figure(
        name="cutover",
        ours=f"longest write through each of {swaps} swaps",
        other="LOCK TABLES, RENAME, UNLOCK",
        our_seconds=bench_cutover.seconds(stalls.ours),
        other_seconds=bench_cutover.seconds(stalls.bare),
        notes=stalls.notes(),
    )


def binlog_of_a_copy(bench: Bench) -> Figure:
    """What the feed receives while the table is copied: all of it, and without our own writes."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    notes: dict[str, Any] = {}
    engine = SparkEngine(SparkOptions(threads=bench.sizes.threads))
    engine.start()
    try:
        for number in range(bench.sizes.rounds * 2):
            tagged = bool((number // 2 + number) % 2)
            took, received, skipped = _copy_with_feed(bench, engine, tagged=tagged)
            seconds[tagged].append(took)
            kind = "with_tag_own_writes" if tagged else "as_usual"
            notes[f"own_writes_received_{kind}_bytes"] = skipped
            notes[f"all_else_received_{kind}_bytes"] = received - skipped
    finally:
        engine.stop()
    return Figure(
        name="binlog of a copy",
        ours="copy with --tag-own-writes",
        other="copy whose writes are received",
        our_seconds=seconds[True],
        other_seconds=seconds[False],
        notes=notes,
    )


def _copy_with_feed(bench: Bench, engine: SparkEngine, *, tagged: bool) -> tuple[float, int, int]:
    """Copy beside a feed and some changes; give seconds, bytes received and those skipped."""
    mapping, stop = bench.fresh_target(), StopSwitch()
    options = FeedOptions(own_writes=new_run() if tagged else "", wait_timeout=600.0)
    applier = SqlApplier(bench.options, sessions=2, batch_rows=1000, stop=stop)
    with contextlib.ExitStack() as stack:
        stack.callback(applier.close)
        feed = ChangeFeed(BinlogSource(bench.options, options), applier, options=options, stop=stop)
        stack.callback(feed.close)
        subscription = feed.add_subscription(mapping)
        feed.start()
        with bench.session() as session:
            for first in range(0, 10_000, 1000):
                where = f"id > {first} AND id <= {first + 1000}"
                session.execute(f"UPDATE sbtest1 SET k = k + 1 WHERE {where}")
        seconds, _ = copy_on_spark(bench, engine, mapping, subscription, options.own_writes)
        feed.block_wait()
        found = feed.statistics()
    return seconds, found.received_bytes, found.skipped_bytes


BENCHES: dict[str, Callable[[Bench], Figure]] = {
    "binlog": binlog_of_a_copy,
    "changes": changes_of_distinct_keys,
    "checksum": checksum,
    "copy": copy_phase,
    "cutover": cutover,
    "decoding": decoding,
    "hot-changes": changes_of_a_hot_set,
    "migration": whole_migration,
}


def machine() -> dict[str, Any]:
    """Say on what this was measured."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
    }


def show(figures: Sequence[Figure]) -> None:
    """Print the table."""
    print(f"\n{'':16} {'ours':>10} {'other':>10} {'ratio':>7}  {'goal':>6}  compared")
    for each in figures:
        goal = "" if each.goal is None else f"{each.goal:.2f}"
        print(
            f"{each.name:16} {statistics.median(each.our_seconds):9.1f}s"
            f" {statistics.median(each.other_seconds):9.1f}s {each.ratio:7.2f}  {goal:>6}"
            f"  {each.ours} : {each.other}"
        )
        for name, value in each.notes.items():
            print(f"{'':18}{name}: {value}")


def main() -> int:
    """Run the benchmarks that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    rows = int(os.environ.get("BENCH_ROWS", "2000000"))
    parser.add_argument("--rows", type=int, default=rows, help="also BENCH_ROWS")
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("BENCH_ROUNDS", "3")))
    parser.add_argument("--threads", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--only", nargs="*", choices=sorted(BENCHES), default=sorted(BENCHES))
    parser.add_argument("--json", type=Path, default=Path("bench.json"))
    asked = parser.parse_args()
    sizes = Sizes(rows=asked.rows, rounds=asked.rounds, threads=asked.threads)
    provider = mysql_server.choose()
    print(provider, flush=True)
    options = ServerOptions(buffer_pool="2G", extra=("--innodb-redo-log-capacity=2G",))
    with mysql_server.running(options, provider=provider) as server:
        bench = Bench(server, sizes)
        print(f"loading {sizes.rows} rows", flush=True)
        bench.load()
        figures = []
        for name in asked.only:
            print(f"measuring: {name}", flush=True)
            figures.append(BENCHES[name](bench))
        version = server.version()
    show(figures)
    result = {
        "machine": machine() | {"mysql": version},
        "sizes": asdict(sizes),
        "figures": [asdict(each) | {"ratio": round(each.ratio, 3)} for each in figures],
    }
    asked.json.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {asked.json}")
    missed = [each.name for each in figures if each.goal is not None and each.ratio > each.goal]
    for name in missed:
        print(f"goal missed: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
