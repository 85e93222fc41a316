"""Another server may write the table too: LOCK TABLES is local (R15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from spirit_py.checkpoint.examination import begun_on, record_of
from spirit_py.checkpoint.live import STALE_SECONDS
from spirit_py.checkpoint.proofs import read_proofs
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, Refusal
from spirit_py.mysql.facts import (
    GIVE_ONE_THAT_IS,
    NOT_WRITTEN_TO,
    read_facts,
    read_only_by,
    server_uuid,
)
from spirit_py.mysql.faults import access_denied, excused
from spirit_py.mysql.grants import read_grants
from spirit_py.mysql.processlist import performance_schema_shows_sessions
from spirit_py.mysql.replication import (
    APPLIES,
    RECEIVES,
    SECONDARY,
    replica_status,
    role_in_group,
)
from spirit_py.mysql.tables.definition import existing_tables
from spirit_py.mysql.tables.identity import is_one_of
from spirit_py.preflight.check import Findings, PreflightContext, refuse
from spirit_py.sql import is_like
from spirit_py.table.names import AuxiliaryNames
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from spirit_py.checkpoint.live import LiveFigures
    from spirit_py.config import RunConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.table.names import Name

Channel: TypeAlias = "tuple[str, tuple[tuple[str, str], ...]]"
_READER: Final = ("innodb_read_only",)
_VARIABLES: Final = ("group_replication_single_primary_mode", "wsrep_on")
#: The channels of a replication group bring what its primary writes.
_OF_GROUP: Final = frozenset({"group_replication_applier", "group_replication_recovery"})
_CHANNELS: Final = """
SELECT c.CHANNEL_NAME, c.SERVICE_STATE, a.SERVICE_STATE
FROM performance_schema.replication_connection_status c
JOIN performance_schema.replication_applier_status a USING (CHANNEL_NAME)
WHERE c.CHANNEL_NAME NOT IN ('group_replication_applier', 'group_replication_recovery')"""
_FILTERS: Final = """
SELECT CHANNEL_NAME, FILTER_NAME, FILTER_RULE
FROM performance_schema.replication_applier_filters"""
_REMEDY: Final = (
    "make sure that no session writes the table through another server until the swap has reached"
    " all of them, then add --writes-only-here; or stop what is named here"
)


REHEARSED: Final = "the same rehearsal drops what is left of it, and begins anew"
"""What becomes of what a rehearsal on a replica leaves behind, past the binary log."""
_BY_HAND: Final = (
    "by hand: SET SESSION sql_log_bin = 0, then drop the new table, that of requests and, last, the"
    " checkpoint"
)


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Signs of other servers that write: variables in lower case, role in a group, channels."""

    variables: Mapping[str, str]
    role: str = ""
    channels: tuple[Channel, ...] = ()


def other_writers(context: PreflightContext) -> Findings:
    """Refuse a table that may be written through another server."""
    # On a replica the writes of its source are those that are to come, through its own binlog.
    if context.config.writes_only_here or context.config.connection.unlogged:
        return
    for cause in causes(_look(context.session, context.facts), context.schema, context.table):
        yield refuse(f"table {context.schema}.{context.table}: {cause}", _REMEDY)


def require_still_here(
    session: SqlSession,
    config: RunConfig,
    tables: Iterable[Name],
    which: str = "the server",
    *,
    allowed: str = "",
) -> None:
    """Require in the middle of a run that writes come in here, and through no other server.

    A primary may have become a replica of the new one meanwhile, or its group have several.
    ``which`` and ``allowed``: see :func:`require_writable`.
    """
    if config.connection.unlogged:
        return
    facts = require_writable(session, which, allowed=allowed)
    if config.writes_only_here:
        return
    seen = _look(session, facts)
    on = f"on {which}, " if config.targets else ""
    for schema, table in tables:
        for cause in causes(seen, schema, table):
            raise MigrationFailure(
                f"table {schema}.{table}: {on}{cause}, since the run began",
                hint=f"{_REMEDY}; then run the same command again",
                error_code=ErrorCode.OTHER_WRITERS,
            )


