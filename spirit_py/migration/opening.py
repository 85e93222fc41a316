"""Before anything is written: read everything, lock out other runs, decide, run the checks.

The first screen of a migration is its plan in short, as far as it costs next to nothing. A terminal
shows a dozen lines or two, with the new definition as a diff; a log gets one line. No row is read
for it: no sample, no search for duplicates. Whether the server changes the table in place is
decided after it, and reported then.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spirit_py.checkpoint.decision import Afresh, Resume
from spirit_py.checkpoint.live_look import runs_seen
from spirit_py.errors import ServerFault
from spirit_py.events.run import PlanMade, SessionsEnded, StatementRead
from spirit_py.migration.control.listener import begin_control
from spirit_py.migration.resuming import choose
from spirit_py.migration.swap.attachments import settle_left
from spirit_py.mysql.earlier_runs import end_earlier_sessions
from spirit_py.mysql.endpoint import require_one_server
from spirit_py.mysql.faults import access_denied
from spirit_py.plan import brief_plan, brief_text, screen_of
from spirit_py.plan.text import STYLES
from spirit_py.preflight.preflight import check_before_create, prepare
from spirit_py.preflight.relatives import require_free_relatives
from spirit_py.throttle.option_checks import require_throttlers

if TYPE_CHECKING:
    from spirit_py.migration.run import Run
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.check import PreflightContext


def open_migration(
    run: Run, session: Session
) -> tuple[tuple[PreflightContext, ...], Resume | Afresh]:
    """Return the context of each table, and what is done with the tables of an earlier run.

    The tables are checked and locked out for other runs. Where an earlier run has swapped them
    already, no check is run: the checks are about sources that are to be changed.

    Raises:
        Refusal: with the findings of all checks of all tables.
    """
    require_one_server(session, run.config.connection)
    contexts = prepare(session, run.config)
    _describe(run, contexts)
    tables = [(context.schema, context.table) for context in contexts]
    run.label(session, contexts[0].facts, tables)
    run.lock_tables_from_other_runs(tables)
    # Before anything is read: the server may still execute a killed run's RENAME.
    _end_earlier_run(run, session, tables)
    # Before anything is decided, written or dropped: what a swap has left half-way.
    settle_left(run, session, tables)
    decision = _choose(run, session, contexts)
    if isinstance(decision, Resume):
        # Before the checks, which may take long.
        begin_control(run, session, decision.record)
    if isinstance(decision, Afresh) or not decision.cleanup:
        run.warn_of(check_before_create(contexts))
        require_throttlers(run.config, session)
        require_free_relatives(session, tables)
    run.stop.check()
    return contexts, decision


def _describe(run: Run, contexts: tuple[PreflightContext, ...]) -> None:
    """Report tables, statement and server."""
    names = [(context.schema, context.table) for context in contexts]
    tables = [".".join(name) for name in names]
    run.tell(
        StatementRead(
            table=tables[0] if len(tables) == 1 else "",
            statement="; ".join(context.statement.sql for context in contexts),
            tables=tables,
            server=run.config.connection.address,
            mysql=contexts[0].facts.version,
            names=names,
            estimates={
                name: context.found.estimated_rows
                for name, context in zip(names, contexts, strict=True)
                if context.found
            },
        )
    )


def _end_earlier_run(run: Run, session: Session, tables: list[tuple[str, str]]) -> None:
    """End sessions of a killed run; an account without the privilege is refused later."""
    try:
        ended = end_earlier_sessions(
            session,
            run.config.connection.label,
            tokens=runs_seen(session, tables),
            warn=run.warn,
        )
    except ServerFault as fault:
        if not access_denied(fault):
            raise
        return
    if ended:
        run.tell(SessionsEnded(sessions=ended))


def _choose(run: Run, session: Session, contexts: tuple[PreflightContext, ...]) -> Resume | Afresh:
    """Decide what is done with what an earlier run left.

    Raises:
        Refusal: where privileges are missing, by the checks, which name all of them.
    """
    try:
        return choose(run, session, contexts)
    except ServerFault as fault:
        if access_denied(fault):
            check_before_create(contexts)
        raise


_log = logging.getLogger(__name__)


def show_plan(
    run: Run,
    contexts: tuple[PreflightContext, ...],
    decision: Resume | Afresh,
) -> None:
    """Report what will happen; a plan that cannot be made hinders nothing."""
    try:
        plan = brief_plan(run.config, contexts, decision, run.report.warnings)
    except Exception:
        # Whatever it is: the plan is for reading, and the migration does not need it.
        _log.debug("the plan could not be made", exc_info=True)
        return
    deferred = any(table.indexes is not None and table.indexes.deferred for table in plan.tables)
    screen = [(line.text, STYLES[line.style]) for line in screen_of(plan)]
    run.tell(
        PlanMade(plan=plan.to_dict(), said=brief_text(plan), shown=screen, builds_indexes=deferred)
    )
