"""Before a move writes anything: both servers are read, locked for other runs, and checked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.attached.triggers.catalogue import list_triggers
from spirit_py.batch.changes import matching, read_pattern
from spirit_py.binlog.resumption import why_unreachable
from spirit_py.checkpoint.codec import UnreadableCheckpoint
from spirit_py.checkpoint.decision import Afresh, Refuse, Resume
from spirit_py.checkpoint.examination import find_record, members, old_table_of, runs_seen
from spirit_py.checkpoint.proofs import read_proofs, shape_here
from spirit_py.checkpoint.record import (
    MOVE,
    CheckpointRecord,
    MoveNote,
    ReverseRecord,
    home_of,
)
from spirit_py.checkpoint.table import CheckpointTable, checkpoint_tables
from spirit_py.classes import replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, UnfinishedWork
from spirit_py.estimates import likely_sizes
from spirit_py.events.run import AlgorithmChosen, ResumeDecided
from spirit_py.migration.control.listener import begin_control
from spirit_py.migration.opening import describe, end_earlier_run
from spirit_py.move.decision import MoveFound, TableSeen, decide
from spirit_py.move.shards import facing
from spirit_py.mysql.capabilities import version_numbers
from spirit_py.mysql.endpoint import require_one_server
from spirit_py.mysql.facts import named, read_facts, relaxed, require_mysql
from spirit_py.mysql.grants import read_grants, scope_of
from spirit_py.mysql.replication import channels
from spirit_py.mysql.tables.definition import existing_tables
from spirit_py.mysql.tables.identity import NOTHING, doubtful, is_one_of, looked_at
from spirit_py.plan.earlier_run import statement_of
from spirit_py.preflight.check import Severity, refusal_of, refuse, warn
from spirit_py.preflight.checks.disk_space import free_bytes
from spirit_py.preflight.checks.kept_rows import share_written
from spirit_py.preflight.checks.server_settings import server_settings
from spirit_py.preflight.clauses import made_by_server
from spirit_py.preflight.preflight import check_before_create, prepare
from spirit_py.sql import like_regex, quote_table
from spirit_py.table.names import AuxiliaryNames
from spirit_py.throttle.option_checks import require_throttlers
from spirit_py.units import counted, human_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.batch.changes import NamePattern, TablePattern
    from spirit_py.config import MoveConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.move.decision import Decision
    from spirit_py.move.run import MoveRun
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.mysql.session import Session
    from spirit_py.mysql.tables.identity import Identity
    from spirit_py.preflight.check import Finding, PreflightContext
    from spirit_py.table.names import Name

_ON_TARGET: Final = ("SELECT", "INSERT", "DELETE", "CREATE", "DROP", "ALTER", "INDEX")
_ON_SCHEMA: Final = ("LOCK TABLES", "CREATE TEMPORARY TABLES")
_TO_FOLLOW: Final = ("REPLICATION SLAVE", "REPLICATION CLIENT")
_READ_ONLY: Final = ("super_read_only", "read_only", "innodb_read_only")
_SCHEMA: Final = "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s"
#: What is the same for both servers, or names and values mean something else.
_ALIKE: Final = ("lower_case_table_names", "innodb_page_size")


def tables_of(session: SqlSession, config: MoveConfig) -> list[Name]:
    """Return the tables that a move is about: those that are there, and those it has moved."""
    schema = config.database
    excluded = [read_pattern(text, schema) for text in config.exclude]
    begun = list(_begun(session))
    found: set[Name] = set()
    for pattern in (read_pattern(text, schema) for text in config.patterns):
        names = {*matching(session, pattern), *(name for name in begun if _fits(pattern, name))}
        names = {name for name in names if not any(_fits(one, name) for one in excluded)}
        if not names:
            raise Refusal(
                f"the pattern {pattern.given} matches no table",
                hint="see SHOW SCHEMAS LIKE and SHOW TABLES LIKE; the account sees only tables on"
                " which it has privileges",
                error_code=ErrorCode.NO_SUCH_TABLE,
            )
        found |= names
    return sorted(found)


def _begun(session: SqlSession) -> Iterator[Name]:
    """Yield the tables of moves that are not done, whatever name they have by now.

    A record is believed about tables whose own checkpoints lead to it (R26).
    """

    def tables(name: Name) -> tuple[Name, ...]:
        stem = name[1].removeprefix("_").removesuffix("_chkpnt")
        record = find_record(session, (name[0], stem)).record
        of_a_move = record is not None and record.moves
        return members(session, record) if record is not None and of_a_move else ()

    marks = checkpoint_tables(session)
    with doubtful(session):
        found = list(looked_at(marks, tables, lambda _name, _error: ()))
    for names in found:
        yield from names


def _fits(pattern: TablePattern, name: Name) -> bool:
    def alike(part: NamePattern, text: str) -> bool:
        return part.text == text if part.exact else bool(re.fullmatch(like_regex(part.text), text))

    return alike(pattern.schema, name[0]) and alike(pattern.table, name[1])


def open_move(
    run: MoveRun, session: Session, theirs: Sequence[Session]
) -> tuple[tuple[PreflightContext, ...], Decision]:
    """Return the context of each table, and what is done with the tables of an earlier run.

    ``theirs`` are sessions of the targets. The tables are locked for other runs on all servers.
    Raises Refusal with all findings.
    """
    config = run.config
    require_one_server(session, config.connection)
    for there, options in zip(theirs, config.targets, strict=True):
        require_one_server(there, options)
    facts = [read_facts(there) for there in theirs]
    for one in facts:
        require_mysql(one)
    # Its locks would be taken twice.
    if twice := list(_of_targets(config, facts)):
        raise refusal_of(twice, "the move")
    names = tables_of(session, config)
    alter = config.alter or "FORCE"
    text = "; ".join(f"ALTER TABLE {quote_table(*name)} {alter}" for name in names)
    contexts = prepare(session, replace(config, statement=text, alter="", table=""))
    describe(run, contexts)
    tables = [(context.schema, context.table) for context in contexts]
    run.label(session, contexts[0].facts, tables, theirs)
    run.lock_tables_from_other_runs(tables)
    # Before anything is read: a server may still execute a killed run's RENAME.
    end_earlier_run(run, session, tables)
    tokens = runs_seen(session, tables)
    for there in theirs:
        end_earlier_run(run, there, tables, tokens)
    found = look(session, theirs, run, tables)
    statement = statement_of_move(found.target_uuid, config, contexts)
    decision = decide(
        found,
        statement=statement,
        max_age=config.checkpoint_max_age,
        start_afresh=config.start_afresh,
    )
    if isinstance(decision, Refuse):
        raise Refusal(decision.reason, hint=decision.hint, error_code=ErrorCode.CANNOT_RESUME)
    if config.dry_run and found.record is not None:
        raise Refusal(
            "an unfinished run of these tables would be ended by a rehearsal",
            hint="finish it with the command that it was begun with, or drop it with spirit-py"
            " cleanup, on both servers",
            error_code=ErrorCode.CANNOT_RESUME,
        )
    _tell(run, decision)
    if isinstance(decision, Resume):
        begin_control(run, session, decision.record)
    if not (isinstance(decision, Resume) and decision.cleanup):
        found_wrong = list(_findings(contexts, session, config))
        for way, there, one in zip(run.ways(), theirs, facts, strict=True):
            found_wrong += _of_target(facing(contexts, way.config), there, one)
        found_wrong += _between_targets(config, theirs, facts)
        refused = [one for one in found_wrong if one.severity is Severity.REFUSAL]
        # What they are parted by is read as the rows of the first are.
        first = facing(contexts, run.ways()[0].config)
        run.warn_of(check_before_create(first, lambda: refused))
        if refused:
            raise refusal_of(refused, "the move")
        run.warn_of(tuple(found_wrong))
        require_throttlers(run.config, session)
    run.stop.check()
    return contexts, decision


def statement_of_move(
    targets: str, config: MoveConfig, contexts: Sequence[PreflightContext]
) -> str:
    """Return what a record must have to be resumed: targets, expression, and statements."""
    by = f" BY {config.shard_by}" if config.shard_by else ""
    return f"{MOVE} {targets}{by}; {statement_of(contexts)}"


def told_targets(config: MoveConfig, theirs: Sequence[SqlSession]) -> str:
    """Return which servers the targets are, by their uuids; of several with their names."""
    uuids = [str(one.query("SELECT @@GLOBAL.server_uuid")[0][0]) for one in theirs]
    if not config.shards:
        return uuids[0]
    named = zip(config.shards, uuids, strict=True)
    return ", ".join(f"{shard.name}={uuid}" for shard, uuid in named)


def _tell(run: MoveRun, decision: Decision) -> None:
    where = " and ".join(one.address for one in run.config.targets)
    run.tell(AlgorithmChosen(algorithm="copy", reason=f"it moves to {where}"))
    if isinstance(decision, Resume):
        record = decision.record
        run.tell(
            ResumeDecided(
                said=f"resuming: {decision.reason}",
                decision="resume",
                reason=decision.reason,
                number=record.runs + 1,
                rows_copied=record.rows_copied,
                phase=record.phase,
                swapped=decision.cleanup,
            )
        )
    elif isinstance(decision, Afresh) and decision.reason:
        if decision.throws_away and not run.config.start_afresh:
            raise UnfinishedWork(
                f"what an unfinished run has copied would be dropped: {decision.reason}",
                hint=f"to resume it: {decision.instead}; to drop it and begin with this one:"
                " --start-afresh; to drop it only: spirit-py cleanup, on both servers",
            )
        said = f"an earlier run was stopped here; this one starts afresh: {decision.reason}"
        run.tell(
            ResumeDecided(
                said=said,
                decision="afresh",
                reason=decision.reason,
                number=1,
                rows_copied=0,
                phase=None,
            )
        )


def look(
    session: SqlSession, theirs: Sequence[SqlSession], run: MoveRun, tables: list[Name]
) -> MoveFound:
    """See on all servers what an earlier run left; ServerFault or FeedFailure if impossible."""
    home = CheckpointTable(*home_of(tables))
    unreadable, note, record, reverse = "", None, None, None
    try:
        record = home.read_record(session)
        note = home.read(session, MoveNote)
        reverse = home.read(session, ReverseRecord)
    except UnreadableCheckpoint as error:
        # Of another's table of the name a check says more.
        unreadable = str(error) if home.is_ours(session) else ""
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
        source_uuid=str(session.query("SELECT @@GLOBAL.server_uuid")[0][0]),
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
    new = {there: read_proofs(there, *name).new for there in theirs}

    def which(there_as: str) -> set[SqlSession]:
        return {one for one in theirs if is_one_of(one, schema, there_as, new[one])}

    made, arrived = which(names.new), which(table)
    seen = TableSeen(
        schema=schema,
        table=table,
        here=is_one_of(session, schema, table, source),
        away=is_one_of(session, schema, names.moved, source),
        # Of several targets all have it, some perhaps under its own name.
        new=bool(made) and len(made | arrived) == len(theirs),
        arrived=len(arrived) == len(theirs),
        undone=len(which(names.undone)) == len(theirs),
        old_table=old_table_of(session, name),
    )
    progress = record.find(name) if record is not None else None
    if record is None or progress is None or not seen.here:
        return seen
    if shape_here(session, *name) != progress.source_shape:
        return replace(seen, changed=f"{schema}.{table}")
    shards = [one.name for one in config.shards] or [""]
    for shard, there in zip(shards, theirs, strict=True):
        of_shard = record.find(name, shard)
        shapes = of_shard.shapes if of_shard is not None else ()
        if there in made and shape_here(there, schema, names.new) not in shapes:
            where = f"the target {shard}".rstrip()
            return replace(seen, changed=f"{schema}.{names.new} on {where}")
    return seen


def _findings(
    contexts: Sequence[PreflightContext], session: SqlSession, config: MoveConfig
) -> Iterator[Finding]:
    """Yield what refuses a move, or should be known, of the source."""
    drawn = False
    for context in contexts:
        if (clause := made_by_server([context])) is not None:
            yield refuse(
                f"{clause.text!r} is no change that a copy makes",
                "make it on the target, after the move",
            )
        if context.found is not None:
            yield from _about_source(context, session)
            drawn |= any(column.auto_increment for column in context.found.columns)
    yield warn("users, grants, views, events and routines are not moved")
    if drawn and config.shards:
        yield warn(
            "AUTO_INCREMENT goes on from the same number on each target, which then gives out the"
            " same ones as the others",
            "set auto_increment_increment and auto_increment_offset on the targets before the"
            " switch, if keys are to stay apart",
        )


def _about_source(context: PreflightContext, session: SqlSession) -> Iterator[Finding]:
    schema, table, names = context.schema, context.table, context.names
    if keys := keys_around(session, schema, table):
        yield refuse(
            f"{context.source.full_name} has {counted(len(keys), 'foreign key')} around it, and"
            " none reaches from one server to another",
            "drop them for the move, and add them on the target after it",
            [str(key) for key in keys],
            code=ErrorCode.FOREIGN_KEY,
        )
    for trigger in list_triggers(session, schema, table):
        yield refuse(
            f"{trigger.label} is not moved",
            "drop it for the move, and create it on the target after it",
            code=ErrorCode.TRIGGER_NOT_KEPT,
        )
    source = read_proofs(session, schema, table).source
    yield from _taken(schema, session, (names.moved,), source)


def _of_targets(config: MoveConfig, facts: Sequence[ServerFacts]) -> Iterator[Finding]:
    """Yield why the targets cannot be so many servers."""
    names: dict[str, str] = {}
    for shard, one in zip(config.shards, facts, strict=bool(config.shards)):
        if (other := names.setdefault(one.uuid, shard.name)) != shard.name:
            yield refuse(
                f"the targets {other} and {shard.name} are one server",
                "name another server for each: the tables have the same names on all of them",
            )


def _between_targets(
    config: MoveConfig, theirs: Sequence[SqlSession], facts: Sequence[ServerFacts]
) -> Iterator[Finding]:
    """Yield which targets replicate from others: a table of one name would reach them twice."""
    names = {one.uuid: shard.name for shard, one in zip(config.shards, facts, strict=False)}
    for shard, there in zip(config.shards, theirs, strict=False):
        for channel in channels(there):
            if channel.source_uuid in names:
                yield refuse(
                    f"the target {shard.name} is a replica of the target"
                    f" {names[channel.source_uuid]}: its tables would reach it by replication",
                    "name servers that do not replicate from each other",
                )


def _of_target(
    contexts: Sequence[PreflightContext], there: SqlSession, facts: ServerFacts
) -> Iterator[Finding]:
    """Yield what refuses a target, or should be known of it."""
    shard = contexts[0].config.shard
    for finding in _about_target(contexts, there, facts):
        yield replace(finding, cause=f"{shard}: {finding.cause}") if shard else finding


def _about_target(
    contexts: Sequence[PreflightContext], there: SqlSession, facts: ServerFacts
) -> Iterator[Finding]:
    own, session = contexts[0].facts, contexts[0].session
    if facts.uuid == own.uuid:
        yield refuse(
            "the target is the source's own server",
            "RENAME TABLE moves a table between schemas; spirit-py migrate changes it",
        )
        return
    for name in _READ_ONLY:
        if facts.is_on(name):
            yield refuse(
                f"the target takes no writes ({name}=ON)", "name a server that takes writes"
            )
            break
    for name in _ALIKE:
        if facts.text(name) != own.text(name):
            yield refuse(
                f"{name} is {facts.text(name)} on the target, and {own.text(name)} on the source",
                "name a server with the same setting",
            )
    if int(facts.text("max_allowed_packet") or 0) < int(own.text("max_allowed_packet") or 0):
        yield refuse(
            "max_allowed_packet is smaller on the target: a row that the source has may not be"
            " written there",
            f"SET PERSIST max_allowed_packet = {own.text('max_allowed_packet')} on the target",
            code=ErrorCode.PACKET_TOO_SMALL,
        )
    if lost := relaxed(facts.variables):
        yield warn(
            f"a crash of the target may lose commits ({named(lost)}): if it restarts while the move"
            " runs, all rows are compared once more"
        )
    if version_numbers(facts.version) < version_numbers(own.version):
        yield warn(
            f"the target has an older version ({facts.version}) than the source ({own.version})"
        )
    yield from _about_replication(session, there, (own.uuid, facts.uuid))
    size = sum(
        int(sum(likely_sizes(one.found)) * share_written(one)) for one in contexts if one.found
    )
    room = free_bytes(facts)
    if room is not None and room < size:
        yield refuse(
            f"the target has {human_bytes(room)} free where about {human_bytes(size)} are needed",
            "free disk space",
            code=ErrorCode.NO_DISK_SPACE,
        )
    if contexts[0].config.keep_old_current:
        target = replace(contexts[0], session=there, facts=facts, grants=read_grants(there))
        yield from _about_following(target)
    for context in contexts:
        if context.found is not None:
            yield from _about_table(context, there)


def _about_replication(
    session: SqlSession, there: SqlSession, uuids: tuple[str, str]
) -> Iterator[Finding]:
    for one, other, which in ((session, uuids[1], "source"), (there, uuids[0], "target")):
        if other in {channel.source_uuid for channel in channels(one)}:
            yield refuse(
                f"the {which} is a replica of the other server: a table that is made or renamed on"
                " one would reach the other by replication",
                "name servers that do not replicate from each other",
            )


def _about_following(target: PreflightContext) -> Iterator[Finding]:
    """Yield why the target's tables could not be followed, for --keep-old-current."""
    for finding in server_settings(target):
        yield replace(finding, cause=f"on the target, {finding.cause}")
    if missing := target.grants.missing(_TO_FOLLOW):
        yield refuse(
            f"account {target.grants.account} lacks {', '.join(missing)} on the target, which"
            " --keep-old-current needs",
            target.grants.grant(missing),
            code=ErrorCode.MISSING_PRIVILEGES,
        )


