"""Load that rises in the middle of a copy: how soon the copy steps back, and comes back.

An application writes all the time. In the middle of the copy a crowd of sessions begins to scan the
table, so that Threads_running goes far above the limit that the migration was given; after a while
it leaves. The rows copied and Threads_running are printed for each half second.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks import turn, whole
from benchmarks.application import Application, Load
from benchmarks.contenders import OURS, Failed, Task, known
from benchmarks.meter import INSERTED, Meter
from benchmarks.scenario import Figure, Outcome
from benchmarks.sessions import TABLE, Address, Session
from benchmarks.tables import SYSBENCH, row_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.scenario import Sizes
    from mysql_base import MySQLServer

#: Sessions of the crowd, for how long it stays, and how many rows each of its scans reads.
_CROWD, _CROWD_SECONDS, _SCANNED = 40, 8.0, 20_000
#: Threads_running that the migration is to stay below, ours and the application's included.
_LIMIT = 20
#: Part of the rows that is copied when the crowd comes.
_COMES_AT = 0.15
#: Seconds of a line, and the most for stepping back and for coming back.
_LINE, _GOAL = 0.5, 2.0
#: Shares of the speed before the crowd: at the first the copy has stepped back, at the second it is
#: there again.
_BACK, _AGAIN = 0.1, 0.5
_WITH_LIMIT = f"{OURS} --max-load Threads_running={_LIMIT}"


@dataclass(kw_only=True)
class Seen:
    """What was seen of one migration; times are monotonic seconds.

    Attributes:
        rows: copied so far, at times.
        running: Threads_running, at times.
        came, left: when the crowd was there and Threads_running above the limit.
    """

    rows: list[tuple[float, int]] = field(default_factory=list)
    running: list[tuple[float, int]] = field(default_factory=list)
    came: float = 0.0
    left: float = 0.0


def measure(server: MySQLServer, rows: int, sizes: Sizes) -> Outcome:
    """Migrate under a load that rises, with a limit and by the program's own pace alone."""
    address = Address.of(server)
    whole.say(f"rising: loading {rows:,} rows")
    SYSBENCH.create(address, rows)
    outcome = Outcome(scenario="rising", rows=rows, figures=[])
    names = (_WITH_LIMIT, OURS, *sizes.variants)
    found: dict[str, list[Seen]] = {name: [] for name in names}
    for number, name in turn.in_turns(names, sizes.rounds):
        whole.tidy(address)
        whole.settle(address, purge=server.datadir is not None)
        try:
            seen = _migrate(name, server, rows, sizes)
        except Failed as failed:
            outcome.notes[f"FAILED, {name}"] = str(failed)
            continue
        found[name].append(seen)
        whole.say("\n".join([f"rising: round {number + 1}, {name}", *lines(seen)]))
    outcome.figures = [
        figure for name in names if found[name] for figure in _figures(name, found[name])
    ]
    return outcome


def _figures(name: str, found: Sequence[Seen]) -> Iterator[Figure]:
    for what, each in (
        ("steps back", [stepped_back(one) for one in found]),
        ("comes back", [came_back(one) for one in found]),
    ):
        seconds = turn.median(each)
        if seconds is not None:
            yield Figure(
                name=f"{what}{name.removeprefix(OURS)}"[:28],
                ours=seconds,
                peer=_GOAL,
                against=f"{_GOAL:.0f} s",
                goal=1.0 if name == _WITH_LIMIT else None,
            )


def _migrate(name: str, server: MySQLServer, rows: int, sizes: Sizes) -> Seen:
    """Run one migration, and let the crowd come and leave."""
    address, seen = Address.of(server), Seen()
    task = Task(address=address, alter="ENGINE=InnoDB", threads=sizes.threads)
    load = Load(writers=8, rate=500.0, on_schedule=True)
    ended = threading.Event()
    with contextlib.ExitStack() as stack:
        application = stack.enter_context(Application(address, SYSBENCH, rows, load))
        meter = stack.enter_context(Meter(address, server.pid, application.pid))
        for body in (_look, _crowd):
            thread = threading.Thread(target=body, args=(address, rows, seen, ended))
            thread.start()
            stack.callback(thread.join)
        stack.callback(ended.set)
        known(name)(task, meter)
        seen.rows = meter.stop().rows
    above = (at for at, count in seen.running if seen.came <= at <= seen.left and count > _LIMIT)
    seen.came = next(above, seen.came)
    return seen


