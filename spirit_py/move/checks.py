"""What refuses a move before anything is written, or should be known, of all its servers."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.catalogue import keys_around, keys_to
from spirit_py.attached.triggers.catalogue import list_triggers
from spirit_py.checkpoint.proofs import read_proofs, shape_digest
from spirit_py.checkpoint.record import CheckpointRecord
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.estimates import likely_sizes
from spirit_py.move.shards import facing, of_each_kind
from spirit_py.mysql.capabilities import version_numbers
from spirit_py.mysql.endpoint import how_to_set, service_of
from spirit_py.mysql.evaluation import KEY_NOT_REQUIRED
from spirit_py.mysql.facts import named, read_only_by, relaxed
from spirit_py.mysql.grants import read_grants
from spirit_py.mysql.replication import channels
from spirit_py.mysql.tables.definition import SCHEMA, existing_tables, member_in_doubt
from spirit_py.mysql.tables.identity import NOTHING, is_one_of
from spirit_py.mysql.tables.new_table import MEMBER_HINT
from spirit_py.preflight.check import Severity, refusal_of, refuse, warn
from spirit_py.preflight.checks.disk_space import free_bytes
from spirit_py.preflight.checks.kept_rows import share_written
from spirit_py.preflight.checks.options import load_limits
from spirit_py.preflight.checks.other_writers import other_writers
from spirit_py.preflight.checks.server_settings import account_limits, server_settings
from spirit_py.preflight.clauses import made_by_server
from spirit_py.preflight.preflight import check_before_create
from spirit_py.units import counted, human_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from spirit_py.config import GuardMode, MoveConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.move.run import MoveRun, Opened
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.mysql.session import Session
    from spirit_py.mysql.tables.identity import Identity
    from spirit_py.preflight.check import Finding, PreflightContext
    from spirit_py.table.schema import TableSchema

#: What is the same for both servers, or names and values mean something else.
_ALIKE: Final = ("lower_case_table_names", "innodb_page_size")
#: Each lets an account write where read_only is ON.
_WRITES_FENCED: Final = ("CONNECTION_ADMIN", "SUPER")
_HAS_EXECUTED: Final = "SELECT LOCATE(%s, @@GLOBAL.gtid_executed)"
MOST_GUARDED: Final = 200
"""Tables of one switch: about 10 ms each for the guard's two ALTERs, on a fast server."""
MOST_UNGUARDED: Final = 500
_MAKES_KEYS: Final = "sql_generate_invisible_primary_key"
_PACKET: Final = "max_allowed_packet"


def check_servers(
    run: MoveRun,
    opened: Sequence[Opened],
    theirs: Sequence[Session],
    facts: Sequence[ServerFacts],
) -> None:
    """Check all servers before anything is written; Refusal with all findings."""
    home = opened[0]
    found_wrong = found_between(run, opened, theirs, facts)
    refused = [one for one in found_wrong if one.severity is Severity.REFUSAL]
    for one in opened:
        # What they are parted by is read as the rows of the first are.
        further = partial(tuple, refused if one is home else ())
        try:
            found = check_before_create(parted(run, one), further)
            run.warn_of(tuple(replace(each, cause=on_source(one, each.cause)) for each in found))
        except Refusal as refusal:
            if one is not home:
                refusal.message = on_source(one, refusal.message)
            raise
    if refused:
        raise refusal_of(refused, "the move")
    run.warn_of(tuple(found_wrong))


def parted(run: MoveRun, one: Opened) -> tuple[PreflightContext, ...]:
    """Return a source's tables as they are parted by --shard-by, of several targets the first."""
    return facing(one.contexts, one.run.config if run.config.sources else run.ways()[0].config)


def found_between(
    run: MoveRun,
    opened: Sequence[Opened],
    theirs: Sequence[Session],
    facts: Sequence[ServerFacts],
) -> list[Finding]:
    """Return what is found of the servers together, and of the targets; each once."""
    config, home = run.config, opened[0]
    sources = [one.contexts for one in opened]
    found_wrong = [*_unlike_tables(config, sources), *_between(config, opened, theirs, facts)]
    for one in opened:
        found_wrong += _findings(one.contexts, one.session, config)
    faced = [facing(one.contexts, one.run.config) for one in opened]
    for way, there, seen in zip(run.backs(), theirs, facts, strict=True):
        if config.shards:
            faced = [facing(home.contexts, way.config)]
        size = sum(map(_size, chain.from_iterable(faced)))
        named = f"{way.config.shard}: " if config.shards else ""
        for contexts in faced:
            for finding in _about_target(contexts, there, seen, size):
                found_wrong.append(replace(finding, cause=f"{named}{finding.cause}"))
    # What is so of the target is found with each source.
    return list(dict.fromkeys(found_wrong))


