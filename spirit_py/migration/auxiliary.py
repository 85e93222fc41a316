"""The auxiliary tables of each source: created, taken over, and kept or dropped at the end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spirit_py import errors
from spirit_py.checkpoint.drop import (
    drop_auxiliary,
    drop_building,
    drop_checkpoint,
    drop_left_behind,
)
from spirit_py.checkpoint.proofs import note_made, read_proofs, renew_proofs
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.checkpoint.writer import create_checkpoint_tables
from spirit_py.codes import ErrorCode
from spirit_py.events.copy import CheckpointKept
from spirit_py.events.swap import AuxiliaryDropped
from spirit_py.locks.blockers import LockPolicy
from spirit_py.locks.look import LockRequest, require_definable
from spirit_py.locks.turns import Front, LockTurns
from spirit_py.migration.facts import PlainFact
from spirit_py.migration.swap.attachments import try_triggers
from spirit_py.migration.throttling import search_throttled
from spirit_py.mysql.faults import takes_no_writes
from spirit_py.mysql.grants import read_grants
from spirit_py.mysql.kill import end_sessions
from spirit_py.mysql.retry import RepeatingSession, retrying
from spirit_py.mysql.tables.definition import read_table, shape_of
from spirit_py.mysql.tables.guard_column import drop_guard_columns
from spirit_py.mysql.tables.new_table import NewTable, drop_sentinel
from spirit_py.preflight.preflight import check_after_create, check_keys, mapping_of
from spirit_py.table.names import AuxiliaryNames, Swap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.checkpoint.record import CheckpointRecord
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.run import Run
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.names import Name
    from spirit_py.table.schema import TableSchema

#: Tries of a step after the swap, each in a session of its own.
_PATIENCE: Final = 8


def clear_abandoned(
    run: Run,
    session: SqlSession,
    tables: Sequence[Name],
    abandoned: Iterable[CheckpointRecord | None],
    *,
    still_deferred: bool = False,
    noted: bool = False,
) -> None:
    """Drop what earlier runs left of these tables, and beside them, where it is ours.

    ``still_deferred``: but the sentinel; the swap waits for it, as preflight has said;
    ``noted``: but the checkpoint tables.
    """
    for record in abandoned:
        for line in drop_left_behind(session, record, tables) if record is not None else ():
            run.tell(AuxiliaryDropped(said=line))
    for table in tables:
        _drop(run, session, table, still_deferred=still_deferred, noted=noted)


def refuse_no_more(_kind: object, error: BaseException | None, _trace: object) -> None:
    """MigrationFailure in place of a refusal: what an earlier run had copied is dropped."""
    if isinstance(error, errors.Refusal):
        raise _failure(error, "; what the earlier run had copied was dropped before") from error


def _failure(refusal: errors.Refusal, more: str = "") -> errors.MigrationFailure:
    failure = errors.MigrationFailure(
        f"{refusal.message}{more}",
        hint=refusal.hint,
        details=refusal.details,
        error_code=refusal.error_code,
    )
    failure.causes = refusal.causes
    return failure


def await_definitions(run: Run, *sessions: Session) -> None:
    """Wait while a backup or a global lock of another session keeps tables from being made.

    On each server of the run; ``sessions`` are kept alive.
    """
    servers = (run.config.connection, *run.config.others)
    turns = LockTurns(
        [(one, Front(LockRequest(tables=(), defines=True))) for one in servers],
        # Nothing shorter lets it pass, as a statement would.
        replace(LockPolicy.of(run.config), old=0.0, wait=0.0),
        run.stop,
        what="the first table of the migration",
        show=run.show,
        tell=run.tell,
        held_up=run.held_up,
        # It would be ended for being idle.
        attend=lambda: [session.alive() for session in sessions],
    )
    if not retrying(run.stop)(turns.await_free):
        raise errors.MigrationFailure(
            f"no table can be made meanwhile: {turns.described()}",
            hint="run the same command again when the backup, or the global lock, has ended",
            error_code=ErrorCode.LOCK_NOT_GRANTED,
        )


def guard(run: Run, record: CheckpointRecord) -> None:
    """Have the end of the run keep or drop all that is beside the checkpoint tables."""
    run.stack.push(partial(leave, run, [table.name for table in record.tables], taken_over=False))


def mark(
    session: SqlSession,
    record: CheckpointRecord,
    guarded: Callable[[], object],
    *,
    there: bool = False,
) -> None:
    """Create the checkpoint tables, once that is ``guarded``; ServerFault 1205 behind a backup.

    ``there``: those of an earlier run are not dropped, and get the rows of this one.
    """
    require_definable(session)
    guarded()
    create_checkpoint_tables(session, record, there=there)


def take_over(
    run: Run, session: SqlSession, contexts: Sequence[PreflightContext]
) -> tuple[TableMapping, ...]:
    """Take over the new tables of an earlier run, whose checks were made then."""
    tables = [(context.schema, context.table) for context in contexts]
    run.stack.push(partial(leave, run, tables, taken_over=True))
    run.note(PlainFact.RECORD_STAYS)
    return tuple(_earlier_mapping(session, context) for context in contexts)


def _earlier_mapping(session: SqlSession, context: PreflightContext) -> TableMapping:
    drop_guard_columns(session, context.schema, context.names.new)
    renew_proofs(session, context.schema, context.table)
    target = read_table(session, context.schema, context.names.new)
    if target is None:
        raise errors.SchemaChanged(
            f"another session dropped the new table {context.schema}.{context.names.new}",
            hint="start the migration again: it starts from the beginning",
        )
    return mapping_of(context, target)


def create_new_tables(
    run: Run, session: Session, contexts: Sequence[PreflightContext]
) -> tuple[TableMapping, ...]:
    """Create the new tables and run the checks that need them; Refusal with all their findings."""
    mappings = tuple(_create(run, session, context) for context in contexts)
    first = contexts[0]
    check_keys(contexts, mappings, read_proofs(session, first.schema, first.table).building)
    return mappings


def _create(run: Run, session: Session, context: PreflightContext) -> TableMapping:
    note = partial(note_made, session, context.schema, context.table)
    run.show("the server to copy the definition: a lock that another session holds delays that")
    with run.session("alter", native=True) as native:
        try:
            building = read_proofs(session, context.schema, context.table).building
            new = NewTable(session, native, context.source, context.statement)
            target = new.create(building=building, note=note)
        except errors.ServerFault:
            # What a session sent before its connection was cut may come after the DROP (R18).
            lost = [one.id for one in (session, native) if not one.alive()]
            end_sessions(run.config.connection, lost)
            raise
    run.show("")
    with search_throttled(run, context.session) as turn:
        patient = RepeatingSession(context.session, turn)
        watched = replace(context, session=patient, tell=run.tell, check_stop=turn)
        mapping, findings = check_after_create(watched, target)
    run.warn_of(findings)
    try_triggers(run, Swap.of(mapping))
    return mapping


def leave(
    run: Run,
    tables: Sequence[Name],
    _kind: object,
    error: BaseException | None,
    _trace: object,
    *,
    taken_over: bool,
    drop: Callable[[Any, Sequence[Name], BaseException | None], bool] | None = None,
) -> None:
    """Keep the auxiliary tables where the next run can resume, otherwise drop them.

    A failure here is reported, and hides no earlier error. After a refusal, tables that were
    ``taken_over`` stay; MigrationFailure replaces a refusal whose tables could not be dropped, and
    the success of such a rehearsal. ``drop`` drops them all, and returns whether it could; by
    itself, on one server.
    """
    run.note(PlainFact.TEARDOWN_BEGUN)
    # After OutcomeUnknown, what a clause has done that cannot be made twice is looked at first.
    kept = (errors.OutcomeUnknown, errors.Refusal) if taken_over else errors.OutcomeUnknown
    if run.may_be_swapped or isinstance(error, kept):
        return
    if to_be_resumed(run, error):
        run.tell(CheckpointKept(checkpoints=[str(CheckpointTable(*table)) for table in tables]))
        run.note(PlainFact.STAYS_RESUMABLE)
        return
    if errors.is_overtaken(error):
        return
    run.await_readers()
    asked = run.stop.reason
    if (drop or _drop_all)(run, tables, error):
        if isinstance(asked, errors.AbortedForGood):
            asked.hint = "nothing is left of it; the source table is intact"
        return
    # On a replica cleanup is refused, or would be logged.
    by = "the same command drops" if run.config.connection.unlogged else "spirit-py cleanup drops"
    hint = f"the source table is intact; {by} what is left, or says why it stays"
    promised = errors.Aborted if run.config.dry_run else errors.AbortedForGood
    if isinstance(asked, promised):
        asked.hint = hint
    if isinstance(error, errors.Refusal):
        raise _failure(error) from error
    if error is None and run.config.dry_run:
        raise errors.MigrationFailure(
            "the rehearsal has reached its end and changed nothing; what it made is left behind",
            hint=hint,
        )


def _drop_all(run: Run, tables: Sequence[Name], error: BaseException | None) -> bool:
    left = [table for table in tables if not _dropped(run, table, patiently=error is None)]
    return not left


def _dropped(run: Run, table: Name, *, patiently: bool) -> bool:
    """Drop the auxiliary tables; ``patiently`` waits for a server that takes no writes."""

    def drop() -> bool:
        with run.session("cleanup") as session:
            # Another server may answer at the same address by now (R14).
            return _drop(run, session, table)

    once_more = retrying(run.stop, attempts=_PATIENCE, passing=takes_no_writes)
    try:
        return once_more(drop) if patiently else drop()
    except errors.MigrationFailure as fault:
        names = AuxiliaryNames.of(table[1])
        run.warn(
            f"the tables {names.new} and {names.checkpoint} could not be dropped:"
            f" {fault.message}; the next run drops them"
        )
        return False


def to_be_resumed(run: Run, error: BaseException | None) -> bool:
    """Return whether the next run may resume (R17)."""
    if error is None or run.config.dry_run or not run.state.resumable:
        return False
    cause = run.stop.cause_of(error)
    return not isinstance(cause, errors.SpiritError) or cause.resumable


def _drop(
    run: Run,
    session: SqlSession,
    table: Name,
    *,
    still_deferred: bool = False,
    noted: bool = False,
) -> bool:
    """Drop what is ours; return whether nothing that our checkpoint leads to is kept."""
    if kept := drop_auxiliary(session, *table, still_deferred=still_deferred, noted=noted):
        run.warn(kept)
    return not kept or not CheckpointTable(*table).is_ours(session)


def drop_checkpoints(run: Run, tables: Iterable[Name]) -> bool:
    """Drop checkpoints and sentinels after the swap; report one that could not be dropped.

    Return whether all went: what goes after them proves what was done by those that stay.
    """
    run.await_readers()
    # The first table's checkpoint goes last: by its record a later run knows of the others.
    for schema, table in sorted(tables, reverse=True):
        names = AuxiliaryNames.of(table)

        def drop(schema: str = schema, table: str = table, sentinel: str = names.sentinel) -> None:
            with run.session("cleanup") as session:
                drop_sentinel(session, schema, sentinel)
                drop_checkpoint(session, (schema, table))

        try:
            retrying(run.stop, attempts=_PATIENCE, passing=takes_no_writes)(drop)
        except errors.LeftAfterChange:
            raise
        except errors.MigrationFailure as error:
            run.remark(f"the checkpoint table {names.checkpoint}", error.message)
            # It proves what was done only as long as the home's is there.
            return False
    return True


def drop_sentinels_and_trials(run: Run, tables: Iterable[Name]) -> None:
    """Drop after the swap what is not needed any more, where the checkpoints still are.

    A trial of the definition is there only where its own DROP has failed.
    """

    def drop(session: SqlSession) -> None:
        for schema, table in tables:
            drop_sentinel(session, schema, AuxiliaryNames.of(table).sentinel)
            drop_building(session, schema, table, read_proofs(session, schema, table).building)

    run.step("cleanup", drop)


def require_unchanged(session: SqlSession, source: TableSchema) -> None:
    """Compare the source's definition again; SchemaChanged, or MigrationFailure if hidden (R14)."""
    found = read_table(session, source.schema, source.name)
    if found is None:
        grants = read_grants(session)
        if missing := grants.missing(("SELECT",), source.schema, [source.name]):
            raise errors.MigrationFailure(
                f"account {grants.account} may no longer read {source.full_name}",
                hint=f"{grants.grant(missing, source.schema)} then run the same command again",
                error_code=ErrorCode.MISSING_PRIVILEGES,
            )
    if found is None or shape_of(found) != shape_of(source):
        raise errors.SchemaChanged(
            f"another session changed the definition of {source.full_name} while the"
            " migration was prepared",
            hint="see what was changed, then start the migration again",
        )
