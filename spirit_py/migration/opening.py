"""Before anything is written: read everything, lock out other runs, decide, run the checks.

The decision is to resume, to start afresh or to refuse, by what an earlier run left (R14, R17).
The plan on the first screen reads no row.
"""

from __future__ import annotations

import logging
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING

from spirit_py.checkpoint.decision import Afresh, GiveUp, Refuse, Resume
from spirit_py.checkpoint.examination import runs_seen
from spirit_py.checkpoint.proofs import note_here
from spirit_py.checkpoint.record import CheckpointRecord
from spirit_py.checkpoint.writer import PERIOD
from spirit_py.classes import replace
from spirit_py.errors import Refusal, SchemaChanged, ServerFault, UnfinishedWork
from spirit_py.events.run import PlanMade, ResumeDecided, SessionsEnded, StatementRead
from spirit_py.locks.named import migration_lock
from spirit_py.migration.auxiliary import clear_abandoned
from spirit_py.migration.control.listener import begin_control
from spirit_py.migration.swap.attachments import settle_earlier
from spirit_py.mysql.endpoint import require_one_server
from spirit_py.mysql.faults import access_denied, excused
from spirit_py.mysql.kill import end_earlier_sessions
from spirit_py.plan import brief_plan, brief_text, keys_lost, screen_of
from spirit_py.plan.definition import tried_definition
from spirit_py.plan.earlier_run import examine_and_decide, explained, why_not_dropped
from spirit_py.plan.text import STYLES
from spirit_py.preflight.checks.kept_rows import share_written
from spirit_py.preflight.checks.other_writers import require_own_rehearsal, require_own_server
from spirit_py.preflight.clauses import as_begun, made_by_server
from spirit_py.preflight.preflight import check_before_create, prepare, require_free_relatives
from spirit_py.spark import choice
from spirit_py.statement import ClauseKind
from spirit_py.throttle.option_checks import require_throttlers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.checkpoint.earlier_run import Found
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.run import Run
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.check import PreflightContext

Contexts = tuple["PreflightContext", ...]
_log = logging.getLogger(__name__)


def open_migration(
    run: Run, session: Session
) -> tuple[tuple[PreflightContext, ...], Resume | Afresh]:
    """Return the context of each table, and what is done with an earlier run's; show the plan.

    The tables are locked for other runs. The checks are skipped where an earlier run has swapped
    them already. Raises Refusal with the findings of all checks of all tables.
    """
    require_one_server(session, run.config.connection)
    contexts = prepare(session, run.config)
    describe(run, contexts)
    tables = [(context.schema, context.table) for context in contexts]
    run.label(session, contexts[0].facts, tables)
    try:
        run.lock_tables_from_other_runs(tables)
    except Refusal as refusal:
        raise explained(refusal, session, contexts) from refusal
    _require_own_server(run, session, tables)
    # Before anything is read: the server may still execute a killed run's RENAME.
    end_earlier_run(run, session, tables)
    # Before anything is decided, written or dropped: what a swap has left half-way.
    settle_earlier(run, session, tables)
    try:
        decision = _decide(run, session, contexts)
    except ServerFault as fault:
        # The checks report missing privileges.
        if access_denied(fault):
            check_before_create(contexts)
        raise
    if isinstance(decision, Resume):
        contexts = as_begun(contexts)
        # Before the checks, which may take long.
        begin_control(run, session, decision.record)
    if isinstance(decision, Afresh) or not decision.cleanup:
        further = partial(keys_lost, run.config, contexts)
        run.warn_of(check_before_create(contexts, further))
        require_throttlers(run.config, session)
        require_free_relatives(session, contexts)
        if given := contexts[0].statement.of_kind(ClauseKind.EXCHANGE_PARTITION):
            # No other run may begin to copy its rows, which would go.
            other = migration_lock(run.config.connection, given[0].other, stop=run.stop)
            run.stack.enter_context(other)
    run.stop.check()
    _show_plan(run, contexts, decision)
    return contexts, decision


def describe(run: Run, contexts: tuple[PreflightContext, ...]) -> None:
    """Report the statements, the tables and the server."""
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
                (one.schema, one.table): one.found.estimated_rows for one in contexts if one.found
            },
        )
    )


def end_earlier_run(
    run: Run, session: Session, tables: list[tuple[str, str]], tokens: set[str] | None = None
) -> None:
    """End sessions of a killed run; an account without the privilege is refused later.

    ``tokens`` are those of the runs, where another server has them.
    """
    label = run.config.connection.label

    def end() -> int:
        seen = runs_seen(session, tables) if tokens is None else tokens
        return end_earlier_sessions(session, label, tokens=seen, warn=run.warn)

    if ended := excused(end, 0, access_denied):
        run.tell(SessionsEnded(sessions=ended))


def _require_own_server(run: Run, session: Session, tables: list[tuple[str, str]]) -> None:
    """Refuse a replica before anything is written there; the checks report missing privileges."""
    config = run.config
    if config.connection.unlogged:
        excused(partial(require_own_rehearsal, session, tables), None, access_denied)
        return
    here = config.writes_only_here
    required = partial(require_own_server, session, tables, writes_only_here=here)
    excused(required, None, access_denied)