def _unlike_tables(
    config: MoveConfig, found: Sequence[Sequence[PreflightContext]]
) -> Iterator[Finding]:
    """Yield which tables are not the same on all sources, of which each has been ``found``."""
    home = found[0]
    for shard, contexts in zip(config.sources[1:], found[1:], strict=bool(config.sources)):
        for first, other in zip(home, contexts, strict=True):
            here, there = first.found, other.found
            if here is None or there is None:
                continue
            # The text has no letter above U+FFFF of a member.
            letters = [[column.members for column in one.columns] for one in (here, there)]
            if shape_digest(here) != shape_digest(there) or letters[0] != letters[1]:
                yield refuse(
                    f"{first.source.full_name} has one definition on {config.sources[0].name}, and"
                    f" another one on {shard.name}",
                    "give it the same on all sources; SHOW CREATE TABLE shows both, with a '?' for"
                    " a letter above U+FFFF of a member",
                )
    for first in home if config.sources and home[0].found else ():
        for index in first.source.indexes:
            if index.unique and not index.columns:
                yield refuse(
                    f"the unique key {index.name} of {first.source.full_name} has a part of a"
                    " column, or an expression: whether rows of two sources meet there cannot be"
                    " seen",
                    "drop it for the move, and add it on the target after it",
                )


def on_source(one: Opened, text: str) -> str:
    """Return a text with the name of the source that it is about, where there are several."""
    return f"on {one.run.config.shard}: {text}" if one.run.config.shard else text


def _findings(
    contexts: Sequence[PreflightContext], session: SqlSession, config: MoveConfig
) -> Iterator[Finding]:
    """Yield what refuses a move, or should be known, of the source."""
    drawn = False
    for context in contexts:
        if (clause := made_by_server([context])) is not None:
            yield refuse(
                f"{clause.text!r} is no change that a copy makes",
                f"make it on the target, after the move{_not_before(context)}",
            )
        if context.found is not None:
            yield from _about_source(context, session)
            drawn |= any(column.auto_increment for column in context.found.columns)
    yield from many_at_once(len(contexts), config.snapshot_guard)
    yield warn("users, grants, views, events and routines are not moved")
    grants = contexts[0].grants
    if config.keep_old_current and not any(map(grants.has_global, _WRITES_FENCED)):
        yield warn(
            f"account {grants.account} lacks CONNECTION_ADMIN on the source: read_only=ON there, as"
            " a fence against clients, would end the reverse replication",
            f"leave the source writable, or {grants.grant(_WRITES_FENCED[:1])}",
        )
    if drawn and config.shards:
        yield warn(
            "AUTO_INCREMENT goes on from the same number on each target, which then gives out the"
            " same ones as the others",
            "set auto_increment_increment and auto_increment_offset on the targets before the"
            " switch, if keys are to stay apart",
        )


def many_at_once(tables: int, guard: GuardMode) -> Iterator[Finding]:
    """Yield that so many tables may not be switched in the time for which the source is locked."""
    most = MOST_UNGUARDED if guard == "off" else MOST_GUARDED
    if tables > most:
        yield warn(
            f"{tables} tables are switched under one lock of at most 5 s on the source, which"
            f" suffices for about {most} on a fast server: each is renamed"
            + (", and altered twice by the snapshot guard" if guard != "off" else ""),
            "move fewer in one run"
            + (", or use --snapshot-guard off (docs/operations.md)" if guard != "off" else ""),
        )


def _about_source(context: PreflightContext, session: SqlSession) -> Iterator[Finding]:
    schema, table, names = context.schema, context.table, context.names
    if keys := keys_around(session, schema, table):
        yield refuse(
            f"{context.source.full_name} has {counted(len(keys), 'foreign key')} around it, and"
            " none reaches from one server to another",
            f"drop them for the move, and add them on the target after it{_not_before(context)}",
            [str(key) for key in keys],
            code=ErrorCode.FOREIGN_KEY,
        )
    for trigger in list_triggers(session, schema, table):
        yield refuse(
            f"{trigger.label} is not moved",
            f"drop it for the move, and create it on the target after it{_not_before(context)}",
            code=ErrorCode.TRIGGER_NOT_KEPT,
        )
    source = read_proofs(session, schema, table).source
    yield from _taken(schema, session, (names.moved,), source)


