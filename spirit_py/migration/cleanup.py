"""``spirit-py cleanup``: drop the tables of an abandoned migration that are proven to be ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.drop import begun_building, drop_old_table, take_from_others
from spirit_py.checkpoint.earlier_run import ReverseState, cannot_be_read
from spirit_py.checkpoint.examination import (
    brought_from,
    find_record,
    members,
    old_table_of,
    runs_seen,
)
from spirit_py.checkpoint.proofs import proofs_here, proven, reverse_left
from spirit_py.checkpoint.queue import RequestQueue
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.checkpoint.writer import end_reverse
from spirit_py.classes import astuple, dataclass, field, replace
from spirit_py.codes import ErrorCode
from spirit_py.config import RunConfig
from spirit_py.errors import MigrationFailure, Refusal
from spirit_py.migration.swap.attachments import settle_earlier
from spirit_py.migration.swap.old_tables import leave_to_operator
from spirit_py.mysql.connect import connect_first
from spirit_py.mysql.endpoint import require_one_server
from spirit_py.mysql.facts import server_uuid
from spirit_py.mysql.grants import HIDDEN, IDENTITY_PRIVILEGES, read_grants
from spirit_py.mysql.kill import end_earlier_sessions
from spirit_py.mysql.own_sessions import run_label
from spirit_py.mysql.tables.definition import existing_tables, require_name, stored_name
from spirit_py.mysql.tables.identity import Identity, drop_unreferenced, emptied_partitions
from spirit_py.mysql.tables.new_table import drop_sentinel, is_own_sentinel
from spirit_py.preflight.checks.other_writers import require_own_server
from spirit_py.sql import quote_table
from spirit_py.table.names import AuxiliaryNames, is_building_name
from spirit_py.threads import StopSwitch
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.checkpoint.record import CheckpointRecord
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.events.event import Event
    from spirit_py.table.names import Name

Ask: TypeAlias = Callable[[str], bool]
"""Puts a question to the operator; true for yes."""
Say: TypeAlias = Callable[[str], None]

#: Between two partitions of a large table, for the disk to serve others.
_REST_SECONDS: Final = 1.0
_NEEDED: Final = ("SELECT", "DROP")
_MAY_HOLD: Final = (
    "After a swap the old table holds the rows from before, and a new one that was swapped back"
    " by hand those from between."
)
_NOT_ARCHIVED: Final = (
    "The migrate command was to archive what it left out before: unless that is done, run it again."
)
_ENDS_REVERSE: Final = "ends the way back: spirit-py revert will not be possible any more"
_NEEDED_THERE: Final = (
    "The same spirit-py move could not go on, or lead back: without the checkpoint nothing proves"
    " what is here."
)


@dataclass
class Leftovers:
    """The auxiliary tables of one abandoned migration, as schema and name.

    ``own`` are new tables and sentinels, then checkpoints: they prove that the others are ours, so
    they are dropped last. Those in ``old`` may hold the only copy of rows, and the checkpoints in
    ``proving`` stay as long as they do; nothing proves that those in ``others`` are ours. The
    tables in ``swapped`` are changed; ``revertible``: ``spirit-py revert`` could swap them back.
    ``brought`` has the tables that a move, which has not ended, has put in their places here, each
    with its servers.
    """

    tables: Sequence[Name]
    own: list[Name] = field(default_factory=list)
    old: list[Name] = field(default_factory=list)
    others: list[Name] = field(default_factory=list)
    proving: set[Name] = field(default_factory=set)
    swapped: list[Name] = field(default_factory=list)
    revertible: bool = False
    brought: dict[Name, tuple[str, ...]] = field(default_factory=dict)
    proofs: dict[Name, Identity] = field(default_factory=dict)
    emptied: dict[Name, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[object, ...]:
        """What the operator is told of: which tables there are, and what becomes of each."""
        return (self.own, self.old, self.others, self.proving, self.swapped, self.revertible)


def _changed(database: str, table: str) -> Refusal:
    return Refusal(
        f"what is left of the migration of {database}.{table} has just changed",
        hint="see spirit-py status, then run it again",
        error_code=ErrorCode.ALREADY_RUNNING,
    )


def clean_up(
    options: ConnectionOptions, *, database: str, table: str, ask: Ask, ask_old: Ask, say: Say
) -> None:
    """Drop what a migration left of this table and of those migrated with it, after asking.

    Refusal where the server cannot be reached, a process works on it, nothing proves that the
    tables are ours, or the answer was no. ServerFault where the server answers no more.
    """
    with connect_first(options, role="cleanup", read_timeout=600) as session:
        require_one_server(session, options)
        # What this server's checkpoint proves is nothing on another one (R14).
        options = replace(options, server_uuid=server_uuid(session))
        database, table = stored_name(session, database, table)
        grants = read_grants(session)
        grants.require(_NEEDED, database, HIDDEN, astuple(AuxiliaryNames.of(table)))
        tables, _ = _migration(session, (database, table))
        if not tables:
            _without_checkpoint(session, (database, table), ask, say)
            return
        for schema, name in tables:
            same = "tables of the same migration are there"
            grants.require(_NEEDED, schema, same, astuple(AuxiliaryNames.of(name)))
        unproven = "without it nothing proves which tables are this program's"
        grants.require(IDENTITY_PRIVILEGES, "", unproven)
        require_own_server(session, tables, fenced=True)
        _take_all(session, tables)
        again, record = _migration(session, (database, table))
        if again != tables:
            raise _changed(database, table)
        left = _leftovers(session, tables, record)
        _list(left, say)
        if record is not None and record.rows_copied and _has_copy(left):
            say(f"would be lost: {record.work}; spirit-py status says whether a run resumes")
        _confirm(left, ask)
        tokens = runs_seen(session, tables)
        ended = end_earlier_sessions(session, run_label(tables), tokens=tokens, warn=say)
        if ended:
            say(f"ended {counted(ended, 'session')} of the abandoned run")
        # After an interrupted swap, foreign keys may refer to a table that is to be dropped.
        settle_earlier(_Settling(options, database, say), session, tables)
        # The server may have ended a killed run's statement meanwhile, as its RENAME.
        listed, left = left, _leftovers(session, tables, record)
        if left.names != listed.names:
            raise _changed(database, table)
        ends = f" That {_ENDS_REVERSE}." if left.revertible else ""
        archives = _is_to_archive(session, left, record)
        ends += f" {_NOT_ARCHIVED}" if archives else ""
        asked = [f"Drop {_names(left.old)} too? {_MAY_HOLD}"] if left.old else []
        if left.brought:
            asked.append(f"Give up what brought {_names([*left.brought])} here? {_NEEDED_THERE}")
        drop_old = bool(asked) and ask_old(f"{' '.join(asked)}{ends}")
        if not drop_old and not left.revertible and not archives:
            leave_to_operator(session, left.swapped)
        if drop_old and left.revertible:
            # What is half emptied leads nowhere.
            end_reverse(session, left.tables, noted=True)
        _drop(options, session, left, old_too=drop_old, say=say)
        if not drop_old:
            _say_kept(left, say, archives=archives)
        if left.others:
            _keep(left.others, "nothing proves that this program made it", say)


def _without_checkpoint(session: SqlSession, table: Name, ask: Ask, say: Say) -> None:
    """Drop what stays where a run has dropped an earlier one's checkpoint, and ended then."""
    name, sentinel = ".".join(table), AuxiliaryNames.of(table[1]).sentinel
    _refuse_others(session, *table)
    require_name(session, table[0])
    if not take_from_others(session, table):
        requests, deferred = RequestQueue(*table), is_own_sentinel(session, table[0], sentinel)
        if deferred or requests.is_ours(session):
            require_own_server(session, [table], noted=False)
        requests.drop(session)
        if deferred:
            left = Leftovers([table], own=[(table[0], sentinel)])
            _list(left, say)
            _confirm(left, ask)
            drop_sentinel(session, table[0], sentinel)
            say(f"dropped {table[0]}.{sentinel}")
            return
    require_name(session, *table)
    say(f"no migration of {name} has left anything")


