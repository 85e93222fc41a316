"""The report of a batch: each table's own report, the totals, and the exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from spirit_py.batch.store import SUMS, TableState
from spirit_py.classes import dataclass, field
from spirit_py.errors import Interrupted, MigrationFailure, OutcomeUnknown, Refusal, SpiritError
from spirit_py.status.report import REVERTED, OutcomeReport
from spirit_py.units import counted, human_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spirit_py.batch.store import TableRecord
    from spirit_py.codes import ErrorCode

REHEARSED: Final = "rehearsed"
_GOOD: Final = frozenset({"done", REHEARSED})
#: An earlier run of one table alone may have been swapped back; the batch cleans up after it.
_NO_FAILURE: Final = frozenset({"", REVERTED, *_GOOD})


@dataclass(kw_only=True)
class BatchReport(OutcomeReport):
    """What became of each table.

    ``outcome`` is ``done``, ``rehearsed``, ``failed``, ``refused``, ``unknown`` or ``interrupted``.
    Each of ``tables`` has its ``schema``, ``table``, ``state``, ``outcome``, ``error`` and the
    ``report`` of its last migration; ``totals`` are sums over these, and the longest lock of a
    swap; ``seconds`` are of this run.
    """

    asked: str = ""
    tables: list[dict[str, Any]] = field(default_factory=list)
    totals: dict[str, float] = field(default_factory=dict)
    threads: int = 0
    parallel: int = 1
    on_failure: str = ""
    runs: int = 1
    record: str = ""

    def add(self, tables: Iterable[TableRecord]) -> None:
        """Add the tables and their totals."""
        self.tables = [_shown(table) for table in tables]
        reports = [one["report"] for one in self.tables if one["report"] is not None]
        self.totals = {name: sum(one.get(name, 0) for one in reports) for name in SUMS}
        held = (one.get("lock_held_ms", 0.0) for one in reports)
        self.totals["longest_lock_held_ms"] = max(held, default=0.0)

    def carry_on(self, runs: int) -> None:
        """Enter which run of the batch this is."""
        self.runs = runs

    def conclude(self, stopped: BaseException | None, *, seconds: float, record: str) -> None:
        """Enter outcome, exit code, time and record; ``stopped`` is what ended the run early."""
        self.seconds, self.record = round(seconds, 3), record
        if stopped is not None:
            self.note_failure(stopped)
        # A table that an operator has ended alone, with ``spirit-py ctl abort``, has failed.
        ended = {"failed"} if stopped is not None else {"failed", "stopped"}
        failed = [one["exit_code"] for one in self.tables if any(one[how] for how in ended)]
        written = any(one["state"] != TableState.PENDING for one in self.tables)
        whole = all(
            one["state"] == TableState.DONE or one["outcome"] == REHEARSED for one in self.tables
        )
        early = self.exit_code if stopped is not None else 0
        self.exit_code = exit_code(failed, stopped=early, written=written, whole=whole)
        if stopped is None or self.exit_code != early:
            rehearsed = any(one["outcome"] == REHEARSED for one in self.tables)
            outcomes = {kind.exit_code: kind.outcome for kind in (OutcomeUnknown, Refusal)}
            outcomes[0] = REHEARSED if rehearsed else "done"
            self.outcome = outcomes.get(self.exit_code, SpiritError.outcome)

    def summary(self) -> list[str]:
        """Return a line for each table that has failed or is left, and the totals."""
        others = [one for one in self.tables if one["outcome"] not in _GOOD and not one["stopped"]]
        lines = [line for one in others for line in (_line(one), *_remedy(one))]
        done = sum(one["state"] == TableState.DONE for one in self.tables)
        rehearsed = sum(one["outcome"] == REHEARSED for one in self.tables)
        reverted = sum(one["outcome"] == REVERTED for one in self.tables)
        failed, stopped = (sum(one[how] for one in self.tables) for how in ("failed", "stopped"))
        counts = {"changed": done, "rehearsed": rehearsed, "failed": failed, "stopped": stopped}
        counts["changed back"] = reverted
        counts["left"] = len(self.tables) - sum(counts.values())
        told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        lines.append(
            f"{counted(len(self.tables), 'table')}: {told} in {human_seconds(self.seconds)};"
            f" {counted(self.totals['rows_copied'], 'row')} copied,"
            f" {counted(self.totals['chunks_repaired'], 'chunk')} repaired, a lock was held for"
            f" {self.totals['longest_lock_held_ms']:.0f} ms at most"
            + (f" (of all {self.runs} runs)" if self.runs > 1 else "")
        )
        if self.record and done + rehearsed < len(self.tables):
            lines.append(
                f"the same command resumes with what is left (its record is {self.record})"
            )
        return lines


def exit_code(failed: Sequence[int], *, stopped: int, written: bool, whole: bool) -> int:
    """Return the exit code of a batch (R16).

    ``failed`` are the exit codes of tables, ``stopped`` that of what ended the run early, or 0;
    ``written``: some table was written for, in this run or an earlier one; ``whole``: all of them
    are done, or were rehearsed.
    """
    if OutcomeUnknown.exit_code in failed:
        return OutcomeUnknown.exit_code
    if stopped and stopped != Refusal.exit_code:
        return stopped
    if whole and not failed and not stopped:
        return 0
    refused = {*failed, *([stopped] if stopped else [])} == {Refusal.exit_code}
    return Refusal.exit_code if refused and not written else MigrationFailure.exit_code


def refusal_of(
    what: str, *, written: bool, hint: str, details: tuple[str, ...], error_code: ErrorCode | None
) -> SpiritError:
    """Return the refusal of a whole run; after an earlier one that has ``written``, a failure."""
    kind = MigrationFailure if written else Refusal
    was = "begun, and what an earlier run did stays" if written else "written"
    return kind(f"{what}; nothing was {was}", hint=hint, details=details, error_code=error_code)


def refused_again(refusal: Refusal, *, written: bool) -> SpiritError:
    """Return a refusal as it is; after an earlier run that has ``written``, as a failure."""
    if not written:
        return refusal
    return refusal_of(
        refusal.message.removesuffix("; nothing was written"),
        written=True,
        hint=refusal.hint,
        details=refusal.details,
        error_code=refusal.error_code,
    )


def _shown(table: TableRecord) -> dict[str, Any]:
    report = json.loads(table.report) if table.report else None
    good = table.outcome in _NO_FAILURE
    return {
        "schema": table.schema,
        "table": table.table,
        "statement": table.statement,
        "state": table.state,
        "outcome": table.outcome,
        "failed": not good and table.outcome != Interrupted.outcome,
        "stopped": table.outcome == Interrupted.outcome,
        "exit_code": 0 if good else (report or {}).get("exit_code", Refusal.exit_code),
        "error": table.error,
        "report": report,
    }


def _line(one: dict[str, Any]) -> str:
    how = f"{one['outcome']}: {one['error']}" if one["outcome"] else one["state"]
    return f"{one['schema']}.{one['table']}: {how}"


def _remedy(one: dict[str, Any]) -> list[str]:
    report = one["report"] or {}
    if not one["failed"]:
        return []
    lines = [f"  {line}" for line in report.get("details", ())]
    if hint := report.get("hint"):
        lines.append(f"  hint: {hint}")
    if code := report.get("error_code"):
        lines.append(f"  more: spirit-py explain {code}")
    return lines
