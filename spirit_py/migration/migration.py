"""What a migration does, phase by phase (:mod:`spirit_py.phases` has the legal transitions)."""

from __future__ import annotations

import contextlib
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spirit_py.applier.applier import SqlApplier
from spirit_py.checkpoint.decision import Afresh, Resume
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.checkpoint.writer import (
    as_written,
    first_record,
    note_choices,
    renewed,
    with_new_tables,
)
from spirit_py.classes import dataclass, field, replace
from spirit_py.copier.task import JoinCopy
from spirit_py.errors import HeldBack
from spirit_py.events.copy import ChecksumRestarted, FeedBegun
from spirit_py.events.swap import CutoverHeldBack
from spirit_py.migration import auxiliary
from spirit_py.migration.archive import archive_old_tables, require_archived, require_folders
from spirit_py.migration.checkpoints import Checkpoints
from spirit_py.migration.control.listener import begin_control
from spirit_py.migration.copied_pair import follow
from spirit_py.migration.doubts import relieved
from spirit_py.migration.facts import Concluded, IndexBuildPlanned, PlainFact
from spirit_py.migration.indexes.build import build_indexes, dropping_when_slow
from spirit_py.migration.indexes.plan import begin_without_indexes, carry_on_with_indexes
from spirit_py.migration.opening import (
    Contexts,
    begin_engines,
    evaluated_at,
    open_migration,
    require_accepted,
    warn_of_dropped,
)
from spirit_py.migration.pair import open_feed
from spirit_py.migration.rehearsal import begin_rehearsal, note_rehearsal
from spirit_py.migration.reverse.keeper import Keeper
from spirit_py.migration.reverse.phase import (
    WayBack,
    begin_reverse,
    carry_on_reverse,
    plan_way_back,
    run_reverse,
)
from spirit_py.migration.shortcuts import change_in_place, require_not_begun
from spirit_py.migration.swap.deferral import Deferral
from spirit_py.migration.swap.old_tables import after_change, note_swap, settle_old_tables
from spirit_py.migration.swap.same_tables import FORWARD
from spirit_py.migration.swap.swap import plan_swap, swap_in_new_tables
from spirit_py.migration.throttling import begin_throttling, end_throttling, traffic_now
from spirit_py.mysql.duplicates import may_be_null, refuse_null_keys
from spirit_py.mysql.faults import takes_no_writes
from spirit_py.pace import Work, await_turn
from spirit_py.phases import Phase
from spirit_py.plan.earlier_run import statement_of
from spirit_py.preflight.checks.kept_rows import evaluated_under, judged_by, require_judged_alike
from spirit_py.preflight.clauses import copy_is_certain, made_once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spirit_py.checkpoint.record import CheckpointRecord, ReverseRecord
    from spirit_py.cutover.plan import CutoverResult, SwapGate
    from spirit_py.migration.copied_pair import CopiedPair
    from spirit_py.migration.indexes.plan import IndexPlan
    from spirit_py.migration.run import Run
    from spirit_py.migration.swap.same_tables import Direction
    from spirit_py.migration.throttling import SeenTraffic
    from spirit_py.mysql.session import Session
    from spirit_py.statement import AlterStatement
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.names import Name

R = TypeVar("R", bound="Run")


class OneServer(Generic[R]):
    """How rows and changes get into new tables, and these into their places: on one server."""

    direction: Direction = FORWARD

    def facing(self, run: R, _mapping: TableMapping) -> R:
        """Return the run as it faces the server of a new table."""
        return run

    def applier(self, _run: R) -> Callable[..., SqlApplier]:
        """Return what makes the applier, by the arguments of its class."""
        return SqlApplier

    def joins(self, _run: R) -> Callable[..., JoinCopy]:
        """Return what makes what opens the sessions of a task of the copy."""
        return JoinCopy

    def swap(
        self,
        run: R,
        pairs: Sequence[CopiedPair],
        altered: Mapping[Name, AlterStatement],
        gate: SwapGate,
        _checkpoints: Sequence[Checkpoints],
    ) -> Callable[[], CutoverResult]:
        """Return what swaps the tables; it may be called again after :class:`HeldBack`."""
        return partial(swap_in_new_tables, run, plan_swap(run, pairs, altered, gate))

    def fronts(self, run: R) -> Sequence[R]:
        """Return the run as it faces each server that has old tables."""
        return [run]

    def keeper(self, run: R, record: ReverseRecord) -> Keeper:
        """Return what lets the old tables follow."""
        return Keeper(run, record, stays=run.config.drop_old_after > 0)

    def settle(self, run: R, tables: Sequence[Name]) -> None:
        """Do what is left beside the old tables, once nothing follows any more."""

    def way_back(self, run: R, table: Name) -> WayBack | None:
        """Return what swaps back while the old tables are kept, and nothing follows."""
        return WayBack.of(run, table)


