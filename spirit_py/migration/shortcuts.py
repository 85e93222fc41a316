"""Let the server change the table in place where that takes no time."""

from __future__ import annotations

import contextlib
import logging
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.added import KeyProof, wanted_key
from spirit_py.checkpoint.proofs import read_proofs, shape_digest
from spirit_py.classes import dataclass, field, replace
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
    from spirit_py.contracts import SqlSession
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
        one = _InPlace(run, native, session, context, listen)
        found = shortcut.ShortcutResult(algorithm="inplace", reason="the key is there already")
        if asks_first := not there and (run.config.dry_run or run.veto.asks):
            mark()
            found = one.probe()
        if not there and (not asks_first or (found.algorithm and not run.config.dry_run)):
            found = one.change()
        if key is not None and found.algorithm is not None and not run.config.dry_run:
            drop = None
            if not strange:
                drop = partial(one.drop_key, key)
                one.reach()
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


def _proof_of(session: SqlSession, context: PreflightContext) -> OutcomeProof | None:
    clause, table = clauses.made_by_server([context]), (context.schema, context.table)
    if clause is None:
        return None
    if clause.kind is ClauseKind.ADD_FOREIGN_KEY:
        return KeyProof(session, wanted_key(clause, table), clause)
    return PartitionProof(session, table, clause)


class _Deferred(Exception):
    """The change is to wait for the operator, which only a copy can."""


