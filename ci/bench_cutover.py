"""How long the application's writes wait through a swap, next to the same RENAME done bare.

Writers in a process of their own write at a steady rate all the time. In turn a table is swapped
by the program, and by LOCK TABLES, RENAME TABLE, UNLOCK TABLES alone, which loses every change
since its copy. The stall of a swap is the longest write that overlaps a span around its end;
spans of the same length without a swap show what the machine does by itself.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import statistics
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from spirit_py.applier.applier import SqlApplier
from spirit_py.change.source import binlog_source
from spirit_py.chunk.chunk import Chunk
from spirit_py.config import FeedOptions
from spirit_py.cutover.cutover import Cutover
from spirit_py.cutover.plan import Swap
from spirit_py.mysql.connect import connect
from spirit_py.mysql.inspect import read_table
from spirit_py.mysql.newtable import align_auto_increment
from spirit_py.sql import identifier_list, quote_table
from spirit_py.statement.parse import alter_of
from spirit_py.stop import StopSwitch
from spirit_py.table.build import build_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

    from spirit_py.change.feed import ChangeFeed
    from spirit_py.config import ConnectionOptions
    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.mysql.session import Session
    from spirit_py.table.mapping import TableMapping

SCHEMA = "spirit_py_bench_cutover"
ALTER = "MODIFY pad CHAR(80) NOT NULL DEFAULT ''"
ROWS = 20_000
SWAPS = 20
#: Milliseconds beyond the wait for running transactions that are good enough (design section 6).
GOAL = 50.0
#: Seconds of a span around the end of a swap: before it, and behind it.
BEFORE, BEHIND = 0.3, 0.2
#: A writer that is late catches up with at most so many seconds of its writes.
_MOST_LATE = 0.1

#: When a write began, and how long it took, in seconds.
Write = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the application does."""

    writers: int = 16
    rate: float = 1000.0


@dataclass(frozen=True, kw_only=True)
class Stall:
    """One swap, or one span without any. Milliseconds.

    Attributes:
        longest: the longest write of the span.
        waited: how long the lock request waited for transactions that ran.
        held: how long the lock was held.
    """

    longest: float
    waited: float = 0.0
    held: float = 0.0

    @property
    def beyond(self) -> float:
        """The longest write without the wait for transactions that ran."""
        return max(0.0, self.longest - self.waited)


@dataclass(frozen=True, kw_only=True)
class Stalls:
    """All that was measured.

    Attributes:
        steps: milliseconds under the lock by step, for each swap of ours.
        writes_per_second: what the writers reached, of what they were asked for.
    """

    ours: list[Stall]
    bare: list[Stall]
    calm: list[Stall]
    steps: list[dict[str, float]]
    writes_per_second: float

    def notes(self) -> dict[str, Any]:
        """Say it in a line for each figure."""
        beyond = statistics.median(stall.beyond for stall in self.ours)
        said = {
            "goal": f"{GOAL:.0f} ms beyond running transactions, in the median:"
            f" {'met' if beyond <= GOAL else 'missed'}",
            "writes_per_second": round(self.writes_per_second),
            "longest_write": _line(s.longest for s in self.ours),
            "longest_write_bare": _line(s.longest for s in self.bare),
            "longest_write_without_a_swap": _line(s.longest for s in self.calm),
            "beyond_running_transactions": _line(s.beyond for s in self.ours),
            "beyond_running_transactions_bare": _line(s.beyond for s in self.bare),
            "lock_waited": _line(s.waited for s in self.ours),
            "lock_waited_bare": _line(s.waited for s in self.bare),
            "lock_held": _line(s.held for s in self.ours),
            "lock_held_bare": _line(s.held for s in self.bare),
        }
        for name in self.steps[0] if self.steps else ():
            said[f"lock_held_{name}"] = _line(steps[name] for steps in self.steps)
        return said


def _line(values: Iterator[float]) -> str:
    """Show the distribution of milliseconds."""
    ordered = sorted(values)
    ninth = ordered[min(len(ordered) - 1, round(0.9 * len(ordered)))]
    return f"p50 {statistics.median(ordered):.1f}, p90 {ninth:.1f}, max {ordered[-1]:.1f} ms"


# -- the application


