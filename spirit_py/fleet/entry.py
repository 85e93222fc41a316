"""Run a fleet from its plan to its report."""

from __future__ import annotations

import contextlib
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, Self

from spirit_py.classes import replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Interrupted, Refusal, SpiritError
from spirit_py.events.run import RunBegun, RunEnded, Warned
from spirit_py.fleet.coordinator import Fleet, ServerRun, ServerState
from spirit_py.fleet.places import Here, OnSpark
from spirit_py.fleet.planning import LOOKING
from spirit_py.fleet.records import finish, order
from spirit_py.fleet.report import FleetReport
from spirit_py.locks.named import AdvisoryLock
from spirit_py.signals import run_command
from spirit_py.status.report import installed, versions
from spirit_py.status.reporters import Reporters
from spirit_py.table.names import lock_name
from spirit_py.threads import StopSwitch, side_by_side
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.config import FleetConfig, FleetServer
    from spirit_py.contracts import Reporter
    from spirit_py.events.event import Gate
    from spirit_py.fleet.places import Runner
    from spirit_py.fleet.planning import FleetPlan


def run_fleet(
    config: FleetConfig,
    plan: FleetPlan,
    holds: Holds,
    *,
    reporter: Reporter,
    gate: Gate | None = None,
) -> FleetReport:
    """Run what a plan leaves to do, while ``holds`` keep others away; return and write the report.

    Raises Refusal before anything is written, where as many servers are refused as failures end the
    fleet.
    """
    refused = plan.refused
    if not plan.finished and refused and (len(refused) >= config.stop_after or not plan.left):
        raise Refusal(
            f"{len(refused)} of {counted(len(plan.servers), 'server')} cannot be changed;"
            " nothing was written",
            hint="see what refuses each; correct that, or take these servers from the list;"
            " --stop-after says how many may fail",
            details=tuple(
                f"{one.server.name}: {line}" for one in refused for line in one.refusals[:1]
            ),
            error_code=ErrorCode.BATCH_REFUSED,
        )
    began, stopped = time.monotonic(), None
    reporter, report = Reporters([reporter]), _report(config)
    if plan.finished:
        runs = [ServerRun(plan=one, state=ServerState.DONE) for one in plan.servers]
    else:
        plan = _carried_on(plan)
        runs, stopped = _run(config, plan, holds, reporter, gate)
    report.add(runs)
    if stopped is None and all(one.state is ServerState.DONE for one in runs):
        for line in finish([one.plan for one in runs], plan.orders):
            reporter.event(Warned(said=line))
    report.conclude(stopped, seconds=time.monotonic() - began)
    _end(config, report, reporter)
    return report


def _carried_on(plan: FleetPlan) -> FleetPlan:
    """Withdraw an abort of before: the operator runs the command again; a pause stays."""
    if not plan.orders.aborted:
        return plan
    orders = replace(plan.orders, aborted=False, number=plan.orders.number + 1)
    for one in plan.servers:
        if one.begun:
            order(one, orders)
    return replace(plan, orders=orders)


def _run(
    config: FleetConfig, plan: FleetPlan, holds: Holds, reporter: Reporter, gate: Gate | None
) -> tuple[list[ServerRun], SpiritError | None]:
    stopped = None
    with contextlib.closing(_place(config)) as place:
        fleet = Fleet(
            config=config,
            plan=plan,
            place=place,
            reporter=reporter,
            stop=holds.stop,
            stops=holds.stops,
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
    return list(fleet.runs.values()), stopped


def _place(config: FleetConfig) -> Runner:
    if not config.spark.spark_master:
        return Here()
    from spirit_py.spark.engine import SparkEngine

    engine = SparkEngine(config.spark)
    engine.start()
    return OnSpark(engine)


def _left_at_once() -> SpiritError:
    return Interrupted(
        signal.SIGINT,
        hint="the processes of the servers end by themselves; then run the same command again",
    )


class Holds:
    """The named lock of a fleet on each of its servers: a second coordinator is refused.

    A server whose lock is lost for good has its own part stopped, and no other.
    """

    def __init__(self, config: FleetConfig, stop: StopSwitch | None = None) -> None:
        self.stop = stop or StopSwitch()
        self.stops = {one.name: self.stop.linked() for one in config.servers}
        self._locks = {one.name: self._lock(one, config) for one in config.servers}
        self._failures: dict[str, SpiritError] = {}
        self._held: list[AdvisoryLock] = []

    def _lock(self, server: FleetServer, config: FleetConfig) -> AdvisoryLock:
        each = server.batch.each
        name = lock_name("fleet", config.identity, each.database)
        purpose = "command with this change for several servers"
        return AdvisoryLock(each.connection, name, stop=self.stops[server.name], purpose=purpose)

    def take(self) -> None:
        """Take all; Refusal where another coordinator has one, before anything is written.

        A server that is away has none: its plan says so.
        """
        side_by_side("look", [partial(self._take, name) for name in self._locks], LOOKING)
        held = {
            name: error
            for name, error in self._failures.items()
            if error.error_code is ErrorCode.ALREADY_RUNNING
        }
        if held:
            name, error = next(iter(held.items()))
            more = f", and {len(held) - 1} more" if len(held) > 1 else ""
            raise Refusal(
                f"{name}{more}: {error.message}",
                hint=error.hint,
                error_code=ErrorCode.ALREADY_RUNNING,
            )

    def _take(self, name: str) -> None:
        try:
            self._locks[name].acquire()
            self._held.append(self._locks[name])
        except SpiritError as error:
            self._failures[name] = error
            self.stops[name].request(error)

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

        side_by_side("look", [partial(close, one) for one in self._held], LOOKING)


@contextlib.contextmanager
def reported(config: FleetConfig, reporter: Reporter) -> Iterator[None]:
    """Report that a fleet begins, and write the report of one that is refused before that."""
    servers = f"{counted(len(config.servers), 'server')}"
    reporter.event(RunBegun(command="fleet", server=servers, program=installed("spirit-py")))
    try:
        yield
    except SpiritError as error:
        report = _report(config)
        report.note_failure(error)
        _end(config, report, reporter)
        raise


def _end(config: FleetConfig, report: FleetReport, reporter: Reporter) -> None:
    report.write(config.records.report_json, reporter)
    reporter.event(report.ended(RunEnded))
    reporter.stop()


def _report(config: FleetConfig) -> FleetReport:
    return FleetReport(versions=versions(), asked=config.asked)
