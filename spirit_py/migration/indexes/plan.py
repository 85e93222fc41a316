"""Which indexes of a new table are built after the copy, and why (``--defer-indexes``).

``auto`` defers

- where the indexes are together larger than :data:`POOL_SHARE` of the buffer pool, which the rows
  that are read and written, and the application, need too: a row that is inserted then reads and
  writes a page of most of them;
- where the table is so small that the build takes a few seconds (:data:`BRIEF_BYTES`): sorting
  costs the server less than single inserts even where everything is in memory.

Indexes of up to :data:`_WORTH_BYTES` stay in place.

Where the indexes are smaller than that share of the pool and the table is large, they may still be
dropped in the middle of the copy (:mod:`spirit_py.migration.indexes.falling`). Never where another
server replicates from this one: it would apply the whole build as one statement, and fall behind as
long as that takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint.proofs import read_proofs
from spirit_py.checkpoint.record import digest_of
from spirit_py.errors import Refusal, ServerFault
from spirit_py.events import EventName
from spirit_py.migration.indexes.deferred import DeferredIndexes
from spirit_py.mysql.faults import access_denied
from spirit_py.mysql.replication import in_replication_group, readers_of_binlog
from spirit_py.mysql.tables.deferred_indexes import index_sizes, why_not_deferred
from spirit_py.mysql.tables.definition import shape_of
from spirit_py.mysql.tables.new_table import drop_building
from spirit_py.statement.index_definitions import deferrable_indexes, without_indexes
from spirit_py.units import human_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spirit_py.checkpoint.record import CheckpointRecord, TableProgress
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.run import Run
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.statement.index_definitions import DeferrableIndexes
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema

POOL_SHARE: Final = 1 / 8
"""Part of the buffer pool above which indexes are deferred from the beginning.

Measured (600 000 rows, four random indexes of 67 MiB, two threads): where the pool was 2 to 8
times as large as they are, copy and build together took 0.3 to 0.7 times as long as the copy with
them in place."""
BRIEF_BYTES: Final = 1 << 30
"""Data and indexes of a table whose build takes a few seconds.

Measured (2 million rows, 440 MiB with one index, two threads, everything in memory): build of one
second; the whole migration took 0.8 times as long as with the index in place."""
FALLING_SHARE: Final = POOL_SHARE / 4
"""Part of it below which a slower copy has other reasons than the indexes."""
_WORTH_BYTES: Final = 16 << 20
"""Bytes of indexes below which a build would save less than a second."""
_ENTRY_BYTES: Final = 40
"""Assumed bytes of an index's entry where no index of the source shows them."""


@dataclass(frozen=True, kw_only=True)
class IndexPlan:
    """What is done with the secondary indexes of one table.

    Attributes:
        deferred: the indexes that may be deferred, with both definitions; none where none may.
        at_once: they are dropped before the copy.
        may_fall: they are dropped in the middle of the copy if rows are inserted more slowly.
        left_out: they are dropped, and the record has both definitions.
        why: for the operator: why they are deferred, or are not.
    """

    deferred: DeferredIndexes
    at_once: bool = False
    may_fall: bool = False
    left_out: bool = False
    why: str = ""

    @property
    def kind(self) -> str:
        """When they are built: ``after_copy``, ``if_slow`` or ``during_copy``."""
        if self.at_once:
            return "after_copy"
        return "if_slow" if self.may_fall else "during_copy"

    @property
    def none(self) -> DeferredIndexes:
        """No deferred indexes of the same table."""
        return replace(self.deferred, bare_shape="", indexes=())


def begin_without_indexes(
    run: Run,
    session: SqlSession,
    contexts: Iterable[PreflightContext],
    mappings: Iterable[TableMapping],
) -> tuple[IndexPlan, ...]:
    """Decide for every table of a new migration, and drop what is deferred; before the copy.

    A run that ends before its first record with a position is not carried on, so that no record is
    needed before the drop.

    Raises:
        ServerFault: the server could not be asked.
    """
    plans = []
    for context, mapping in zip(contexts, mappings, strict=True):
        plan = plan_indexes(run, session, context, mapping)
        if plan.at_once:
            plan.deferred.drop(session)
            plan = replace(plan, left_out=True)
        plans.append(plan)
    return tuple(plans)