class Application:
    """Writers in a process of their own; what they wrote, and when."""

    def __init__(self, connection: ConnectionOptions, load: Load) -> None:
        """Start them."""
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_write, args=(connection, load, other))
        self._process.start()
        other.close()
        self.rate = load.rate
        self.writes: list[Write] = []

    def longest_ms(self, span: tuple[float, float]) -> float:
        """Give the longest write that overlaps a span, when all such writes have ended."""
        began, ended = span
        time.sleep(max(0.0, ended - time.monotonic()))
        self._pipe.send("take")
        taken, failed = self._pipe.recv()
        if failed:
            raise SystemExit(f"a writer failed: {failed}")
        self.writes += taken
        return 1000 * max(
            (took for at, took in self.writes if at < ended and at + took > began), default=0.0
        )

    def per_second(self) -> float:
        """Give the writes a second so far."""
        first, last = self.writes[0][0], max(at for at, _ in self.writes)
        return len(self.writes) / max(0.001, last - first)

    def __enter__(self) -> Self:
        """Use it as a context that ends the writers."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the writers."""
        with contextlib.suppress(OSError):
            self._pipe.send("end")
        self._process.join(30)


class _Writer:
    """A session that inserts and updates at its rate."""

    def __init__(self, connection: ConnectionOptions, pause: float, number: int) -> None:
        self._connection = connection
        self._pause = pause
        self._number = number
        self._lock = threading.Lock()
        self._writes: list[Write] = []
        self._ended = threading.Event()
        #: When the write under way began; 0 for none.
        self._since = 0.0
        self.failed = ""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with connect(self._connection, database=SCHEMA, role="writer") as session:
                due = time.monotonic() + self._pause * self._number / 16
                for number in itertools.count(self._number):
                    if self._ended.wait(max(0.0, due - time.monotonic())):
                        return
                    self._since = began = time.monotonic()
                    self._write(session, number)
                    ended = time.monotonic()
                    with self._lock:
                        self._since = 0.0
                        self._writes.append((began, ended - began))
                    due = max(due + self._pause, ended - _MOST_LATE)
        except Exception as error:
            self.failed = repr(error)

    @staticmethod
    def _write(session: Session, number: int) -> None:
        """Insert, or update one of the rows that were there at first."""
        if number % 4:
            row = 1 + number * 7919 % ROWS
            session.execute(f"UPDATE t SET k = k + 1, c = 'update {number}' WHERE id = {row}")
        else:
            session.execute(f"INSERT INTO t (k, c) VALUES ({number}, 'insert')")

    def take(self) -> list[Write]:
        """Give the writes since the last call, and the one that is under way as far as it is."""
        with self._lock:
            taken, self._writes = self._writes, []
            if since := self._since:
                taken.append((since, time.monotonic() - since))
            return taken

    def end(self) -> None:
        """End."""
        self._ended.set()
        self._thread.join()


def _write(connection: ConnectionOptions, load: Load, pipe: Connection) -> None:
    """Run all writers; the body of their process."""
    pause = load.writers / load.rate
    writers = [_Writer(connection, pause, number) for number in range(load.writers)]
    try:
        while pipe.recv() == "take":
            taken = [write for writer in writers for write in writer.take()]
            pipe.send((taken, "".join(writer.failed for writer in writers)))
    except (EOFError, OSError):
        pass
    finally:
        for writer in writers:
            writer.end()


# -- the swaps


