"""What an earlier run of a move left on all servers, and by what its record is known (R14, R17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.binlog.resumption import why_unreachable
from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.examination import brought_from, old_table_of, was_taken_back
from spirit_py.checkpoint.proofs import read_proofs, shape_here
from spirit_py.checkpoint.record import MOVE, CheckpointRecord, MoveNote, ReverseRecord
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import replace
from spirit_py.move.decision import MoveFound, TableSeen
from spirit_py.move.run import brought_by_others, is_anothers
from spirit_py.mysql.facts import server_uuid
from spirit_py.mysql.tables.definition import existing_tables
from spirit_py.mysql.tables.identity import NOTHING, is_one_of
from spirit_py.plan.earlier_run import statement_of
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.config import MoveConfig, Shard
    from spirit_py.contracts import SqlSession
    from spirit_py.move.run import MoveRun
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.names import Name


def statement_of_move(
    targets: str, sources: str, config: MoveConfig, contexts: Sequence[PreflightContext]
) -> str:
    """Return what a record must have to be resumed: servers, expression, and statements."""
    by = f" BY {config.shard_by}" if config.shard_by else ""
    return f"{MOVE} {targets}{sources}{by}; {statement_of(contexts)}"


def told_targets(config: MoveConfig, theirs: Sequence[SqlSession]) -> str:
    """Return which servers the targets are, by their uuids; of several with their names."""
    return _told(config.shards, theirs) or server_uuid(theirs[0])


def told_sources(config: MoveConfig, sessions: Sequence[SqlSession]) -> str:
    """Return which servers several sources are; empty for one, which its record names."""
    told = _told(config.sources, sessions)
    return f" FROM {told}" if told else ""


def _told(shards: Sequence[Shard], sessions: Sequence[SqlSession]) -> str:
    named = zip(shards, sessions, strict=bool(shards))
    return ", ".join(f"{shard.name}={server_uuid(session)}" for shard, session in named)


def look(
    session: SqlSession, theirs: Sequence[SqlSession], run: MoveRun, tables: list[Name]
) -> MoveFound:
    """See on all servers what an earlier run left; ServerFault or FeedFailure if impossible."""
    unreadable, note, record, reverse = "", None, None, None
    # A table that others have made since may come before the one that has the record.
    for name in sorted(tables):
        home = CheckpointTable(*name)
        try:
            own, record = home.read(session, MoveNote), home.read_record(session)
            note = own if record is not None else note or own
            reverse = home.read(session, ReverseRecord)
        except UnreadableCheckpoint as error:
            # Of another's table of the name a check says more.
            unreadable = unreadable or (str(error) if home.is_ours(session) else "")
        if record is not None:
            unreadable = ""
            break
    progress = record if isinstance(record, CheckpointRecord) else None
    age, unreachable = 0.0, ""
    if progress is not None:
        age = home.age(session, CheckpointRecord)
        if progress.position:
            unreachable = why_unreachable(
                run.config.connection, progress.position, age, progress.origin
            )
    return MoveFound(
        record=record,
        unreadable=unreadable,
        note=note,
        reverse=reverse,
        source_uuid=server_uuid(session),
        target_uuid=told_targets(run.config, theirs),
        tables=tuple(_seen(session, theirs, run.config, name, progress) for name in tables),
        age=age,
        unreachable=unreachable,
    )


def _seen(
    session: SqlSession,
    theirs: Sequence[SqlSession],
    config: MoveConfig,
    name: Name,
    record: CheckpointRecord | None,
) -> TableSeen:
    (schema, table), names = name, AuxiliaryNames.of(name[1])
    source = read_proofs(session, *name).source
    others = {there: is_anothers(config, there, name) for there in theirs}
    new = {one: NOTHING if others[one] else read_proofs(one, *name).new for one in theirs}

    def which(there_as: str) -> set[SqlSession]:
        return {one for one in theirs if is_one_of(one, schema, there_as, new[one])}

    made, arrived = which(names.new), which(table)
    brought = brought_from(session, name) if CheckpointTable(*name).is_ours(session) else ()
    strangers = [(one, found) for one in theirs if (found := brought_by_others(config, one, name))]
    bringing = [session] if brought else [one for one, _ in strangers]
    seen = TableSeen(
        schema=schema,
        table=table,
        here=is_one_of(session, schema, table, source),
        exists=bool(existing_tables(session, schema, (table,))),
        away=is_one_of(session, schema, names.moved, source),
        # Of several targets all have it, some perhaps under its own name.
        new=bool(made) and len(made | arrived) == len(theirs),
        arrived=len(arrived) == len(theirs),
        undone=len(which(names.undone)) == len(theirs),
        held=all(existing_tables(there, schema, (table,)) for there in theirs),
        brought_from=brought,
        others=strangers[0][1] if strangers else (),
        reverted=any(was_taken_back(one, name) for one in bringing),
        old_table=old_table_of(session, name),
    )
    progress = record.find(name) if record is not None else None
    if record is None or progress is None or not seen.here:
        return seen
    if shape_here(session, *name) != progress.source_shape:
        return replace(seen, changed=f"{schema}.{table}")
    shards = [one.name for one in config.shards] or [config.shard]
    for shard, there in zip(shards, theirs, strict=True):
        of_shard = record.find(name, shard)
        shapes = of_shard.shapes if of_shard is not None else ()
        if there in made and shape_here(there, schema, names.new) not in shapes:
            where = f"the target {shard}".rstrip()
            return replace(seen, changed=f"{schema}.{names.new} on {where}")
    return seen