def _look(address: Address, _rows: int, seen: Seen, ended: threading.Event) -> None:
    """Note Threads_running until the end."""
    with Session(address) as session:
        while not ended.wait(0.1):
            found = session.query("SHOW GLOBAL STATUS LIKE 'Threads_running'")
            seen.running.append((time.monotonic(), int(found[0][1])))


def _crowd(address: Address, rows: int, seen: Seen, ended: threading.Event) -> None:
    """Wait for the middle of the copy, and let the crowd scan for a while."""
    with Session(address) as session:
        while int(session.value(INSERTED)) < rows * _COMES_AT:
            if ended.wait(0.05):
                return
    leave = threading.Event()
    crowd = [
        threading.Thread(target=_scan, args=(address, number, rows, leave))
        for number in range(_CROWD)
    ]
    seen.came = time.monotonic()
    for one in crowd:
        one.start()
    ended.wait(_CROWD_SECONDS)
    leave.set()
    for one in crowd:
        one.join()
    seen.left = time.monotonic()


def _scan(address: Address, number: int, rows: int, leave: threading.Event) -> None:
    """Read ranges of the table, one after the other."""
    with Session(address) as session:
        while not leave.is_set():
            number += _CROWD
            first = row_of(number, rows)
            session.query(
                f"SELECT SUM(CRC32(c)) FROM {TABLE} WHERE id BETWEEN {first} AND {first + _SCANNED}"
            )


def speed(seen: Seen, began: float, ended: float) -> float:
    """Return the rows copied a second in a span."""
    return (_copied(seen, ended) - _copied(seen, began)) / max(1e-9, ended - began)


def _copied(seen: Seen, when: float) -> int:
    return max((count for at, count in seen.rows if at <= when), default=0)


def _lines_of(seen: Seen, began: float, ended: float) -> Iterator[tuple[float, float]]:
    """Yield the end of each half second of a span, and the speed in it."""
    at = began + _LINE
    while at <= ended:
        yield at, speed(seen, at - _LINE, at)
        at += _LINE


def _before(seen: Seen) -> float:
    """Return the speed before the crowd came."""
    first = next((at for at, count in seen.rows if count), seen.came)
    return speed(seen, first, seen.came)


def stepped_back(seen: Seen) -> float | None:
    """Return the seconds from the crowd's coming until almost nothing was copied any more."""
    if not seen.came:
        return None
    slow = (
        at for at, rate in _lines_of(seen, seen.came, seen.left) if rate <= _BACK * _before(seen)
    )
    return next((at - seen.came for at in slow), seen.left - seen.came)


def came_back(seen: Seen) -> float | None:
    """Return the seconds from the crowd's leaving until the copy was as fast as half of before."""
    if not seen.came or not seen.rows:
        return None
    last = seen.rows[-1][0]
    fast = (at for at, rate in _lines_of(seen, seen.left, last) if rate >= _AGAIN * _before(seen))
    return next((at - seen.left for at in fast), None)


def lines(seen: Seen) -> list[str]:
    """Return the timeline: rows copied and Threads_running in each half second of the copy."""
    copied = [at for at, count in seen.rows if count]
    if not copied:
        return ["   nothing was copied"]
    full = max(count for _, count in seen.rows)
    last = next(at for at, count in seen.rows if count == full)
    said = [f"   {'seconds':>8}{'rows copied':>13}{'Threads_running':>17}"]
    for at, rate in _lines_of(seen, copied[0] - _LINE, last + _LINE):
        running = [count for when, count in seen.running if at - _LINE < when <= at]
        crowd = "  crowd" if seen.came and seen.came - _LINE < at <= seen.left else ""
        said.append(
            f"   {at - copied[0]:8.1f}{rate * _LINE:13,.0f}{max(running, default=0):17}{crowd}"
        )
    return said
