"""How long the application's writes wait through a swap, next to the same RENAME done bare.

Writers in a process of their own write at a steady rate all the time. In turn a table is swapped
by the program, and by LOCK TABLES, RENAME TABLE, UNLOCK TABLES alone, which loses every change
since its copy. The stall of a swap is the longest write that overlaps a span around its end;
spans of the same length without a swap show what the machine does by itself.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_writers import ROWS, SCHEMA, Application, Load
from spirit_py.applier.applier import SqlApplier
from spirit_py.binlog.source import BinlogSource
from spirit_py.chunk.chunk import Chunk
from spirit_py.config import FeedOptions
from spirit_py.cutover.cutover import Cutover
from spirit_py.cutover.plan import Swap
from spirit_py.feed.feed import ChangeFeed
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.new_table import align_auto_increment
from spirit_py.sql import identifier_list, quote_table
from spirit_py.statement.parse import alter_of
from spirit_py.stop import StopSwitch
from spirit_py.table.build import build_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.mysql.session import Session
    from spirit_py.table.mapping import TableMapping

ALTER = "MODIFY pad CHAR(80) NOT NULL DEFAULT ''"
SWAPS = 20
#: Milliseconds beyond the wait for running transactions that are good enough (design section 6).
GOAL = 50.0
#: Seconds of a span around the end of a swap: before it, and behind it.
BEFORE, BEHIND = 0.3, 0.2


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
            feed = ChangeFeed(
                BinlogSource(self._connection, options), applier, options=options, stop=stop
            )
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
    """Return the span around the end of a swap, in monotonic seconds."""
    return end - BEFORE, end + BEHIND


def seconds(stalls: Sequence[Stall]) -> list[float]:
    """Return the seconds of the stalls, beyond what transactions that ran took."""
    return [stall.beyond / 1000 for stall in stalls]