@dataclass(frozen=True)
class ReadServer:
    """A server whose tables are copied and followed: its run, and the record there."""

    run: Run
    record: CheckpointRecord


@dataclass(frozen=True)
class NewTables:
    """What is copied, once the new tables exist, and the ``way`` there.

    ``record`` has a position where an earlier run is resumed; ``traffic`` is what other sessions
    did before the tables were made. ``sources``: where there are several, each with its record, of
    which the first is ``record``.
    """

    contexts: Contexts
    mappings: tuple[TableMapping, ...]
    record: CheckpointRecord
    plans: tuple[IndexPlan, ...]
    traffic: SeenTraffic
    reverse: ReverseRecord | None
    way: OneServer[Any] = field(default_factory=OneServer)
    sources: tuple[ReadServer, ...] = ()

    def servers(self, run: Run) -> tuple[ReadServer, ...]:
        """Return each server that is read."""
        return self.sources or (ReadServer(run, self.record),)


def run_migration(run: Run) -> None:
    """Run all phases; on return or SpiritError all parts are closed and cleaned up."""
    with run.stack:
        _run_phases(run)
        run.go_on_to(Phase.DONE)
    run.note(Concluded("rehearsed" if run.config.dry_run else "done"))


def _run_phases(run: Run) -> None:
    new: NewTables | None = None
    with run.first_session("driver") as session:
        contexts, decision = open_migration(run, session)
        if isinstance(decision, Afresh):
            new = _begin(run, session, contexts, decision)
        elif not decision.cleanup:
            new = _resume(run, session, contexts, decision.record)
    if new is not None:
        copy_and_swap(run, new)
    elif isinstance(decision, Resume):
        _finish(run, decision.record)


def _begin(run: Run, session: Session, contexts: Contexts, decision: Afresh) -> NewTables | None:
    """Change the tables in place, or create the new ones; None when nothing is left to do."""
    abandoned = decision.abandoned
    require_not_begun(session, contexts, abandoned)
    run.enter(Phase.SHORTCUT)
    sources = {(context.schema, context.table): context.source for context in contexts}
    facts = contexts[0].facts
    record = first_record(session, statement_of(contexts), sources, facts, run.config)
    given = {(context.schema, context.table): context.statement for context in contexts}
    record = replace(record, written=as_written(given))
    # Wrong Spark settings and a missing Java are refused before anything is written.
    if abandoned is not None or copy_is_certain(contexts):
        begin_engines(run, contexts)
    require_folders(run, list(sources))
    if decision.throws_away:
        require_accepted(partial(run.session, "trial", native=True), session, contexts)
        run.stack.push(auxiliary.refuse_no_more)
    # What leads to their other tables goes with the record.
    orphaned = [one for one in decision.lost if one.home in sources and one != abandoned]
    left = (abandoned, *orphaned)
    auxiliary.await_definitions(run, session)
    # What it may have made is known by its record alone, which stays until the next one.
    known = (abandoned.statement, abandoned.position) if abandoned is not None else None
    noted = made_once(contexts) and known == (record.statement, "")
    auxiliary.clear_abandoned(run, session, list(sources), left, still_deferred=True, noted=noted)
    warn_of_dropped(run, left)
    guarded = cache(partial(auxiliary.guard, run, record))
    marked = cache(partial(auxiliary.mark, session, record, guarded, there=noted))

    @cache
    def listen() -> None:
        marked()
        begin_control(run, session, record)

    if change_in_place(run, session, contexts, marked, listen, earlier=abandoned):
        if not run.config.dry_run:
            run.note(PlainFact.TABLES_CHANGED)
        return None
    begin_engines(run, contexts)
    run.enter(Phase.CREATE)
    traffic = traffic_now(session)
    auxiliary.await_definitions(run, session)
    # Operators reach the run from now on; before, where a change in place has to wait.
    listen()
    contexts = evaluated_at(contexts, record.started_at)
    mappings = auxiliary.create_new_tables(run, session, contexts)
    targets = {(one.source.schema, one.source.name): one.target for one in mappings}
    plans = begin_without_indexes(run, session, contexts, mappings)
    record = replace(
        with_new_tables(record, targets),
        judged=judged_by(contexts, mappings),
        evaluated=evaluated_under(contexts, mappings),
    )
    reverse = plan_way_back(run, contexts, mappings)
    return NewTables(contexts, mappings, record, plans, traffic, reverse)


