"""Runs the servers of a fleet, wave after wave, as brakes and operators allow."""

from __future__ import annotations

import contextlib
import copy
import logging
import queue
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.classes import dataclass, replace
from spirit_py.command_config import agreed
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
from spirit_py.fleet.records import figures_of, finish, left_by, order, orders_of
from spirit_py.fleet.report import BAD, FleetState, ServerRun, ServerState
from spirit_py.fleet.waves import next_server, waves_of
from spirit_py.progress import BatchStatus
from spirit_py.threads import Background, StopSwitch, every, side_by_side
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from spirit_py.command_config import FleetConfig, FleetOrders, FleetServer
    from spirit_py.contracts import Reporter
    from spirit_py.fleet.places import Runner
    from spirit_py.fleet.planning import FleetPlan
    from spirit_py.fleet.process import Told
    from spirit_py.fleet.waves import Wave

_log = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 2.0
_WAIT_SECONDS: Final = 0.5
#: As of the hook that is asked before a swap.
_GOOD_SECONDS: Final = 30.0
#: Orders are read of the servers at work, and of so many that have a record.
_ASKED_SERVERS: Final = 3
_AT_A_TIME: Final = 8
_PAUSED: Final = (
    "an operator has paused this change: no server and no table begins before"
    " spirit-py ctl --fleet LIST resume"
)
_FROM_THE_FUTURE: Final = (
    "the record on {} has an order that the clock of this machine puts more than a day ahead: it is"
    " not obeyed; if the clock is behind, set it"
)
_FIRST_PAUSE: Final = 5.0
_LONGEST_PAUSE: Final = 60.0
#: Of each server's process: the coordinator has its own, or shows what follows from it.
_NOT_PASSED_ON: Final = (RunBegun, RunEnded, Summary, ProgressMade)
#: For which the end of a process is waited for that no task follows any more.
_UNSEEN_SECONDS: Final = 300.0
#: Shown with ``--verbose`` alone: a line for each of a thousand tables is enough.
_IN_DETAIL: Final = (StatementRead, PlanMade)


