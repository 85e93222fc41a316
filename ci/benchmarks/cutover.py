"""How long the application's writes wait during a swap, compared with a bare RENAME.

Writers in a process of their own write at a steady rate all the time. In turn a table is swapped
by the program, and by LOCK TABLES, RENAME TABLE, UNLOCK TABLES alone, which loses every change
since its copy. The stall of a swap is the longest write that overlaps a span around its end;
spans of the same length without a swap show what the machine does by itself.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.application import Application, Load
from benchmarks.internals import feed_of, new_table, options_of
from benchmarks.scenario import Figure, Outcome
from benchmarks.sessions import SCHEMA, TABLE, Address, Session
from benchmarks.tables import SYSBENCH
from spirit_py.chunk.chunk import Chunk
from spirit_py.cutover.cutover import Cutover
from spirit_py.cutover.plan import CutoverPlan
from spirit_py.mysql.tables.new_table import align_auto_increment
from spirit_py.sql import identifier_list
from spirit_py.table.names import Swap
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.scenario import Sizes
    from mysql_base import MySQLServer
    from spirit_py.cutover.plan import CutoverResult
    from spirit_py.table.mapping import TableMapping

ALTER = "MODIFY pad CHAR(80) NOT NULL DEFAULT ''"
#: Swaps of each kind, unless BENCH_SWAPS has another number; and the writes meanwhile.
SWAPS = 20
LOAD = Load(writers=16, rate=1000.0)
#: Milliseconds beyond the wait for running transactions that are good enough (design section 6).
GOAL = 50.0
#: Seconds of a span around the end of a swap: before it, and after it.
BEFORE, BEHIND = 0.3, 0.2


def stalls(server: MySQLServer, rows: int, _sizes: Sizes) -> Outcome:
    """Measure the stall of the application's writes, against the same RENAME done bare."""
    swaps = int(os.environ.get("BENCH_SWAPS", str(SWAPS)))
    address = Address.of(server)
    SYSBENCH.create(address, rows)
    with Application(address, SYSBENCH, rows, LOAD) as application:
        found = _Swapping(address).measure(application, swaps)
    beyond = [statistics.median(each.beyond for each in of) for of in (found.ours, found.bare)]
    figures = [
        Figure(
            name="longest write",
            ours=beyond[0],
            peer=beyond[1],
            against="bare RENAME",
            unit="ms",
        ),
        Figure(
            name="longest write",
            ours=beyond[0],
            peer=GOAL,
            against=f"{GOAL:.0f} ms",
            unit="ms",
            goal=1.0,
        ),
    ]
    return Outcome(
        scenario="cutover", rows=rows, figures=figures, notes={"swaps": swaps} | found.notes()
    )


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
        """Return a line for each figure."""
        said: dict[str, Any] = {
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


class _Swapping:
    """A table under writers, swapped again and again."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def measure(self, application: Application, swaps: int) -> Stalls:
        """Swap a number of times in each way, in alternating order."""
        ours: list[Stall] = []
        bare: list[Stall] = []
        calm: list[Stall] = []
        steps: list[dict[str, float]] = []
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
        mapping = new_table(self._address, ALTER)
        with following(self._address, mapping) as feed:
            plan = CutoverPlan(
                connection=options_of(self._address),
                swaps=[Swap.of(mapping)],
                source=feed,
                stop=StopSwitch(),
                before_lock=lambda session: _align(session, mapping),
                final_checks=lambda session: _align(session, mapping),
            )
            result = Cutover(plan).run()
            ended = time.monotonic()
        longest = application.longest_ms(_span(ended))
        self._drop_old()
        stall = Stall(longest=longest, waited=result.lock_wait_ms, held=result.lock_held_ms)
        return stall, result

    def _bare(self, application: Application) -> Stall:
        """Copy the table, and swap without anything that keeps the copy right."""
        mapping = new_table(self._address, ALTER)
        with Session(self._address) as session:
            _copy(session, mapping)
            _settle()
            asked = time.monotonic()
            session.execute(f"LOCK TABLES {TABLE} WRITE, _t_new WRITE")
            locked = time.monotonic()
            session.execute(f"RENAME TABLE {TABLE} TO _t_old, _t_new TO {TABLE}")
            session.execute("UNLOCK TABLES")
            ended = time.monotonic()
        longest = application.longest_ms(_span(ended))
        self._drop_old()
        return Stall(longest=longest, waited=1000 * (locked - asked), held=1000 * (ended - locked))

    def _drop_old(self) -> None:
        with Session(self._address) as session:
            session.execute(f"DROP TABLE {SCHEMA}._t_old")


@contextlib.contextmanager
def following(address: Address, mapping: TableMapping) -> Iterator[Any]:
    """Run the feed, and copy the table in one chunk."""
    with feed_of(address, mapping) as (feed, subscription):
        feed.start()
        chunk = Chunk(number=0, lower=None, upper=None, target_rows=1)
        visible = subscription.dispatch(chunk)
        with Session(address) as session:
            if visible:
                session.query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{visible}', 60)")
            _copy(session, mapping)
        subscription.committed(chunk)
        subscription.copy_finished()
        feed.set_watermark_optimization(enabled=False)
        _settle()
        yield feed


def _copy(session: Session, mapping: TableMapping) -> None:
    """Copy all rows in one statement that locks none."""
    session.execute("SET SESSION transaction_isolation = 'READ-COMMITTED'")
    names = identifier_list(pair.old.name for pair in mapping.pairs)
    session.execute(
        f"REPLACE INTO _t_new ({identifier_list(mapping.insert_names)}) SELECT {names} FROM {TABLE}"
    )


def _align(session: Any, mapping: TableMapping) -> None:
    align_auto_increment(session, mapping)


def _settle() -> None:
    """Wait until the copy's effects on the writers are over: they belong to no swap's span."""
    time.sleep(2 * BEFORE)


def _span(end: float) -> tuple[float, float]:
    """Return the span around the end of a swap, in monotonic seconds."""
    return end - BEFORE, end + BEHIND