def _resume(run: Run, session: Session, contexts: Contexts, record: CheckpointRecord) -> NewTables:
    begin_engines(run, contexts)
    require_folders(run, [(context.schema, context.table) for context in contexts])
    traffic = traffic_now(session)
    contexts = evaluated_at(contexts, record.started_at)
    mappings = auxiliary.take_over(run, session, contexts)
    require_judged_alike(contexts, mappings, record.judged)
    plans = carry_on_with_indexes(run, session, contexts, mappings, record)
    record = renewed(record, contexts[0].facts, run.config.swap_choices)
    record = compared_under(run, record, evaluated_under(contexts, mappings))
    reverse = plan_way_back(run, contexts, mappings)
    return NewTables(contexts, mappings, record, plans, traffic, reverse)


def compared_under(run: Run, record: CheckpointRecord, now: str) -> CheckpointRecord:
    """Forget what was compared where the server converts or computes values otherwise now."""
    if record.evaluated == now:
        return record
    why = "the server's time_zone, sql_mode or their like are others since"
    if not record.evaluated:
        why = "an earlier version has not noted under which settings values were converted"
    for table in record.everywhere:
        if table.checked_up_to:
            run.tell(ChecksumRestarted(table=str(table), reason=why))
    tables, shards = (
        tuple(replace(table, checked_up_to=()) for table in some)
        for some in (record.tables, record.shards)
    )
    return replace(record, tables=tables, shards=shards, evaluated=now)


def copy_and_swap(run: Run, new: NewTables) -> None:
    """Copy, compare and swap; then do what is left to do with the old tables."""
    run.note(IndexBuildPlanned(any(plan.left_out for plan in new.plans)))
    rehearsal = begin_rehearsal(run) if run.config.dry_run else None
    begin_throttling(run, CheckpointTable(*new.record.home), new.traffic)
    servers = new.servers(run)
    followed = [_follow(run, new, server) for server in servers]
    pairs = list(chain.from_iterable(followed))
    feeds = [own[0].feed for own in followed]
    for feed in feeds if len(feeds) > 1 else ():
        # A row that has changed its source waits until the other one's feed has deleted it.
        run.stack.enter_context(feed.flushed_often())
    checkpoints = [
        Checkpoints(server.run, server.record, own[0].feed, own)
        for server, own in zip(servers, followed, strict=True)
        if rehearsal is None
    ]
    run.figures.migrating(pairs)
    _copy(run, pairs, next(iter(checkpoints), None))
    run.enter(Phase.DRAIN)
    for feed in feeds:
        feed.end_watermark_optimization()
        feed.catch_up(run.show)
    run.enter(Phase.ANALYZE)
    for pair in pairs:
        await_turn(run.pace, Work.CHECKSUM, pause=run.stop.pause, show=run.show)
        pair.analyze()
    run.enter(Phase.CHECKSUM)
    relief = run.stack.enter_context(relieved(pair.doubts for pair in pairs))
    results = [pair.check() for pair in pairs]
    run.engines.rest()
    if rehearsal is not None:
        note_rehearsal(run, rehearsal, pairs, results)
    if not checkpoints:
        return
    with contextlib.ExitStack() as often:
        for feed in feeds:
            often.enter_context(feed.flushed_often())
        swapped = _swap(run, pairs, checkpoints, new)
    relief.stop()
    end_throttling(run)
    names = list(dict.fromkeys(pair.source_name for pair in pairs))
    for server in servers:
        note_swap(server.run, names)
    run.note(PlainFact.TABLES_CHANGED)
    reverted, follows = False, run.config.keep_old_current > 0
    if follows:
        run.go_on_to(Phase.KEEP)
    if new.reverse is not None:
        record = begin_reverse(run, new.reverse, swapped)
        checkpoints[0].note()
    for checkpoint, feed in zip(checkpoints, feeds, strict=True):
        checkpoint.end()
        feed.close()
    if new.reverse is not None and follows:
        reverted = run_reverse(run, record, new.way.keeper)
    new.way.settle(run, names)
    if not reverted:
        before = replace(new.record, position=swapped.position)
        _settle(run, names, before, names[0], new.way)


