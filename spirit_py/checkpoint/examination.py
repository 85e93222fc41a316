"""Examine what an earlier run left, and what a running one shows; a failed query is raised (R17).

A record counts only if the checkpoint tables of all its tables lead to it.
"""

from __future__ import annotations

import contextlib
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Final

from spirit_py.attached.record import AttachmentsNote
from spirit_py.binlog.resumption import why_unreachable
from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.earlier_run import Found, TableFound
from spirit_py.checkpoint.live import LiveFigures
from spirit_py.checkpoint.proofs import (
    proofs_here,
    proven,
    read_proofs,
    reverse_left,
    shape_digest,
    shape_here,
)
from spirit_py.checkpoint.record import (
    CheckpointRecord,
    MoveNote,
    OldTableRecord,
    Pointer,
    home_of,
)
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault, SpiritError
from spirit_py.mysql.facts import server_uuid
from spirit_py.mysql.faults import access_denied
from spirit_py.mysql.own_sessions import of_run
from spirit_py.mysql.tables.definition import existing_tables, read_table, table_names
from spirit_py.mysql.tables.identity import emptied_partitions, is_one_of
from spirit_py.table.names import AuxiliaryNames
from spirit_py.table.values import bound_from_literals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Origin, SqlSession
    from spirit_py.table.names import Name
    from spirit_py.table.schema import Index, TableSchema


def look(session: SqlSession, options: ConnectionOptions, tables: Sequence[Name]) -> Found:
    """Examine these tables' auxiliary tables; raise ServerFault or FeedFailure if impossible."""
    unreadable = ""
    found: CheckpointRecord | Pointer | None = None
    at = home = home_of(tables)
    for table in (home, *(other for other in tables if other != home)):
        checkpoint = CheckpointTable(*table)
        try:
            if found is None:
                at, found = table, checkpoint.read_record(session)
        except UnreadableCheckpoint as error:
            if checkpoint.is_ours(session):
                unreadable = unreadable or str(error)
    reach = partial(why_unreachable, options)
    seen = examine(session, tables, at, found, unreadable, reach=reach)
    if isinstance(seen.record, Pointer):
        seen = replace(seen, elsewhere=find_record(session, at).record)
    return _with_others(session, seen, [table for table in tables if table != at])


def _with_others(session: SqlSession, seen: Found, tables: Sequence[Name]) -> Found:
    """Return it with the records of other migrations of these tables: each may have rows."""
    known, unread = [seen.record, seen.elsewhere], []
    for table in tables:
        try:
            record = find_record(session, table).record
        except UnreadableCheckpoint:
            unread.append(table)
            continue
        if record not in known:
            known.append(record)
    others = tuple(one for one in known[2:] if isinstance(one, CheckpointRecord))
    return replace(seen, others=others, unread=tuple(unread))


def examine(
    session: SqlSession,
    tables: Sequence[Name],
    home: Name,
    found: CheckpointRecord | Pointer | None,
    unreadable: str = "",
    *,
    reach: Callable[[str, float, Origin], str],
    trusting: bool = False,
) -> Found:
    """Examine the tables of one migration, after the checkpoint of ``home`` was read.

    ``reach`` returns why the feed cannot go on from a position, of a record of that age, origin.
    ``trusting``: names and definitions prove that tables are ours, for ``spirit-py status`` under
    an account that may not read the table numbers.
    """
    record = found if isinstance(found, CheckpointRecord) else None
    age, unreachable = 0.0, ""
    if record is not None:
        unreadable = unreadable or _damage(session, record)
        age = CheckpointTable(*home).age(session, CheckpointRecord)
        if record.position and not unreadable:
            unreachable = reach(record.position, age, record.origin)
    return Found(
        record=None if unreadable else found,
        unreadable=unreadable,
        age=age,
        server_uuid=server_uuid(session),
        mysql=str(session.query("SELECT @@version")[0][0]),
        tables=tuple(_look_at_table(session, table, record, trusting=trusting) for table in tables),
        unreachable=unreachable,
        reverse=reverse_left(session, tables),
    )


