"""Looks at each migration that left a checkpoint, for ``spirit-py status``; read-only."""

from __future__ import annotations

import contextlib
import shlex
from dataclasses import astuple, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from spirit_py.binlog.resumption import why_unreachable
from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.decision import Afresh, GiveUp, Refuse, Resume, Wanted, decide
from spirit_py.checkpoint.earlier_run import ReverseState
from spirit_py.checkpoint.examination import (
    asked_at,
    examine,
    find_record,
    live_of,
    owner_of,
    was_taken_back,
)
from spirit_py.checkpoint.live import REVERT, StandingOrders
from spirit_py.checkpoint.proofs import (
    Where,
    of_its_tables,
    shape_here,
    where_is,
    why_not_back,
)
from spirit_py.checkpoint.record import ENDED, FOLLOWING, CheckpointRecord, MoveNote, ReverseRecord
from spirit_py.checkpoint.table import CheckpointTable, checkpoint_tables
from spirit_py.checkpoint.writer import shown_statement
from spirit_py.codes import ErrorCode
from spirit_py.contracts import Origin
from spirit_py.errors import FeedFailure, Refusal, ServerFault, SpiritError
from spirit_py.locks.look import global_read_lock
from spirit_py.locks.named import named_lock_holder, reader, working_session
from spirit_py.migration.indexes.plan import build_lock, named_indexes
from spirit_py.migration.migration_status import HANGING, UNDONE, MigrationShown, ReverseShown
from spirit_py.migration.swap.attachments import is_half_way
from spirit_py.mysql.connect import connect_first
from spirit_py.mysql.endpoint import kept_seconds
from spirit_py.mysql.facts import server_now
from spirit_py.mysql.faults import access_denied
from spirit_py.mysql.grants import HIDDEN, IDENTITY_PRIVILEGES, read_grants
from spirit_py.mysql.processlist import user_of
from spirit_py.mysql.tables import definition
from spirit_py.mysql.tables.deferred_indexes import build_stage
from spirit_py.mysql.tables.identity import doubtful, holds_up, looked_at
from spirit_py.preflight.checks.other_writers import REHEARSED, why_unseen
from spirit_py.status.report import REVERTED
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spirit_py.checkpoint.decision import Decision
    from spirit_py.checkpoint.earlier_run import Found
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.table.names import Name

_BINLOG: Final = ("REPLICATION CLIENT", "REPLICATION SLAVE")
_OUTCOMES: Final[dict[type[Decision], str]] = {
    Resume: "resume", Afresh: "start afresh", GiveUp: "give up", Refuse: "refuse",
}  # fmt: skip
_IF_THERE: Final = "with the same spirit-py move command, if its other servers have what they had"
_ASK_THERE: Final = "ask the server that the run is connected to, which shows its process"
_AFTER_SWAP: Final = {
    None: "done; only the cleanup is left",
    ReverseState.KEPT: "done; reverse replication is kept",
    ReverseState.NOTED: "done; the old table is kept",
    ReverseState.LOST: "done; reverse replication is lost",
    ReverseState.UNREADABLE: "done; the record of reverse replication cannot be read",
    ReverseState.REVERTED: UNDONE,
}
_ARCHIVING: Final = "done; what was left out is to be archived before the old table is dropped"
_REVERTING: Final = "done; spirit-py revert is at work to swap back"
_HALF_WAY: Final = (
    "half-way: the server may refuse writes to these tables and their children until the same"
    " command, or spirit-py cleanup, settles their foreign keys and triggers"
)
#: Fields of a record that are shown unchanged.
_OF_RECORD: Final = (
    "statement", "phase", "started_at", "runs", "seconds", "rows_copied", "copied", "position",
    "program", "totals",
)  # fmt: skip


def migrations(
    options: ConnectionOptions, *, database: str, table: str, max_age: float
) -> list[MigrationShown]:
    """Return the migrations that left a checkpoint, each once; empty names are all; or Refusal."""
    # A table whose definition is being changed is waited for a second.
    with connect_first(options, role="status", read_timeout=60, lock_wait_timeout=1) as session:
        listing = _Listing(session, options, max_age)
        database, table = definition.stored_name(session, database, table)
        names = AuxiliaryNames.of(table)
        if table:
            listing.grants.require(("SELECT",), database, HIDDEN, astuple(names))
        marks = checkpoint_tables(session, database)
        if table and (database, names.checkpoint) in marks:
            return [one for one in [listing.at(database, names.checkpoint)] if one is not None]
        with doubtful(session):
            shown = listing.of(marks)
        if not shown and not table:
            instead = "" if database else "name a schema with --database"
            listing.grants.require(("SELECT",), database, HIDDEN, instead=instead)
        found = [one for one in shown if not table or f"{database}.{table}" in one.tables]
        return found or (_beginning(session, (database, table)) if table else [])


