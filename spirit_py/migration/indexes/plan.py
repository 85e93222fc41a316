"""Which indexes of a new table are built after the copy, and why (``--defer-indexes``)."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.checkpoint.drop import drop_building
from spirit_py.checkpoint.proofs import read_proofs, renew_proofs, shape_here
from spirit_py.checkpoint.record import digest_of
from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, SchemaChanged
from spirit_py.events.copy import IndexesKept, IndexesPlanned
from spirit_py.migration.facts import IndexesLaidDown
from spirit_py.mysql.evaluation import as_stored
from spirit_py.mysql.own_sessions import token_of
from spirit_py.mysql.tables.deferred_indexes import drop_sql, why_not_deferred
from spirit_py.mysql.tables.definition import read_shape, shape_of
from spirit_py.mysql.tables.new_table import NewTable
from spirit_py.preflight.index_deferral import deferral
from spirit_py.statement.index_definitions import index_clauses, without_indexes
from spirit_py.table.names import building_name, is_building_name, lock_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.checkpoint.record import CheckpointRecord, TableProgress
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.run import Run
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.names import Name

_SHOWN: Final = 6


def build_lock(run: str, target: Name) -> str:
    """Return the name of the build session's lock; ``run`` is the run's label or token."""
    return lock_name("index", token_of(run), *target)


@dataclass(frozen=True, kw_only=True)
class DeferredIndexes:
    """The indexes of a new table that may be built after the copy; falsy for none."""

    source: Name
    target: Name
    whole_shape: str
    bare_shape: str = ""
    indexes: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.indexes)

    def __str__(self) -> str:
        return named_indexes([name for name, _ in self.indexes])

    @property
    def names(self) -> list[str]:
        """The names of the indexes."""
        return [name for name, _ in self.indexes]

    @property
    def clauses(self) -> list[str]:
        """What follows ADD for each of them."""
        return [clause for _, clause in self.indexes]

    @property
    def table(self) -> str:
        """The new table's name for messages."""
        return ".".join(self.target)

    def are_built(self, session: SqlSession) -> bool:
        """Return whether all indexes are there; SchemaChanged for a third definition (R14)."""
        found = shape_here(session, *self.target)
        if found == self.whole_shape:
            return True
        if self and found == self.bare_shape:
            return False
        raise self._changed()

    def require_whole(self, session: SqlSession) -> None:
        """Raise SchemaChanged unless all indexes are there (R14); one query, fast under a lock."""
        if digest_of(read_shape(session, *self.target), self.target[1]) != self.whole_shape:
            raise self._changed()

    def _changed(self) -> SchemaChanged:
        return SchemaChanged(
            f"another session changed the definition of {self.table}, the new table",
            hint="see what was changed, then start the migration again: it starts from the"
            " beginning",
        )

    def drop(self, session: SqlSession) -> None:
        """Drop the indexes; of a table with rows only once the record has both definitions."""
        if not self.are_built(session):
            return
        with as_stored(session):
            session.execute(drop_sql(self.target, self.names))
        self.note_altered(session)
        points.reach("index.dropped")

    def note_altered(self, session: SqlSession) -> None:
        """Store the new table's proof again: our ALTER gave it another CREATE TIME."""
        renew_proofs(session, *self.source)
        self.are_built(session)


def named_indexes(names: list[str]) -> str:
    """Return names for a message, a long list cut short."""
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


@dataclass(frozen=True, kw_only=True)
class IndexPlan:
    """What is done with the secondary indexes of one table.

    ``deferred`` may be dropped ``at_once``, before the copy, or in its middle (``may_fall``); once
    ``left_out``, they are dropped and the record has both definitions. ``kept``: names of
    those that something keeps from being deferred.
    """

    deferred: DeferredIndexes
    at_once: bool = False
    may_fall: bool = False
    left_out: bool = False
    kept: tuple[str, ...] = ()
    why: str = ""

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
    """Decide for each table of a new migration, and drop what is deferred; before the copy."""
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
    """Return an earlier run's decisions; decide where it deferred nothing."""
    plans = []
    for context, mapping in zip(contexts, mappings, strict=True):
        building = read_proofs(session, context.schema, context.table).building
        drop_building(session, context.schema, context.table, building)
        progress = record.of(mapping.source.schema, mapping.source.name)
        clauses = _deferred_clauses(run, session, context, mapping, progress)
        deferred = replace(
            nothing_deferred(mapping, progress.target_shape),
            bare_shape=progress.bare_shape,
            indexes=clauses,
        )
        plan = IndexPlan(deferred=deferred, left_out=bool(deferred), why="as the earlier run chose")
        if not plan.left_out and not progress.copied:
            plan = plan_indexes(run, session, context, mapping)
        plans.append(plan)
    return tuple(plans)