def _look_at_table(
    session: SqlSession, name: Name, record: CheckpointRecord | None, *, trusting: bool
) -> TableFound:
    schema, table = name
    names = AuxiliaryNames.of(table)
    shapes = [shape_here(session, schema, one) for one in (table, names.new, names.old)]
    progress = record.find(name) if record is not None else None
    is_ours = CheckpointTable(*name).is_ours(session)
    emptied = (0, 0)
    if trusting:
        as_made = progress is None or shapes[0] == progress.target_shape
        swapped = as_made and shapes[2] and not shapes[1]
        ours = frozenset({names.new, names.old, table if swapped else names.new})
        begun = False
    else:
        proofs = proofs_here(session, schema, table, progress)
        ours, begun = proven(session, schema, table, proofs), proofs.swap_begun
        if names.old in ours:
            emptied = emptied_partitions(session, schema, names.old, proofs.source)
    return TableFound(
        schema=schema,
        table=table,
        source_shape=shapes[0],
        new_shape=shapes[1],
        old_shape=shapes[2],
        ours=is_ours,
        changed_here=table in ours,
        new_is_ours=names.new in ours,
        old_is_ours=names.old in ours,
        undone_is_ours=names.undone in ours,
        moved_is_ours=names.moved in ours,
        swap_begun=begun,
        old_table=old_table_of(session, name),
        emptied=emptied,
        unreadable=CheckpointTable(*name).unreadable(session) if is_ours else "",
        brought_from=brought_from(session, name) if is_ours else (),
        taken_over=progress is not None and _belongs(session, name, record) is False,
    )


def brought_from(session: SqlSession, name: Name) -> tuple[str, ...]:
    """Return from which servers a move brings a table; none where its record is here.

    Nor where the application was sent here: then the record alone, on the source, ends the move.
    Its checkpoint table is ours, or there is none.
    """
    checkpoint = CheckpointTable(*name)
    if checkpoint.has(session, CheckpointRecord):
        return ()
    with contextlib.suppress(UnreadableCheckpoint):
        note = checkpoint.read(session, MoveNote)
        return () if note is None or note.switched else note.sources
    return ()


def was_taken_back(session: SqlSession, name: Name) -> bool:
    """Return whether a revert took a table back that was moved here, and left what it was."""
    proof, undone = read_proofs(session, *name).new, AuxiliaryNames.of(name[1]).undone
    return is_one_of(session, name[0], undone, proof)


def asked_at(session: SqlSession, name: Name) -> str:
    """Return where the process that moves a table is asked; empty for this server, or no move.

    Its address is shown, and not connected to: other accounts may have written it (R26). What
    cannot be read says nothing; ServerFault where it may not be.
    """
    with contextlib.suppress(UnreadableCheckpoint):
        note = CheckpointTable(*name).read(session, MoveNote)
        if note is None:
            note = CheckpointTable(*find_record(session, name).home).read(session, MoveNote)
        return note.asked if note is not None else ""
    return ""


def old_table_of(session: SqlSession, name: Name) -> OldTableRecord | None:
    """Return what is noted of a table's old one; None for nothing that can be read."""
    checkpoint = CheckpointTable(*name)
    if not checkpoint.is_ours(session):
        return None
    try:
        return checkpoint.read(session, OldTableRecord)
    except UnreadableCheckpoint:
        return None


def _damage(session: SqlSession, record: CheckpointRecord) -> str:
    """Return the bound of a record that is no key of its table; changed tables are left out."""
    for progress in record.tables:
        bounds = [("checked_up_to", progress.checked_up_to)]
        bounds += [("uncopied", end) for one in progress.uncopied for end in (one.lower, one.upper)]
        known = [(name, bound) for name, bound in bounds if bound]
        source = read_table(session, *progress.name) if known else None
        if source is None or shape_digest(source) != progress.source_shape:
            continue
        for name, bound in known:
            if not any(_is_key(source, index, bound) for index in source.indexes):
                return f"{name} of {progress} is not a key of that table"
    return ""


def _is_key(source: TableSchema, index: Index, literals: tuple[str, ...]) -> bool:
    if not index.unique:
        return False
    try:
        bound_from_literals([source.column(name) for name in index.columns], literals)
    except (ValueError, ArithmeticError, KeyError, SpiritError):
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class RecordFound:
    """The record of a table's migration, or None; ``orphaned``: why there is none.

    ``home`` is the table that has the record. No pointer is believed whose home does not name the
    table: then it is the table itself (R26).
    """

    home: Name
    record: CheckpointRecord | None = None
    orphaned: str = ""


