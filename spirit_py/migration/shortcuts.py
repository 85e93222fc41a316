"""Let the server change the table in place where that takes no time."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.added import KeyProof, wanted_key
from spirit_py.checkpoint.proofs import read_proofs, shape_digest
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, Refusal, ServerFault, SpiritError
from spirit_py.estimates import likely_sizes
from spirit_py.events.run import SAME_ALREADY, AlgorithmChosen
from spirit_py.locks.blockers import LockPolicy
from spirit_py.locks.look import LockRequest, waited_for
from spirit_py.locks.turns import Front, LockTurns, named
from spirit_py.migration import in_place
from spirit_py.migration.facts import AlterAnswered, PlainFact
from spirit_py.migration.new_key import prove_key, try_key
from spirit_py.migration.swap.swap import Stopwatch
from spirit_py.migration.throttling import throttled
from spirit_py.mysql.retry import RenewedSession, patiently
from spirit_py.mysql.tables.deferred_indexes import build_stage
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.guard_column import with_file_bytes
from spirit_py.mysql.tables.identity import identity
from spirit_py.mysql.tables.partitions import PartitionProof
from spirit_py.pace import Work, await_turn
from spirit_py.plan.definition import shape_after
from spirit_py.plan.earlier_run import statement_of
from spirit_py.preflight import clauses, shortcut
from spirit_py.preflight.checks.disk_space import lacking_room
from spirit_py.preflight.checks.other_writers import require_still_here
from spirit_py.sql import quote_identifier, quote_table
from spirit_py.statement import ClauseKind, alter_of
from spirit_py.threads import Background
from spirit_py.units import human_bytes

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.checkpoint.record import CheckpointRecord
    from spirit_py.contracts import Clock, SqlSession
    from spirit_py.migration.in_place import OutcomeProof
    from spirit_py.migration.run import Run
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.schema import TableSchema


def change_in_place(
    run: Run,
    session: Session,
    contexts: Sequence[PreflightContext],
    mark: Callable[[], None],
    listen: Callable[[], None],
    *,
    earlier: CheckpointRecord | None,
) -> bool:
    """Try the shortcut; return whether it changed the table. ``earlier``: of a run that ended.

    Several tables must change at one moment, which only the copy can do. A dry run asks the server
    about an empty copy of the table. ``mark`` creates the checkpoint table, which must be there
    before the empty copy; ``listen`` lets operators reach the run while it waits. A clause that no
    copy makes is a MigrationFailure where it has to wait for the operator.
    """
    by_server = clauses.made_by_server(contexts)
    alone = by_server.text if by_server else ""
    if clauses.made_natively(contexts):
        alone = contexts[0].statement.clauses
    if alone:
        run.note(PlainFact.ONLY_BY_SERVER)
    if reason := _against(run, session, contexts):
        return _left_to_copy(run, reason, alone)
    (context,) = contexts
    proof = _proof_of(session, context)
    key = proof if isinstance(proof, KeyProof) else None
    there = key is not None and key.happened(answered=False)
    # A record shows that the key was added by a run of this program, which may drop it: no record
    # is written while one that was there before is looked at.
    strange = there and (earlier is None or earlier.statement != statement_of(contexts))
    if there and not strange:
        if run.config.dry_run:
            raise Refusal(
                "an earlier run has added the foreign key, and has not looked at all rows yet",
                hint="the same command without --dry-run goes on with that",
                error_code=ErrorCode.UNFINISHED_WORK,
            )
        # Nothing else shows whose the key is.
        run.note(PlainFact.RECORD_STAYS)
    if clauses.made_once(contexts) and not strange:
        # A killed run has to be known: what it may have made would be undone if it is made again.
        mark()
    if key is not None and not there:
        try_key(session, context, key.wanted)
    with run.session("shortcut", native=True) as native:
        found = shortcut.ShortcutResult(algorithm="inplace", reason="the key is there already")
        if asks_first := not there and (run.config.dry_run or run.veto.asks):
            mark()
            found = _probed(run, native, session, context)
        if not there and (not asks_first or (found.algorithm and not run.config.dry_run)):
            found = _tried(run, native, session, context, listen)
        if key is not None and found.algorithm is not None and not run.config.dry_run:
            drop = None
            if not strange:
                drop = partial(_drop_key, run, native, session, context, key, listen=listen)
                _reach(listen)
            prove_key(run, context, key, drop)
    if found.algorithm is None:
        return _left_to_copy(run, found.reason, alone)
    reason = SAME_ALREADY if found.unchanged else found.reason
    run.tell(AlgorithmChosen(algorithm=found.algorithm, reason=reason))
    return True


def _left_to_copy(run: Run, reason: str, alone: str) -> bool:
    """Leave it to the copy, but for what the server makes ``alone``: nothing was checked for it."""
    if alone:
        raise MigrationFailure(
            f"{alone!r} was not made: {reason}",
            hint="the server makes it, and no copy: run the same command when it may",
            error_code=ErrorCode.SWAP_HELD_BACK,
        )
    run.tell(AlgorithmChosen(algorithm="copy", reason=reason))
    return False


def require_not_begun(
    session: SqlSession, contexts: Sequence[PreflightContext], abandoned: CheckpointRecord | None
) -> None:
    """Refuse any run after an EXCHANGE that a killed one may have made: its record would go.

    Made again, the EXCHANGE would be undone. So would columns get their names back, and values be
    dropped: then a run is refused where the table shows that it may have been made.
    """
    schema, table = contexts[0].schema, contexts[0].table
    begun = f"ALTER TABLE {quote_table(schema, table)} {ClauseKind.EXCHANGE_PARTITION} "
    then, see = "", ""
    # The record has the table's name as it was written.
    if abandoned is not None and begun.lower() in abandoned.statement.lower():
        then, see = "bring the rows back", "see which of the two tables has the rows"
    elif (
        abandoned is not None
        and not abandoned.position
        and abandoned.statement == statement_of(contexts)
        and (again := contexts[0].statement.second_time)
        and (seen := _seen_since(session, contexts[0], abandoned))
    ):
        then, see = again, f"see SHOW CREATE TABLE {table}, {seen}"
    if abandoned is not None and then:
        raise Refusal(
            f"a run of {abandoned.statement} was killed, and may have made it: made again, it would"
            f" {then}",
            hint=f"{see}; then spirit-py cleanup --database {quote(schema)} --table {quote(table)},"
            " and the same command if it was not made",
            error_code=ErrorCode.CANNOT_RESUME,
        )


def _seen_since(session: SqlSession, context: PreflightContext, record: CheckpointRecord) -> str:
    """Return what shows that a run may have altered the table; the time of that has whole seconds.

    Where values or rows go, the definition may be as it was: the table's identity shows more.
    """
    table = (context.schema, context.table)
    before = record.find(table)
    if before is not None and before.source_shape != shape_digest(context.source):
        return "which has another definition since"
    if not context.statement.dropped and not context.statement.of_kind(*clauses.TAKES_ROWS):
        return ""
    noted, now = read_proofs(session, *table).source, identity(session, *table)
    if not noted or noted == now or noted.is_replica_of(now):
        return ""
    if noted.server != now.server:
        return "which does not show whether it was altered: another server answers than then"
    return "which was altered, emptied or built anew since"


def _probed(
    run: Run, native: Session, session: Session, context: PreflightContext
) -> shortcut.ShortcutResult:
    try:
        return shortcut.probe_shortcut(
            native,
            session,
            context.source,
            context.statement,
            building=read_proofs(session, context.schema, context.table).building,
            by_server=clauses.made_by_server([context]),
            whole=clauses.made_natively([context]),
        )
    except Refusal as refusal:
        if run.config.dry_run:
            raise
        return shortcut.ShortcutResult(reason=refusal.message)


def _tried(
    run: Run,
    native: Session,
    session: Session,
    context: PreflightContext,
    listen: Callable[[], None],
) -> shortcut.ShortcutResult:
    """Change the table in place once nothing holds that back; other modes are left to the copy."""
    made = ""
    # Else its temporary table is in the binary log, under the name of the table itself.
    if context.facts.text("binlog_format").upper() != "STATEMENT":
        # A session of its own: the temporary table hides the table itself.
        with run.session("trial", native=True) as trial:
            made = shape_after(trial, context.source, context.statement)
    whole = None
    if clauses.made_natively([context]):
        zone = clauses.native_zone(context)
        whole = in_place.WholeProof(session=session, source=context.source, made=made, zone=zone)
    proof = whole or _proof_of(session, context)
    before = proof.keeping_indexes(context.source) if isinstance(proof, KeyProof) else ()
    trying, heeded, work = Stopwatch(), 0, Work.SWAP

    def await_turn(algorithm: shortcut.Algorithm) -> bool:
        nonlocal heeded, work
        work = Work.REBUILD if whole and _rebuilds(context, algorithm) else Work.SWAP
        # Those that are counted after this may have their sentinel after the look.
        heeded = run.state.postponements
        with trying.still():
            return _await_turn(run, context, listen, heeded, work)

    def attend() -> None:
        _reach(listen)
        # Behind somebody in front, too, a pause takes nothing of the time, and kills nobody.
        with trying.still():
            _await_pace(run, context, listen, work)

    with throttled(run, Work.SWAP, *[Work.REBUILD] * (whole is not None)):
        try:
            # Before the time begins in which the lock has to be had.
            if _await_pace(run, context, listen, work):
                # It may have lasted longer than a session may idle.
                _renew(run, native, session)
            with trying:
                turns = _turns(run, session, context, attend, trying)

                @contextlib.contextmanager
                def sending(algorithm: shortcut.Algorithm) -> Iterator[in_place.Sending]:
                    if work is Work.REBUILD:
                        _require_rebuildable(run, context)
                    with (
                        _sending(run, heeded, work) as sent,
                        _watched(run, native, turns, algorithm),
                    ):
                        yield sent

                return in_place.Shortcut(
                    native,
                    session,
                    context.source,
                    context.statement,
                    turns,
                    made=made,
                    proof=proof,
                    before=before,
                    whole=whole is not None,
                    renew=partial(_renew, run, native, session),
                    await_turn=await_turn,
                    sending=sending,
                    refused=run.veto.try_ended,
                ).try_all()
        except (in_place.OtherModesAccept, _Deferred) as reason:
            if whole and isinstance(reason, in_place.OtherModesAccept):
                raise
            # The copy goes on with what may have idled for as long as the wait has lasted.
            _renew(run, native, session)
            return shortcut.ShortcutResult(reason=str(reason))


def _drop_key(
    run: Run,
    native: Session,
    session: Session,
    context: PreflightContext,
    key: KeyProof,
    *,
    listen: Callable[[], None],
) -> None:
    """Drop a foreign key that was added; a SpiritError where that was not possible."""
    # The search may have lasted longer than a session may idle.
    _renew(run, native, session)
    schema, table = context.schema, context.table
    drop = alter_of(schema, table, f"DROP FOREIGN KEY {quote_identifier(key.wanted.name)}")
    found = read_table(session, schema, table)
    dropping = replace(context, statement=drop, altered={}, found=found)
    result = _tried(run, native, session, dropping, listen)
    if result.algorithm is None:
        raise MigrationFailure(result.reason, error_code=ErrorCode.SWAP_HELD_BACK)


def _proof_of(session: SqlSession, context: PreflightContext) -> OutcomeProof | None:
    clause, table = clauses.made_by_server([context]), (context.schema, context.table)
    if clause is None:
        return None
    if clause.kind is ClauseKind.ADD_FOREIGN_KEY:
        return KeyProof(session, wanted_key(clause, table), clause)
    return PartitionProof(session, table, clause)


class _Deferred(Exception):
    """The change is to wait for the operator, which only a copy can."""


def _rebuilds(context: PreflightContext, algorithm: shortcut.Algorithm) -> bool:
    """Return whether the server may build the whole table anew."""
    if algorithm == "inplace":
        return clauses.why_not_metadata_only(context.source, context.statement) != ""
    return algorithm == "native"


def _await_turn(
    run: Run, context: PreflightContext, listen: Callable[[], None], heeded: int, work: Work
) -> bool:
    """Wait until nothing holds the change back, and the hook agrees; return whether it waited.

    Another postponement than those that are ``heeded`` ends the wait for the hook.
    """
    waited = _await_pace(run, context, listen, work)
    if run.veto.asks:
        _reach(listen)
        hindered = partial(run.pace.reason, work)
        waited = run.veto.wait(lambda: hindered() or run.state.postponements != heeded) or waited
    if not waited:
        # It may have waited for a lock, and for days.
        _leave_deferred(run, context)
        table = (context.schema, context.table)
        run.step("shortcut", partial(require_still_here, config=run.config, tables=[table]))
    return waited


def _await_pace(
    run: Run, context: PreflightContext, listen: Callable[[], None], work: Work
) -> bool:
    """Wait until nothing holds the change back; return whether it waited."""
    waited = bool(run.pace.reason(work))
    if waited:
        _reach(listen)
        await_turn(run.pace, work, pause=run.stop.pause, show=run.show)
    if waited or run.state.postponements:
        _leave_deferred(run, context)
    return waited


def _leave_deferred(run: Run, context: PreflightContext) -> None:
    if run.state.unproven:
        # A key that is dropped again is no change that could wait.
        return
    found = run.step(
        "sentinel", partial(read_table, schema=context.schema, table=context.names.sentinel)
    )
    if found is not None:
        raise _Deferred(f"table {found.full_name} defers the change")


def _reach(listen: Callable[[], None]) -> None:
    """Let operators reach the run; a server that is away does not end the wait."""
    with contextlib.suppress(ServerFault):
        listen()


@contextlib.contextmanager
def _sending(run: Run, heeded: int, work: Work) -> Iterator[in_place.Sending]:
    """Show operators that the ALTER is under way; in this order no pause request is lost."""
    run.note(PlainFact.ALTER_SENT)
    held = run.giving_up or run.pace.reason(work) or run.veto.too_old()
    sending = in_place.Sending(allowed=not held and run.state.postponements == heeded)
    try:
        yield sending
    finally:
        run.note(AlterAnswered(sending.made))


def _require_rebuildable(run: Run, context: PreflightContext) -> None:
    """Refuse what has grown beyond --native since the start, or has no room for a second copy."""

    def look(session: Session) -> TableSchema | None:
        found = read_table(session, schema=context.schema, table=context.table)
        return found and with_file_bytes(session, found)

    found = run.step("shortcut", look)
    if found is not None and not clauses.made_natively([replace(context, found=found)]):
        size, most = human_bytes(sum(likely_sizes(found))), human_bytes(run.config.native)
        raise MigrationFailure(
            f"table {found.full_name} has {size} by now, more than the {most} of --native",
            hint="run the same command again, which decides anew, or with a larger --native",
            error_code=ErrorCode.SWAP_HELD_BACK,
        )
    if found is not None and (lack := lacking_room(replace(context, found=found))):
        raise MigrationFailure(lack.cause, hint=lack.remedy, error_code=ErrorCode.NO_DISK_SPACE)


_LOOK_SECONDS: Final = 0.5
_ANSWER_WITHIN: Final = 5
_log = logging.getLogger(__name__)


@contextlib.contextmanager
def _watched(
    run: Run, native: Session, turns: LockTurns, algorithm: shortcut.Algorithm
) -> Iterator[None]:
    """Show what the server does, and kill who may be killed once it waits for a lock.

    That is its second one as a rule, after a rebuild of hours: whoever is in front of it may have
    been for as long.
    """
    number, ((_, front),) = native.id, turns.fronts
    what = "the server to make the ALTER"
    if algorithm == "native":
        what = "the server to copy the rows, for which writes wait"

    def look(session: Session) -> None:
        waits = not front.unseen and bool(waited_for(session, number))
        found = front.look(session, number, waits=waits)
        stage = build_stage(session, number)
        how = f" ({stage})" if stage else ""
        who = f"; it waits for {named(found)}" if waits and found else ""
        run.show(f"{what}{how}{who}")
        if waits:
            front.kill(session)

    def watch(ended: threading.Event) -> None:
        opened = partial(run.session, "lock-look", read_timeout=_ANSWER_WITHIN)
        with contextlib.closing(RenewedSession(opened)) as asked:
            while not ended.wait(_LOOK_SECONDS):
                try:
                    asked.ask(look)
                except SpiritError:
                    _log.debug("cannot look at the ALTER", exc_info=True)

    try:
        with Background("lock-watch", watch):
            yield
    finally:
        run.show("")


def _reopen(run: Run, lost: Session, *, native: bool) -> None:
    lost.take_over(run.session(lost.role, native=native))


def _renew(run: Run, native: Session, session: Session) -> bool:
    """Open lost sessions again, on the same server (R14); return whether the second was lost."""
    lost = False
    # A server that goes away ends sessions one by one: the second one is checked after the first.
    for one, is_native in ((native, True), (session, False)):
        lost = not one.alive()
        if lost:
            again = partial(_reopen, run, one, native=is_native)
            patiently(again, run.config.connection, run.stop, tell=run.show)
    return lost


def _turns(
    run: Run,
    session: SqlSession,
    context: PreflightContext,
    attend: Callable[[], None],
    clock: Clock,
) -> LockTurns:
    policy, tables = LockPolicy.of(run.config), in_place.locked_tables(session, context)
    instead = (
        "; to copy the table meanwhile: spirit-py ctl postpone, or spirit-py ctl abort and the same"
        " command with --no-shortcut"
    )
    if clauses.made_natively([context]) or clauses.made_by_server([context]):
        instead = ""
    request = LockRequest(tables=tables, defines=True)
    return LockTurns(
        [(run.config.connection, Front(request, policy.kills, clock=clock))],
        policy,
        run.stop,
        what="the metadata lock of the ALTER",
        show=run.show,
        tell=run.tell,
        held_up=run.held_up,
        attend=attend,
        instead=instead,
        clock=clock,
    )


def _against(run: Run, session: SqlSession, contexts: Sequence[PreflightContext]) -> str:
    if clauses.made_by_server(contexts) is None and not clauses.made_natively(contexts):
        if reason := clauses.why_copied(contexts):
            return reason
        if clause := clauses.certainly_copied(contexts[0].statement):
            why = f"{clause!r} is neither INSTANT nor a change of metadata alone"
            return "; ".join(filter(None, (why, clauses.why_not_native(contexts[0]))))
        if reason := shortcut.why_rebuilt(session, contexts[0]):
            return reason
    schema, sentinel = contexts[0].schema, contexts[0].names.sentinel
    if not run.config.dry_run and read_table(session, schema, sentinel):
        return f"table {schema}.{sentinel} defers the change"
    return ""
