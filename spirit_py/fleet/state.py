"""How far each server of a fleet is, and what its process has told; changed here alone."""

from __future__ import annotations

import threading
from enum import StrEnum
from typing import TYPE_CHECKING

from spirit_py.batch.report import BatchReport
from spirit_py.batch.store import TableState
from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, SpiritError
from spirit_py.events.run import ServerEnded
from spirit_py.progress import BatchStatus
from spirit_py.status.report import failure_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from spirit_py.config import FleetServer
    from spirit_py.fleet.planning import ServerPlan
    from spirit_py.fleet.process import Told
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