def _not_before(context: PreflightContext) -> str:
    """Return when what is added on the target after the move ends its way back; empty: never."""
    follows = context.config.keep_old_current
    return ": once --keep-old-current has ended, before that it ends the way back" * bool(follows)


def _between(
    config: MoveConfig,
    opened: Sequence[Opened],
    theirs: Sequence[SqlSession],
    facts: Sequence[ServerFacts],
) -> Iterator[Finding]:
    """Yield which servers of a kind replicate from others: a table would reach them twice."""
    uuids = [*(one.contexts[0].facts.uuid for one in opened), *(one.uuid for one in facts)]
    sessions = [*(one.session for one in opened), *theirs]
    found = list(of_each_kind(config, list(zip(uuids, sessions, strict=True))))
    names = {uuid: f"the {kind} {shard.name}" for kind, shard, (uuid, _) in found}
    for kind, shard, (own, there) in found:
        others = {uuid: name for uuid, name in names.items() if uuid != own}
        yield from _replicating(f"the {kind} {shard.name}", there, others)


def _size(context: PreflightContext) -> int:
    """Return about how many bytes of a table are written; 0 where it is not known."""
    return int(sum(likely_sizes(context.found)) * share_written(context)) if context.found else 0


def _about_target(
    contexts: Sequence[PreflightContext], there: SqlSession, facts: ServerFacts, size: int
) -> Iterator[Finding]:
    """Yield what refuses a target, or should be known of it; ``size``: bytes written there."""
    own, session = contexts[0].facts, contexts[0].session
    if facts.uuid == own.uuid:
        yield refuse(
            "the target is the source's own server",
            "RENAME TABLE moves a table between schemas; spirit-py migrate changes it",
        )
        return
    if name := read_only_by(facts):
        yield refuse(f"the target takes no writes ({name}=ON)", "name a server that takes writes")
    for name in _ALIKE:
        if facts.text(name) != own.text(name):
            yield refuse(
                f"{name} is {facts.text(name)} on the target, and {own.text(name)} on the source",
                "name a server with the same setting",
            )
    if facts.is_on("log_bin") and facts.text("binlog_format").upper() == "STATEMENT":
        yield refuse(
            "binlog_format is STATEMENT on the target, which then takes no rows in READ COMMITTED,"
            " the isolation level of this program",
            _set_there(there, facts, "binlog_format", "'ROW'"),
        )
    yield from _about_packets(contexts[0], there, facts)
    # Its load is watched, too.
    unwatchable = load_limits(replace(contexts[0], session=there))
    yield from _of_the_target(unwatchable, code=ErrorCode.LIMIT_NOT_WATCHABLE)
    if lost := relaxed(facts.variables):
        yield warn(
            f"a crash of the target may lose commits ({named(lost)}): if it restarts while the move"
            " runs, all rows are compared once more"
        )
    if version_numbers(facts.version) < version_numbers(own.version):
        yield warn(
            f"the target has an older version ({facts.version}) than the source ({own.version})"
        )
    yield from _replicating("the source", session, {facts.uuid: "the target"})
    yield from _replicating("the target", there, {own.uuid: "the source"})
    room = free_bytes(facts)
    if room is not None and room < size:
        yield refuse(
            f"the target has {human_bytes(room)} free where about {human_bytes(size)} are needed",
            "free disk space",
            code=ErrorCode.NO_DISK_SPACE,
        )
    written = (other_writers(replace(one, session=there, facts=facts)) for one in contexts)
    yield from _of_the_target(chain.from_iterable(written), code=ErrorCode.OTHER_WRITERS)
    if contexts[0].config.keep_old_current:
        target = replace(contexts[0], session=there, facts=facts, grants=read_grants(there))
        yield from _of_the_target(server_settings(target))
    else:
        yield from _of_the_target(account_limits(there, contexts[0].config))
    for context in contexts:
        if context.found is not None:
            yield from _about_table(context, there)
            yield from _about_definition(context.session, context.found, there, facts)


