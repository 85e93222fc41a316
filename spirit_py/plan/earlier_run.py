"""What an earlier run left, and what a command does with it: decided, and said in a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.checkpoint.decision import Afresh, GiveUp, Refuse, Resume, Wanted, decide
from spirit_py.checkpoint.examination import look
from spirit_py.checkpoint.first_record import normal_form
from spirit_py.plan.model import EarlierRun, Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spirit_py.checkpoint.decision import Decision
    from spirit_py.checkpoint.earlier_run import Found
    from spirit_py.checkpoint.record import CheckpointRecord
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.preflight.check import PreflightContext


def statement_of(contexts: Iterable[PreflightContext]) -> str:
    """Return the normal form of a run's statements, which a checkpoint must have to be resumed."""
    return normal_form({(context.schema, context.table): context.statement for context in contexts})


def examine_and_decide(
    session: SqlSession, config: MigrationConfig, contexts: Sequence[PreflightContext]
) -> tuple[Found, Decision]:
    """Examine what an earlier run left, and decide what is done with it. Nothing is written.

    Raises:
        ServerFault: what is there could not be examined.
    """
    found = look(session, config.connection, [(one.schema, one.table) for one in contexts])
    wanted = Wanted(
        statement=statement_of(contexts), max_age=config.checkpoint_max_age, modes=config.modes
    )
    return found, decide(found, wanted)


def earlier_run(decision: Decision, *, start_afresh: bool) -> EarlierRun:
    """Return the decision for the plan."""
    if isinstance(decision, Resume):
        return EarlierRun(
            action="clean_up" if decision.cleanup else "resume",
            reason=decision.reason,
            rows_copied=decision.record.rows_copied,
        )
    if isinstance(decision, Refuse):
        return EarlierRun(action="refuse", reason=decision.reason, remedy=decision.hint)
    if isinstance(decision, GiveUp):
        return EarlierRun(action="give_up", reason=decision.reason, remedy=decision.hint)
    if not decision.reason:
        return EarlierRun(action="none")
    asks = decision.throws_away and not start_afresh
    return EarlierRun(
        action="ask" if asks else "afresh",
        reason=decision.reason,
        rows_copied=_rows(decision.abandoned),
        remedy=f"to carry on with it: {decision.instead}; to drop it and begin with this one:"
        " --start-afresh"
        if asks
        else "",
    )


def refusals_of(decision: Decision, earlier: EarlierRun) -> list[Note]:
    """Return why a migration would not begin because of an earlier one."""
    if isinstance(decision, (Refuse, GiveUp)) or earlier.action == "ask":
        cause = f"an unfinished migration: {earlier.reason}"
        return [Note(cause=cause, remedy=earlier.remedy, check="earlier_run")]
    return []


def goes_on(decision: Decision) -> bool:
    """Return whether the migration carries on or begins, so that the checks apply."""
    return isinstance(decision, Afresh) or (isinstance(decision, Resume) and not decision.cleanup)


def _rows(record: CheckpointRecord | None) -> int | None:
    return None if record is None else record.rows_copied
