"""What becomes of each server of a fleet: how far it is, changed here alone, and the report.

Whoever coordinates none, as ``spirit-py ctl --fleet LIST status``, asks the servers.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from spirit_py.batch.listing import batches
from spirit_py.batch.report import BatchReport, exit_code
from spirit_py.batch.store import TableState
from spirit_py.classes import dataclass, field, replace
from spirit_py.codes import ErrorCode
from spirit_py.command_config import FleetOrders, agreed
from spirit_py.errors import MigrationFailure, OutcomeUnknown, Refusal, SpiritError
from spirit_py.events.run import ServerEnded
from spirit_py.fleet.planning import LOOKING
from spirit_py.fleet.records import looked_at, rows_of
from spirit_py.progress import BatchStatus
from spirit_py.status.report import OutcomeReport, failure_of
from spirit_py.threads import side_by_side
from spirit_py.units import counted, human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Self

    from spirit_py.batch.listing import BatchShown
    from spirit_py.command_config import FleetServer
    from spirit_py.config import ConnectionOptions
    from spirit_py.fleet.planning import ServerPlan
    from spirit_py.fleet.process import Told
    from spirit_py.fleet.records import FleetMember, ServerRecords
    from spirit_py.progress import MigrationStatus


class ServerState(StrEnum):
    """How far a server of a fleet is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    REFUSED = "refused"


BAD = (ServerState.FAILED, ServerState.REFUSED)
"""The states of servers that count as failures."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ServerRun:
    """One server: its state, and what its process has told."""

    plan: ServerPlan
    state: ServerState = ServerState.WAITING
    report: BatchReport | None = None
    error: SpiritError | None = None
    seen: BatchStatus | None = None
    seconds: float = 0.0

    @classmethod
    def of(cls, plan: ServerPlan) -> Self:
        """Return a server as its plan leaves it: done, refused, or waiting for its turn."""
        if plan.done:
            return cls(plan=plan, state=ServerState.DONE, error=plan.error)
        if not plan.refused:
            return cls(plan=plan, error=plan.error)
        error = plan.error
        if error is None:
            cause = plan.refusals[0] if plan.refusals else "its tables cannot be changed"
            error = MigrationFailure(
                cause, details=plan.refusals[1:], error_code=ErrorCode.BATCH_REFUSED
            )
            error.exit_code = 2
        return cls(plan=plan, state=ServerState.REFUSED, error=error)

    def begun(self) -> Self:
        """Return it with a process at work."""
        return replace(self, state=ServerState.RUNNING)

    def heard(self, told: Told) -> Self:
        """Return it after something that its process has told, or shows on the server."""
        if isinstance(told, BatchStatus):
            # One that is read late is not of now.
            return replace(self, seen=told) if self.state is ServerState.RUNNING else self
        if isinstance(told, BatchReport):
            return replace(self, report=told)
        return replace(self, error=told) if isinstance(told, SpiritError) else self

    def ended(self, seconds: float, error: SpiritError | None, *, stopped: bool) -> Self:
        """Return it without a process; ``error`` ended that from here, ``stopped`` all of them."""
        run = replace(self, seen=None, seconds=seconds, error=error or self.error)
        if run.report is not None and not run.report.exit_code and run.error is None:
            return replace(run, state=ServerState.DONE)
        return replace(run, state=ServerState.STOPPED if stopped else ServerState.FAILED)

    @property
    def server(self) -> FleetServer:
        """Its entry of the list."""
        return self.plan.server

    @property
    def written(self) -> bool:
        """Whether a table there is changed, or is being changed, or was by an earlier run.

        Of a process that ended without a report nothing is known.
        """
        ended = self.state in {ServerState.FAILED, ServerState.STOPPED}
        if ended and self.report is None and self.exit_code != Refusal.exit_code:
            return True
        tables = self.report.tables if self.report is not None else []
        return self.plan.begun or any(one["state"] != TableState.PENDING for one in tables)

    @property
    def exit_code(self) -> int:
        """That of its process, or of what kept it from one; 0 of none that has failed."""
        told = self.report.exit_code if self.report is not None else 0
        code = told or (self.error.exit_code if self.error is not None else 0)
        ended = self.state in {ServerState.FAILED, ServerState.STOPPED}
        return code or (MigrationFailure.exit_code if ended else 0)

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

    @property
    def end(self) -> ServerEnded:
        """The event of its end."""
        seconds = round(self.seconds, 3)
        if self.error is not None:
            found = failure_of(self.error)
            code = str(found.pop("error_code", "")) or None
            found = {"hint": "", "details": [], **found}
            return ServerEnded(**found, code=code, seconds=seconds, summed_up="")
        report = self.report or BatchReport()
        ended = report.end_fields() | {"error": self.cause}
        summary = report.summary()
        last = next((line for line in reversed(summary) if line[:1].isdigit()), "done")
        return ServerEnded(**ended, seconds=seconds, summed_up=last)

    @property
    def shown(self) -> tuple[MigrationStatus, ...]:
        """The tables at work there, by names that all servers' tables can have together."""
        tables = () if self.seen is None else self.seen.tables
        return tuple(_on_server(self.server.name, one) for one in tables)