def carry_on_with_indexes(
    run: Run,
    session: SqlSession,
    contexts: Iterable[PreflightContext],
    mappings: Iterable[TableMapping],
    record: CheckpointRecord,
) -> tuple[IndexPlan, ...]:
    """Return what an earlier run has decided for every table; decide where it deferred nothing.

    An empty table that a killed run has tried the statements on is dropped before.

    Raises:
        ServerFault: the server could not be asked.
    """
    plans = []
    for context, mapping in zip(contexts, mappings, strict=True):
        building = read_proofs(session, context.schema, context.table).building
        drop_building(session, context.schema, context.table, building)
        progress = record.of(mapping.source.schema, mapping.source.name)
        plan = _plan_of_earlier_run(progress, mapping)
        if not plan.left_out and not progress.copied:
            plan = plan_indexes(run, session, context, mapping)
        plans.append(plan)
    return tuple(plans)


def plan_indexes(
    run: Run, session: SqlSession, context: PreflightContext, mapping: TableMapping
) -> IndexPlan:
    """Decide for one table, and report it; the new table has all of its indexes, and no rows yet.

    Raises:
        ServerFault: the server could not be asked.
    """
    plan = _plan(run, session, context, mapping)
    what = f"indexes of {mapping.source.schema}.{mapping.source.name}"
    if plan.at_once:
        text = f"{what} that are built after the copy: {plan.deferred}"
    elif plan.may_fall:
        text = f"{what} are kept up to date by the copy, unless it becomes much slower"
    else:
        text = f"{what} are kept up to date by the copy"
    run.report.indexes_plan.append(f"{text} ({plan.why})")
    if plan.deferred or run.config.defer_indexes == "on":
        run.tell(
            EventName.INDEXES_PLANNED,
            f"{text}: {plan.why}",
            table=f"{mapping.source.schema}.{mapping.source.name}",
            indexes=list(plan.deferred.names),
            plan=plan.kind,
            reason=plan.why,
        )
    return plan


def _plan_of_earlier_run(progress: TableProgress, mapping: TableMapping) -> IndexPlan:
    """Return what an earlier run has done with the indexes of one table."""
    deferred = DeferredIndexes(
        source=(mapping.source.schema, mapping.source.name),
        target=(mapping.target.schema, mapping.target.name),
        whole_shape=progress.target_shape,
        bare_shape=progress.bare_shape,
        indexes=progress.deferred,
    )
    return IndexPlan(deferred=deferred, left_out=bool(deferred), why="an earlier run began so")


def _plan(
    run: Run, session: SqlSession, context: PreflightContext, mapping: TableMapping
) -> IndexPlan:
    target = mapping.target
    whole = digest_of(shape_of(target), target.name)
    nothing = DeferredIndexes(
        source=(mapping.source.schema, mapping.source.name),
        target=(target.schema, target.name),
        whole_shape=whole,
    )
    mode = run.config.defer_indexes
    if mode == "off":
        return IndexPlan(deferred=nothing, why="--defer-indexes off")
    try:
        found = deferrable_indexes(target, mapping.lookup.index.name)
    except Refusal as error:
        return IndexPlan(deferred=nothing, why=error.message)
    if not found.clauses:
        return IndexPlan(deferred=nothing, why=_why_none(found))
    at_once, may_fall, why = True, False, "--defer-indexes on"
    if mode == "auto":
        at_once, may_fall, why = _automatic(session, context, mapping, found)
        if not (at_once or may_fall):
            return IndexPlan(deferred=nothing, why=why)
    probe = read_proofs(session, *nothing.source).building
    refused = why_not_deferred(session, nothing.target, found.clauses, probe=probe)
    if refused:
        return IndexPlan(deferred=nothing, why=refused)
    deferred = DeferredIndexes(
        source=nothing.source,
        target=nothing.target,
        whole_shape=whole,
        bare_shape=digest_of(without_indexes(shape_of(target), found.clauses), target.name),
        indexes=tuple(found.clauses.items()),
    )
    return IndexPlan(deferred=deferred, at_once=at_once, may_fall=may_fall, why=why)