def require_table(options: ConnectionOptions, *, database: str, table: str) -> None:
    """Refuse the name of a schema or a table that is not there; an empty one stands for all."""
    if not database:
        return
    with connect_first(options, role="status", read_timeout=60) as session:
        definition.require_name(session, database, table)


def _beginning(session: SqlSession, table: Name) -> list[MigrationShown]:
    """Return the migration whose process has created no checkpoint table yet, if there is one."""
    worker = _worker(session, [table])
    if worker is None:
        return []
    return [_of_table(table, worker, begins=user_of(session, worker))]


def _of_table(table: Name, worker: int | None, **more: Any) -> MigrationShown:
    """Return what is known of the migration of one table whose record is not read."""
    return MigrationShown(
        checkpoint=str(CheckpointTable(*table)),
        tables=(".".join(table),),
        worked_on_by=worker,
        **more,
    )


class _Listing:
    def __init__(self, session: SqlSession, options: ConnectionOptions, max_age: float) -> None:
        self._session, self._options, self._max_age = session, options, max_age
        self.grants = read_grants(session)

    def of(self, marks: Iterable[Name]) -> list[MigrationShown]:
        """Return the migrations of checkpoint tables; one that is unreadable is shown so (R26)."""
        found: dict[str, MigrationShown] = {}
        for seen in looked_at(marks, lambda name: self.at(*name, found), _unread):
            if seen is not None:
                found[seen.checkpoint] = seen
        return list(found.values())

    def at(
        self, schema: str, name: str, known: Mapping[str, MigrationShown] = MappingProxyType({})
    ) -> MigrationShown | None:
        """Return its migration; None if known already, or just ended; Refusal with the GRANT."""
        try:
            return self._migration(owner_of(self._session, schema, name), known)
        except ServerFault as fault:
            if not access_denied(fault):
                raise
            hint = self.grants.grant(IDENTITY_PRIVILEGES)
            if self.grants.missing(("SELECT",), schema):
                hint = self.grants.grant(("SELECT",), schema)
            raise Refusal(
                f"account {self.grants.account} may not read {schema}.{name}"
                f" and its auxiliary tables: {fault.text}",
                hint=hint,
                error_code=ErrorCode.MISSING_PRIVILEGES,
            ) from fault

    def _migration(self, owner: Name, known: Mapping[str, MigrationShown]) -> MigrationShown | None:
        try:
            own = CheckpointTable(*owner)
            if not own.has(self._session, CheckpointRecord):
                note = own.read(self._session, MoveNote)
                if note is not None and note.asked:
                    return self._arriving(owner, note)
            at = find_record(self._session, owner)
        except UnreadableCheckpoint as error:
            return self._shown(owner, [owner], unreadable=str(error))
        if at.orphaned:
            why, worker = at.orphaned, _worker(self._session, [owner])
            return _of_table(owner, worker, orphaned=why, again="start afresh", reason=why)
        if at.record is None or str(CheckpointTable(*at.home)) in known:
            return None
        if claimed := _claimed(self._session, at.home, at.record):
            why = f"it names {claimed}, whose checkpoint does not name it: see who created it"
            return self._shown(at.home, [at.home], unreadable=why)
        shown = self._shown(at.home, [one.name for one in at.record.tables], at.record)
        return replace(shown, asked=asked_at(self._session, at.home))

    def _arriving(self, owner: Name, note: MoveNote) -> MigrationShown:
        """Return the move whose new table is here, as far as this server shows it."""
        new = AuxiliaryNames.of(owner[1]).new
        there = definition.existing_tables(self._session, owner[0], (new, owner[1]))
        phase = "before its switch" if new in there else "switched" if there else "it begins"
        if not there and was_taken_back(self._session, owner):
            phase = f"reverted; {AuxiliaryNames.of(owner[1]).undone} is kept"
        told = {"moved_from": note.sources, "asked": note.asked}
        return _of_table(owner, _worker(self._session, [owner]), phase=phase, **told)

    def _shown(
        self,
        home: Name,
        tables: Sequence[Name],
        record: CheckpointRecord | None = None,
        unreadable: str = "",
    ) -> MigrationShown:
        session, unseen = self._session, ""

        def reach(position: str, age: float, origin: Origin) -> str:
            nonlocal unseen
            try:
                return why_unreachable(self._options, position, age, origin)
            except (FeedFailure, ServerFault) as error:
                if isinstance(error, ServerFault) and not access_denied(error):
                    raise
                lacks = self.grants.missing(_BINLOG)
                hint = self.grants.grant(_BINLOG) if lacks else error.hint
                unseen = f"cannot be looked at: {error.message} ({hint})"
                return ""

        look = partial(examine, session, tables, home, record, unreadable, reach=reach)
        try:
            found = look(trusting=bool(self.grants.missing(IDENTITY_PRIVILEGES)))
        except ServerFault as fault:
            # The list of table numbers waits for every table whose definition is being changed.
            if not holds_up(fault):
                raise
            found = look(trusting=True)
        worker, checkpoint = _worker(session, tables), CheckpointTable(*home)
        live, live_age = live_of(session, checkpoint, worker)
        alone = record is not None and worker is None
        hidden = why_unseen(session, home, live, live_age) if alone else ""
        decision = Refuse(reason=_ASK_THERE, hint="") if hidden else self._decided(found, record)
        again, reason = _OUTCOMES[type(decision)], decision.reason
        if found.kept_no_more:
            reason = reason or "the earlier change is done, and its old table is gone"
        if isinstance(decision, Afresh) and decision.throws_away:
            again = _OUTCOMES[Refuse]
            reason = f"{reason}; with --start-afresh it would start afresh"
        resumes = isinstance(decision, Resume)
        stopped = resumes and worker is None
        back = _way_back(found, record if stopped else None)
        reverse = _reverse(session, checkpoint, reach, alone=worker is None and not hidden)
        lost = back is ReverseState.LOST or (
            back is ReverseState.KEPT and reverse is not None and bool(reverse.reason)
        )
        seen = MigrationShown(
            checkpoint=str(checkpoint),
            unreadable=found.unreadable,
            tables=tuple(".".join(table) for table in tables),
            worked_on_by=worker,
            read_by=next(filter(None, (reader(session, one) for one in tables)), None),
            live=live,
            live_age=live_age,
            unseen=hidden,
            # Where reverse replication is lost the same command reports that, and ends.
            again="fail" if resumes and lost else again,
            reason=reason,
            binlog=unseen or found.unreachable,
            reverse=reverse,
        )
        if seen.state == HANGING:
            seen = replace(seen, held_up_by=global_read_lock(session))
        if unseen and isinstance(decision, Resume) and not decision.cleanup:
            seen = replace(seen, reason=f"{seen.reason}; if the binlog still reaches its position")
        if record is None or found.unreadable:
            return seen
        swapped = found.was_swapped(record)
        after_swap = _AFTER_SWAP[back] if swapped or back else ""
        if worker is None:
            if stopped and swapped and back is None and record.choices.archive_to:
                after_swap = _ARCHIVING
            # An account that may only read the checkpoint table sees the rest of the list.
            with contextlib.suppress(SpiritError):
                after_swap = _HALF_WAY if is_half_way(session, tables) else after_swap
        elif live is not None and live.phase == REVERT and back is not ReverseState.REVERTED:
            after_swap = _REVERTING
        standing = _standing(session, home)
        return replace(
            seen,
            age=found.age,
            swapped=swapped,
            after_swap=after_swap,
            old_table=found.old_tables,
            deferred=not swapped and _is_deferred(session, tables),
            paused=standing.paused if standing is not None and worker is None else "",
            modes=record.modes.options,
            indexes=() if swapped else tuple(_indexes(session, record, live.run if live else "")),
            command=self._command(record) if stopped and not record.moves else "",
            resumable_for=self._resumable_for(found, seen) if stopped and not swapped else None,
            **{name: getattr(record, name) for name in _OF_RECORD},
        )

    def _decided(self, found: Found, record: CheckpointRecord | None) -> Decision:
        if record is not None and record.unlogged:
            return Afresh(reason=REHEARSED)
        decision = decide(found, Wanted(statement=None, max_age=self._max_age))
        followed = not found.unreachable and found.age <= self._max_age
        moves = record is not None and record.moves and bool(record.position)
        if record is not None and isinstance(decision, Afresh) and moves and followed:
            return Resume(record=record, reason=_IF_THERE)
        return decision

    def _command(self, record: CheckpointRecord) -> str:
        mode = record.modes.sql_mode
        if mode is None:
            mode = str(self._session.query("SELECT @@GLOBAL.sql_mode")[0][0])
        statement = shown_statement(record, mode)
        if not statement:
            return ""
        words = ("spirit-py migrate", self._options.words, shlex.join(["--statement", statement]))
        return " ".join(filter(None, (*words, record.modes.options, record.choices.options)))

    def _resumable_for(self, found: Found, seen: MigrationShown) -> float:
        until = self._max_age - found.age
        kept = kept_seconds(self._session)
        if seen.live is not None and seen.live.binlog_left is not None:
            until = min(until, seen.live.binlog_left - (seen.live_age or 0.0))
        elif kept:
            until = min(until, kept - found.age)
        return round(max(0.0, until), 1)