def _confirm(left: Leftovers, ask: Ask) -> None:
    at_once = len(left.own) - len(left.proving)
    if at_once and not ask(f"Drop {counted(at_once, 'table')}?"):
        raise Refusal(
            "nothing was dropped",
            hint="answer yes, or give --yes",
            error_code=ErrorCode.NOT_CONFIRMED,
        )


def _is_to_archive(session: SqlSession, left: Leftovers, record: CheckpointRecord | None) -> bool:
    """Return whether rows wait for their archive: it is proved before an old table is left."""
    if record is None or not record.choices.archive_to:
        return False
    noted = [old_table_of(session, name) for name in left.swapped]
    return not all(one is not None and one.finished for one in noted)


def _take_all(session: SqlSession, tables: Sequence[Name]) -> None:
    for one in tables:
        if busy := take_from_others(session, one):
            raise Refusal(
                busy,
                hint="stop it first, or let it finish; if that session is no run of spirit-py,"
                " KILL it",
                error_code=ErrorCode.ALREADY_RUNNING,
            )


def _say_kept(left: Leftovers, say: Say, *, archives: bool) -> None:
    if left.old:
        _keep(left.old, _what_next(left, archives=archives), say)
    for name in left.brought:
        kept = CheckpointTable(*name)
        say(f"kept {kept}: spirit-py cleanup --drop-old drops it, and ends that move")