def _on_server(name: str, seen: MigrationStatus) -> MigrationStatus:
    totals = seen.totals
    if totals is not None:
        totals = replace(totals, tables=tuple(f"{name} {one}" for one in totals.tables))
    return replace(seen, table=f"{name} {seen.table}", totals=totals)


class FleetState:
    """The servers of a fleet, by their names; any thread may ask, and note what has happened."""

    def __init__(self, plans: Iterable[ServerPlan]) -> None:
        self._runs = {one.server.name: ServerRun.of(one) for one in plans}
        self._noting = threading.Lock()

    def __getitem__(self, name: str) -> ServerRun:
        return self._runs[name]

    def note(self, name: str, change: Callable[[ServerRun], ServerRun]) -> ServerRun:
        """Have a change of one server happen, and return that as it is then."""
        with self._noting:
            run = self._runs[name] = change(self._runs[name])
        return run

    @property
    def servers(self) -> list[ServerRun]:
        """All of them as they are now, in the order of the list."""
        return list(self._runs.values())

    def of(self, *states: ServerState) -> list[ServerRun]:
        """Return those that are so far."""
        return [one for one in self.servers if one.state in states]


#: Exit codes of what was done, or was stopped with all others.
_ORDERLY = (0, 130, 143)


@dataclass(kw_only=True)
class FleetReport(OutcomeReport):
    """What became of each server.

    ``outcome`` is ``done``, ``rehearsed``, ``failed``, ``refused``, ``unknown``, ``interrupted`` or
    ``aborted``. Each of ``servers`` has ``name``, ``labels``, ``state``, ``seconds``, ``error``,
    ``exit_code`` and the ``report`` of its batch; ``totals`` are sums over these.
    """

    asked: str = ""
    servers: list[dict[str, Any]] = field(default_factory=list)
    totals: dict[str, float] = field(default_factory=dict)

    def add(self, runs: Iterable[ServerRun]) -> None:
        """Add the servers and their totals."""
        self.servers = [_shown(run) for run in runs]
        totals = [one["report"]["totals"] for one in self.servers if one["report"]]
        names = {name for one in totals for name in one}
        longest = "longest_lock_held_ms"
        self.totals = {name: sum(one.get(name, 0) for one in totals) for name in sorted(names)}
        self.totals[longest] = max((one.get(longest, 0.0) for one in totals), default=0.0)
        self.totals.setdefault("rows_copied", 0)
        self.totals.setdefault("chunks_repaired", 0)

    def conclude(
        self,
        stopped: BaseException | None,
        *,
        seconds: float,
        left_over: MigrationFailure | None = None,
    ) -> None:
        """Enter outcome, exit code and time; ``stopped`` is what ended the run early.

        ``left_over``: why records are left although all servers are done.
        """
        self.seconds = round(seconds, 3)
        if stopped is not None:
            self.note_failure(stopped)
        early = self.exit_code if stopped is not None else 0
        failed = [one["exit_code"] for one in self.servers if one["exit_code"]]
        if left_over is not None and stopped is None:
            stopped = left_over
            self.note_failure(stopped)
            early = self.exit_code
        written = any(one["written"] for one in self.servers)
        whole = all(one["state"] is ServerState.DONE for one in self.servers)
        self.exit_code = exit_code(failed, stopped=early, written=written, whole=whole)
        if stopped is None or self.exit_code != early:
            rehearsed = any(
                (one["report"] or {}).get("outcome") == "rehearsed" for one in self.servers
            )
            outcomes = {kind.exit_code: kind.outcome for kind in (OutcomeUnknown, Refusal)}
            outcomes[0] = "rehearsed" if rehearsed else "done"
            self.outcome = outcomes.get(self.exit_code, SpiritError.outcome)

    def summary(self) -> list[str]:
        """Return a line for each server that is not done, and the totals."""
        lines = []
        for one in self.servers:
            if one["state"] in BAD or one["exit_code"] not in _ORDERLY:
                lines.append(f"{one['name']}: {one['state']}: {one['error']}")
                lines += [f"  hint: {one['hint']}"] if one["hint"] else []
        states = [one["state"] for one in self.servers]
        told = ", ".join(
            f"{states.count(state)} {state}" for state in ServerState if state in states
        )
        totals = self.totals
        lines.append(
            f"{counted(len(states), 'server')}: {told} in {human_seconds(self.seconds)};"
            f" {counted(totals['rows_copied'], 'row')} copied,"
            f" {counted(totals['chunks_repaired'], 'chunk')} repaired, a lock was held for"
            f" {totals['longest_lock_held_ms']:.0f} ms at most"
        )
        if any(state is not ServerState.DONE for state in states):
            lines.append("the same command carries on with the servers that are not done")
        return lines


