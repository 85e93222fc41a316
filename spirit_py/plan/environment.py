"""What surrounds the tables: disk and binlog, replicas, what the work waits for, and locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.attached.foreign_keys.model import carried
from spirit_py.attached.triggers.catalogue import list_triggers
from spirit_py.checksum.recheck import may_roll
from spirit_py.classes import replace
from spirit_py.errors import SpiritError
from spirit_py.mysql.replication import in_replication_group, known_replicas, readers_of_binlog
from spirit_py.plan.model import Attached, Lock, SpacePlan
from spirit_py.preflight.checks.disk_space import free_bytes, written_bytes
from spirit_py.preflight.clauses import made_by_server, made_natively
from spirit_py.preflight.index_deferral import expected_bytes
from spirit_py.throttle.lag import address_of, unnamed
from spirit_py.throttle.option_checks import said_of_lag
from spirit_py.units import counted, human_bytes, human_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.plan.model import IndexesPlan
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.mapping import TableMapping


def space_of(
    context: PreflightContext,
    mapping: TableMapping | None,
    indexes: IndexesPlan | None,
    *,
    search: int,
    share: float,
    there: ServerFacts | None = None,
) -> SpacePlan:
    """Return what a copy of a ``share`` of the rows writes; a search for duplicates is given.

    ``there``: another server, which it writes to.
    """
    facts = there or context.facts
    data, index, logged = written_bytes(replace(context, facts=facts))
    sort = 0
    if mapping is not None:
        secondary = [one.name for one in mapping.target.indexes if one.name != "PRIMARY"]
        index = expected_bytes(context.session, mapping, secondary)
        if indexes is not None:
            sort = expected_bytes(context.session, mapping, indexes.deferred)
    return SpacePlan(
        table_bytes=int(share * (data + index)),
        sort_bytes=int(share * sort),
        search_bytes=search,
        binlog_bytes=int(share * logged),
        free_bytes=free_bytes(facts),
    )


def replicas_of(
    session: SqlSession, config: MigrationConfig, *, copied: bool, deferred: bool
) -> tuple[str, ...]:
    """Return what replicates from the server, and what it will meet."""
    try:
        return tuple(_replicas(session, config, copied=copied, deferred=deferred))
    except SpiritError as error:
        return (f"not known: {error.message}",)


def _replicas(
    session: SqlSession, config: MigrationConfig, *, copied: bool, deferred: bool
) -> Iterator[str]:
    known = known_replicas(session)
    for one in known:
        where = address_of(one.host, one.port)
        if not one.host:
            yield f"server_id {one.server_id}, at an address that is not known"
        elif where in config.replicas or unnamed(config.replica_account, one.host, one.port):
            yield where
        else:
            yield f"{where}, which no verified TLS proves, so it is not asked"
    named = [name for name in config.replicas if name not in {f"{o.host}:{o.port}" for o in known}]
    yield from (f"{name}, named by --replica" for name in named)
    others = readers_of_binlog(session) - len(known)
    if others > 0:
        yield f"{counted(others, 'more reader')} of the binary log"
    group = in_replication_group(session)
    if group:
        yield "the other members of the replication group"
    if not (known or named or others > 0 or group):
        return
    if not copied:
        yield "each repeats the ALTER, in as short a time"
        return
    yield said_of_lag(config)
    if deferred:
        yield "each applies the build of the deferred indexes as one statement"


def pace_of(config: MigrationConfig) -> Iterator[str]:
    """Yield what the work goes by and what it waits for, in the order of the options."""
    how = "regardless of others (--aggressive)"
    if not config.aggressive:
        how = "fewer where commits of others become twice as slow"
    tasks = "1 task" if config.threads == 1 else f"as many tasks as pay, at most {config.threads}"
    yield f"{tasks}, {how}; chunks of {human_seconds(config.target_chunk_time)}"
    if config.nice:
        yield f"a rest of {config.nice:g} s for each second of work (--nice)"
    for name, value in config.max_load:
        yield f"waits while {name} is above {value:g} (--max-load)"
    for name, value in config.critical_load:
        yield f"ends when {name} is above {value:g} (--critical-load)"
    if config.allow:
        yield f"works only at these times: {', '.join(map(str, config.allow))} (--allow)"
    disk, logs = human_bytes(config.min_free_disk), human_bytes(config.max_binlog_space)
    history, age = config.max_history_length, config.max_checkpoint_age
    waits = {
        f"less than {disk} are free, where that can be seen": config.min_free_disk,
        f"the binary logs are above {logs}": config.max_binlog_space,
        f"InnoDB's history is longer than {history}": history,
        f"more than {age:g} % of the redo log are in use": age,
        "the endpoint of --throttle-http does not answer 200": config.throttle_http,
        f"this is not 0: {config.throttle_query}": config.throttle_query,
    }
    yield from (f"waits while {what}" for what, given in waits.items() if given)


def attached_to(
    session: SqlSession, context: PreflightContext, *, copied: bool
) -> tuple[Attached, ...]:
    """Return the triggers and foreign keys of a table, and what happens to each."""
    try:
        return tuple(_attached(session, context, copied=copied))
    except SpiritError as error:
        return (Attached(kind="trigger", name="?", what=f"not known: {error.message}"),)


def _attached(
    session: SqlSession, context: PreflightContext, *, copied: bool
) -> Iterator[Attached]:
    stays = "stays as it is"
    for trigger in list_triggers(session, context.schema, context.table):
        what = "created again on the new table, in the swap" if copied else stays
        yield Attached(kind="trigger", name=trigger.name, what=what)
    for key in keys_around(session, context.schema, context.table):
        kept = "moved to the new table in the swap, with its name" if copied else stays
        what = "dropped by the statement" if carried(key, context.altered) is None else kept
        yield Attached(kind="foreign key", name=str(key).removeprefix("foreign key "), what=what)


def locks_of(
    context: PreflightContext,
    mapping: TableMapping | None,
    *,
    copied: bool,
    known: bool,
    deferred: bool,
) -> tuple[Lock, ...]:
    """Return the locks that a migration takes, in their order; ``known``: how is certain."""
    config, table = context.config, f"{context.schema}.{context.table}"
    wait = human_seconds(config.lock_wait_timeout)
    tries = (
        f"each request waits {wait} at most, and is made only when no older transaction blocks it"
        f"; again for up to {human_seconds(config.cutover_timeout)}"
    )
    others = "tables whose foreign keys refer to it"
    if (clause := made_by_server([context])) and clause.other[1]:
        others = ".".join(clause.other)
    on = f"{table}, and {others}: exclusive metadata lock"
    held = "some milliseconds"
    if made_natively([context]):
        held += (
            "; where the server copies the rows, writes wait for as long as that takes, and reads"
            " only at its end"
        )
    alter = Lock(name="the ALTER", on=on, held=held, waits=tries)
    if not copied:
        return (alter,)
    rolling = config.checksum == "rolling" and mapping is not None and may_roll(mapping)
    seldom = "; only if rows change too often to be seen equal" if rolling else ""
    snapshot = Lock(
        name="snapshot of the comparison",
        on=f"{table}: LOCK TABLES READ, writes wait{seldom}",
        held="some milliseconds",
        waits=f"each request waits {wait} at most",
    )
    build = Lock(
        name="build of the deferred indexes",
        on="only the new table, which no other session uses",
        held="at its beginning and end",
    )
    swap = Lock(
        name="swap",
        on=f"{table} and the tables that foreign keys join to it: LOCK TABLES WRITE, then RENAME",
        held="tens of milliseconds: the last changes are applied, and each foreign key or trigger"
        " moved",
        waits=tries + _kills(config),
    )
    first = () if known else (alter,)
    return (*first, *((build,) if deferred else ()), snapshot, swap)


def _kills(config: MigrationConfig) -> str:
    if config.kill_blockers == "never":
        return "; no session is killed"
    who = "idle transactions" if config.kill_blockers == "idle" else "whoever is"
    return f"; {who} in front for {human_seconds(config.kill_after)} are killed"
