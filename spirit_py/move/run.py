"""The run of a move: what it makes on the target, and keeps or drops at its end."""

from __future__ import annotations

import contextlib
import re
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from spirit_py import errors
from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.drop import drop_auxiliary, drop_checkpoint
from spirit_py.checkpoint.proofs import begin_proofs, note_proofs, noted_proof
from spirit_py.checkpoint.record import CheckpointRecord, MoveNote, as_address
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.migration.run import Run
from spirit_py.migration.swap.same_tables import MOVED
from spirit_py.migration.throttling import search_throttled
from spirit_py.move.decision import MoveFound, elsewhere
from spirit_py.move.shards import owned, require_told_apart, zone_of_row
from spirit_py.mysql.endpoint import how_to_set, service_of
from spirit_py.mysql.facts import read_facts
from spirit_py.mysql.faults import takes_no_writes
from spirit_py.mysql.kill import end_sessions
from spirit_py.mysql.retry import RepeatingSession
from spirit_py.mysql.tables.definition import create_in_full, existing_tables, read_table
from spirit_py.mysql.tables.guard_column import drop_guard_columns
from spirit_py.mysql.tables.identity import is_one_of
from spirit_py.mysql.tables.new_table import OWN_CHECKS, NewTable
from spirit_py.preflight.checks.kept_rows import read_kept
from spirit_py.preflight.preflight import check_after_create, mapping_of
from spirit_py.sql import quote_identifier, quote_table, string_literal
from spirit_py.table.conversions import is_timestamp, null_becomes_now
from spirit_py.table.names import AuxiliaryNames, moving

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spirit_py.config import MoveConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.swap.same_tables import Direction
    from spirit_py.mysql.session import Session
    from spirit_py.mysql.tables.new_table import Making
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.names import Name, Swap
    from spirit_py.table.schema import TableSchema

_EXPLICIT: Final = "explicit_defaults_for_timestamp"
_NOON: Final = "CONVERT_TZ('{}', '+00:00', {})"
_NOONS: Final = [
    f"{year}-{month:02d}-15 12:00:00" for year in range(1971, 2038) for month in range(1, 13)
]
#: A TIMESTAMP column with a literal default, in SHOW CREATE TABLE; zero is in no zone.
_INSTANTS: Final = re.compile(r"(?mi)^  (`(?:[^`]|``)+`) timestamp\b.*? DEFAULT ('(?!0000)[^']+')")
#: A text of an expression as the server writes it; no name of a zone has a quote in it.
_TEXT: Final = re.compile(r"'([^'\\]+)\\?'")