def _shown(run: ServerRun) -> dict[str, Any]:
    return {
        "name": run.server.name,
        "address": run.server.batch.each.connection.address,
        "labels": dict(run.server.labels),
        "state": run.state,
        "seconds": round(run.seconds, 3),
        "written": run.written,
        "exit_code": run.exit_code,
        "error": run.cause,
        "hint": run.hint,
        "report": asdict(run.report) if run.report is not None else None,
    }


def status_of(members: Sequence[FleetMember], table: str) -> list[dict[str, Any]]:
    """Return what each server keeps of a fleet, and what works there, as JSON values."""
    parts = looked_at(members, table)
    away = sum(one.error is not None for one in parts)
    orders: dict[str, FleetOrders] = {}
    for fleet in {one.fleet for part in parts for one in part.records}:
        rows = rows_of(parts, fleet)
        orders[fleet] = agreed(rows, FleetOrders(), begun=len(rows) + away)
    listed: dict[ConnectionOptions, list[BatchShown] | SpiritError] = {}

    def look(options: ConnectionOptions) -> None:
        try:
            listed[options] = batches(options, database="", table="")
        except SpiritError as error:
            listed[options] = error

    servers = dict.fromkeys(one.member.connection for one in parts if one.records)
    side_by_side("look", [partial(look, options) for options in servers], LOOKING)
    return [_shown_there(one, orders, listed.get(one.member.connection, [])) for one in parts]


def _shown_there(
    part: ServerRecords, agreed_on: Mapping[str, FleetOrders], found: list[BatchShown] | SpiritError
) -> dict[str, Any]:
    pairs = [(one.orders, agreed_on[one.fleet]) for one in part.records]
    now = time.time()
    listed: list[dict[str, Any]] = []
    error = part.error
    if isinstance(found, SpiritError):
        error = error or found
    elif part.records and error is None:
        names = {str(one.store) for one in part.records}
        listed = [each.to_dict() for each in found if each.batch in names]
    return {
        "server": part.member.name,
        "begun": bool(part.records),
        "coordinated": any(one.coordinated for one in part.records),
        "paused": any(orders.paused for _, orders in pairs),
        "aborted": any(orders.aborted for _, orders in pairs),
        "order_alone": any(
            own.number > orders.number
            and own.order[1:] != orders.order[1:]
            and not own.ahead_of(now)
            for own, orders in pairs
        ),
        "servers_at_once": max((orders.at_once for _, orders in pairs), default=0) or None,
        "at_work": [".".join(name) for one in part.records for name in one.at_work],
        "left": [".".join(name) for one in part.records for name in one.left],
        "batches": listed,
        "error": error.message if error is not None else "",
    }


def lines_of(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the state of a fleet for people, a line each."""
    lines = []
    for one in found:
        if one["error"]:
            state = f"cannot be looked at: {one['error']}"
        elif not one["begun"]:
            state = "not begun"
        else:
            tables = [table for each in one["batches"] for table in each["tables"]]
            done = sum(table["state"] == TableState.DONE for table in tables)
            state = f"{done} of {len(tables)} tables done"
            if one["at_work"]:
                state += f", at work: {', '.join(one['at_work'])}"
            elif one["left"]:
                state += ", no process works on it"
            errors = [f"{table['table']}: {table['error']}" for table in tables if table["error"]]
            state += "".join(f"; {text}" for text in errors[:1])
            if one["order_alone"]:
                state += "; its record has an order that no other one here has"
        lines.append(f"{one['server']}: {state}")
    begun = [one for one in found if one["begun"]]
    coordinated = any(one["coordinated"] for one in begun)
    if begun:
        now = "a process coordinates them" if coordinated else "no process coordinates them"
        if any(one["paused"] for one in begun):
            now += "; paused by an operator"
        most = max((one["servers_at_once"] or 0 for one in begun), default=0)
        now += f"; at most {most} servers at a time, by order" if most else ""
        lines.append(f"{len(begun)} of {len(found)} servers have begun; {now}")
    return lines