def _is_deferred(session: SqlSession, tables: Iterable[Name]) -> bool:
    return any(
        definition.existing_tables(session, schema, (AuxiliaryNames.of(table).sentinel,))
        for schema, table in tables
    )


def _unread(name: Name, error: SpiritError) -> MigrationShown | None:
    hint = f"; {error.hint}" if isinstance(error, Refusal) and error.hint else ""
    why = f"see who made this table: any account can give it the mark of spirit-py{hint}"
    return MigrationShown(
        checkpoint=".".join(name), unreadable=error.message, again="refuse", reason=why
    )


def _claimed(session: SqlSession, home: Name, record: CheckpointRecord) -> str:
    """Return foreign tables that a record names and that do not lead back to it (R26)."""

    def leads_here(name: Name) -> bool:
        with contextlib.suppress(UnreadableCheckpoint):
            return find_record(session, name).home == home
        return False

    foreign = (table.name for table in record.tables if table.name[0] != home[0])
    return ", ".join(".".join(name) for name in foreign if not leads_here(name))


def _way_back(found: Found, stopped: CheckpointRecord | None) -> ReverseState | None:
    """Return the state of the way back; lost, too, where a run ``stopped`` before it had begun."""
    if any(table.undone and table.keeps_one for table in found.tables):
        return ReverseState.REVERTED
    if found.reverse or stopped is None:
        return found.reverse.state if found.reverse and not found.taken_over else None
    asked = stopped.choices.keep_old_current and not stopped.choices.drop_old_after
    kept = [one.old_table for one in found.tables if one.keeps_one]
    never = asked and kept and not any(note and note.followed for note in kept)
    return ReverseState.LOST if never else None