class MoveRun(Run):
    """One run of ``move``."""

    config: MoveConfig

    _done_by_then = "the source's tables are in place again", "the switch to the target is made"

    def cause_of(self, error: BaseException) -> BaseException:
        """Return what has ended the work; no move goes on with another server."""
        cause = super().cause_of(error)
        if isinstance(cause, errors.AnotherServer):
            cause.hint = elsewhere(switched=cause.says_done or bool(self.done_hint))
        return cause

    def ways(self) -> list[Self]:
        """Return the run as it faces each pair of servers by itself; see :meth:`facing`."""
        targets = [self.facing(target=one.connection, shard=one.name) for one in self.config.shards]
        return targets or self.fronts()

    def fronts(self) -> list[Self]:
        """Return the run as it faces each source by itself, with all targets."""
        sources = self.config.sources
        return [self.facing(connection=one.connection, shard=one.name) for one in sources] or [self]

    def backs(self) -> list[Self]:
        """Return the run as it faces each target by itself, from the first source at least."""
        return self.ways() if self.config.shards else self.ways()[:1]


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A source of a move: the run that faces it, a session, its tables, and what was found."""

    run: MoveRun
    session: Session
    contexts: tuple[PreflightContext, ...]
    found: MoveFound = MoveFound()

    @property
    def record(self) -> CheckpointRecord:
        """The record of the earlier run; asked for only where that is resumed."""
        assert isinstance(self.found.record, CheckpointRecord)  # noqa: S101 - for the type checker
        return self.found.record


def note_of_move(config: MoveConfig, target: str) -> MoveNote:
    """Return what is noted on a server that has no figures, and where no requests are read."""
    shards = [one.connection for one in config.sources] or [config.connection]
    sources = tuple(as_address(one.address) for one in shards)
    origins = tuple(one.server_uuid for one in shards)
    return MoveNote(target=target, sources=sources, asked=sources[0], origins=origins)


def _note_there(run: MoveRun, there: Session, name: Name) -> None:
    """Note on the target where its table comes from, for those who ask there."""
    note = replace(note_of_move(run.config, run.config.there.server_uuid), beside=name)
    CheckpointTable(*name).write(there, note)


def create_there(run: MoveRun, there: Session, context: PreflightContext) -> TableMapping:
    """Create a new table on a target, and what proves it (R24); Refusal with all findings."""
    return mapped_there(run, there, context, _created(run, there, context))


def mapped_there(
    run: MoveRun, there: Session, context: PreflightContext, target: TableSchema
) -> TableMapping:
    """Return the mapping to a new table that was just made; Refusal with all findings."""
    with search_throttled(run, context.session) as turn:
        patient = RepeatingSession(context.session, turn)
        watched = replace(context, session=patient, tell=run.tell, check_stop=turn)
        mapping, findings = check_after_create(watched, target)
    run.warn_of(findings)
    return set_apart(run, there, context, mapping)


def set_apart(
    run: MoveRun, there: Session, context: PreflightContext, mapping: TableMapping
) -> TableMapping:
    """Return a mapping between two servers; Refusal where they or several sources forbid it."""
    require_same_zone(context.session, there, mapping, context.facts.time_zone)
    facts = read_facts(there)
    for pair in mapping.pairs if facts.null_is_now else ():
        if null_becomes_now(pair.old, pair.new):
            raise errors.Refusal(
                f"column {pair.new.name} becomes TIMESTAMP NOT NULL while"
                " explicit_defaults_for_timestamp is OFF on the target, which would replace NULL by"
                " the current time",
                hint=f"{how_to_set(service_of(there, facts), _EXPLICIT, 'ON')} on the target",
                error_code=ErrorCode.SERVER_SETTINGS,
            )
    if run.config.sources:
        mapping = replace(mapping, owned=read_kept(owned(context, run.config)))
        require_told_apart(mapping)
    return replace(mapping, apart=True)


def _created(run: MoveRun, there: Session, context: PreflightContext) -> TableSchema:
    name = context.schema, context.table
    CheckpointTable(*name).make(there)
    _note_there(run, there, name)
    building = begin_proofs(there, *name).building

    def note(making: Making) -> None:
        note_proofs(there, *name, new=making.new)
        CheckpointTable(*name).harden(there)

    checks = [str(row[0]) for row in context.session.query(OWN_CHECKS, name)]
    source = replace(context.source, create_sql=create_in_full(context.session, context.source))
    with run.session("alter", native=True, there=True) as native:
        try:
            new = NewTable(there, native, source, context.statement)
            return new.create_apart(checks, building=building, note=note)
        except errors.ServerFault:
            # What a session sent before its connection was cut may come after the DROP (R18).
            lost = [one.id for one in (there, native) if not one.alive()]
            end_sessions(run.config.there, lost)
            raise


def is_anothers(config: MoveConfig, there: SqlSession, name: Name) -> bool:
    """Return whether a target's checkpoint table is another command's: a move has no record there.

    So it is where the table was changed on the target, or moved on, after the switch; and where a
    move from other servers has brought one of the name.
    """
    own = CheckpointTable(*name)
    return own.has(there, CheckpointRecord) or bool(brought_by_others(config, there, name))


def brought_by_others(config: MoveConfig, there: SqlSession, name: Name) -> tuple[str, ...]:
    """Return the addresses from which a move from other servers has brought a target's table.

    Their uuids tell them apart: one address may lead to several, each from somewhere else. A note
    that cannot be read, such as a later version's, may be of any.
    """
    own = CheckpointTable(*name)
    if not own.is_ours(there):
        return ()
    try:
        note = own.read(there, MoveNote)
    except UnreadableCheckpoint as error:
        return (f"a server that its note does not tell ({error})",)
    if note is None or not note.origins:
        return ()
    ours = note_of_move(config, note.target).origins
    return () if set(ours) & set(note.origins) else note.sources or note.origins


def note_switched_there(run: MoveRun, tables: Sequence[Name]) -> None:
    """Note on the targets that the application uses their tables, if that can be written.

    The source has noted it, so other commands may change them: nothing here is needed any more.
    """
    for way in run.backs():
        with contextlib.suppress(errors.SpiritError), way.session("cutover", there=True) as there:
            for name in tables:
                own = CheckpointTable(*name)
                if (note := own.read(there, MoveNote)) is not None:
                    own.write(there, replace(note, switched=True))


def take_over(run: MoveRun, there: Session, context: PreflightContext) -> TableMapping:
    """Return the mapping to a new table of an earlier run, once that has its auxiliary name."""
    put_back(there, [moving((context.schema, context.table))], MOVED)
    # The source is in its place: nobody was sent to the new table.
    note_proofs(there, context.schema, context.table, swap_begun=False)
    _note_there(run, there, (context.schema, context.table))
    drop_guard_columns(there, context.schema, context.names.new)
    target = read_table(there, context.schema, context.names.new)
    if target is None:
        raise errors.SchemaChanged(
            f"another session dropped the new table {context.schema}.{context.names.new} on the"
            " target",
            hint="start the move again: it starts from the beginning",
        )
    return set_apart(run, there, context, mapping_of(context, target))


def require_same_zone(
    session: SqlSession, there: SqlSession, mapping: TableMapping, zone_of_alter: str
) -> None:
    """Refuse a target on which another local time is computed, where rows depend on it.

    So do defaults of TIMESTAMP columns: what the ALTER says is read in the source's own zone.

    A zone is a name (``SYSTEM`` above all) that each server reads in its own tables: both are asked
    for the time at noon in the middle of each month. So it is with each text in an expression that
    converts times: what is no zone on both is none.
    """
    keep = mapping.keep
    judged = keep.time_zone if keep and any(map(is_timestamp, keep.columns)) else ""
    # Both texts are in UTC.
    was, now = (_INSTANTS.findall(one.create_sql) for one in (mapping.source, mapping.target))
    names = {
        quote_identifier(one.old.name): quote_identifier(one.new.name) for one in mapping.pairs
    }
    kept = {(names.get(name, name), default) for name, default in was}
    given = zone_of_alter if {*now} - kept else ""
    of_session = set(filter(None, (mapping.time_zone, judged, given)))
    written = keep.expression if keep and "convert_tz" in keep.expression.lower() else ""
    if zone_of_row(written):
        raise errors.Refusal(
            "--shard-by takes the name of a time zone from the row: whether both servers know it as"
            " the same zone cannot be seen",
            hint="name the zones in the expression, as CONVERT_TZ(made, IF(eu, 'Europe/Berlin',"
            " 'America/New_York'), 'UTC'): both servers are asked for each",
            error_code=ErrorCode.SERVER_SETTINGS,
        )
    for zone in sorted({*of_session, *_TEXT.findall(written)}):
        query = (
            f"SELECT {', '.join(_NOON.format(moment, string_literal(zone)) for moment in _NOONS)}"
        )
        here = session.query(query)[0]
        unknown = None in here and zone in of_session
        if unknown or here != there.query(query)[0]:
            what = "from TIMESTAMP values of" if zone in of_session else "for the rows of"
            if zone == given:
                what = "for TIMESTAMP defaults, or values, of"
            raise errors.Refusal(
                f"the time zone {zone!r} is another one on the target, and local times are computed"
                f" {what} {mapping.source.full_name}",
                hint="load the same zone tables on both servers (mysql_tzinfo_to_sql), or set"
                " time_zone on the source to an offset such as '+00:00', if the application bears"
                " it",
                error_code=ErrorCode.SERVER_SETTINGS,
            )


def put_back(session: SqlSession, swaps: Iterable[Swap], direction: Direction) -> None:
    """Rename incoming tables that have their own names to the auxiliary ones; proven ones (R24).

    A try of the switch ended between the two RENAMEs: nobody was sent to this server.
    """
    for swap in swaps:
        proof = noted_proof(session, swap.name, direction.incoming)
        if proof and is_one_of(session, *swap.name, proof):
            both = quote_table(*swap.name), quote_table(swap.schema, swap.new)
            session.execute(f"RENAME TABLE {both[0]} TO {both[1]}")


def what_became(run: MoveRun, tables: Sequence[Name]) -> errors.SchemaChanged | None:
    """Return what another session did to a new table, as the targets show it; None for nothing.

    Nothing reads a target's binary log, so what fails because of that is some other error.
    """
    for way in run.backs():
        with contextlib.suppress(errors.SpiritError), way.session("look", there=True) as there:
            for name in tables:
                if found := _replaced(there, name):
                    what, hint = found
                    where = f"{name[0]}.{moving(name).new} on {way.config.there.address}"
                    return errors.SchemaChanged(
                        f"another session {what.format(where)}",
                        hint=f"{hint}start the move again: it starts from the beginning",
                    )
    return None


def _replaced(there: SqlSession, name: Name) -> tuple[str, str] | None:
    """Return what was done to a table's new one, with a place for its name, and what to do."""
    (schema, table), new = name, moving(name).new
    proof = noted_proof(there, name, "new")
    if not proof or any(is_one_of(there, schema, one, proof) for one in (new, table)):
        return None
    if not existing_tables(there, schema, (new,)):
        return "has dropped or renamed {}, the new table of the move", "see who did, then "
    rows = there.query(f"SELECT 1 FROM {quote_table(schema, new)} LIMIT 1")
    now = "" if rows else "; it is empty now"
    done = "has truncated, rebuilt or replaced {}, the new table of the move"
    return done + now, f"see who did, and what it holds; drop or rename {new} there, then "