def find_record(session: SqlSession, table: Name) -> RecordFound:
    """Follow a table's checkpoint to its migration's record, or raise UnreadableCheckpoint."""
    own = CheckpointTable(*table).read_record(session)
    if not isinstance(own, Pointer):
        return RecordFound(home=table, record=own)
    home = own.home
    together = f"it was migrated together with {'.'.join(home)}"

    def orphaned(why: str) -> RecordFound:
        return RecordFound(home=table, orphaned=f"{together}, {why}")

    try:
        there = CheckpointTable(*home).read_record(session)
    except UnreadableCheckpoint as error:
        return orphaned(f"whose checkpoint cannot be read: {error}")
    if not isinstance(there, CheckpointRecord):
        return orphaned("which has no checkpoint")
    if there.find(table) is None:
        return orphaned("whose migration is another one by now")
    return RecordFound(home=home, record=there)


def require_finished(session: SqlSession, table: Name, why: str) -> None:
    """Refuse what ends an unfinished migration of another table (R14): its copied rows would go."""
    beside, new = CheckpointTable(*table), AuxiliaryNames.of(table[1]).new
    if beside.is_ours(session) and (
        existing_tables(session, table[0], [new]) or beside.has(session, AttachmentsNote)
    ):
        raise Refusal(
            f"there is an unfinished migration of {'.'.join(table)}, which this would end: {why}",
            hint="finish that first, with its own command; or give it up: spirit-py cleanup"
            f" --database {quote(table[0])} --table {quote(table[1])}",
            error_code=ErrorCode.UNFINISHED_WORK,
        )


def begun_on(session: SqlSession, table: Name) -> str:
    """Return on which server what is noted of a table's migration was; empty where nothing is."""
    record = record_of(session, table)
    return record.server_uuid if record else read_proofs(session, *table).source.server


def record_of(session: SqlSession, table: Name) -> CheckpointRecord | None:
    """Return the record of a table's migration; None where none can be read."""
    with contextlib.suppress(UnreadableCheckpoint):
        return find_record(session, table).record
    return None


def members(session: SqlSession, record: CheckpointRecord) -> tuple[Name, ...]:
    """Return the tables of a record whose checkpoint tables point to it."""
    return tuple(one.name for one in record.tables if _belongs(session, one.name, record) is True)


def _belongs(session: SqlSession, table: Name, record: CheckpointRecord | None) -> bool | None:
    try:
        found = CheckpointTable(*table).read_record(session)
    except UnreadableCheckpoint:
        return None
    if found is None or record is None:
        return None
    if isinstance(found, Pointer):
        return found.home == record.home
    return table == record.home and _names(found) == _names(record)


def _names(record: CheckpointRecord) -> set[Name]:
    return {table.name for table in record.tables}


def owner_of(session: SqlSession, schema: str, checkpoint: str) -> Name:
    """Return the source table beside which a checkpoint table of this name is."""
    for name in table_names(session, schema):
        if AuxiliaryNames.of(name).checkpoint == checkpoint:
            return schema, name
    return schema, checkpoint.removeprefix("_").removesuffix("_chkpnt")


#: By which a clock may be set back and tell the age of figures all the same.
_CLOCK_SECONDS: Final = 1.0


def live_of(
    session: SqlSession, checkpoint: CheckpointTable, worker: int | None
) -> tuple[LiveFigures | None, float | None]:
    """Return the last figures, and their age in seconds; None for another process's."""
    try:
        found = checkpoint.read(session, LiveFigures)
    except UnreadableCheckpoint:
        return None, None
    if found is None or (worker is not None and not of_run(session, found.run, [worker])):
        return None, None
    age = checkpoint.age(session, LiveFigures)
    # The server's clock was set back since: nothing tells whether the process still writes.
    return found, None if age < -_CLOCK_SECONDS else round(max(0.0, age), 3)


def runs_seen(session: SqlSession, tables: Iterable[Name]) -> set[str]:
    """Return the tokens of the runs that have last written figures for one of the tables."""
    return {found.run for table in tables if (found := _figures(session, table)) is not None}


def _figures(session: SqlSession, table: Name) -> LiveFigures | None:
    try:
        found = find_record(session, table)
        # Whose figures are beside another table's record, or a copy of it, is not known (R26).
        if found.record is None:
            return None
        return CheckpointTable(*found.home).read(session, LiveFigures)
    except UnreadableCheckpoint:
        return None
    except ServerFault as fault:
        # Without the privilege the run is refused by its checks.
        if not access_denied(fault):
            raise
        return None
