"""What a larger server is expected to show: measured points, a model of them, its expectations.

The copy's kind of statement is run by 1, 2, 4... plain sessions, with the server pinned to 1, 2,
4... of the machine's cores, in large transactions and small ones, through a proxy that delays each
round trip, and with commits that the server delays. The feed alone shows the driver's CPU for each
row of the copy, which it reads past, and for each change.

Commits are delayed by ``binlog_group_commit_sync_delay``: the leader of a group waits before it
syncs the binlog, its followers wait with it, and the next group after it. So does a disk with slow
syncs. A semi-synchronous replica would need a second server on the same cores.
"""

from __future__ import annotations

import contextlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks import feed, whole
from benchmarks.meter import busy, parsed
from benchmarks.scale_model import Costs, Setting, Speed, best, errors, fit
from benchmarks.scenario import Figure, Outcome
from benchmarks.sessions import TABLE, Address, Session
from benchmarks.tables import SYSBENCH
from spirit_py.pace import PART_BYTES
from spirit_py.throttle.adaptive import FIRST_PART
from tests.kits.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.scenario import Sizes
    from mysql_base import MySQLServer

#: The largest error of a model whose expectations count.
ALLOWED: Final = 0.2
_LARGER: Final = (16, 32)
_TABLE_BYTES: Final = 200 << 30
_POINT_SECONDS: Final = 2.0
_ROUND_TRIP, _SLOW_COMMIT = 0.005, 0.02
_CHANGES: Final = 50_000
#: A point is repeated while other processes used so many cores, so many times at most.
_ELSEWHERE, _TRIES = 0.1, 3
#: Seconds of a run in which points wait for others to be quiet, one after the other.
_PATIENCE: Final = 180.0
_COLUMNS: Final = "id, k, c, pad"


