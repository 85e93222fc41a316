"""Runs the servers of a fleet, wave after wave, as brakes and operators allow."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections import Counter
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.batch.report import BatchReport
from spirit_py.batch.store import TableState, agreed
from spirit_py.classes import dataclass, field, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Aborted, MigrationFailure, SpiritError
from spirit_py.events.event import Event, Gate, teller
from spirit_py.events.run import (
    FleetOrdered,
    PlanMade,
    ProgressMade,
    RunBegun,
    RunEnded,
    ServerBegun,
    ServerEnded,
    StatementRead,
    Summary,
    TableEnded,
    Warned,
    WaveBegun,
    WaveReady,
    WaveVetoed,
)
from spirit_py.fleet.process import ServerWork
from spirit_py.fleet.records import figures_of, finish, order, orders_of
from spirit_py.fleet.waves import next_server, waves_of
from spirit_py.progress import BatchStatus
from spirit_py.status.report import failure_of
from spirit_py.threads import Background, StopSwitch, every, side_by_side
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.config import FleetConfig, FleetOrders, FleetServer
    from spirit_py.contracts import Reporter
    from spirit_py.fleet.places import Runner
    from spirit_py.fleet.planning import FleetPlan, ServerPlan
    from spirit_py.fleet.process import Told
    from spirit_py.fleet.waves import Wave
    from spirit_py.progress import MigrationStatus

_log = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 2.0
_WAIT_SECONDS: Final = 0.5
_UNANSWERED_SECONDS: Final = 120.0
#: Orders are read of the servers at work, and of so many that have a record.
_ASKED_SERVERS: Final = 3
_AT_A_TIME: Final = 8
_FIRST_PAUSE: Final = 5.0
_LONGEST_PAUSE: Final = 60.0
#: Of each server's process: the coordinator has its own, or shows what follows from it.
_NOT_PASSED_ON: Final = (RunBegun, RunEnded, Summary, ProgressMade)
#: Shown with ``--verbose`` alone: a line for each of a thousand tables is enough.
_IN_DETAIL: Final = (StatementRead, PlanMade)


class ServerState(StrEnum):
    """How far a server of a fleet is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    REFUSED = "refused"


@dataclass(kw_only=True, eq=False)
class ServerRun:
    """One server: its state, and what its process has told."""

    plan: ServerPlan
    state: ServerState = ServerState.WAITING
    report: BatchReport | None = None
    error: SpiritError | None = None
    seen: BatchStatus | None = None
    seconds: float = 0.0

    @property
    def server(self) -> FleetServer:
        """Its entry of the list."""
        return self.plan.server

    @property
    def written(self) -> bool:
        """Whether a table there is changed, or is being changed, or was by an earlier run."""
        tables = self.report.tables if self.report is not None else []
        return self.plan.begun or any(one["state"] != TableState.PENDING for one in tables)

    @property
    def exit_code(self) -> int:
        """That of its process, or of what kept it from one."""
        if self.report is not None:
            return self.report.exit_code
        return self.error.exit_code if self.error is not None else 0

    @property
    def hint(self) -> str:
        """What to do about it; empty where nothing is known."""
        if self.error is not None:
            return self.error.hint
        reports = self.report.tables if self.report is not None else []
        hints = ((one["report"] or {}).get("hint", "") for one in reports if one["error"])
        return (self.report.hint if self.report is not None else "") or next(hints, "")

    @property
    def cause(self) -> str:
        """What has ended it, in a line; empty where it is done."""
        if self.error is not None:
            return self.error.message
        if self.report is None or not self.report.exit_code:
            return ""
        errors = [
            f"{one['schema']}.{one['table']}: {one['error']}"
            for one in self.report.tables
            if one["error"]
        ]
        return self.report.error or "; ".join(errors[:1]) or self.report.outcome


