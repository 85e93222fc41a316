"""Run a fleet from its plan to its report."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from spirit_py.batch.report import refusal_of
from spirit_py.classes import replace
from spirit_py.codes import ErrorCode
from spirit_py.command_config import last_number
from spirit_py.errors import Interrupted, MigrationFailure, Refusal, SpiritError
from spirit_py.events.run import RunBegun, Warned
from spirit_py.fleet.coordinator import Fleet
from spirit_py.fleet.places import Here, OnSpark
from spirit_py.fleet.planning import LOOKING, allowed_files
from spirit_py.fleet.records import order, read_again
from spirit_py.fleet.report import FleetReport
from spirit_py.locks.named import AdvisoryLock
from spirit_py.mysql.own_sessions import run_label
from spirit_py.signals import run_command, stop_on_signals
from spirit_py.spark.settings import unprotected
from spirit_py.status.report import installed, refused_before, versions
from spirit_py.status.reporters import Reporters
from spirit_py.table.names import lock_name
from spirit_py.threads import StopSwitch, side_by_side
from spirit_py.units import counted

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from spirit_py.command_config import FleetConfig
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Reporter
    from spirit_py.events.event import Gate
    from spirit_py.fleet.places import Runner
    from spirit_py.fleet.planning import FleetPlan, ServerPlan

#: Of the program itself, and of each process: three pipes, and a file for its errors.
_FILES: Final = 128
_FILES_OF_A_PROCESS: Final = 8


def run_fleet(
    config: FleetConfig,
    plan: FleetPlan,
    *,
    reporter: Reporter,
    stop: StopSwitch | None = None,
    gate: Gate | None = None,
) -> FleetReport:
    """Run what a plan leaves to do, keeping other coordinators away; return and write the report.

    Raises Refusal before anything is written: as many servers are refused as failures end the
    fleet, or a canary is, or another coordinator is at work.
    """
    refuse(config, plan)
    most = _most_servers(config)
    began = time.monotonic()
    reporter, report = Reporters([reporter]), _report(config)
    if known := unprotected(config.spark) if config.spark.spark_master else "":
        reporter.event(Warned(said=known))
    switch = stop or StopSwitch()
    # To the end of the report: a hook may be waited for.
    with stop_on_signals(switch):
        with Holds(plan, switch) as holds:
            holds.read_again()
            plan = _carried_on(config, plan)
            fleet, stopped = _run(config, plan, holds, reporter, gate=gate, most=most)
        report.add(fleet.state.servers)
        report.conclude(stopped, seconds=time.monotonic() - began, left_over=fleet.left_over)
        report.close(config.records.report_json, reporter)
    return report


def refuse(config: FleetConfig, plan: FleetPlan) -> None:
    """Raise Refusal where so much of a plan is refused that nothing is begun.

    After an earlier run has begun a server it is a MigrationFailure: something was written.
    """
    if not plan.is_refused(config):
        return
    refused = plan.refused
    raise refusal_of(
        f"{len(refused)} of {counted(len(plan.servers), 'server')} cannot be changed",
        written=any(one.begun for one in plan.servers),
        hint="see what refuses each, and correct that; --stop-after says how many may fail",
        details=tuple(f"{one.server.name}: {line}" for one in refused for line in one.refusals[:3]),
        error_code=ErrorCode.BATCH_REFUSED,
    )


def _most_servers(config: FleetConfig) -> int:
    """Return how many servers open files allow; Refusal for fewer than what is asked for."""
    files = allowed_files()
    kept = _FILES + len(config.servers)
    most = (files - kept) // _FILES_OF_A_PROCESS
    if most < config.at_once:
        needed = kept + _FILES_OF_A_PROCESS * config.at_once
        raise Refusal(
            f"{counted(len(config.servers), 'server')}, {config.at_once} at a time, need {needed}"
            f" open files, and this process may have {files}",
            hint="raise the limit (ulimit -Hn), or use a smaller --servers-at-once",
            error_code=ErrorCode.WRONG_OPTIONS,
        )
    return most


def _carried_on(config: FleetConfig, plan: FleetPlan) -> FleetPlan:
    """Withdraw an abort of before, and a limit: the command was given again, with its own number.

    A pause stays, and so does what an operator has ordered since the plan was made, as while the
    command stood at its prompt: it has a later number, and the next look finds it. The servers that
    have begun learn of it, and of all servers of this list.
    """
    if any(one.batch.each.dry_run for one in config.servers):
        return plan
    begun = [one for one in plan.servers if one.begun]
    number = max(plan.orders.number, last_number(one.orders for one in begun)) + 1
    orders = replace(plan.orders, aborted=False, at_once=0, number=number, finished=())

    def tell(one: ServerPlan) -> None:
        with contextlib.suppress(SpiritError):
            order(one, orders)

    side_by_side("look", [partial(tell, one) for one in begun], LOOKING)
    return replace(plan, orders=orders)


def _run(
    config: FleetConfig,
    plan: FleetPlan,
    holds: Holds,
    reporter: Reporter,
    *,
    gate: Gate | None,
    most: int,
) -> tuple[Fleet, SpiritError | None]:
    stopped = None
    with contextlib.closing(_place(config)) as place:
        fleet = Fleet(
            config=config,
            plan=plan,
            place=place,
            reporter=reporter,
            stop=holds.stop,
            stops=holds.stops,
            at_turn=holds.at_turn,
            most=most,
            gate=gate,
        )
        reporter.start()
        try:
            run_command(
                fleet.run,
                stop=holds.stop,
                reporter=reporter,
                status=fleet.status,
                left_at_once=_left_at_once,
            )
        except SpiritError as error:
            stopped = error
    return fleet, stopped


def _place(config: FleetConfig) -> Runner:
    if not config.spark.spark_master:
        return Here()
    from spirit_py.spark.engine import SparkEngine

    engine = SparkEngine(config.spark, patient=True)
    engine.start()
    return OnSpark(engine)


def _left_at_once() -> SpiritError:
    return Interrupted(
        signal.SIGINT,
        hint="the processes of the servers end by themselves; then run the same command again",
    )


class Holds:
    """The named locks of a fleet on its servers: a second coordinator is refused.

    Each one's name is made of that of the record, so that commands that would write the same record
    refuse each other. A server whose lock is lost for good has its own part stopped, and no other;
    one that waits for its turn is tried again then. Entries of the list that are one server, such
    as schemas of it, have one session there.
    """

    def __init__(self, plan: FleetPlan, stop: StopSwitch | None = None) -> None:
        self.stop = stop or StopSwitch()
        self.stops = {one.server.name: self.stop.linked() for one in plan.servers}
        planned = (one for one in plan.servers if one.batch is not None and not one.clash)
        self._plans = {one.server.name: one for one in planned}
        #: The entries of each server; their account may be another one.
        self._together: dict[ConnectionOptions, list[str]] = {}
        for name, one in self._plans.items():
            self._together.setdefault(one.server.batch.each.connection, []).append(name)
        self._locks = {options: self._lock(options) for options in self._together}
        self._failures: dict[str, SpiritError] = {}
        self._turns = {options: threading.Lock() for options in self._together}
        #: Whose record was not read since the lock of its server was taken.
        self._unread = {
            name for name, one in self._plans.items() if not one.server.batch.each.dry_run
        }

    def _lock(self, options: ConnectionOptions) -> AdvisoryLock:
        names, stop = self._together[options], self.stop.linked()
        batches = (self._plans[name].batch for name in names)
        # In an order that every list has: else two commands wait for each other (error 3058).
        locks = {lock_name("fleet", one.name) for one in batches if one is not None}
        first, *also = sorted(locks)
        for name in names:
            self.stops[name] = stop
        return AdvisoryLock(
            replace(options, label=run_label(())),
            first,
            stop=stop,
            purpose="command with this change for several servers",
            also=tuple(also),
        )

    def read_again(self) -> None:
        """Raise Refusal where a record has changed since the plan was made, or cannot be read.

        Nobody else writes them now, but for orders.
        """
        left = self._unread - self._failures.keys()
        errors: list[SpiritError] = []

        def read(name: str) -> None:
            try:
                read_again(self._plans[name])
            except SpiritError as error:
                errors.append(error)
                return
            left.discard(name)
            self._unread.discard(name)

        side_by_side("look", [partial(read, name) for name in sorted(left)], LOOKING)
        if left:
            names = ", ".join(sorted(left)[:3])
            raise errors[0] if errors else MigrationFailure(f"{names} could not be looked at again")

    def at_turn(self, name: str) -> StopSwitch:
        """Return what ends a server's part, at its turn; a lock that was lost is taken anew.

        Raises what keeps it from that, or Refusal where its record has changed since the plan.
        """
        options = self._plans[name].server.batch.each.connection
        with self._turns[options]:
            if self.stops[name].requested and not self.stop.requested:
                self._locks[options].close()
                lock = self._locks[options] = self._lock(options)
                self._unread |= {
                    one
                    for one in self._together[options]
                    if not self._plans[one].server.batch.each.dry_run
                }
                try:
                    lock.acquire()
                except SpiritError as error:
                    lock.stop.request(error)
                    raise
            if name in self._unread and not self.stop.requested:
                read_again(self._plans[name])
                self._unread.discard(name)
            return self.stops[name]

    def take(self) -> None:
        """Take all; Refusal where another coordinator has one, before anything is written."""
        side_by_side("look", [partial(self._take, one) for one in self._together], LOOKING)
        held = [
            (name, error)
            for name, error in self._failures.items()
            if error.error_code is ErrorCode.ALREADY_RUNNING
        ]
        for name, error in held[:1]:
            more = f", and {len(held) - 1} more" if len(held) > 1 else ""
            raise Refusal(
                f"{name}{more}: {error.message}",
                hint=error.hint,
                error_code=ErrorCode.ALREADY_RUNNING,
            )

    def _take(self, options: ConnectionOptions) -> None:
        lock = self._locks[options]
        try:
            lock.acquire()
        except Exception as error:
            known = error if isinstance(error, SpiritError) else MigrationFailure(repr(error))
            self._failures |= dict.fromkeys(self._together[options], known)
            lock.stop.request(known)

    def __enter__(self) -> Self:
        try:
            self.take()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        def close(lock: AdvisoryLock) -> None:
            with contextlib.suppress(Exception):
                lock.close()

        side_by_side("look", [partial(close, one) for one in self._locks.values()], LOOKING)


def reported(config: FleetConfig, reporter: Reporter) -> AbstractContextManager[None]:
    """Report that a fleet begins, and write the report of one that is refused before that."""
    servers = counted(len(config.servers), "server")
    begun = RunBegun(command="fleet", server=servers, program=installed("spirit-py"))
    path = config.records.report_json
    return refused_before(path, reporter, begun=begun, made=lambda: _report(config))


def _report(config: FleetConfig) -> FleetReport:
    return FleetReport(versions=versions(), asked=config.asked)
