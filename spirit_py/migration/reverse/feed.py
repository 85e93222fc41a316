"""The reverse feed: planned before the copy, opened on the definitions noted at the swap."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from spirit_py import __version__
from spirit_py.applier.applier import SqlApplier
from spirit_py.attached.foreign_keys.model import not_brought_back
from spirit_py.binlog.resumption import why_unreachable
from spirit_py.checkpoint.record import LATEST, ReverseRecord, ReverseTable, digest_of
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.codes import ErrorCode
from spirit_py.errors import (
    MigrationFailure,
    PositionNotFound,
    Refusal,
    SchemaChanged,
    SpiritError,
)
from spirit_py.migration.pair import Pair, open_feed
from spirit_py.migration.swap.same_tables import BACK
from spirit_py.mysql.endpoint import how_to_set, service_of
from spirit_py.mysql.facts import read_facts, server_now
from spirit_py.mysql.faults import NO_SUCH_TABLE, excused
from spirit_py.mysql.grants import read_grants
from spirit_py.mysql.tables.definition import read_shape, read_table
from spirit_py.mysql.tables.guard_column import drop_guard_columns
from spirit_py.plan.definition import shape_guarded
from spirit_py.table.build import NULLS_KEPT, losses_of, not_nulls, reverse_mapping, way_back
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.migration.job import Job
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.mysql.session import Session
    from spirit_py.statement import AlterStatement
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema
    from spirit_py.threads import StopSwitch


_LOG = logging.getLogger(__name__)


def plan_reverse(
    migration: TableMapping, changes: AlterStatement, facts: ServerFacts
) -> ReverseTable:
    """Return, before the copy, how the old table would follow; Refusal where it could not.

    ``facts`` are those of the old table's server.
    """
    reverse, mapping = way_back(migration, changes, facts.time_zone, null_is_now=facts.null_is_now)
    source = migration.source
    losses = (*losses_of(mapping, source.full_name), *not_brought_back(source, changes))
    return replace(reverse_table(migration), changes=reverse, losses=losses)


def reverse_table(migration: TableMapping) -> ReverseTable:
    """Return a table whose old one would follow, without how."""
    schema, table = migration.source.schema, migration.source.name
    names = AuxiliaryNames.of(table)
    return ReverseTable(schema=schema, table=table, old=names.old, undone=names.undone)


def with_shapes(session: SqlSession, table: ReverseTable) -> ReverseTable:
    """Note the definitions right after the swap, with which later ones are compared."""
    now, old = (_shape(session, table.schema, name) for name in (table.table, table.old))
    found = read_table(session, table.schema, table.old)
    guarded = "" if found is None else guarded_digest(session, found)
    return replace(table, now_shape=now, old_shape=old, guarded_shape=guarded)


def guarded_digest(session: SqlSession, old: TableSchema) -> str:
    """Return what :func:`require_definitions` takes, too; empty where that is not known."""
    shape = shape_guarded(session, old)
    return shape and digest_of(shape, old.name)


def require_definitions(session: SqlSession, tables: Iterable[ReverseTable]) -> None:
    """Compare the definitions with those at the swap; quick under a lock. Raises SchemaChanged."""
    for table in tables:
        for name, noted in ((table.table, {table.now_shape} - {""}), (table.old, table.old_shapes)):
            if noted and _shape(session, table.schema, name) not in noted:
                raise SchemaChanged(
                    f"another session changed the definition of {table.schema}.{name} since the"
                    " swap",
                    hint="the table stays as it is; compare it with the old one by hand",
                )


def _shape(session: SqlSession, schema: str, name: str) -> str:
    shape = excused(lambda: read_shape(session, schema, name), "", {NO_SUCH_TABLE})
    return shape and digest_of(shape, name)


def open_reverse_feed(
    job: Job,
    record: ReverseRecord,
    stop: StopSwitch,
    stack: contextlib.ExitStack,
    made_by: Callable[..., SqlApplier] = SqlApplier,
) -> list[Pair]:
    """Let the old tables follow from the record's position on, until ``stack`` is closed.

    Where ``job`` has a target, the old tables and the record are there. ``made_by`` makes the
    applier. ``stop`` gets the fault that ends the feed; never the process's own switch.
    SchemaChanged for another definition than was noted; PositionNotFound where the binlog no longer
    reaches the position; Refusal where the old table cannot follow; MigrationFailure with the
    GRANT where a privilege is missing, or the setting under which NULL is not stored.
    """
    with job.session("keep") as now, job.session("keep", there=True) as session:
        require_definitions(session, record.tables)
        facts = read_facts(session)
        apart = job.config.target is not None
        mappings = [
            replace(_mapping(now, session, table, facts), apart=apart) for table in record.tables
        ]
        _require_updates(session, [one.target for one in mappings if one.kept])
        age = CheckpointTable(*record.home).age(session, ReverseRecord)
    if why := why_unreachable(job.config.connection, record.position, age=age):
        raise PositionNotFound(f"the change feed cannot go on: {why}")
    feed, applier = open_feed(job, stop, stack, back=True, made_by=made_by)
    # The table is in use, and nothing else measures how its users fare.
    feed.knee.begin(feed.knee.now, feed.knee.tasks, sparing=True)
    feed.knee.calm = True
    pair_of = partial(Pair, job=job, feed=feed, applier=applier, stop=stop, direction=BACK)
    pairs = [
        pair_of(mapping=one, subscription=feed.add_subscription(one, rests=())) for one in mappings
    ]
    for pair in pairs:
        pair.tables.begin(afresh=False)
    feed.start_from_position(record.position)
    feed.end_watermark_optimization()
    for pair in pairs:
        pair.tables.look()
    return pairs


def place_of(pairs: Sequence[Pair]) -> str:
    """Return the place to go on from; empty where a rebuild before it could not be noted."""
    position = pairs[0].feed.position()
    try:
        for pair in pairs:
            pair.tables.take_over()
    except SpiritError as error:
        _LOG.info("a rebuilt table could not be recorded: %s", error)
        return ""
    return position


def _require_updates(session: SqlSession, olds: Iterable[TableSchema]) -> None:
    """Require what writes rows around the values that dropped columns have in the old tables."""
    grants = read_grants(session)
    for old in olds:
        if missing := grants.missing(("UPDATE",), old.schema, (old.name,)):
            raise MigrationFailure(
                f"account {grants.account} lacks {', '.join(missing)} on {old.full_name}: it has"
                " to keep the values of dropped columns, and its other columns are updated",
                hint=f"{grants.grant(missing, old.schema)} Then run the same command again",
                error_code=ErrorCode.MISSING_PRIVILEGES,
            )


def _mapping(
    here: SqlSession, session: SqlSession, table: ReverseTable, facts: ServerFacts
) -> TableMapping:
    drop_guard_columns(session, table.schema, table.old)
    now = read_table(here, table.schema, table.table)
    old = read_table(session, table.schema, table.old)
    if now is None or old is None:
        raise Refusal(
            f"reverse replication is not possible: {table} or its old table"
            f" {table.schema}.{table.old} does not exist",
            hint="the swap back needs both",
            error_code=ErrorCode.REVERSE_NOT_POSSIBLE,
        )
    mapping = reverse_mapping(now, old, table.changes, facts.time_zone, begun=True)
    if facts.null_is_now and (why := not_nulls(mapping)):
        # The record stays: nothing is lost yet.
        raise MigrationFailure(
            f"reverse replication of {table} cannot go on: {why}",
            hint=f"{how_to_set(service_of(session, facts), NULLS_KEPT, 'ON')}; then run the same"
            " command again, while the binlog reaches back until now",
            error_code=ErrorCode.SERVER_SETTINGS,
        )
    return mapping


def begin(
    session: Session, planned: ReverseRecord, *, position: str, seconds: float
) -> ReverseRecord:
    """Write the first record, from the position after the RENAME; its table exists.

    For so many ``seconds``; the place is only noted for 0.
    """
    tables = tuple(with_shapes(session, table) for table in planned.tables)
    return write_first(session, replace(planned, tables=tables), position=position, seconds=seconds)


def write_first(
    session: Session, planned: ReverseRecord, *, position: str, seconds: float
) -> ReverseRecord:
    """Write it with the definitions that are planned: the tables may be locked."""
    now = server_now(session)
    record = replace(
        planned,
        position=position,
        until=min(now + seconds, LATEST) if seconds else 0.0,
        program=__version__,
    )
    CheckpointTable(*record.home).write(session, record)
    return record