class CutoverBench:
    """A table under writers, swapped again and again."""

    def __init__(self, connection: ConnectionOptions) -> None:
        """Create and fill the table."""
        self._connection = connection
        with connect(connection, role="bench") as session:
            session.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
            session.execute(f"CREATE DATABASE {SCHEMA}")
        with self._session() as session:
            session.execute(
                "CREATE TABLE t (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,"
                " k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '',"
                " pad CHAR(60) NOT NULL DEFAULT '', KEY k (k))"
            )
            session.execute(f"SET SESSION cte_max_recursion_depth = {ROWS + 1}")
            session.execute(
                "INSERT INTO t (k, c) WITH RECURSIVE s AS (SELECT 1 i UNION ALL SELECT i + 1 FROM s"
                f" WHERE i < {ROWS}) SELECT i, REPEAT('c', 119) FROM s"
            )

    def close(self) -> None:
        """Drop everything."""
        with self._session() as session:
            session.execute(f"DROP DATABASE {SCHEMA}")

    @contextlib.contextmanager
    def _session(self) -> Iterator[Session]:
        with connect(self._connection, database=SCHEMA, role="bench") as session:
            yield session

    def measure(self, swaps: int, load: Load) -> Stalls:
        """Swap so often in each way, in alternating order."""
        ours: list[Stall] = []
        bare: list[Stall] = []
        calm: list[Stall] = []
        steps: list[dict[str, float]] = []
        with Application(self._connection, load) as application:
            application.longest_ms(_span(time.monotonic() + BEFORE))
            for number in range(swaps):
                for by_us in (True, False) if number % 2 else (False, True):
                    if by_us:
                        stall, result = self._ours(application)
                        ours.append(stall)
                        steps.append(result.steps_ms)
                    else:
                        bare.append(self._bare(application))
                longest = application.longest_ms(_span(time.monotonic() + BEFORE))
                calm.append(Stall(longest=longest))
            rate = application.per_second()
        return Stalls(ours=ours, bare=bare, calm=calm, steps=steps, writes_per_second=rate)

    def _ours(self, application: Application) -> tuple[Stall, CutoverResult]:
        """Follow the table with the feed, copy it, and swap as a migration does."""
        mapping = self._fresh_target()
        stop = StopSwitch()
        with self._following(mapping, stop) as feed:
            result = Cutover(
                self._connection,
                [Swap.of(mapping)],
                feed,
                stop=stop,
                before_lock=lambda session: _align(session, mapping),
                final_checks=lambda session: _align(session, mapping),
            ).run()
            ended = time.monotonic()
        longest = application.longest_ms(_span(ended))
        self._drop_old()
        stall = Stall(longest=longest, waited=result.lock_wait_ms, held=result.lock_held_ms)
        return stall, result

    def _bare(self, application: Application) -> Stall:
        """Copy the table, and swap without anything that keeps the copy right."""
        mapping = self._fresh_target()
        with self._session() as session:
            self._copy(session, mapping)
            _settle()
            asked = time.monotonic()
            session.execute("LOCK TABLES t WRITE, _t_new WRITE")
            locked = time.monotonic()
            session.execute("RENAME TABLE t TO _t_old, _t_new TO t")
            session.execute("UNLOCK TABLES")
            ended = time.monotonic()
        longest = application.longest_ms(_span(ended))
        self._drop_old()
        return Stall(longest=longest, waited=1000 * (locked - asked), held=1000 * (ended - locked))

    def _fresh_target(self) -> TableMapping:
        """Create the new table, empty."""
        with self._session() as session:
            session.execute("CREATE TABLE _t_new LIKE t")
            session.execute(f"ALTER TABLE _t_new {ALTER}")
            source, target = (read_table(session, SCHEMA, name) for name in ("t", "_t_new"))
        if source is None or target is None:
            raise LookupError(SCHEMA)
        return build_mapping(source, target, alter_of(SCHEMA, "t", ALTER), "+00:00")

    def _drop_old(self) -> None:
        with self._session() as session:
            session.execute("DROP TABLE _t_old")

    @contextlib.contextmanager
    def _following(self, mapping: TableMapping, stop: StopSwitch) -> Iterator[ChangeFeed]:
        """Run the feed, and copy the table in one chunk."""
        options = FeedOptions()
        with contextlib.ExitStack() as stack:
            applier = SqlApplier(
                self._connection,
                sessions=options.apply_threads,
                batch_rows=options.batch_rows,
                stop=stop,
            )
            stack.callback(applier.close)
            feed = binlog_source(self._connection, applier, options, stop)
            stack.callback(feed.close)
            subscription = feed.add_subscription(mapping)
            feed.start()
            chunk = Chunk(number=0, lower=None, upper=None, target_rows=1)
            visible = subscription.dispatch(chunk)
            with self._session() as session:
                if visible:
                    session.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 60)", (visible,))
                self._copy(session, mapping)
            subscription.committed(chunk)
            subscription.copy_finished()
            feed.set_watermark_optimization(enabled=False)
            _settle()
            yield feed

    @staticmethod
    def _copy(session: Session, mapping: TableMapping) -> None:
        """Copy all rows in one statement."""
        names = identifier_list(pair.old.name for pair in mapping.pairs)
        session.execute(
            f"REPLACE INTO {quote_table(SCHEMA, mapping.target.name)}"
            f" ({identifier_list(mapping.insert_names)}) SELECT {names} FROM t"
        )


def _align(session: Any, mapping: TableMapping) -> None:
    align_auto_increment(session, mapping)


def _settle() -> None:
    """Let pass what the copy did to the writers, which belongs to no swap's span."""
    time.sleep(2 * BEFORE)


def _span(end: float) -> tuple[float, float]:
    """Give the span around the end of a swap, in monotonic seconds."""
    return end - BEFORE, end + BEHIND


def seconds(stalls: Sequence[Stall]) -> list[float]:
    """Give the seconds of the stalls, beyond what transactions that ran took."""
    return [stall.beyond / 1000 for stall in stalls]