def plan_indexes(
    run: Run, session: SqlSession, context: PreflightContext, mapping: TableMapping
) -> IndexPlan:
    """Decide for one table, and report it; the new table is whole and has no rows yet."""
    plan = _plan(run, session, context, mapping)
    table = mapping.source.full_name
    what = f"indexes of {table}"
    kind, text = "during_copy", f"{what} are kept up to date by the copy"
    if plan.at_once:
        kind, text = "after_copy", f"{what} that are built after the copy: {plan.deferred}"
    elif plan.may_fall:
        kind, text = "if_slow", f"{text}, unless it becomes much slower"
    run.note(IndexesLaidDown(f"{text} ({plan.why})"))
    if plan.deferred or run.config.defer_indexes == "on":
        names = plan.deferred.names
        run.tell(IndexesPlanned(table=table, indexes=names, plan=kind, reason=plan.why, said=text))
    if plan.kept:
        kept = list(plan.kept)
        listed = named_indexes(kept)
        run.tell(IndexesKept(table=table, indexes=kept, reason=plan.why, listed=listed))
    return plan


def _deferred_clauses(
    run: Run,
    session: SqlSession,
    context: PreflightContext,
    mapping: TableMapping,
    progress: TableProgress,
) -> tuple[tuple[str, str], ...]:
    """Return name and definition of the indexes left out; the server has the latter (R26)."""
    if not progress.deferred:
        return ()
    made = mapping.target
    if digest_of(shape_of(made), made.name) != progress.target_shape:
        building = read_proofs(session, context.schema, context.table).building
        if not is_building_name(context.table, building):
            building = building_name(context.table, secrets.token_hex(3))
        with run.session("alter", native=True) as native:
            made = NewTable(session, native, context.source, context.statement).definition(
                building=building
            )
    found = index_clauses(made)
    if missing := [name for name in progress.deferred if name not in found]:
        raise Refusal(
            f"the checkpoint of {progress} says that the indexes {', '.join(missing)} are to be"
            " built, and the statement makes none of that name",
            hint="spirit-py cleanup drops what is left; then start the migration again",
            error_code=ErrorCode.CHECKPOINT_UNREADABLE,
        )
    return tuple((name, found[name]) for name in found if name in progress.deferred)


def nothing_deferred(mapping: TableMapping, whole_shape: str) -> DeferredIndexes:
    """Return no deferred indexes of a table, whose new one has this definition."""
    source, target = ((one.schema, one.name) for one in (mapping.source, mapping.target))
    return DeferredIndexes(source=source, target=target, whole_shape=whole_shape)


def _plan(
    run: Run, session: SqlSession, context: PreflightContext, mapping: TableMapping
) -> IndexPlan:
    target = mapping.target
    nothing = nothing_deferred(mapping, digest_of(shape_of(target), target.name))
    found = deferral(session, run.config.defer_indexes, context.facts, mapping)
    if not found.clauses:
        return IndexPlan(deferred=nothing, kept=found.kept, why=found.why)
    probe = read_proofs(session, *nothing.source).building
    refused = why_not_deferred(session, nothing.target, found.clauses, probe=probe)
    if refused:
        return IndexPlan(deferred=nothing, kept=tuple(found.clauses), why=refused)
    bare = digest_of(without_indexes(shape_of(target), found.clauses), target.name)
    deferred = replace(nothing, bare_shape=bare, indexes=tuple(found.clauses.items()))
    return IndexPlan(
        deferred=deferred, at_once=found.at_once, may_fall=found.may_fall, why=found.why
    )
