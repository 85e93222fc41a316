"""Resume, start afresh, or refuse: what a run does with what an earlier one left (R14, R17)."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from spirit_py.checkpoint.decision import Afresh, GiveUp, Refuse, Resume
from spirit_py.checkpoint.proofs import note_here
from spirit_py.checkpoint.record import CheckpointRecord
from spirit_py.checkpoint.writer import PERIOD
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, SchemaChanged, UnfinishedWork
from spirit_py.events.run import ResumeDecided
from spirit_py.migration.auxiliary import clear_abandoned
from spirit_py.plan.earlier_run import examine_and_decide
from spirit_py.table.names import AuxiliaryNames
from spirit_py.units import human_count, human_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.checkpoint.earlier_run import Found
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.run import Run
    from spirit_py.preflight.check import PreflightContext


def choose(run: Run, session: SqlSession, contexts: Sequence[PreflightContext]) -> Resume | Afresh:
    """Examine what an earlier run left, and decide what is done with it; before any check.

    Raises:
        Refusal: the operator must look, or it is a dry run; everything is kept.
        UnfinishedWork: copied rows would be dropped, and nobody has agreed to that.
        SchemaChanged: the migration is given up, its auxiliary tables are dropped (R14).
        ServerFault: what is there could not be examined; everything is kept.
    """
    tables = [(context.schema, context.table) for context in contexts]
    found, decision = examine_and_decide(session, run.config, contexts)
    if isinstance(decision, Refuse):
        raise Refusal(decision.reason, hint=decision.hint, error_code=ErrorCode.CANNOT_RESUME)
    if run.config.dry_run:
        _spare(found, decision)
    if isinstance(found.record, CheckpointRecord) and found.goes_on_here:
        note_here(session, found.record)
    if isinstance(decision, GiveUp):
        _tell(run, "give_up", f"given up: {decision.reason}", decision.reason)
        clear_abandoned(run, session, sorted(tables), None)
        raise SchemaChanged(decision.reason, hint=decision.hint, error_code=ErrorCode.CANNOT_RESUME)
    if isinstance(decision, Resume):
        _report_resumed(run, decision)
    elif decision.reason:
        _agree_to_drop(run, found, decision)
        _report_afresh(run, decision)
    return decision


def _spare(found: Found, decision: Resume | Afresh | GiveUp) -> None:
    """Refuse a dry run that would have to drop what another run could still use.

    What a run left that was stopped before its copy began is of no use. A dry run that was killed
    looks the same: it never writes the position of its feed.

    Raises:
        Refusal: naming what is there; everything is kept.
    """
    worthless = isinstance(found.record, CheckpointRecord) and not found.record.position
    if isinstance(decision, Afresh) and (worthless or not decision.reason):
        return
    left = ", ".join(_left(found)) or "its record"
    state = "can be carried on" if isinstance(decision, Resume) else "was not finished"
    raise Refusal(
        f"an earlier migration {state}, and a dry run would drop what is left of it ({left}):"
        f" {decision.reason}",
        hint="finish it with its own command, or drop it with spirit-py cleanup; then begin the dry"
        " run",
        error_code=ErrorCode.UNFINISHED_WORK,
    )


def _left(found: Found) -> Iterator[str]:
    """Name the tables that earlier runs left beside the tables of this one."""
    for table in found.tables:
        names = AuxiliaryNames.of(table.table)
        there = (
            (names.new, table.new_shape),
            (names.old, table.old_shape),
            (names.checkpoint, table.ours),
        )
        yield from (f"{table.schema}.{name}" for name, is_there in there if is_there)


def _agree_to_drop(run: Run, found: Found, decision: Afresh) -> None:
    """Refuse to drop rows that something else could carry on with, unless that was agreed to.

    Raises:
        UnfinishedWork: naming what would be lost, and what to do instead; everything is kept.
    """
    if not decision.throws_away or run.config.start_afresh:
        return
    record = decision.abandoned or found.elsewhere
    tables = run.report.tables if record is None else [str(table) for table in record.tables]
    schema, table = found.tables[0].name
    cleanup = f"spirit-py cleanup --database {quote(schema)} --table {quote(table)}"
    raise UnfinishedWork(
        f"an unfinished migration of {', '.join(tables)} would be dropped: {decision.reason}",
        hint=f"to carry on with it: {decision.instead}; to drop it and begin with this one:"
        f" --start-afresh; to drop it only: {cleanup}",
        details=(f"would be lost: {_work_of(record)}",),
    )


def _work_of(record: CheckpointRecord | None) -> str:
    """Return how much work a record stands for."""
    if record is None:
        return "what is copied in the new table; how much that is cannot be read"
    return (
        f"{human_count(record.rows_copied)} rows copied in {human_seconds(record.seconds)} of work,"
        f" {record.runs} run(s) since {record.started_at}"
    )


def _report_afresh(run: Run, decision: Afresh) -> None:
    """Report that an earlier run's work is dropped, and how much it was."""
    said = f"an earlier run was stopped here; this one starts afresh: {decision.reason}"
    _tell(run, "afresh", said, decision.reason)
    if decision.abandoned is not None and decision.abandoned.rows_copied:
        run.warn(f"dropped with the earlier run: {_work_of(decision.abandoned)}")


def _report_resumed(run: Run, decision: Resume) -> None:
    """Report that a migration is carried on."""
    record, said = decision.record, f"carrying on: {decision.reason}"
    if not decision.cleanup and not record.copied:
        said += f"; what was copied in the {PERIOD:.0f} s before the stop may be copied again"
    run.tell(
        ResumeDecided(
            said=said,
            decision="resume",
            reason=decision.reason,
            number=record.runs + 1,
            rows_copied=record.rows_copied,
            phase=record.phase,
            swapped=decision.cleanup,
        )
    )


def _tell(run: Run, decision: str, said: str, reason: str) -> None:
    run.tell(
        ResumeDecided(
            said=said, decision=decision, reason=reason, number=1, rows_copied=0, phase=None
        )
    )