@dataclass(kw_only=True, eq=False)
class Fleet:
    """The run of a fleet. One thread, but for one of each server at work; ``gate`` asks the hook.

    ``most``: servers at a time that the limit of open files allows. ``stops``: for each server what
    ends its part alone, such as the loss of its named lock.
    """

    config: FleetConfig
    plan: FleetPlan
    place: Runner
    reporter: Reporter
    stop: StopSwitch
    stops: dict[str, StopSwitch]
    most: int
    gate: Gate | None = None
    runs: dict[str, ServerRun] = field(init=False)

    def __post_init__(self) -> None:
        self._tell = teller(self.reporter.event)
        self.runs = {one.server.name: _run_of(one) for one in self.plan.servers}
        self._orders = self.plan.orders
        self._turn = 0
        #: Since when the cluster does not say how many tasks it runs.
        self._unanswered_since: float | None = None
        #: Why records are left although all servers are done.
        self.left_over: tuple[str, ...] = ()
        self._looking = threading.Lock()
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._threads: dict[str, Background] = {}
        self._began = time.monotonic()

    def run(self) -> None:
        """Run all waves; raise the reason of a stop when every process has ended."""
        for run in self.runs.values():
            if run.state is ServerState.REFUSED:
                self._say(run, _ended_event(run))
        try:
            with contextlib.ExitStack() as stack:
                if not self.rehearses:
                    stack.enter_context(Background("orders", every(_LOOK_SECONDS, self._look)))
                for number, wave in enumerate(waves_of(self.config)):
                    self._run_wave(wave, asks=number > 0)
                # Within the looks: an abort is obeyed until the last process has ended.
                self._await_all()
        except BaseException as error:
            # They are not left to work unseen.
            self.stop.request(
                error if isinstance(error, SpiritError) else MigrationFailure(repr(error))
            )
            self._await_all()
            raise
        self._close()
        self.stop.check()

    def _close(self) -> None:
        """Drop the records, once all servers are done."""
        runs = list(self.runs.values())
        if self.rehearses or any(one.state is not ServerState.DONE for one in runs):
            return
        outside = sorted(set(self._orders.members) - set(self.runs))
        if outside:
            told = ", ".join(outside[:5])
            why = f"commands for this change also had other servers: {told}"
            then = "once these are done, or given up, spirit-py ctl --fleet LIST forget drops them"
            self.left_over = (f"{why}; {then}",)
        else:
            self.left_over = tuple(finish([one.plan for one in runs], self._orders, self.stop))
        for line in self.left_over:
            self._tell(Warned(said=line))

    @property
    def rehearses(self) -> bool:
        """Whether nothing is changed, so that there are no records."""
        return any(one.batch.each.dry_run for one in self.config.servers)

    def _run_wave(self, wave: Wave, *, asks: bool) -> None:
        waiting = [one for one in wave.servers if self.runs[one.name].state is ServerState.WAITING]
        if not waiting or self._halted:
            return
        if asks and not self._agreed(wave, waiting):
            return
        points.reach("fleet.wave")
        self._tell(WaveBegun(wave=wave.name, servers=[one.name for one in waiting]))
        while (waiting and not self._halted) or self._threads:
            while (one := self._next(waiting)) is not None:
                waiting.remove(one)
                self._begin(self.runs[one.name])
            with contextlib.suppress(queue.Empty):
                self._end(self._ended.get(timeout=_WAIT_SECONDS))

    @property
    def _halted(self) -> bool:
        """Whether no further server is begun: so many have failed, or a canary has."""
        bad = (ServerState.FAILED, ServerState.REFUSED, ServerState.STOPPED)
        failed = [one.server for one in self.runs.values() if one.state in bad]
        canaries = self.config.servers[: self.config.canary]
        too_many = len(failed) >= self.config.stop_after
        return self.stop.requested or too_many or any(one in canaries for one in failed)

    def _next(self, waiting: list[FleetServer]) -> FleetServer | None:
        if self._halted or self._orders.paused:
            return None
        most = min(self._orders.at_once or self.config.at_once, self.most)
        try:
            slots = self.place.slots() if waiting else None
        except SpiritError:
            # It may answer again; those at work go on.
            now = time.monotonic()
            self._unanswered_since = self._unanswered_since or now
            if now - self._unanswered_since > _UNANSWERED_SECONDS:
                raise
            return None
        self._unanswered_since = None
        return next_server(
            waiting,
            [self.runs[name].server for name in self._threads],
            at_once=most if slots is None else min(most, slots),
            at_once_of=self.config.at_once_of,
        )

    def _begin(self, run: ServerRun) -> None:
        run.state = ServerState.RUNNING
        name = run.server.name
        thread = Background("server", lambda _stopping: self._work(run))
        address = run.server.batch.each.connection.address
        self._say(run, ServerBegun(address=address))
        points.reach("fleet.begins")
        thread.start()
        self._threads[name] = thread

    def _work(self, run: ServerRun) -> None:
        name, began = run.server.name, time.monotonic()
        try:
            batch, stop = run.plan.batch, self.stops[name]
            tables = tuple(str(one.change) for one in batch.tables) if batch is not None else ()
            part = replace(run.server.batch, orders=self._orders)
            # As fast on one machine, without a JVM for each server; files need Spark.
            alone = not part.each.archive_to
            begun = run.plan.begun
            work = ServerWork(
                server=name, batch=part, tables=tables, begun=begun, threads_only=alone
            )
            stop.check()
            self.place.run(work, lambda told: self._hear(run, told), stop)
            if stop.reason is not None and run.exit_code and not self.stop.requested:
                # It was ended from here, for what concerns this server alone.
                run.error = stop.reason
            if run.exit_code:
                # An abort reaches its process by itself, perhaps first.
                self._look()
        except SpiritError as error:
            run.error = error
        except BaseException as error:
            run.error = MigrationFailure(f"{type(error).__name__}: {error}")
        finally:
            run.seconds = time.monotonic() - began
            self._ended.put(name)

    def _hear(self, run: ServerRun, told: Told) -> None:
        if isinstance(told, BatchStatus):
            run.seen = told
        elif isinstance(told, BatchReport):
            run.report = told
        elif isinstance(told, SpiritError):
            run.error = told
        elif not isinstance(told, _NOT_PASSED_ON):
            self._say(run, told)

    def _say(self, run: ServerRun, happened: Event) -> None:
        name = run.server.name
        quiet = happened.quiet or isinstance(happened, _IN_DETAIL)
        if isinstance(happened, TableEnded):
            # Of one table the end of the server says as much.
            batch = run.plan.batch
            quiet = quiet or (batch is not None and len(batch.tables) == 1)
        table = f"{name} {happened.table}".strip()
        # A table's end has its name in the sentence.
        prefix = f"{name} {happened.prefix}".strip()
        if isinstance(happened, ServerBegun | ServerEnded):
            prefix = ""
        self.reporter.event(
            replace(happened, fleet_server=name, table=table, prefix=prefix, quiet=quiet)
        )

    def _end(self, name: str) -> None:
        self._threads.pop(name).join()
        run = self.runs[name]
        run.seen = None
        stopped = self.stop.requested
        if run.report is not None and not run.report.exit_code and run.error is None:
            run.state = ServerState.DONE
        elif stopped:
            run.state = ServerState.STOPPED
        else:
            run.state = ServerState.FAILED
        self._say(run, _ended_event(run))
        points.reach("fleet.ended")

    def _await_all(self) -> None:
        while self._threads:
            self._end(self._ended.get())

    def _agreed(self, wave: Wave, waiting: list[FleetServer]) -> bool:
        """Ask the hook until it agrees; False where the fleet ends before that."""
        if self.gate is None:
            return True
        pause, number = _FIRST_PAUSE, 0
        states = Counter(one.state for one in self.runs.values())
        while not self.stop.requested:
            number += 1
            ready = WaveReady(
                wave=wave.name,
                servers=[one.name for one in waiting],
                done=states[ServerState.DONE],
                failed=states[ServerState.FAILED] + states[ServerState.REFUSED],
                number=number,
            )
            self._tell(ready)
            try:
                why = self.gate(ready, self.stop.check)
            except SpiritError:
                return False
            if not why:
                return True
            self._tell(WaveVetoed(wave=wave.name, reason=why, number=number, seconds=pause))
            self.stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return False

    def _look(self) -> None:
        """Read what operators have ordered, and figures that no process tells from here."""
        with self._looking:
            found: dict[str, FleetOrders] = {}
            runs = list(self._looked_at())
            side_by_side("look", [partial(self._look_at, run, found) for run in runs], _AT_A_TIME)
            latest = agreed(found.values(), self._orders)
            if latest is not self._orders:
                self._obey(latest, next(name for name in found if found[name] == latest))

    def _look_at(self, run: ServerRun, found: dict[str, FleetOrders]) -> None:
        try:
            orders = orders_of(run.plan)
            if not self.place.shows and run.state is ServerState.RUNNING:
                run.seen = figures_of(run.plan)
            if orders is None:
                return
            found[run.server.name] = orders
            known = self._orders
            alike = orders.order == known.order and orders.members == known.members
            if orders.number <= known.number and not alike:
                # It was away, or a command for other servers has written it.
                order(run.plan, known)
        except SpiritError as error:
            # Its own process says what is wrong with a server.
            _log.debug("%s could not be looked at: %s", run.server.name, error)

    def _looked_at(self) -> Iterator[ServerRun]:
        """Yield the servers at work, and in turn some of the others that have a record."""
        yield from (one for one in self.runs.values() if one.state is ServerState.RUNNING)
        others = [
            one
            for one in self.runs.values()
            if one.state is not ServerState.RUNNING and one.written
        ]
        for _ in range(min(_ASKED_SERVERS, len(others))):
            self._turn += 1
            yield others[self._turn % len(others)]

    def _obey(self, orders: FleetOrders, name: str) -> None:
        before = self._orders
        members = tuple(sorted({*before.members, *orders.members}))
        self._orders = replace(orders, members=members)
        if orders.aborted:
            self.stop.request(
                Aborted(
                    f"an operator has aborted the fleet, as the record on {name} says",
                    hint="the source tables are intact; the same command carries on",
                )
            )
            return
        said = []
        if orders.paused is not before.paused:
            said.append("pause, no server and no table begins" if orders.paused else "go on")
        if orders.at_once != before.at_once:
            most = orders.at_once or self.config.at_once
            said.append(f"at most {counted(most, 'server')} at a time")
        text = f"{', '.join(said) or 'no change'} (as the record on {name} says)"
        self._tell(FleetOrdered(said=text, paused=orders.paused, at_once=orders.at_once))

    def status(self) -> BatchStatus:
        """Take a snapshot for the display: the tables at work on all servers."""
        states = Counter(one.state for one in list(self.runs.values()))
        under_way = states[ServerState.RUNNING]
        failed = states[ServerState.FAILED] + states[ServerState.REFUSED]
        done, waiting = states[ServerState.DONE], states[ServerState.WAITING]
        told = f"{done} of {len(self.runs)} servers done, {under_way} under way"
        if self._orders.paused:
            told += ", paused"
        return BatchStatus(
            described=f"{told}, {failed} failed" if failed else told,
            elapsed=time.monotonic() - self._began,
            tables=tuple(
                _of_server(run.server.name, table)
                for run in list(self.runs.values())
                if run.seen is not None
                for table in run.seen.tables
            ),
            counts={"done": done, "running": under_way, "failed": failed, "left": waiting},
            servers=True,
        )