def require_own_server(
    session: SqlSession,
    tables: Iterable[Name],
    *,
    writes_only_here: bool = False,
    fenced: bool = False,
    noted: bool = True,
) -> None:
    """Require it before anything of an earlier run is written or dropped; Refusal on a replica.

    What is beside the tables there has come by replication, as from the primary on which the
    process runs. No channel writes the tables of a server that was promoted. ``fenced``: the
    source of a move may be read_only for clients, once all its tables are out of the way.
    ``noted``: nothing is done without a checkpoint, which says on which server the run was; else it
    may be any.
    """
    found = [name for name in tables if not noted or CheckpointTable(*name).is_ours(session)]
    if not found:
        return
    if noted:
        _require_logged(session, found)
    facts = read_facts(session)
    name = read_only_by(facts)
    # No account writes under another one.
    if fenced and name == "read_only" and _is_left(session, found):
        name, grants = read_only_by(facts, allowed=name), read_grants(session)
        if not name and not grants.has_global("SUPER"):
            grants.require(("CONNECTION_ADMIN",), "", "read_only is ON, and others drop nothing")
    if name:
        raise Refusal(
            f"the server takes no writes ({name}=ON): {NOT_WRITTEN_TO}",
            hint=GIVE_ONE_THAT_IS,
            error_code=ErrorCode.SERVER_SETTINGS,
        )
    if writes_only_here:
        return
    here = server_uuid(session)
    moved = [name for name in found if not noted or begun_on(session, name) not in {"", here}]
    what, begun = "the migration of", "was begun on another server"
    if not noted:
        what, begun = "what is left of", "may be of another server"
    channels = excused(lambda: _channels(session), None, access_denied) if moved else ()
    if channels is None:
        raise Refusal(
            f"{what} {'.'.join(moved[0])} {begun}, and the account may not see whether this one is"
            " its replica",
            hint="grant the account REPLICATION CLIENT",
            error_code=ErrorCode.MISSING_PRIVILEGES,
        )
    role = role_in_group(session) if moved else ""
    seen = Surroundings(variables={}, role=role, channels=channels)
    for schema, table in moved:
        for cause in causes(seen, schema, table):
            raise Refusal(
                f"{what} {schema}.{table} {begun}, and {cause}: this is a replica",
                hint="give the address of the primary; where this is to take its place, stop the"
                " replication to here first",
                error_code=ErrorCode.OTHER_WRITERS,
            )


def _require_logged(session: SqlSession, tables: Iterable[Name]) -> None:
    """Refuse to write or drop with the binary log on what a rehearsal has made past it."""
    for schema, table in tables:
        record = record_of(session, (schema, table))
        if record is not None and record.unlogged and record.server_uuid == server_uuid(session):
            raise Refusal(
                f"what is beside {schema}.{table} is of a rehearsal on a replica, past the binary"
                " log: with that on, its drop would stop other servers' replication",
                hint=f"{REHEARSED} (migrate --dry-run --on-replica); {_BY_HAND}",
                error_code=ErrorCode.UNFINISHED_WORK,
            )


def require_own_rehearsal(session: SqlSession, tables: Iterable[Name]) -> None:
    """Refuse a rehearsal on a replica where another server's run has left something of a table.

    It came by replication: dropped past the binary log, the next event of it stops the applier.
    """
    here = server_uuid(session)
    for schema, table in tables:
        if begun_on(session, (schema, table)) not in {"", here}:
            raise Refusal(
                f"a migration of {schema}.{table} on another server is under way, or has left its"
                " tables, which replication brought here",
                hint="wait for its end, or clean up there what it has left (spirit-py cleanup)",
                error_code=ErrorCode.UNFINISHED_WORK,
            )


def why_unseen(
    session: SqlSession,
    table: Name,
    live: LiveFigures | None = None,
    age: float | None = None,
    *,
    noted: bool = True,
) -> str:
    """Return why a process may work on a table though no lock here shows it; else an empty text.

    Named locks stay on their server; the checkpoint, with its figures, comes by replication, and so
    does the record of a batch: the table is that then, and not ``noted``, as the command may have
    been given on another server since.
    """
    elsewhere = not noted or begun_on(session, table) not in {"", server_uuid(session)}
    # A reader that shares the writer's storage may have its number, too, and runs nothing.
    if not elsewhere and not read_facts(session, _READER).is_on(*_READER):
        return ""
    fresh = live is not None and age is not None and age <= STALE_SECONDS
    why = "it was begun on another server" if fresh else ""
    try:
        require_own_server(session, [table], noted=noted)
    except Refusal as refused:
        why = refused.message
    figures = ""
    if live is not None and age is not None:
        figures = (
            f"; its figures here are {human_seconds(age)} old, of process {live.pid} on {live.host}"
        )
    return why and f"no process is seen from this server, and one may work: {why}{figures}"