def _show_plan(run: Run, contexts: tuple[PreflightContext, ...], decision: Resume | Afresh) -> None:
    """Report what will happen; a plan that cannot be made hinders nothing."""
    try:
        plan = brief_plan(run.config, contexts, decision, run.report.warnings)
    except Exception:
        # The migration does not need the plan, which is for reading only.
        _log.debug("the plan could not be made", exc_info=True)
        return
    deferred = any(table.indexes is not None and table.indexes.deferred for table in plan.tables)
    screen = [(line.text, STYLES[line.style]) for line in screen_of(plan)]
    run.tell(
        PlanMade(plan=plan.to_dict(), said=brief_text(plan), shown=screen, builds_indexes=deferred)
    )


def _decide(run: Run, session: SqlSession, contexts: Sequence[PreflightContext]) -> Resume | Afresh:
    """Decide about an earlier run; SchemaChanged if given up (R14), all else keeps its tables."""
    tables = [(context.schema, context.table) for context in contexts]
    found, decision = examine_and_decide(session, run.config, contexts)
    if isinstance(decision, Refuse):
        raise Refusal(decision.reason, hint=decision.hint, error_code=decision.code)
    if run.config.dry_run and (kept := why_not_dropped(found, decision)):
        raise kept
    if isinstance(found.record, CheckpointRecord) and (found.goes_on_here or not found.moved):
        # On the record's own server too: another one may have noted its own numbers, and gone.
        note_here(session, found.record)
    if isinstance(decision, GiveUp):
        _tell(run, "give_up", f"given up: {decision.reason}", decision.reason)
        clear_abandoned(run, session, sorted(tables), ())
        raise SchemaChanged(decision.reason, hint=decision.hint)
    if isinstance(decision, Resume):
        record, more = decision.record, ""
        if not decision.cleanup and not record.copied:
            more = f"; what was copied in the {PERIOD:.0f} s before the stop may be copied again"
        tell_resumed(run, decision, rows=record.rows_copied, more=more)
    elif decision.reason:
        _agree_to_drop(run, found, decision)
        tell_afresh(run, decision)
    return decision


def _agree_to_drop(run: Run, found: Found, decision: Afresh) -> None:
    """Raise UnfinishedWork where rows would be dropped without consent; everything is kept."""
    if not decision.throws_away or run.config.start_afresh:
        return
    lost = dict.fromkeys(str(table) for record in decision.lost for table in record.tables)
    tables = lost or run.report.tables
    first = [(*found.of(one).tables, found.tables[0])[0].name for one in decision.lost]
    cleanup = " and ".join(
        f"spirit-py cleanup --database {quote(schema)} --table {quote(table)}"
        for schema, table in first or [found.tables[0].name]
    )
    unread = "what is copied in the new table; how much that is cannot be read"
    works = [one.work for one in decision.lost] or [unread]
    raise UnfinishedWork(
        f"an unfinished migration of {', '.join(tables)} would be dropped: {decision.reason}",
        hint=f"to resume it: {decision.instead}; to drop it and begin with this one:"
        f" --start-afresh; to drop it only: {cleanup}",
        details=tuple(f"would be lost: {one}" for one in works),
    )


def warn_of_dropped(run: Run, dropped: Iterable[CheckpointRecord | None]) -> None:
    """Warn of the rows that went with earlier runs, once they are dropped."""
    for one in dropped:
        if one is not None and one.rows_copied:
            run.warn(f"dropped with the earlier run: {one.work}")


def tell_resumed(run: Run, decision: Resume, *, rows: int, more: str = "") -> None:
    """Report that a run goes on with ``rows`` that are copied."""
    run.tell(
        ResumeDecided(
            said=f"resuming: {decision.reason}{more}",
            decision="resume",
            reason=decision.reason,
            number=decision.record.runs + 1,
            rows_copied=rows,
            phase=decision.record.phase,
            swapped=decision.cleanup,
        )
    )


def tell_afresh(run: Run, decision: Afresh) -> None:
    """Report that a run does not go on with an earlier one."""
    said = f"an earlier run was stopped here; this one starts afresh: {decision.reason}"
    _tell(run, "afresh", said, decision.reason)


def _tell(run: Run, decision: str, said: str, reason: str) -> None:
    run.tell(
        ResumeDecided(
            said=said, decision=decision, reason=reason, number=1, rows_copied=0, phase=None
        )
    )


def begin_engines(run: Run, contexts: Contexts) -> None:
    """Start Spark in the background if the tables are large; Refusal without a usable Java."""
    size = sum(context.source.total_bytes for context in contexts)
    if size > choice.LOCAL_BYTES:
        # What --keep leaves out is read, and no more; a sample says how much.
        shares = (context.source.total_bytes * share_written(context) for context in contexts)
        size = round(sum(shares))
    run.engines.begin(size)


def evaluated_at(contexts: Contexts, moment: str) -> Contexts:
    """Have the defaults of new columns evaluated at the time when the migration began (R22)."""
    return tuple(replace(context, moment=moment) for context in contexts)


def require_accepted(
    opened: Callable[[], Session], session: SqlSession, contexts: Sequence[PreflightContext]
) -> None:
    """Have the server try each definition, before rows are dropped for it; Refusal as it says.

    ``opened`` returns a session with the server's own settings.
    """
    for context in contexts:
        if made_by_server([context]) is not None:
            continue
        with (
            opened() as native,
            tried_definition(session, native, context.source, context.statement) as tried,
        ):
            if tried.refusal is not None:
                raise tried.refusal