def _why_none(found: DeferrableIndexes) -> str:
    """Return why no index of a table may be deferred."""
    if not found.kept:
        return "there are none but unique ones"
    return "; ".join(f"{name} stays: {why}" for name, why in found.kept.items())


def _automatic(
    session: SqlSession,
    context: PreflightContext,
    mapping: TableMapping,
    found: DeferrableIndexes,
) -> tuple[bool, bool, str]:
    """Return whether to defer at once, whether to be ready for it, and why."""
    return automatic(
        indexes=_expected_bytes(session, mapping, found.clauses),
        data=mapping.source.data_bytes,
        pool=context.facts.number("innodb_buffer_pool_size", 1),
        who_replicates=lambda: _who_replicates(session),
    )


def automatic(
    *, indexes: int, data: int, pool: int, who_replicates: Callable[[], str]
) -> tuple[bool, bool, str]:
    """Return whether to defer at once, whether to be ready for it, and why, as the module says.

    Args:
        indexes: bytes of the deferrable indexes.
        data: bytes of the table's rows.
        pool: bytes of the buffer pool.
        who_replicates: returns what may replicate from the server; called only if that decides.
    """
    sizes = f"about {human_bytes(indexes)}, of {human_bytes(pool)} of buffer pool"
    brief = data + indexes <= BRIEF_BYTES
    if indexes <= _WORTH_BYTES or (indexes <= FALLING_SHARE * pool and not brief):
        return False, False, f"they are small: {sizes}"
    if others := who_replicates():
        return False, False, f"{others} would apply the build as one statement: {sizes}"
    if indexes > POOL_SHARE * pool:
        return True, False, f"they are large beside the memory: {sizes}"
    if brief:
        return True, False, f"the build takes a few seconds: {sizes}"
    return False, True, f"they are likely to stay in memory: {sizes}"


def _who_replicates(session: SqlSession) -> str:
    """Return what may replicate from the server; empty for nothing."""
    try:
        if in_replication_group(session):
            return "the other members of the replication group"
        count = readers_of_binlog(session)
    except ServerFault as fault:
        if not access_denied(fault):
            raise
        return "a replica that this account may not see"
    return f"{count} replica(s), or other readers of the binary log," if count else ""


def _expected_bytes(session: SqlSession, mapping: TableMapping, names: Iterable[str]) -> int:
    """Estimate the size of indexes of the new table from those of the source."""
    source = mapping.source
    sizes = index_sizes(session, (source.schema, source.name))
    secondary = [index.name for index in source.indexes if index.name != "PRIMARY"]
    if not sizes and secondary:
        sizes = dict.fromkeys(secondary, source.index_bytes // len(secondary))
    known = [sizes[name] for name in secondary if name in sizes]
    usual = sum(known) // len(known) if known else source.estimated_rows * _ENTRY_BYTES
    renamed = {pair.new.name.lower(): pair.old.name.lower() for pair in mapping.pairs}
    by_columns = {_parts(source, name, {}): sizes[name] for name in secondary if name in sizes}
    return sum(by_columns.get(_parts(mapping.target, name, renamed), usual) for name in names)


def _parts(
    table: TableSchema, name: str, renamed: Mapping[str, str]
) -> tuple[tuple[str, int | None], ...]:
    """Return columns and lengths of an index, by the names of the source."""
    index = table.index(name)
    parts = index.parts if index is not None else ()
    found = ((part.column or "", part.prefix) for part in parts)
    return tuple((renamed.get(column.lower(), column.lower()), prefix) for column, prefix in found)
