"""Before anything is written: read everything, keep others away, let the checks speak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spirit_py.checkpoint.decision import Afresh, Resume
from spirit_py.errors import ServerFault
from spirit_py.migration.resuming import choose
from spirit_py.mysql.earlier_runs import end_earlier_sessions
from spirit_py.mysql.faults import access_denied
from spirit_py.preflight.preflight import check_before_create, prepare

if TYPE_CHECKING:
    from spirit_py.checkpoint.record import CheckpointRecord
    from spirit_py.migration.run import Run
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.check import PreflightContext


@dataclass(frozen=True, kw_only=True)
class Opening:
    """A run before it has written anything.

    Attributes:
        decision: what is done with what an earlier run left.
    """

    contexts: tuple[PreflightContext, ...]
    decision: Resume | Afresh

    @property
    def resume(self) -> Resume | None:
        """The decision to carry on; None for a beginning."""
        return self.decision if isinstance(self.decision, Resume) else None

    @property
    def abandoned(self) -> CheckpointRecord | None:
        """The record of an earlier migration that this one writes over."""
        return self.decision.abandoned if isinstance(self.decision, Afresh) else None


def open_migration(run: Run, session: Session) -> Opening:
    """Return what is known of each table, all of them checked and kept from other migrations.

    Where an earlier run has swapped the tables already, the checks have nothing to say: they look
    at sources that are to be changed.

    Raises:
        Refusal: with everything that the checks of all tables found.
    """
    contexts = prepare(session, run.config)
    _describe(run, contexts)
    tables = [(context.schema, context.table) for context in contexts]
    run.label(session, contexts[0].facts, tables)
    run.lock_tables_from_other_runs(tables)
    # Before anything is looked at: a killed run's RENAME may still be under way on the server.
    _end_earlier_run(run, session)
    opening = Opening(contexts=contexts, decision=_choose(run, session, contexts))
    if opening.resume is None or not opening.resume.cleanup:
        run.warn_of(check_before_create(contexts))
    run.stop.check()
    return opening


def _choose(run: Run, session: Session, contexts: tuple[PreflightContext, ...]) -> Resume | Afresh:
    """Decide what is done with what an earlier run left.

    Raises:
        Refusal: by the checks, where the account may not look: they name all that it lacks.
    """
    try:
        return choose(run, session, contexts)
    except ServerFault as fault:
        if access_denied(fault):
            check_before_create(contexts)
        raise


def _end_earlier_run(run: Run, session: Session) -> None:
    """End what a killed run still executes; an account that may not see it is refused later."""
    try:
        ended = end_earlier_sessions(session, run.config.connection.label)
    except ServerFault as fault:
        if not access_denied(fault):
            raise
        return
    if ended:
        run.message(f"ended {ended} sessions of an earlier run on the server")


def _describe(run: Run, contexts: tuple[PreflightContext, ...]) -> None:
    """Put what is migrated, and where, into the report."""
    report, first = run.report, contexts[0]
    report.schema, report.table = first.schema, first.table
    report.tables = [f"{context.schema}.{context.table}" for context in contexts]
    report.statement = "; ".join(context.statement.sql for context in contexts)
    report.versions["mysql"] = first.facts.version
    estimates = [context.found.estimated_rows for context in contexts if context.found]
    if estimates:
        run.figures.rows_total = sum(estimates)
    run.message(report.statement, server=run.config.connection.address)
