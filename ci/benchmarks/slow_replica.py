"""A replica that applies more slowly than the copy writes: its highest lag, and what that costs.

The replica's process is stopped for a part of every tenth of a second, which slows down all that it
does. Its lag is measured without the program: a row of the source has the time, ten times a second,
and the replica's copy of it shows how old it is. Both servers are on one machine, with one clock.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import mysql_server
from benchmarks import turn, whole
from benchmarks.contenders import OURS, Failed, Task, known
from benchmarks.meter import Meter
from benchmarks.scenario import Figure, Outcome
from benchmarks.sessions import SCHEMA, Address, Session
from benchmarks.tables import SYSBENCH
from mysql_base import ServerOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.scenario import Sizes
    from mysql_base import MySQLServer

#: The limit that the migration is given, seconds, and what it may be exceeded by.
_MAX_LAG, _BEYOND = 1.5, 1.0
#: Of each tenth of a second the replica works for that share.
_WORKS, _CYCLE = 0.3, 0.1
#: Seconds between two lines, and the longest wait for the replica.
_LINE, _PATIENCE = 1.0, 600.0
_ACCOUNT = "bench"
_AGE = f"SELECT TIMESTAMPDIFF(MICROSECOND, at, UTC_TIMESTAMP(6)) / 1e6 FROM {SCHEMA}.beat"


@dataclass(kw_only=True)
class Seen:
    """What was seen of one migration; times are monotonic seconds.

    Attributes:
        rows: copied so far, at times.
        lag: the replica's, seconds, at times.
    """

    seconds: float = 0.0
    rows: list[tuple[float, int]] = field(default_factory=list)
    lag: list[tuple[float, float]] = field(default_factory=list)

    @property
    def highest(self) -> float:
        """The highest lag."""
        return max((lag for _, lag in self.lag), default=0.0)


def measure(server: MySQLServer, rows: int, sizes: Sizes) -> Outcome:
    """Migrate with the limit and without, beside a slow replica."""
    outcome = Outcome(scenario="slow-replica", rows=rows, figures=[])
    if server.datadir is None:
        outcome.notes["skipped"] = "it needs servers of its own"
        return outcome
    with _replica(server) as replica:
        address = replace(Address.of(server), user=_ACCOUNT)
        whole.say(f"slow-replica: loading {rows:,} rows")
        SYSBENCH.create(address, rows)
        with Session(address) as session:
            session.execute("CREATE TABLE beat (id INT PRIMARY KEY, at DATETIME(6) NOT NULL)")
        limited = f"{OURS} --max-lag {_MAX_LAG} --replica {replica.host}:{replica.port}"
        names = (limited, f"{OURS} --max-lag 0", *sizes.variants)
        found: dict[str, list[Seen]] = {name: [] for name in names}
        for number, name in turn.in_turns(names, sizes.rounds):
            try:
                seen = _migrate(name, address, server, replica, sizes)
            except Failed as failed:
                outcome.notes[f"FAILED, {name}"] = str(failed)
                continue
            found[name].append(seen)
            whole.say("\n".join([f"slow-replica: round {number + 1}, {name}", *lines(seen)]))
    highest = {name: turn.median(one.highest for one in each) for name, each in found.items()}
    seconds = {name: turn.median(one.seconds for one in each) for name, each in found.items()}
    most, free = _MAX_LAG + _BEYOND, names[1]
    if (lag := highest[limited]) is not None:
        outcome.figures.append(
            Figure(name="highest lag", ours=lag, peer=most, against=f"{most:g} s", goal=1.0)
        )
    for what, each in (("highest lag", highest), ("whole", seconds)):
        ours, peer = each[limited], each[free]
        if ours is not None and peer:
            outcome.figures.append(Figure(name=what, ours=ours, peer=peer, against=free))
    return outcome


@contextlib.contextmanager
def _replica(server: MySQLServer) -> Iterator[MySQLServer]:
    """Start a replica of the server, and an account for both."""
    source = Address.of(server)
    with mysql_server.running(
        ServerOptions(buffer_pool="512M", extra=("--server-id=1001",)),
        provider=mysql_server.choose(),
    ) as replica:
        with Session(Address.of(replica), schema="") as session:
            host, port = server.peer_address()
            session.execute(
                f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{host}', SOURCE_PORT = {port},"
                f" SOURCE_USER = '{_ACCOUNT}', SOURCE_PASSWORD = '{source.password}',"
                " GET_SOURCE_PUBLIC_KEY = 1, SOURCE_AUTO_POSITION = 1"
            )
            with Session(source, schema="") as at:
                at.execute(f"CREATE USER {_ACCOUNT} IDENTIFIED BY '{source.password}'")
                at.execute(f"GRANT ALL ON *.* TO {_ACCOUNT}")
            session.execute("START REPLICA")
        yield replica


def _migrate(
    name: str, address: Address, server: MySQLServer, replica: MySQLServer, sizes: Sizes
) -> Seen:
    """Run one migration, while the time is noted and the replica is slowed down."""
    seen, ended = Seen(), threading.Event()
    there = Address.of(replica)
    task = Task(address=address, alter="ENGINE=InnoDB", threads=sizes.threads)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_running(_beat, address, ended))
        stack.callback(ended.set)
        _await_replica(there)
        stack.enter_context(_running(_look, there, seen, ended))
        stack.enter_context(_running(_slow_down, replica.pid, ended))
        stack.callback(ended.set)
        meter = stack.enter_context(Meter(address, server.pid, None))
        seen.seconds = known(name)(task, meter).seconds
        seen.rows = meter.stop().rows
    return seen


@contextlib.contextmanager
def _running(body: Callable[..., None], *arguments: object) -> Iterator[None]:
    """Run a function in a thread, which ends with the context."""
    thread = threading.Thread(target=body, args=arguments)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _beat(address: Address, ended: threading.Event) -> None:
    """Note the time in a row of the source."""
    with Session(address) as session:
        while not ended.wait(0.1):
            session.execute("REPLACE INTO beat VALUES (1, UTC_TIMESTAMP(6))")


def _await_replica(there: Address) -> None:
    """Wait until the replica has all that was written before."""
    deadline = time.monotonic() + _PATIENCE
    with Session(there, schema="") as session:
        while time.monotonic() < deadline:
            with contextlib.suppress(Exception):
                if float(session.value(_AGE)) < 1.0:
                    return
            time.sleep(0.2)
    raise SystemExit("the replica does not keep up with the load of the table")


def _look(there: Address, seen: Seen, ended: threading.Event) -> None:
    """Note how old the time is that the replica has."""
    with Session(there, schema="") as session:
        while not ended.wait(0.1):
            seen.lag.append((time.monotonic(), float(session.value(_AGE))))


def _slow_down(pid: int, ended: threading.Event) -> None:
    """Let the replica work for a part of each cycle alone."""
    try:
        while not ended.wait(_CYCLE * _WORKS):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(_CYCLE * (1 - _WORKS))
            os.kill(pid, signal.SIGCONT)
    finally:
        os.kill(pid, signal.SIGCONT)


def lines(seen: Seen) -> list[str]:
    """Return the timeline: rows copied in each second, and the replica's highest lag in it."""
    copied = [at for at, count in seen.rows if count]
    if not copied:
        return ["   nothing was copied"]
    said = [f"   {'seconds':>8}{'rows copied':>13}{'highest lag':>13}"]
    at, before = copied[0], 0
    last = max((when for when, _ in seen.lag), default=at)
    full = max(count for _, count in seen.rows)
    while at < last:
        at += _LINE
        # The new table is counted under its name until it is swapped in.
        count = max((count for when, count in seen.rows if when <= at), default=full)
        lag = max((age for when, age in seen.lag if at - _LINE < when <= at), default=0.0)
        said.append(f"   {at - copied[0]:8.0f}{count - before:13,}{lag:12.1f}s")
        before = count
    return said