def _about_table(context: PreflightContext, there: SqlSession) -> Iterator[Finding]:
    schema, table, names = context.schema, context.table, context.names
    if not there.query(_SCHEMA, (schema,)):
        yield refuse(
            f"the target has no schema {schema}, or the account may not see it",
            f"CREATE DATABASE `{schema}` there, with the options that it has on the source",
            code=ErrorCode.NO_SUCH_TABLE,
        )
        return
    grants = read_grants(there)
    wanted = (table, names.new, names.checkpoint)
    missing = [*grants.missing(_ON_TARGET, schema, wanted), *grants.missing(_ON_SCHEMA, schema)]
    for privileges, where in ((missing, schema), (grants.missing(("PROCESS",)), "")):
        if privileges:
            yield refuse(
                f"account {grants.account} lacks {', '.join(privileges)} on {scope_of(where)} of"
                " the target",
                grants.grant(privileges, where),
                code=ErrorCode.MISSING_PRIVILEGES,
            )
    yield from _taken(schema, there, (table, names.new), read_proofs(there, schema, table).new)
    if context.config.keep_old_current:
        yield from _taken(schema, there, (names.undone,), NOTHING)
    checkpoint = CheckpointTable(schema, table)
    if checkpoint.exists(there) and not checkpoint.is_ours(there):
        yield refuse(
            f"{checkpoint} on the target is no table of this program",
            "see who made it; drop or rename it",
            code=ErrorCode.NAME_TAKEN,
        )


def _taken(
    schema: str, session: SqlSession, names: Sequence[str], proof: Identity
) -> Iterator[Finding]:
    for name in sorted(existing_tables(session, schema, names)):
        if not is_one_of(session, schema, name, proof):
            yield refuse(
                f"there is a table {schema}.{name} already, that no move has made",
                f"see what it holds; drop or rename {name}",
                code=ErrorCode.NAME_TAKEN,
            )