def _what_next(left: Leftovers, *, archives: bool) -> str:
    why = "spirit-py cleanup --drop-old drops it"
    if left.revertible:
        return (
            "spirit-py revert still swaps back, as long as the binlog reaches to the place that"
            f" spirit-py status shows; {why}, and ends that"
        )
    if archives:
        return f"the migrate command archives what it left out; {why} without that"
    return why


class _Settling:
    def __init__(self, options: ConnectionOptions, database: str, say: Say) -> None:
        self.config = RunConfig(connection=options, database=database, cutover_timeout=60.0)
        self.stop = StopSwitch()
        self._say = say

    def show(self, waiting_for: str) -> None:
        """Show nothing: the messages say it."""

    def held_up(self, what: str, seconds: float) -> None:
        """Count nothing."""

    def tell(self, event: Event) -> None:
        self._say(event.text)


def _drop(
    options: ConnectionOptions, session: SqlSession, left: Leftovers, *, old_too: bool, say: Say
) -> None:
    own = (name for name in left.own if name not in left.proving)
    for schema, name in (*left.old, *left.own) if old_too else own:
        if proof := left.proofs.get((schema, name)):
            # Partition by partition.
            rest, stop = partial(time.sleep, _REST_SECONDS), StopSwitch()
            why = drop_old_table(options, schema, name, proof=proof, stop=stop, before_each=rest)
            if why:
                raise MigrationFailure(
                    f"{schema}.{name} could not be dropped: {why}",
                    hint="run the same command again: what proves whose they are is kept",
                    error_code=ErrorCode.OLD_TABLE_LEFT,
                )
        else:
            drop_unreferenced(session, schema, name)
        say(f"dropped {schema}.{name}")


def _migration(
    session: SqlSession, table: Name
) -> tuple[tuple[Name, ...], CheckpointRecord | None]:
    """Return the tables of the migration whose checkpoint belongs to this one, and its record."""
    if not CheckpointTable(*table).is_ours(session):
        return (), None
    try:
        record = find_record(session, table).record
    except UnreadableCheckpoint:
        record = None
    if record is None:
        return (table,), None
    return tuple(sorted({table, *members(session, record)})), record


def _refuse_others(session: SqlSession, database: str, table: str) -> None:
    names = AuxiliaryNames.of(table)
    taken = _there(session, database, (names.new, names.old, names.checkpoint))
    if taken:
        raise Refusal(
            f"no checkpoint says that spirit-py made {', '.join(taken)}",
            hint="see who created it; when it is not needed: "
            + " ".join(f"DROP TABLE {quote_table(database, name)};" for name in taken),
            error_code=ErrorCode.NAME_TAKEN,
        )