_LOOK_SECONDS: Final = 0.5
_ANSWER_WITHIN: Final = 5
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _InPlace:
    """The change of one table by the server, which waits for its turn.

    ``native``, with the server's own settings, makes it; ``session`` looks; ``listen`` lets
    operators reach the run. ``work``: what the ALTER may be that is sent next, after a look with so
    many postponements ``heeded``.
    """

    run: Run
    native: Session
    session: Session
    context: PreflightContext
    listen: Callable[[], None]
    work: Work = field(default=Work.SWAP, init=False)
    heeded: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._trying = Stopwatch()
        self._table = self.context.schema, self.context.table
        self._whole = clauses.made_natively([self.context])

    def probe(self) -> shortcut.ShortcutResult:
        """Return what the server would do, by an empty copy of the table."""
        try:
            found = shortcut.probe_shortcut(
                self.native,
                self.session,
                self.context.source,
                self.context.statement,
                building=read_proofs(self.session, *self._table).building,
                by_server=clauses.made_by_server([self.context]),
                whole=self._whole,
            )
        except Refusal as refusal:
            if self.run.config.dry_run:
                raise
            return shortcut.ShortcutResult(reason=refusal.message)
        if found.algorithm and self._rebuilds(found.algorithm):
            self._require_rebuildable()
        return found

    def change(self) -> shortcut.ShortcutResult:
        """Change the table once nothing holds that back; other modes are left to the copy."""
        run, context, made = self.run, self.context, ""
        # Else its temporary table is in the binary log, under the name of the table itself.
        if context.facts.text("binlog_format").upper() != "STATEMENT":
            # A session of its own: the temporary table hides the table itself.
            with run.session("trial", native=True) as trial:
                made = shape_after(trial, context.source, context.statement)
        proof = _proof_of(self.session, context)
        if self._whole:
            zone = clauses.native_zone(context)
            proof = in_place.WholeProof(
                session=self.session, source=context.source, made=made, zone=zone
            )
        before = proof.keeping_indexes(context.source) if isinstance(proof, KeyProof) else ()
        with throttled(run, Work.SWAP, *[Work.REBUILD] * self._whole):
            try:
                # Before the time begins in which the lock has to be had.
                if self._await_pace():
                    # It may have lasted longer than a session may idle.
                    self.renew()
                with self._trying:
                    turns = self._turns()
                    return in_place.Shortcut(
                        self.native,
                        self.session,
                        context.source,
                        context.statement,
                        turns,
                        made=made,
                        proof=proof,
                        before=before,
                        renew=self.renew,
                        await_turn=self.await_turn,
                        sending=partial(self._sending_watched, turns),
                        refused=run.veto.try_ended,
                    ).try_all()
            except (in_place.OtherModesAccept, _Deferred) as reason:
                if self._whole and isinstance(reason, in_place.OtherModesAccept):
                    raise
                # The copy goes on with what may have idled for as long as the wait has lasted.
                self.renew()
                return shortcut.ShortcutResult(reason=str(reason))

    def drop_key(self, key: KeyProof) -> None:
        """Drop a foreign key that was added; a SpiritError where that was not possible."""
        # The search may have lasted longer than a session may idle.
        self.renew()
        drop = alter_of(*self._table, f"DROP FOREIGN KEY {quote_identifier(key.wanted.name)}")
        found = read_table(self.session, *self._table)
        dropping = replace(self.context, statement=drop, altered={}, found=found)
        result = _InPlace(self.run, self.native, self.session, dropping, self.listen).change()
        if result.algorithm is None:
            raise MigrationFailure(result.reason, error_code=ErrorCode.SWAP_HELD_BACK)

    def await_turn(self, algorithm: shortcut.Algorithm) -> bool:
        """Wait until nothing holds the ALTER back, and the hook agrees; return whether it waited.

        Another postponement than those that are heeded ends the wait for the hook.
        """
        run = self.run
        self.work = Work.REBUILD if self._rebuilds(algorithm) else Work.SWAP
        # Those that are counted after this may have their sentinel after the look.
        self.heeded = run.state.postponements
        with self._trying.still():
            waited = self._await_pace()
            if run.veto.asks:
                self.reach()
                waited = run.veto.wait(self._is_hindered) or waited
            if not waited:
                # It may have waited for a lock, and for days.
                self._leave_deferred()
                here = partial(require_still_here, config=run.config, tables=[self._table])
                run.step("shortcut", here)
        return waited

    def _rebuilds(self, algorithm: shortcut.Algorithm) -> bool:
        """Return whether the server may build the whole table anew."""
        if not self._whole or algorithm == "instant":
            return False
        rebuild = clauses.why_not_metadata_only(self.context.source, self.context.statement)
        return algorithm == "native" or rebuild != ""

    def _is_hindered(self) -> bool:
        run = self.run
        return bool(run.pace.reason(self.work)) or run.state.postponements != self.heeded

    def _await_pace(self) -> bool:
        """Wait until nothing holds the change back; return whether it waited."""
        run = self.run
        waited = bool(run.pace.reason(self.work))
        if waited:
            self.reach()
            await_turn(run.pace, self.work, pause=run.stop.pause, show=run.show)
        if waited or run.state.postponements:
            self._leave_deferred()
        return waited

    def _leave_deferred(self) -> None:
        if self.run.state.unproven:
            # A key that is dropped again is no change that could wait.
            return
        look = partial(read_table, schema=self.context.schema, table=self.context.names.sentinel)
        if (found := self.run.step("sentinel", look)) is not None:
            raise _Deferred(f"table {found.full_name} defers the change")

    def reach(self) -> None:
        """Let operators reach the run; a server that is away does not end the wait."""
        with contextlib.suppress(ServerFault):
            self.listen()

    def _attend(self) -> None:
        self.reach()
        # Behind somebody in front, too, a pause takes nothing of the time, and kills nobody.
        with self._trying.still():
            self._await_pace()

    @contextlib.contextmanager
    def sending(self) -> Iterator[in_place.Sending]:
        """Show operators that the ALTER is under way; in this order no pause request is lost."""
        run = self.run
        run.note(PlainFact.ALTER_SENT)
        held = run.giving_up or run.veto.too_old() or self._is_hindered()
        sending = in_place.Sending(allowed=not held)
        try:
            yield sending
        finally:
            run.note(AlterAnswered(sending.made))

    @contextlib.contextmanager
    def _sending_watched(
        self, turns: LockTurns, algorithm: shortcut.Algorithm
    ) -> Iterator[in_place.Sending]:
        """Show what the server does, and kill who may be killed once it waits for a lock.

        That is its second one as a rule, after a rebuild of hours: whoever is in front of it may
        have been for as long.
        """
        run, number, ((_, front),) = self.run, self.native.id, turns.fronts
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

        if self.work is Work.REBUILD:
            self._require_rebuildable()
        try:
            with self.sending() as sent, Background("lock-watch", watch):
                yield sent
        finally:
            run.show("")

    def _require_rebuildable(self) -> None:
        """Refuse what has grown beyond --native since the start, or has no room for another."""

        def look(session: Session) -> TableSchema | None:
            found = read_table(session, *self._table)
            return with_file_bytes(session, [found])[0]

        if (found := self.run.step("shortcut", look)) is None:
            return
        context = replace(self.context, found=found)
        if not clauses.made_natively([context]):
            size, most = human_bytes(sum(likely_sizes(found))), human_bytes(context.config.native)
            raise MigrationFailure(
                f"table {found.full_name} has {size} by now, more than the {most} of --native",
                hint="run the same command again, which decides anew, or with a larger --native",
                error_code=ErrorCode.SWAP_HELD_BACK,
            )
        if lack := lacking_room(context):
            raise MigrationFailure(lack.cause, hint=lack.remedy, error_code=ErrorCode.NO_DISK_SPACE)

    def renew(self) -> bool:
        """Open lost sessions again, on the same server (R14); return whether ``session`` was."""
        run, lost = self.run, False

        def reopen(one: Session, *, native: bool) -> None:
            one.take_over(run.session(one.role, native=native))

        # A server that goes away ends one by one: the second one is checked after the first.
        for one, native in ((self.native, True), (self.session, False)):
            lost = not one.alive()
            if lost:
                again = partial(reopen, one, native=native)
                patiently(again, run.config.connection, run.stop, tell=run.show)
        return lost

    def _turns(self) -> LockTurns:
        run, policy = self.run, LockPolicy.of(self.run.config)
        tables = in_place.locked_tables(self.session, self.context)
        instead = (
            "; to copy the table meanwhile: spirit-py ctl postpone, or spirit-py ctl abort and the"
            " same command with --no-shortcut"
        )
        if self._whole or clauses.made_by_server([self.context]):
            instead = ""
        request = LockRequest(tables=tables, defines=True)
        return LockTurns(
            [(run.config.connection, Front(request, policy.kills, clock=self._trying))],
            policy,
            run.stop,
            what="the metadata lock of the ALTER",
            show=run.show,
            tell=run.tell,
            held_up=run.held_up,
            attend=self._attend,
            instead=instead,
            clock=self._trying,
        )


def _against(run: Run, session: SqlSession, contexts: Sequence[PreflightContext]) -> str:
    if clauses.made_by_server(contexts) is None and not clauses.made_natively(contexts):
        first = contexts[0]
        reason = clauses.why_copied(contexts) or clauses.why_not_in_place(first)
        if reason := reason or shortcut.why_rebuilt(session, first):
            return reason
    schema, sentinel = contexts[0].schema, contexts[0].names.sentinel
    if not run.config.dry_run and read_table(session, schema, sentinel):
        return f"table {schema}.{sentinel} defers the change"
    return ""