def _copy(run: Run, pairs: Sequence[CopiedPair], checkpoints: Checkpoints | None) -> None:
    run.enter(Phase.COPY)
    for pair in pairs:
        with dropping_when_slow(run, pair, checkpoints):
            pair.copy()
    if any(pair.deferred for pair in pairs):
        run.enter(Phase.INDEX)
        build_indexes(run, pairs)


def _follow(run: Run, new: NewTables, server: ReadServer) -> list[CopiedPair]:
    """Follow the tables of one server; the first changes are applied from then on."""
    facing = server.run
    feed, applier = open_feed(facing, run.stop, run.stack, made_by=new.way.applier(facing))
    if run.figures.throttles is not None:
        run.figures.throttles.govern(feed.knee)
    run.figures.following(feed, facing.config.connection.address)
    record = server.record if server.record.position else None
    planned = [
        (way, mapping, plan)
        for mapping, plan in zip(new.mappings, new.plans, strict=True)
        if (way := new.way.facing(run, mapping)).config.connection == facing.config.connection
    ]
    joins = new.way.joins(facing)
    pairs = [
        follow(way, mapping, feed, applier, record=record, plan=plan, joins=joins)
        for way, mapping, plan in planned
    ]
    for pair in pairs:
        pair.tables.begin(afresh=record is None)
    if record is None:
        feed.start()
        # A rebuild from before the feed's place is in no event that comes; nothing is copied yet.
        for pair in pairs:
            pair.tables.begin_again()
    else:
        feed.start_from_position(
            record.position, record.settled_at, pass_hidden=not run.config.no_repair
        )
        if feed.origin.started != record.origin.started:
            feed.distrust()
    for _, mapping, _ in planned:
        facing.step("definition", partial(auxiliary.require_unchanged, source=mapping.source))
        if may_be_null(mapping):
            facing.step("null keys", partial(refuse_null_keys, mapping=mapping))
    for pair in pairs:
        pair.tables.look()
    run.tell(FeedBegun(position=feed.position()))
    return pairs


def _swap(
    run: Run, pairs: Sequence[CopiedPair], checkpoints: Sequence[Checkpoints], new: NewTables
) -> CutoverResult:
    """Swap once no sentinel exists: one created by hand, or between two tries, counts too."""
    deferral = Deferral(run, pairs)
    made = run.config.defer_cutover and not (checkpoints[0].deferred or run.state.undeferred)
    if made:
        deferral.create()
    # The first one's counts here, and goes last: by then each source's own lets its run resume.
    for each in reversed(checkpoints):
        if (made or checkpoints[0].deferred) and not each.deferred:
            each.sentinel_created()
    altered = {(context.schema, context.table): context.statement for context in new.contexts}
    swap = new.way.swap(run, pairs, altered, deferral, checkpoints)
    while True:
        deferral.pass_when_free()
        for pair in pairs:
            if why := pair.prove():
                if run.state.phase is Phase.CUTOVER:
                    run.enter(Phase.CHECKSUM)
                pair.check(why=why)
        run.engines.rest()
        # A pause, or a window that has closed, between two tries leaves no phase.
        if run.state.phase is not Phase.CUTOVER:
            run.enter(Phase.CUTOVER)
        try:
            return swap()
        except HeldBack as held:
            run.tell(CutoverHeldBack(reason=str(held)))


def _finish(run: Run, record: CheckpointRecord) -> None:
    tables, way = [table.name for table in record.tables], OneServer["Run"]()
    with after_change(run.stop):
        note = partial(note_choices, record=record, choices=run.config.swap_choices)
        run.step("cleanup", note, passing=takes_no_writes)
    note_swap(run, tables)
    run.note(PlainFact.TABLES_CHANGED)
    with contextlib.ExitStack() as stack:
        with after_change(run.stop):
            session = stack.enter_context(run.session("keep"))
        reverted = carry_on_reverse(run, session, tables, way.keeper)
    if not reverted:
        _settle(run, tables, record, record.home, way)


def _settle(
    run: Run, tables: Sequence[Name], record: CheckpointRecord, home: Name, way: OneServer[Any]
) -> None:
    """Archive the old tables, and drop them when it is time."""
    archived = partial(require_archived, run, archive_old_tables(run, tables, record))
    back, fronts = partial(way.way_back, run, home), partial(way.fronts, run)
    settle_old_tables(run, tables, back, way.direction, fronts=fronts, before_drop=archived)
