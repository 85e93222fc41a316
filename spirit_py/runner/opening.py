"""Before anything is written: read everything, keep others away, let the checks speak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.mysql.locks import AdvisoryLock
from spirit_py.preflight.preflight import check_before_create, prepare
from spirit_py.table.names import lock_name

if TYPE_CHECKING:
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.context import PreflightContext
    from spirit_py.runner.run import Run


def open_migration(run: Run, session: Session) -> tuple[PreflightContext, ...]:
    """Give what is known of each table, all of them checked and kept from other migrations.

    Raises:
        Refusal: with everything that the checks of all tables found.
    """
    contexts = prepare(session, run.config)
    _describe(run, contexts)
    # In one order for everybody, so that two runs never wait for each other.
    for context in sorted(contexts, key=lambda one: (one.schema, one.table)):
        run.stack.enter_context(_kept_away(run, context))
    run.warn_of(check_before_create(contexts))
    run.stop.check()
    return contexts


def _kept_away(run: Run, context: PreflightContext) -> AdvisoryLock:
    """Keep other migrations of the table away for as long as this one runs."""
    return AdvisoryLock(
        run.config.connection,
        lock_name("migration", context.schema, context.table),
        stop=run.stop,
        purpose=f"migration of {context.schema}.{context.table}",
    )


def _describe(run: Run, contexts: tuple[PreflightContext, ...]) -> None:
    """Put what is migrated, and where, into the report."""
    report, first = run.report, contexts[0]
    report.schema, report.table = first.schema, first.table
    report.tables = [f"{context.schema}.{context.table}" for context in contexts]
    report.statement = "; ".join(context.statement.sql for context in contexts)
    report.versions["mysql"] = first.facts.version
    estimates = [context.source.estimated_rows for context in contexts if context.source]
    if estimates:
        run.figures.rows_total = sum(estimates)
    run.message(report.statement, server=run.config.connection.address)