def _about_definition(
    session: SqlSession, table: TableSchema, there: SqlSession, facts: ServerFacts
) -> Iterator[Finding]:
    """Yield what would make another table on the target of the text of the source's definition."""
    if found := member_in_doubt(session, table):
        yield refuse(
            f"{found}: the new table on the target would have that one",
            MEMBER_HINT,
            code=ErrorCode.DEFINITION_REFUSED,
        )
    implicit = [
        one.name
        for one in table.columns
        if one.data_type == "timestamp" and not one.nullable and one.default is None
    ]
    if implicit and facts.null_is_now:
        yield refuse(
            f"{table.full_name}.{implicit[0]} is TIMESTAMP NOT NULL without a default, and the"
            " target would give it one (explicit_defaults_for_timestamp=OFF)",
            _set_there(there, facts, "explicit_defaults_for_timestamp", "ON"),
        )
    if table.primary_key is None and facts.is_on(_MAKES_KEYS):
        yield refuse(
            f"{table.full_name} has no primary key, and the target would add one"
            " (sql_generate_invisible_primary_key=ON)",
            _set_there(there, facts, _MAKES_KEYS, "OFF")
            + ", for the time until the new table is made; or give the table a primary key before",
        )
    # The session has set it OFF if it may.
    if table.primary_key is None and there.query("SELECT @@SESSION.sql_require_primary_key")[0][0]:
        yield refuse(
            f"{table.full_name} has no primary key, and the target asks for one"
            " (sql_require_primary_key=ON), which the account may not set OFF in its sessions",
            f"{KEY_NOT_REQUIRED}, on the target",
        )


def _about_packets(
    context: PreflightContext, target: SqlSession, facts: ServerFacts
) -> Iterator[Finding]:
    """Yield whether a row that one server has may be too large for the other."""
    there, here = (int(one.text(_PACKET) or 0) for one in (facts, context.facts))
    if there < here:
        yield refuse(
            "max_allowed_packet is smaller on the target: a row that the source has may not be"
            " written there",
            _set_there(target, facts, _PACKET, str(here)),
            code=ErrorCode.PACKET_TOO_SMALL,
        )
    if there > here and context.config.keep_old_current:
        service = service_of(context.session, context.facts)
        yield warn(
            "max_allowed_packet is smaller on the source: a row that is written on the target may"
            " not fit there, and would end the reverse replication",
            f"{how_to_set(service, _PACKET, str(there))} on the source",
        )


def _set_there(there: SqlSession, facts: ServerFacts, name: str, value: str) -> str:
    return f"{how_to_set(service_of(there, facts), name, value)} on the target"


def _of_the_target(found: Iterable[Finding], **changes: ErrorCode) -> Iterator[Finding]:
    for one in found:
        yield replace(one, cause=f"on the target, {one.cause}", **changes)


def _replicating(which: str, session: SqlSession, others: Mapping[str, str]) -> Iterator[Finding]:
    """Yield from which of the ``others``, by their uuids, a server replicates or may replicate."""
    direct = {channel.source_uuid for channel in channels(session)}
    for uuid, other in others.items():
        if uuid in direct:
            yield refuse(
                f"{which} is a replica of {other}: a table that is made or renamed there would"
                " reach it by replication",
                "name servers that do not replicate from each other",
            )
        elif int(session.query(_HAS_EXECUTED, (uuid,))[0][0]):
            yield warn(
                f"{which} has executed transactions of {other}: if it replicates from that through"
                " another server, a table that is made or renamed there would reach it",
                "see SHOW REPLICA STATUS of the servers in between; it is nothing where the data"
                " came from a backup or a dump, or by a replication that has ended",
            )


def _about_table(context: PreflightContext, there: SqlSession) -> Iterator[Finding]:
    schema, table, names = context.schema, context.table, context.names
    if not there.query(SCHEMA, (schema,)):
        yield refuse(
            f"the target has no schema {schema}, or the account may not see it",
            f"CREATE DATABASE `{schema}` there, with the options that it has on the source",
            code=ErrorCode.NO_SUCH_TABLE,
        )
        return
    if keys := keys_to(there, schema, table):
        yield refuse(
            f"on the target, {schema}.{table} would be the parent of"
            f" {counted(len(keys), 'foreign key')}, and no RENAME under locks can make it that",
            f"drop them there, and add them after the move{_not_before(context)}",
            [str(key) for key in keys],
            code=ErrorCode.FOREIGN_KEY,
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
    elif checkpoint.has(there, CheckpointRecord):
        # Of a move away from there: what proves its tables would be overwritten.
        yield refuse(
            f"{checkpoint} on the target is the record of another command, with {schema}.{table}"
            " there as its source",
            "let that command end; then drop what it has left there: spirit-py cleanup --drop-old",
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
