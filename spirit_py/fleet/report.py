"""The report of a fleet: what became of each server, and the exit code."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from spirit_py.batch.report import exit_code
from spirit_py.classes import dataclass, field
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, OutcomeUnknown, Refusal, SpiritError
from spirit_py.fleet.state import BAD, ServerState
from spirit_py.status.report import OutcomeReport
from spirit_py.units import counted, human_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spirit_py.fleet.state import ServerRun

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
        self, stopped: BaseException | None, *, seconds: float, left_over: Sequence[str] = ()
    ) -> None:
        """Enter outcome, exit code and time; ``stopped`` is what ended the run early.

        ``left_over``: why records are left although all servers are done.
        """
        self.seconds = round(seconds, 3)
        if stopped is not None:
            self.note_failure(stopped)
        early = self.exit_code if stopped is not None else 0
        failed = [one["exit_code"] for one in self.servers if one["exit_code"]]
        if left_over and stopped is None:
            stopped = MigrationFailure(
                f"all servers are changed, and records are left: {left_over[0]}",
                hint="the same command drops them, and changes nothing",
                details=tuple(left_over),
                error_code=ErrorCode.BATCH_RECORD,
            )
            self.note_failure(stopped)
            early = self.exit_code
        written = any(one["written"] for one in self.servers)
        self.exit_code = exit_code(failed, stopped=early, written=written)
        if stopped is None or self.exit_code == OutcomeUnknown.exit_code:
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