def try_to_drop_all(run: MoveRun, tables: Sequence[Name], _error: BaseException | None) -> bool:
    """Drop what a move made on all servers; return whether that was possible, or warn."""
    try:
        drop_all(run, tables)
    except errors.MigrationFailure as fault:
        run.warn("; ".join(filter(None, (fault.message, fault.hint))))
        return False
    return True


def drop_all(run: MoveRun, tables: Sequence[Name]) -> None:
    """Drop what a move made, on the targets first: the source's checkpoint leads to it.

    The source's tables are in their places. MigrationFailure where something is left.
    """
    # The first source's record goes last: it leads to the others.
    sides = [*((way, True) for way in run.backs()), *((way, False) for way in run.fronts()[::-1])]
    for way, there in sides:
        side = (way.config.there if there else way.config.connection).address
        hint = ""
        try:
            drop = partial(_drop, config=way.config, tables=tables, there=there)
            kept = way.step("cleanup", drop, there=there)
        except errors.MigrationFailure as fault:
            kept, hint = fault.message, "spirit-py cleanup drops it there"
        if kept:
            raise errors.MigrationFailure(
                f"what the move made on {side} is left: {kept}",
                hint=hint,
                error_code=ErrorCode.NAME_TAKEN,
            )


def _drop(session: SqlSession, config: MoveConfig, tables: Sequence[Name], *, there: bool) -> str:
    """Drop what is proven to be ours; return what is not."""
    left = []
    for table in tables:
        if there and is_anothers(config, session, table):
            continue
        if there and CheckpointTable(*table).is_ours(session):
            put_back(session, [moving(table)], MOVED)
            note_proofs(session, *table, swap_begun=False)
        left.append(drop_auxiliary(session, *table))
    return "; ".join(filter(None, left))


def forget_there(run: MoveRun, tables: Sequence[Name]) -> None:
    """Drop the targets' checkpoints, once the tables are in use there."""

    def forget(there: SqlSession) -> None:
        for table in tables:
            names, proof = AuxiliaryNames.of(table[1]), noted_proof(there, table, "new")
            # After a revert with --skip-drop nothing else proves what is left; and what another
            # command has noted since is its own.
            left = (is_one_of(there, table[0], one, proof) for one in (names.undone, names.new))
            if not (is_anothers(run.config, there, table) or any(left)):
                drop_checkpoint(there, table)

    for way in run.backs():
        try:
            way.step("cleanup", forget, there=True, passing=takes_no_writes)
        except errors.MigrationFailure as fault:
            where = "the checkpoint table on the target"
            run.remark(" ".join(filter(None, (where, way.config.shard))), fault.message)