def _there(session: SqlSession, schema: str, names: Sequence[str]) -> list[str]:
    """Return those of the names that a table has, by the server's rule for their letters."""
    return [name for name in names if existing_tables(session, schema, (name,))]


def _leftovers(
    session: SqlSession, tables: Sequence[Name], record: CheckpointRecord | None
) -> Leftovers:
    left = Leftovers(tables)
    for schema, table in tables:
        if why := CheckpointTable(schema, table).unreadable(session):
            message, hint = cannot_be_read(schema, table, why)
            raise Refusal(message, hint=hint, error_code=ErrorCode.CHECKPOINT_UNREADABLE)
        names = AuxiliaryNames.of(table)
        progress = record.find((schema, table)) if record is not None else None
        proofs = proofs_here(session, schema, table, progress)
        ours = proven(session, schema, table, proofs)
        could_be = (names.new, names.old, names.undone, names.moved)
        there = _there(session, schema, could_be)
        for name in could_be:
            if name in ours:
                # After a swap that was undone by hand it holds what the application wrote.
                may_hold = name != names.new or proofs.swap_begun
                (left.old if may_hold else left.own).append((schema, name))
                if may_hold:
                    left.proving.add((schema, names.checkpoint))
                    proof = proofs.source if name in {names.old, names.moved} else proofs.new
                    left.proofs[schema, name] = proof
                    done, parts = emptied_partitions(session, schema, name, proof)
                    said = f"{done} of {parts} partitions are emptied already; "
                    left.emptied[schema, name] = said if done else ""
            elif name in there:
                left.others.append((schema, name))
        if table in ours and (sources := brought_from(session, (schema, table))):
            left.brought[schema, table] = sources
            left.proving.add((schema, names.checkpoint))
        if ours & {names.old, names.undone, names.moved}:
            left.swapped.append((schema, table))
        begun = begun_building(session, schema, table, proofs.building)
        left.own += [(schema, name) for name in begun if is_building_name(table, name)]
        if is_own_sentinel(session, schema, names.sentinel):
            left.own.append((schema, names.sentinel))
        if RequestQueue(schema, table).is_ours(session):
            left.own.append((schema, names.requests))
    # The first table's has the record, by which the others are known.
    left.own += [(schema, AuxiliaryNames.of(name).checkpoint) for schema, name in reversed(tables)]
    reverse = reverse_left(session, tables)
    kept = (ReverseState.KEPT, ReverseState.NOTED)
    could = reverse is not None and reverse.state in kept and not reverse.reason
    # The tables may have the right definitions, and be others: rebuilt, for instance.
    left.revertible = could and bool(left.old)
    return left


def _has_copy(left: Leftovers) -> bool:
    """Return whether a new table is dropped that no swap has put in its place."""
    return any((schema, AuxiliaryNames.of(name).new) in left.own for schema, name in left.tables)


def _list(left: Leftovers, say: Say) -> None:
    state = "a finished" if left.swapped else "an unfinished" if left.brought else "an abandoned"
    say(f"{state} migration of {_names(left.tables)} has left:")
    for schema, name in left.own:
        proves = (schema, name) in left.proving
        say(f"  {schema}.{name}{' (stays as long as the table that it proves)' if proves else ''}")
    for schema, name in left.old:
        emptied = left.emptied.get((schema, name), "")
        say(f"  {schema}.{name} ({emptied}asked for separately: it may hold the only copy of rows)")
    for (schema, name), sources in left.brought.items():
        say(
            f"  {schema}.{name} (stays: a move has put it here from {', '.join(sources)}, where"
            " spirit-py status says whether it is in use)"
        )
    for schema, name in left.others:
        say(f"  {schema}.{name} (stays: nothing proves that this program made it)")
    if left.revertible:
        say(f"to drop {_names(left.old)} {_ENDS_REVERSE}")


def _keep(tables: Sequence[Name], why: str, say: Say) -> None:
    say(f"kept {_names(tables)}: {why}")
    for one in tables:
        say(f"  when it is not needed: DROP TABLE {quote_table(*one)};")


def _names(tables: Sequence[Name]) -> str:
    return ", ".join(".".join(table) for table in tables)