def measure(server: MySQLServer, rows: int, sizes: Sizes) -> Outcome:
    """Measure, fit, and list what is expected of more cores."""
    if server.pid is None:
        raise SystemExit("scale: the server's process must be on this machine, to be pinned")
    address, cores = Address.of(server), len(os.sched_getaffinity(server.pid))
    rows *= max(1, cores // 2)
    if cores > 2 and not sizes.buffer_pool:
        with Session(address) as session:
            session.execute(f"SET GLOBAL innodb_buffer_pool_size = {cores << 30}")
    whole.say(f"scale: loading {rows:,} rows, {cores} cores")
    SYSBENCH.create(address, rows)
    row_bytes = whole.size(address, TABLE) / rows
    measured, elsewhere = _points(server, settings(cores, row_bytes), sizes.rounds)
    changes = {each: _changes(address, sizes.rounds, each) for each in (0.0, _ROUND_TRIP)}
    passed = [feed.passed_over(address, _CHANGES) for _ in range(sizes.rounds)]
    driver = median(each.cpu / each.rows for each in passed)
    costs = fit(measured)
    found = errors(costs, measured)
    notes = {
        _named(each): f"{seen.rate:9,.0f} rows/s, model {of_rate:+4.0%};"
        f" {1e6 * seen.cpu:5.2f} us of server CPU a row, model {of_cpu:+4.0%}"
        for (each, seen), (of_rate, of_cpu) in zip(measured, found, strict=True)
    }
    notes["CPU of other processes"] = f"{elsewhere:.2f} cores at most"
    notes["driver, a copied row in the binlog"] = f"{1e6 * driver:.3f} us of CPU"
    for far, (seconds, cpu) in changes.items():
        notes[f"driver, a change, round trip +{1e3 * far:.0f} ms"] = (
            f"{1e6 * cpu:.1f} us of CPU, {1 / seconds:,.0f} changes a second"
        )
    notes["parameters"] = (
        f"{1e6 * costs.row:.2f} us a row, {1e3 * costs.transaction:.2f} ms a transaction,"
        f" {1e3 * costs.commit:.2f} ms a commit without CPU, {costs.contention:.0%} more CPU for"
        " each further core"
    )
    notes |= expectations(costs, row_bytes, driver, changes[0.0][1])
    return Outcome(scenario="scale", rows=rows, figures=largest(found), notes=notes)


def largest(found: list[tuple[float, float]]) -> list[Figure]:
    """Return the largest error of a rate and of CPU, in percent, beside what is allowed."""
    figures = []
    for name, side in zip(("rates", "CPU"), zip(*found, strict=True), strict=True):
        worst = max(map(abs, side))
        said = "allowed; what is expected does not count" if worst > ALLOWED else "allowed"
        figures.append(
            Figure(
                name=f"largest error, {name}",
                ours=100 * worst,
                peer=100 * ALLOWED,
                against=said,
                unit="%",
                goal=1.0,
            )
        )
    return figures


def settings(cores: int, row_bytes: float) -> list[Setting]:
    """Return what is measured on a machine with so many cores."""
    large, small = (max(1, round(each / row_bytes)) for each in (PART_BYTES, FIRST_PART))
    pinned = [1 << power for power in range(cores.bit_length()) if 1 << power < cores]
    worlds = [Setting(cores=each, sessions=1, rows=large) for each in (*pinned, cores)]
    worlds.append(plain := Setting(cores=cores, sessions=1, rows=small))
    worlds.append(replace(plain, round_trip=_ROUND_TRIP))
    worlds.append(replace(plain, commit=_SLOW_COMMIT))
    sessions = [1 << power for power in range(max(8, 2 * cores).bit_length())]
    return [replace(world, sessions=each) for world in worlds for each in sessions]


def expectations(costs: Costs, row_bytes: float, driver: float, change: float) -> dict[str, str]:
    """Return what the model expects of larger servers, with and without its contention.

    ``driver`` and ``change`` are CPU seconds of the program's one Python process, for a copied row
    and for a change that is received and applied.
    """
    said = {
        "expected": "not measured. Assumed: each further core costs as much as the second, or"
        " nothing; the disk keeps up; source pages are in memory; one Python process decodes the"
        " binlog, with the rows of the copy in it, and bounds the run"
    }
    for cores in _LARGER:
        for kind, each in (("", costs), (" without contention", replace(costs, contention=0.0))):
            sessions, found = best(each, cores, round(PART_BYTES / row_bytes))
            rate = min(found.rate, 1 / driver)
            written, left = rate * row_bytes, (1 - rate * driver) / change
            said[f"expected, {cores} cores{kind}"] = (
                f"{rate:,.0f} rows/s (the server alone {found.rate:,.0f} with {sessions} sessions),"
                f" {written * 3600 / 2**30:,.0f} GiB/h,"
                f" 200 GiB in {_TABLE_BYTES / written / 3600:.1f} h; "
                # Each page twice (doublewrite), redo log, binlog.
                f"{4 * written / 1e6:,.0f} MB/s to disk; {rate * driver:.2f} cores of the driver"
                f" for the copy, {left:,.0f} changes/s beside it"
            )
    said["expected, the feed alone"] = f"{1 / change:,.0f} changes/s on any server"
    return said


def _points(
    server: MySQLServer, wanted: list[Setting], rounds: int
) -> tuple[list[tuple[Setting, Speed]], float]:
    """Measure each setting once a round; return medians, and the most that others used meanwhile.

    Every second round goes backwards.
    """
    found: dict[Setting, list[Speed]] = {each: [] for each in wanted}
    most, until = 0.0, time.monotonic() + _PATIENCE
    with Session(Address.of(server)) as session:
        session.execute(f"CREATE TABLE _t_new LIKE {TABLE}")
    for number in range(rounds):
        whole.settle(Address.of(server), purge=True)
        for setting in wanted if number % 2 == 0 else wanted[::-1]:
            tries: list[tuple[float, Speed]] = []
            while len(tries) < _TRIES and all(others > _ELSEWHERE for others, _ in tries):
                _await_quiet(until)
                with _as_set(server, setting) as address:
                    tries.append(_copy(server, address, setting))
            elsewhere, speed = min(tries, key=lambda each: each[0])
            found[setting].append(speed)
            most = max(most, elsewhere)
            whole.say(
                f"scale: round {number + 1}, {_named(setting)}: {speed.rate:,.0f} rows/s,"
                f" others used {elsewhere:.2f} cores"
            )
    whole.tidy(Address.of(server))
    medians = [
        Speed(rate=median(one.rate for one in each), cpu=median(one.cpu for one in each))
        for each in found.values()
    ]
    return list(zip(found, medians, strict=True)), most


def _await_quiet(until: float) -> None:
    """Wait for half a second in which nothing else uses a core, at most until a time."""
    used = float("inf")
    while used > _ELSEWHERE and time.monotonic() < until:
        before = busy(Path("/proc/stat").read_text())
        time.sleep(0.5)
        used = (busy(Path("/proc/stat").read_text()) - before) / 0.5


@contextlib.contextmanager
def _as_set(server: MySQLServer, setting: Setting) -> Iterator[Address]:
    """Pin and delay the server as a setting says; return where it is reached."""
    assert server.pid is not None  # noqa: S101 - looked at before anything is measured
    address, usable = Address.of(server), os.sched_getaffinity(server.pid)
    delay = "SET GLOBAL binlog_group_commit_sync_delay = {}"
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(Session(address))
        was = own.value("SELECT @@global.binlog_group_commit_sync_delay")
        stack.callback(own.execute, delay.format(was))
        own.execute(delay.format(round(1e6 * setting.commit)))
        stack.callback(pin, server.pid, usable)
        pin(server.pid, set(sorted(usable)[: setting.cores]))
        if setting.round_trip:
            proxy = stack.enter_context(TcpProxy((server.host, server.port)))
            proxy.delay = setting.round_trip / 2
            address = replace(address, host=proxy.host, port=proxy.port)
        yield address


def pin(pid: int, cores: set[int]) -> None:
    """Let all threads of a process run on these cores alone; later ones inherit it."""
    found = True
    while found:
        found = False
        for folder in Path(f"/proc/{pid}/task").iterdir():
            # A thread may have ended.
            with contextlib.suppress(ProcessLookupError):
                if os.sched_getaffinity(int(folder.name)) != cores:
                    os.sched_setaffinity(int(folder.name), cores)
                    found = True


def _copy(server: MySQLServer, address: Address, setting: Setting) -> tuple[float, Speed]:
    """Copy for some seconds with so many sessions; return how many cores others used, too."""
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(Session(Address.of(server)))
        own.execute("TRUNCATE TABLE _t_new")
        # As the program's tasks, each in a part of the key of its own.
        lane = int(own.value(f"SELECT MAX(id) FROM {TABLE}")) // setting.sessions
        opened = [stack.enter_context(Session(address)) for _ in range(setting.sessions)]

        def work(number: int) -> tuple[int, float]:
            """Copy parts until the time is over; return the rows, and the rows a second."""
            opened[number].execute("SET SESSION transaction_isolation = 'READ-COMMITTED'")
            copied, began = 0, time.perf_counter()
            for first in range(number * lane, (number + 1) * lane, setting.rows):
                if time.perf_counter() >= ends:
                    break
                copied += opened[number].execute(
                    f"REPLACE INTO _t_new ({_COLUMNS}) SELECT {_COLUMNS} FROM {TABLE}"
                    f" FORCE INDEX (PRIMARY) WHERE id >= {first} AND id < {first + setting.rows}"
                )
            return copied, copied / (time.perf_counter() - began)

        before, began = _spent(server), time.perf_counter()
        ends = began + _POINT_SECONDS
        with ThreadPoolExecutor(setting.sessions) as pool:
            done = list(pool.map(work, range(setting.sessions)))
        took = time.perf_counter() - began
    cpu, elsewhere = (last - first for first, last in zip(before, _spent(server), strict=True))
    rows = max(1, sum(copied for copied, _ in done))
    return elsewhere / took, Speed(rate=sum(rate for _, rate in done), cpu=cpu / rows)


def _spent(server: MySQLServer) -> tuple[float, float]:
    """Return the CPU seconds so far of the server, and of all that is neither it nor this."""
    cpu = parsed(Path(f"/proc/{server.pid}/stat").read_text())[1] / os.sysconf("SC_CLK_TCK")
    return cpu, busy(Path("/proc/stat").read_text()) - cpu - time.process_time()


def _changes(address: Address, rounds: int, round_trip: float) -> tuple[float, float]:
    """Let the feed apply single changes; return seconds and CPU of one."""
    SYSBENCH.create(address, _CHANGES)
    with TcpProxy((address.host, address.port)) as proxy:
        proxy.delay = round_trip / 2
        via = replace(address, host=proxy.host, port=proxy.port) if round_trip else address
        turns = [feed.caught_up(address, via, _CHANGES) for _ in range(rounds)]
    seconds, cpu = median(each.seconds for each in turns), median(each.cpu for each in turns)
    return seconds / _CHANGES, cpu / _CHANGES


def _named(setting: Setting) -> str:
    said = [f"{setting.sessions} sessions on {setting.cores} cores, {setting.rows:,} rows"]
    said += [f"+{1e3 * setting.round_trip:.0f} ms trip"] if setting.round_trip else []
    said += [f"+{1e3 * setting.commit:.0f} ms commit"] if setting.commit else []
    return ", ".join(said)
