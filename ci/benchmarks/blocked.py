"""How long the application stands still while old transactions are in front of the swap.

A SELECT of 60 seconds and a session that idles in a transaction for 150 seconds use the table when
the swap begins. The lock is requested as the program does by default, then by an account that may
kill nobody, then whoever is in front, as a tool does that does not look; the last two with blockers
of a fifth of the time. A stop is a time of more than half a second in which no write of any
session of the application ends.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import MySQLdb

from benchmarks.application import Application, Load
from benchmarks.cutover import ALTER, following
from benchmarks.internals import new_table, options_of
from benchmarks.scenario import Figure, Outcome
from benchmarks.sessions import SCHEMA, TABLE, Address, Session
from benchmarks.tables import SYSBENCH
from spirit_py.cutover.cutover import Cutover
from spirit_py.cutover.plan import CutoverLimits, CutoverPlan
from spirit_py.events.event import teller
from spirit_py.locks.blockers import LockPolicy
from spirit_py.table.names import Swap
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from benchmarks.application import Write
    from benchmarks.scenario import Sizes
    from mysql_base import MySQLServer

LOAD: Final = Load(writers=8, rate=300.0)
#: Seconds of the SELECT and of the idle transaction; BENCH_BLOCKED_SECONDS has another second one.
IDLE: Final = float(os.environ.get("BENCH_BLOCKED_SECONDS", "150"))
SELECT: Final = 0.4 * IDLE
SHORT: Final = 0.2
#: Seconds without the end of a write that count as a stop.
STOP: Final = 0.5
#: Requests of so many seconds, whoever is in front.
UNSEEING: Final = LockPolicy(old=float("inf"), wait=8.0, longest_pause=2.0)
_ACCOUNT: Final = "bench_plain"


@dataclass(frozen=True, kw_only=True)
class Stops:
    """What the application felt of one swap, in seconds.

    Attributes:
        longest: the longest stop.
        total: all stops together.
        tries: of the swap.
        waited: until the swap was done.
        idle: for how long the idle transaction was in front.
    """

    longest: float
    total: float
    tries: int
    waited: float
    idle: float

    def __str__(self) -> str:
        return (
            f"stops of {self.longest:.2f} s at most, {self.total:.2f} s in all, of"
            f" {self.waited:.0f} s behind an idle transaction of {self.idle:.0f} s;"
            f" {self.tries} tries"
        )


def blocked(server: MySQLServer, rows: int, _sizes: Sizes) -> Outcome:
    """Measure the stops of the application behind a swap that is blocked."""
    address = Address.of(server)
    SYSBENCH.create(address, rows)
    word = secrets.token_hex(8)
    with Session(address) as session:
        session.execute(f"DROP USER IF EXISTS {_ACCOUNT}")
        session.execute(f"CREATE USER {_ACCOUNT} IDENTIFIED BY '{word}'")
        session.execute(f"GRANT ALL ON {SCHEMA}.* TO {_ACCOUNT}")
        session.execute(f"GRANT SELECT ON performance_schema.* TO {_ACCOUNT}")
        session.execute(
            f"GRANT PROCESS, REPLICATION SLAVE, REPLICATION CLIENT, RELOAD ON *.* TO {_ACCOUNT}"
        )
    plain = replace(address, user=_ACCOUNT, password=word)
    try:
        with Application(address, SYSBENCH, rows, LOAD) as application:
            default = _swap(application, address, address, LockPolicy(), 1.0)
            unprivileged = _swap(application, address, plain, LockPolicy(), SHORT)
            unseeing = _swap(application, address, address, UNSEEING, SHORT)
    finally:
        with Session(address) as session:
            session.execute(f"DROP USER {_ACCOUNT}")
    figures = [
        Figure(name="longest stop", ours=each.longest, peer=3.0, against="3 s", goal=1.0)
        for each in (default, unprivileged)
    ]
    figures += [
        Figure(name="all stops", ours=each.total, peer=10.0, against="10 s", goal=1.0)
        for each in (default, unprivileged)
    ]
    figures.append(
        Figure(
            name="longest stop",
            ours=default.longest,
            peer=unseeing.longest,
            against="requests of 8 s without a look",
        )
    )
    notes = {
        "default": str(default),
        "without CONNECTION_ADMIN": str(unprivileged),
        "requests of 8 s without a look": str(unseeing),
    }
    return Outcome(scenario="blocked", rows=rows, figures=figures, notes=notes)


def _swap(
    application: Application, address: Address, ours: Address, policy: LockPolicy, share: float
) -> Stops:
    """Swap behind the two blockers; return what the application felt.

    Args:
        ours: how the program logs in.
        share: part of the usual times of the blockers.
    """
    mapping = new_table(address, ALTER)
    with following(ours, mapping) as feed:
        blockers = [
            threading.Thread(target=_long_select, args=(address, SELECT * share)),
            threading.Thread(target=_idle, args=(address, IDLE * share)),
        ]
        for each in blockers:
            each.start()
        time.sleep(min(2.0, SELECT * share / 2))
        plan = CutoverPlan(
            connection=options_of(ours),
            swaps=[Swap.of(mapping)],
            source=feed,
            stop=StopSwitch(),
            limits=CutoverLimits(lock=policy),
            tell=teller(lambda event: print(f"  {event.line[:160]}", flush=True)),
        )
        began = time.monotonic()
        result = Cutover(plan).run()
        ended = time.monotonic()
    for each in blockers:
        each.join()
    application.until(ended + 1.0)
    with Session(address) as session:
        session.execute(f"DROP TABLE {SCHEMA}._t_old")
    longest, total = _stops(application.writes, (began, ended + 1.0))
    return Stops(
        longest=longest,
        total=total,
        tries=result.attempts,
        waited=ended - began,
        idle=IDLE * share,
    )


def _stops(writes: list[Write], span: tuple[float, float]) -> tuple[float, float]:
    """Return the longest time without the end of a write, and all those above a limit together."""
    began, ended = span
    ends = sorted(at + took for at, took in writes if began <= at + took <= ended)
    gaps = [after - before for before, after in zip([began, *ends], [*ends, ended], strict=True)]
    return max(gaps), sum(gap for gap in gaps if gap > STOP)


def _long_select(address: Address, seconds: float) -> None:
    with Session(address) as session:
        session.query(f"SELECT SLEEP({seconds}) FROM {TABLE} LIMIT 1")


def _idle(address: Address, seconds: float) -> None:
    """Sit in a transaction that has used the table."""
    with Session(address) as session:
        try:
            session.execute("BEGIN")
            session.query(f"SELECT * FROM {TABLE} LIMIT 1")
            time.sleep(seconds)
            session.execute("COMMIT")
        except MySQLdb.Error as error:
            print(f"  the idle transaction ended: {error}", flush=True)