def _standing(session: SqlSession, home: Name) -> StandingOrders | None:
    """Return what operators have asked for; what cannot be read hides nothing else."""
    with contextlib.suppress(UnreadableCheckpoint):
        return CheckpointTable(*home).read(session, StandingOrders)
    return None


def _indexes(session: SqlSession, record: CheckpointRecord, run: str) -> Iterator[str]:
    for table in record.tables:
        if not table.deferred:
            continue
        target = (table.schema, table.names.new)
        names = named_indexes(list(table.deferred))
        yield f"{names} of {table}: {_built(session, target, table.target_shape, run)}"


def _built(session: SqlSession, target: Name, whole: str, run: str) -> str:
    """Return how far a run, known by its token, has built the indexes of a new table."""
    builder = named_lock_holder(session, build_lock(run, target))
    if builder is None:
        return "built" if shape_here(session, *target) == whole else "to be built after the copy"
    stage = build_stage(session, builder)
    how = f", {stage}" if stage else ""
    return f"being built now (server session {builder}{how})"


def _reverse(
    session: SqlSession,
    checkpoint: CheckpointTable,
    reach: Callable[[str, float, Origin], str],
    *,
    alone: bool,
) -> ReverseShown | None:
    """Return the way back; where no process works on it (``alone``), with why it is impossible."""
    try:
        record = checkpoint.read(session, ReverseRecord)
        record = record and of_its_tables(session, record)
    except UnreadableCheckpoint as error:
        return ReverseShown(state=ReverseState.UNREADABLE.value, reason=str(error))
    if record is None:
        return None
    now = server_now(session)
    age = checkpoint.age(session, ReverseRecord)
    state, reason = record.state, record.reason
    if where_is(session, record) is Where.BACK:
        state = REVERTED
    elif record.is_noted:
        reason = why_not_back(session, record) or reach(record.position, age, Origin())
        state = ReverseState.NOTED.value if state == FOLLOWING else state
    elif alone and state != ENDED and not _is_elsewhere(record):
        reason = reach(record.position, age, Origin())
    left = None if record.is_noted else round(record.until - now, 3)
    return ReverseShown(
        state=state,
        reason=reason,
        left=left,
        age=round(age, 3),
        losses=tuple(record.losses),
        position=record.position,
    )


def _is_elsewhere(record: ReverseRecord) -> bool:
    """Whether the position is that of the server to which the tables were moved."""
    return any(table.old == table.names.moved for table in record.tables)


def _worker(session: SqlSession, tables: Iterable[Name]) -> int | None:
    holders = (working_session(session, table) for table in tables)
    return next((holder for holder in holders if holder is not None), None)