def _is_left(session: SqlSession, tables: Iterable[Name]) -> bool:
    """Return whether a move has put its tables out of the way on this server, which is no replica.

    Whoever may not see whether it is one has it count as one.
    """
    if excused(lambda: bool(replica_status(session)), True, access_denied):
        return False

    def is_away(one: Name) -> bool:
        moved, source = AuxiliaryNames.of(one[1]).moved, read_proofs(session, *one).source
        # A cleanup that was stopped may have dropped it.
        gone = source and not existing_tables(session, one[0], (one[1], moved))
        return bool(gone) or is_one_of(session, one[0], moved, source)

    return all(map(is_away, tables))


def require_writable(
    session: SqlSession, which: str = "the server", *, allowed: str = ""
) -> ServerFacts:
    """Require that a server takes writes still, also where the account may write; return facts.

    ``allowed`` is a setting that may stay ON.
    """
    facts = read_facts(session)
    if name := read_only_by(facts, allowed=allowed):
        raise MigrationFailure(
            f"{which} takes no writes any more ({name}=ON)",
            hint="run the same command again against the primary, or here once it takes writes:"
            " where a service has set it because the disk is full, enlarge the disk",
            error_code=ErrorCode.SERVER_SETTINGS,
        )
    return facts


def causes(seen: Surroundings, schema: str, table: str) -> Iterator[str]:
    """Yield each reason why writes of other servers may reach a table (pure)."""
    if seen.role and seen.variables.get("group_replication_single_primary_mode") == "OFF":
        yield "the server is in a replication group with several primaries"
    elif seen.role == SECONDARY:
        yield "the server is a secondary of its replication group, and another is the primary"
    if seen.variables.get("wsrep_on") == "ON":
        yield "the server is in a Galera cluster (wsrep_on=ON), where every node takes writes"
    for name, filters in seen.channels:
        if may_write(filters, schema, table):
            shown = f"replication channel {name!r}" if name else "the default replication channel"
            yield f"{shown} replicates to this server and may write the table"


def may_write(filters: Iterable[tuple[str, str]], schema: str, table: str) -> bool:
    """Return whether a channel's filters let row events of a table pass; in doubt they do."""
    rules: dict[str, list[str]] = {}
    for name, rule in filters:
        rules.setdefault(name.upper(), []).append(rule)
    full = f"{schema}.{table}"
    folded = full.lower()
    # For a statement, filters by schema go by the client's default schema.
    if full in rules.get("REPLICATE_DO_TABLE", ()):
        return True
    if full in rules.get("REPLICATE_IGNORE_TABLE", ()):
        return False
    if any(is_like(full, rule) for rule in rules.get("REPLICATE_WILD_DO_TABLE", ())):
        return True
    if any(is_like(full, rule) for rule in rules.get("REPLICATE_WILD_IGNORE_TABLE", ())):
        return False
    only = [rule.lower() for rule in rules.get("REPLICATE_DO_TABLE", ())]
    wild = [rule.lower() for rule in rules.get("REPLICATE_WILD_DO_TABLE", ())]
    if not only and not wild:
        return True
    return folded in only or any(is_like(folded, rule) for rule in wild)


def _look(session: SqlSession, facts: ServerFacts) -> Surroundings:
    return Surroundings(
        variables={name: facts.text(name) for name in _VARIABLES},
        role=role_in_group(session),
        channels=_channels(session),
    )


def _channels(session: SqlSession) -> tuple[Channel, ...]:
    seen = performance_schema_shows_sessions(session)
    return _shown_channels(session) if seen else _status_channels(session)


def _shown_channels(session: SqlSession) -> tuple[Channel, ...]:
    filters: dict[str, list[tuple[str, str]]] = {}
    for channel, name, rule in session.query(_FILTERS):
        filters.setdefault(str(channel), []).append((str(name), str(rule)))
    return tuple(
        (str(name), tuple(filters.get(str(name), ())))
        for name, receiving, applying in session.query(_CHANNELS)
        if receiving != "OFF" or applying != "OFF"
    )


def _status_channels(session: SqlSession) -> tuple[Channel, ...]:
    return tuple(
        ("of SHOW REPLICA STATUS", ())
        for row in replica_status(session)
        if not _OF_GROUP.intersection(row)
        and (str(row[RECEIVES]).upper() != "NO" or str(row[APPLIES]).upper() != "NO")
    )
