"""Let the server change the table in place where that takes no time."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from spirit_py.attached.foreign_keys.catalogue import keys_of, keys_to
from spirit_py.attached.foreign_keys.model import drops
from spirit_py.checkpoint.proofs import read_proofs
from spirit_py.errors import Refusal, ServerFault
from spirit_py.events.run import AlgorithmChosen
from spirit_py.locks.blockers import LockPolicy
from spirit_py.locks.look import LockRequest
from spirit_py.locks.turns import Front, LockTurns
from spirit_py.migration.facts import AlterAnswered, PlainFact
from spirit_py.migration.throttling import throttled
from spirit_py.mysql.retry import patiently
from spirit_py.mysql.tables.definition import read_table
from spirit_py.pace import Work, await_turn
from spirit_py.plan.definition import shape_after
from spirit_py.preflight.clauses import why_copied
from spirit_py.preflight.shortcut import (
    OtherModesAccept,
    Sending,
    Shortcut,
    ShortcutResult,
    probe_shortcut,
)
from spirit_py.statement import ClauseKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.migration.run import Run
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.names import Name


def change_in_place(
    run: Run,
    session: Session,
    contexts: Sequence[PreflightContext],
    mark: Callable[[], None],
    listen: Callable[[], None],
) -> bool:
    """Try the shortcut; return whether it changed the table.

    Several tables must change at one moment, which only the copy can do. A dry run asks the server
    about an empty copy of the table. ``mark`` creates the checkpoint table, which must be there
    before the empty copy; ``listen`` lets operators reach the run while it waits.
    """
    if reason := _against(run, session, contexts):
        run.tell(AlgorithmChosen(algorithm="copy", reason=reason))
        return False
    (context,) = contexts
    with run.session("shortcut", native=True) as native:
        if asks_first := run.config.dry_run or run.veto.asks:
            mark()
            found = _probed(run, native, session, context)
        if not asks_first or (found.algorithm is not None and not run.config.dry_run):
            found = _tried(run, native, session, context, listen)
    run.tell(AlgorithmChosen(algorithm=found.algorithm or "copy", reason=found.reason))
    return found.algorithm is not None


def _probed(
    run: Run, native: Session, session: Session, context: PreflightContext
) -> ShortcutResult:
    building = read_proofs(session, context.schema, context.table).building
    source, statement = context.source, context.statement
    try:
        return probe_shortcut(native, session, source, statement, building=building)
    except Refusal as refusal:
        if run.config.dry_run:
            raise
        return ShortcutResult(reason=refusal.message)


def _tried(
    run: Run,
    native: Session,
    session: Session,
    context: PreflightContext,
    listen: Callable[[], None],
) -> ShortcutResult:
    """Change the table in place once nothing holds that back; other modes are left to the copy."""
    # A session of its own: its temporary table hides the table itself.
    with run.session("trial", native=True) as trial:
        made = shape_after(trial, context.source, context.statement)
    with throttled(run, Work.SWAP):
        try:
            # Before the time begins in which the lock has to be had.
            if _await_pace(run, context, listen):
                # It may have lasted longer than a session may idle.
                _renew(run, native, session)
            return Shortcut(
                native,
                session,
                context.source,
                context.statement,
                _turns(run, _locked(session, context), partial(_attend, run, context, listen)),
                made=made,
                renew=partial(_renew, run, native, session),
                await_turn=partial(_await_turn, run, context, listen),
                sending=partial(_sending, run),
                refused=run.veto.try_ended,
            ).try_all()
        except (OtherModesAccept, _Deferred) as reason:
            return ShortcutResult(reason=str(reason))


class _Deferred(Exception):
    """The change is to wait for the operator, which only a copy can."""


def _await_turn(run: Run, context: PreflightContext, listen: Callable[[], None]) -> bool:
    """Wait until nothing holds the change back, and the hook agrees; return whether it waited."""
    waited = _await_pace(run, context, listen)
    if run.veto.asks:
        _reach(listen)
        hindered = partial(run.pace.reason, Work.SWAP)
        waited = run.veto.wait(lambda: hindered() or run.state.postponements) or waited
    return waited


def _await_pace(run: Run, context: PreflightContext, listen: Callable[[], None]) -> bool:
    """Wait until nothing holds the change back; return whether it waited."""
    waited = bool(run.pace.reason(Work.SWAP))
    if waited:
        _reach(listen)
        await_turn(run.pace, Work.SWAP, pause=run.stop.pause, show=run.show)
    if waited or run.state.postponements:
        _leave_deferred(run, context)
    return waited


def _leave_deferred(run: Run, context: PreflightContext) -> None:
    found = run.step(
        "sentinel", partial(read_table, schema=context.schema, table=context.names.sentinel)
    )
    if found is not None:
        raise _Deferred(f"table {found.full_name} defers the change")


def _attend(run: Run, context: PreflightContext, listen: Callable[[], None]) -> None:
    """Let operators reach the run behind a lock: one that postpones it waits for that no longer."""
    _reach(listen)
    if run.state.postponements:
        _leave_deferred(run, context)


def _reach(listen: Callable[[], None]) -> None:
    """Let operators reach the run; a server that is away does not end the wait."""
    with contextlib.suppress(ServerFault):
        listen()


@contextlib.contextmanager
def _sending(run: Run) -> Iterator[Sending]:
    """Show operators that the ALTER is under way; in this order no pause request is lost."""
    postponed = run.state.postponements
    run.note(PlainFact.ALTER_SENT)
    held = run.giving_up or run.pace.reason(Work.SWAP)
    sending = Sending(allowed=not held and run.state.postponements == postponed)
    try:
        yield sending
    finally:
        run.note(AlterAnswered(sending.made))


def _renew(run: Run, native: Session, session: Session) -> bool:
    """Open lost sessions again, on the same server (R14); return whether the second was lost."""

    def renew(lost: Session, *, native: bool) -> None:
        lost.take_over(run.session(lost.role, native=native))

    lost = False
    # A server that goes away ends sessions one by one: the second one is checked after the first.
    for one, is_native in ((native, True), (session, False)):
        lost = not one.alive()
        if lost:
            patiently(
                partial(renew, one, native=is_native),
                run.config.connection,
                run.stop,
                tell=run.show,
            )
    return lost


def _locked(session: SqlSession, context: PreflightContext) -> list[Name]:
    """Return the tables whose metadata lock the ALTER takes exclusively.

    Measured on 9.7: also those of all children, whatever is changed, and those of the parents
    where a foreign key is dropped. INNODB_FOREIGN shows them to an account with PROCESS.
    """
    table = (context.schema, context.table)
    found = {table: None}
    found.update((key.child, None) for key in keys_to(session, *table))
    if context.statement.of_kind(ClauseKind.DROP_FOREIGN_KEY, ClauseKind.DROP_CONSTRAINT):
        keys = keys_of(session, *table)
        if any(drops(context.statement, key) for key in keys):
            found.update((key.parent, None) for key in keys)
    return list(found)


def _turns(run: Run, tables: Sequence[Name], attend: Callable[[], None]) -> LockTurns:
    policy = LockPolicy.of(run.config)
    return LockTurns(
        [(run.config.connection, Front(LockRequest(tables=tables, defines=True), policy.kills))],
        policy,
        run.stop,
        what="the metadata lock of the ALTER",
        show=run.show,
        tell=run.tell,
        held_up=run.held_up,
        attend=attend,
        instead="; to copy the table meanwhile: spirit-py ctl postpone, or spirit-py ctl abort and"
        " the same command with --no-shortcut",
    )


def _against(run: Run, session: SqlSession, contexts: Sequence[PreflightContext]) -> str:
    if reason := why_copied(contexts):
        return reason
    schema, sentinel = contexts[0].schema, contexts[0].names.sentinel
    if not run.config.dry_run and read_table(session, schema, sentinel):
        return f"table {schema}.{sentinel} defers the change"
    return ""