def _of_server(name: str, seen: MigrationStatus) -> MigrationStatus:
    totals = seen.totals
    if totals is not None:
        totals = replace(totals, tables=tuple(f"{name} {one}" for one in totals.tables))
    return replace(seen, table=f"{name} {seen.table}", totals=totals)


def _run_of(plan: ServerPlan) -> ServerRun:
    state = ServerState.WAITING
    if plan.done:
        state = ServerState.DONE
    elif plan.refused:
        state = ServerState.REFUSED
    error = plan.error
    if state is ServerState.REFUSED and error is None:
        cause = plan.refusals[0] if plan.refusals else "its tables cannot be changed"
        error = MigrationFailure(
            cause, details=plan.refusals[1:], error_code=ErrorCode.BATCH_REFUSED
        )
        error.exit_code = 2
    return ServerRun(plan=plan, state=state, error=error)


def _ended_event(run: ServerRun) -> ServerEnded:
    seconds = round(run.seconds, 3)
    if run.error is not None:
        found = failure_of(run.error)
        code = str(found.pop("error_code", "")) or None
        found = {"hint": "", "details": [], **found}
        return ServerEnded(**found, code=code, seconds=seconds, summed_up="")
    report = run.report or BatchReport()
    ended = report.end_fields() | {"error": run.cause}
    summary = report.summary()
    last = next((line for line in reversed(summary) if line[:1].isdigit()), "done")
    return ServerEnded(**ended, seconds=seconds, summed_up=last)