@dataclass(kw_only=True, eq=False)
class Fleet:
    """The run of a fleet. One thread, but for one of each server at work; ``gate`` asks the hook.

    ``most``: servers at a time that the limit of open files allows. ``stops``: for each server what
    ends its part alone, such as the loss of its named lock; ``at_turn`` returns that of a server
    that is to begin, or raises what keeps it from that.
    """

    config: FleetConfig
    plan: FleetPlan
    place: Runner
    reporter: Reporter
    stop: StopSwitch
    stops: dict[str, StopSwitch]
    at_turn: Callable[[str], StopSwitch]
    most: int
    gate: Gate | None = None

    def __post_init__(self) -> None:
        self._tell = teller(self.reporter.event)
        self.state = FleetState(self.plan.servers)
        self._orders = self.plan.orders
        self._turn = 0
        #: Of whose loss was told while they waited.
        self._lost: set[str] = set()
        #: Why records are left although all servers are done.
        self.left_over: MigrationFailure | None = None
        self._warned = False
        self._looking = threading.Lock()
        self._looked = 0.0
        #: Whose orders an earlier look has read.
        self._heard_of = {one.server.name for one in self.plan.servers if one.begun}
        #: Whose process has ended, after how long, and what ended it from here.
        self._ended: queue.SimpleQueue[tuple[str, float, SpiritError | None]] = queue.SimpleQueue()
        self._threads: dict[str, Background] = {}
        self._began = time.monotonic()

    def run(self) -> None:
        """Run all waves; raise the reason of a stop when every process has ended."""
        for run in self.state.of(ServerState.REFUSED):
            self._say(run, run.end)
        if self._orders.paused:
            self._tell(Warned(said=_PAUSED))
        try:
            with contextlib.ExitStack() as stack:
                if not self.rehearses:
                    # For what was ordered since the plan: an abort begins nothing.
                    self._look()
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
        done = self.state.of(ServerState.DONE)
        if self.rehearses or len(done) < len(self.plan.servers):
            return
        self.left_over = finish([one.plan for one in done], self._orders, self.stop)
        for line in self.left_over.details if self.left_over is not None else ():
            self._tell(Warned(said=line))

    @property
    def rehearses(self) -> bool:
        """Whether nothing is changed, so that there are no records."""
        return any(one.batch.each.dry_run for one in self.config.servers)

    def _run_wave(self, wave: Wave, *, asks: bool) -> None:
        waiting = [one for one in wave.servers if self.state[one.name].state is ServerState.WAITING]
        if not waiting or self._halted:
            return
        first = None
        if asks and self.gate is not None:
            first = self._agreed(wave, waiting, self.gate)
            if first is None:
                return
        points.reach("fleet.wave")
        self._tell(WaveBegun(wave=wave.name, servers=[one.name for one in waiting]))
        while (waiting and not self._halted) or self._threads:
            self._warn_of_lost()
            while (one := first or self._next(waiting)) is not None:
                first = None
                waiting.remove(one)
                self._begin(one.name)
            with contextlib.suppress(queue.Empty):
                self._end(*self._ended.get(timeout=_WAIT_SECONDS))

    @property
    def _halted(self) -> bool:
        """Whether no further server is begun: so many have failed, or a canary has."""
        failed = [one.server.name for one in self.state.of(*BAD, ServerState.STOPPED)]
        # By name: the plan's servers are pinned to what was found behind their addresses.
        canaries = {one.name for one in self.config.servers[: self.config.canary]}
        too_many = len(failed) >= self.config.stop_after
        return self.stop.requested or too_many or any(one in canaries for one in failed)

    def _next(self, waiting: list[FleetServer]) -> FleetServer | None:
        if self._halted or self._orders.paused:
            return None
        most = min(self._orders.at_once or self.config.at_once, self.most)
        slots = self.place.slots() if waiting else None
        return next_server(
            waiting,
            [self.state[name].server for name in self._threads],
            at_once=most if slots is None else min(most, slots),
            at_once_of=self.config.at_once_of,
        )

    def _warn_of_lost(self) -> None:
        """Report once that a server which waits for its turn does not answer."""
        for run in self.state.of(ServerState.WAITING):
            name = run.server.name
            why = self.stops[name].reason
            if why is not None and name not in self._lost and not self.stop.requested:
                self._lost.add(name)
                said = f"it is tried again at its turn, and not held until then: {why.message}"
                self._say(run, Warned(said=said))

    def _begin(self, name: str) -> None:
        run = self.state.note(name, ServerRun.begun)
        thread = Background("server", lambda _stopping: self._work(name))
        address = run.server.batch.each.connection.address
        self._say(run, ServerBegun(address=address))
        points.reach("fleet.begins")
        thread.start()
        self._threads[name] = thread

    def _work(self, name: str) -> None:
        began, why = time.monotonic(), None
        try:
            stop = self.at_turn(name)
            stop.check()
            try:
                self.place.run(self._work_of(name), partial(self._hear, name), stop)
            except SpiritError as error:
                why = error if self.place.shows else self._seen_to_end(name, error)
            if why is None and self.state[name].exit_code and not self.stop.requested:
                # It may have been ended from here, for what concerns this server alone.
                why = stop.reason
            if not self.rehearses:
                # An abort reaches its process by itself, perhaps first; and none that is ordered
                # by now may be missed by the server that begins in its place.
                self._look()
        except SpiritError as error:
            why = error
        except BaseException as error:
            why = MigrationFailure(f"{type(error).__name__}: {error}")
        finally:
            self._ended.put((name, time.monotonic() - began, why))

    def _seen_to_end(self, name: str, error: SpiritError) -> SpiritError | None:
        """Wait until nothing works on a server whose process has told no end; read what it did.

        Spark kills what follows it, and it ends by itself. Return what has ended it; None where the
        server is done all the same.
        """
        until = time.monotonic() + _UNSEEN_SECONDS
        while True:
            try:
                report = left_by(self.state[name].plan, error)
            except SpiritError as failure:
                _log.debug("%s could not be looked at: %s", name, failure)
                report = None
            if report is not None:
                self._hear(name, report)
                return error if report.exit_code else None
            if time.monotonic() >= until:
                break
            threading.Event().wait(_LOOK_SECONDS)
        unseen = copy.copy(error)
        said = "its process was not seen to end: see spirit-py status of that server"
        unseen.hint = f"{error.hint}; {said}" if error.hint else said
        self._say(self.state[name], Warned(said=said))
        return unseen

    def _work_of(self, name: str) -> ServerWork:
        plan = self.state[name].plan
        tables = () if plan.batch is None else tuple(str(one.change) for one in plan.batch.tables)
        part = replace(plan.server.batch, orders=self._orders)
        # As fast on one machine, without a JVM for each server; files need Spark.
        alone = not part.each.archive_to
        return ServerWork(
            server=name, batch=part, tables=tables, begun=plan.begun, threads_only=alone
        )

    def _hear(self, name: str, told: Told) -> None:
        run = self.state.note(name, lambda run: run.heard(told))
        if isinstance(told, Event) and not isinstance(told, _NOT_PASSED_ON):
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

    def _end(self, name: str, seconds: float, why: SpiritError | None) -> None:
        self._threads.pop(name).join()
        stopped = self.stop.requested
        run = self.state.note(name, lambda run: run.ended(seconds, why, stopped=stopped))
        self._say(run, run.end)
        points.reach("fleet.ended")

    def _await_all(self) -> None:
        while self._threads:
            self._end(*self._ended.get())

    def _agreed(self, wave: Wave, waiting: list[FleetServer], gate: Gate) -> FleetServer | None:
        """Ask the hook until it agrees, when a server could begin, so never in a pause.

        Return that server; None where the fleet ends before that. A yes from before a pause, or of
        long ago, counts no more: what it looked at may be another thing by now.
        """
        pause, number = _FIRST_PAUSE, 0
        done, failed = self.state.of(ServerState.DONE), self.state.of(*BAD)
        while not self.stop.requested:
            if self._next(waiting) is None:
                self.stop.wait(_WAIT_SECONDS)
                continue
            number, orders = number + 1, self._orders
            ready = WaveReady(
                wave=wave.name,
                servers=[one.name for one in waiting],
                done=len(done),
                failed=len(failed),
                number=number,
            )
            self._tell(ready)
            try:
                why = gate(ready, self.stop.check)
            except SpiritError:
                return None
            if not why:
                if (first := self._first_in_time(waiting, orders)) is not None:
                    return first
                continue
            self._tell(WaveVetoed(wave=wave.name, reason=why, number=number, seconds=pause))
            self.stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return None

    def _first_in_time(self, waiting: list[FleetServer], orders: FleetOrders) -> FleetServer | None:
        """Return the next server as long as a yes of the hook is good; None after other orders."""
        until = time.monotonic() + _GOOD_SECONDS
        while self._orders is orders and not self.stop.requested:
            if (first := self._next(waiting)) is not None:
                return first
            if time.monotonic() >= until:
                break
            self.stop.wait(_WAIT_SECONDS)
        return None

    def _look(self) -> None:
        """Read what operators have ordered, and figures that no process tells from here."""
        wanted = time.monotonic()
        with self._looking:
            if self._looked > wanted:
                return
            self._looked = time.monotonic()
            found = self._found()
            unseen = {name for name, orders in found.items() if orders.unseen}
            if unseen:
                # Whoever orders something from now on finds these records; what others were given
                # before they were made is read now. One that is made meanwhile is for another look.
                again = self._found().items()
                found |= {name: row for name, row in again if not row.unseen or name in unseen}
            known = [orders for name, orders in found.items() if name in self._heard_of]
            new = [orders for name, orders in found.items() if name not in self._heard_of]
            # Also those that do not answer this time.
            begun = sum(
                self.state[name].written or self.state[name].state is ServerState.RUNNING
                for name in self._heard_of
            )
            self._warn_of_clocks(found)
            latest = agreed(known, self._orders, new, begun=begun)
            self._heard_of |= found.keys()
            if latest is not self._orders:
                name = next(name for name in found if found[name].order == latest.order)
                self._obey(latest, name)
            passed_on = [partial(self._pass_on, *one) for one in found.items()]
            side_by_side("look", passed_on, _AT_A_TIME)

    def _found(self) -> dict[str, FleetOrders]:
        found: dict[str, FleetOrders] = {}
        runs = list(self._looked_at())
        side_by_side("look", [partial(self._look_at, run, found) for run in runs], _AT_A_TIME)
        return found

    def _pass_on(self, name: str, orders: FleetOrders) -> None:
        """Write what holds into a record that has another: it was away, or has just begun.

        Or a command for other servers has written it.
        """
        known = self._orders
        alike = orders.order == known.order and orders.members == known.members
        if orders.unseen or (orders.number <= known.number and not alike):
            with contextlib.suppress(SpiritError):
                order(self.state[name].plan, known)

    def _warn_of_clocks(self, found: Mapping[str, FleetOrders]) -> None:
        """Report once that orders are not obeyed: whoever gave them was told that they are."""
        now = time.time()
        name = next((name for name in found if found[name].ahead_of(now)), "")
        if name and not self._warned:
            self._warned = True
            self._tell(Warned(said=_FROM_THE_FUTURE.format(name)))

    def _look_at(self, run: ServerRun, found: dict[str, FleetOrders]) -> None:
        try:
            orders = orders_of(run.plan)
            if not self.place.shows and run.state is ServerState.RUNNING:
                seen = figures_of(run.plan)
                self.state.note(run.server.name, lambda run: run.heard(seen))
            if orders is None:
                # Its process has ended without a trace, and dropped its record.
                self._heard_of.discard(run.server.name)
                return
            found[run.server.name] = orders
        except SpiritError as error:
            # Its own process says what is wrong with a server.
            _log.debug("%s could not be looked at: %s", run.server.name, error)

    def _looked_at(self) -> Iterator[ServerRun]:
        """Yield the servers at work, and in turn some of the others that have a record."""
        yield from self.state.of(ServerState.RUNNING)
        idle = set(ServerState) - {ServerState.RUNNING}
        others = [one for one in self.state.of(*idle) if one.written]
        for _ in range(min(_ASKED_SERVERS, len(others))):
            self._turn += 1
            yield others[self._turn % len(others)]

    def _obey(self, orders: FleetOrders, name: str) -> None:
        before = self._orders
        # The plan knows of whom else there are records: one row alone may be forged (R26).
        self._orders = replace(orders, members=before.members, places=before.places)
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
        left_states = (ServerState.WAITING, ServerState.STOPPED)
        groups = ([ServerState.DONE], [ServerState.RUNNING], BAD, left_states)
        done, under_way, failed, left = (len(self.state.of(*states)) for states in groups)
        servers = self.state.servers
        told = f"{done} of {len(servers)} servers done, {under_way} under way"
        if self._orders.paused:
            told += ", paused"
        return BatchStatus(
            described=f"{told}, {failed} failed" if failed else told,
            elapsed=time.monotonic() - self._began,
            tables=tuple(table for run in servers for table in run.shown),
            counts={"done": done, "running": under_way, "failed": failed, "left": left},
            servers=True,
        )
