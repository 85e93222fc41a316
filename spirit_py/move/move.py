"""What a move does, phase by phase; copy, comparison and swap are those of a migration."""

from __future__ import annotations

import contextlib
import signal
from functools import partial
from typing import TYPE_CHECKING

from spirit_py.checkpoint.decision import Afresh, Resume
from spirit_py.checkpoint.examination import members
from spirit_py.checkpoint.proofs import shape_digest
from spirit_py.checkpoint.record import CheckpointRecord, MoveNote, ReverseRecord
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.checkpoint.writer import (
    create_checkpoint_tables,
    first_record,
    renewed,
    with_new_tables,
)
from spirit_py.checksum.query import ComparisonPlan
from spirit_py.classes import replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import (
    Interrupted,
    MigrationFailure,
    OutcomeUnknown,
    Refusal,
    ServerFault,
    SpiritError,
)
from spirit_py.events.swap import AuxiliaryDropped
from spirit_py.migration import auxiliary
from spirit_py.migration.control.listener import begin_control
from spirit_py.migration.facts import Concluded, PlainFact
from spirit_py.migration.indexes.plan import IndexPlan, nothing_deferred
from spirit_py.migration.migration import NewTables, ReadServer, compared_under, copy_and_swap
from spirit_py.migration.opening import begin_engines, evaluated_at, require_accepted
from spirit_py.migration.run import run_to_its_end
from spirit_py.migration.throttling import traffic_now
from spirit_py.move.across import Across, finish_switch, plan_back
from spirit_py.move.opening import open_move
from spirit_py.move.remains import look, statement_of_move, told_sources, told_targets
from spirit_py.move.renames import note_move
from spirit_py.move.run import (
    MoveRun,
    Opened,
    create_there,
    drop_all,
    mapped_there,
    note_of_move,
    take_over,
    try_to_drop_all,
    what_became,
)
from spirit_py.move.shards import facing, with_shards
from spirit_py.mysql.faults import connection_refusal
from spirit_py.phases import Phase
from spirit_py.preflight.checks.kept_rows import evaluated_under, judged_by, require_judged_alike
from spirit_py.spark.engine import SparkEngine
from spirit_py.status.reporters import Reporters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spirit_py.config import MigrationConfig, MoveConfig
    from spirit_py.contracts import Reporter
    from spirit_py.events.event import Gate
    from spirit_py.migration.opening import Contexts
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.spark.gang import GangEngine
    from spirit_py.status.report import MigrationReport
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.names import Name
    from spirit_py.threads import StopSwitch


def run_move(run: MoveRun) -> None:
    """Run all phases; on return or SpiritError all parts are closed and cleaned up."""
    with run.stack:
        _run_phases(run)
        run.go_on_to(Phase.DONE)
    run.note(Concluded("rehearsed" if run.config.dry_run else "done"))


def _run_phases(run: MoveRun) -> None:
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(front.first_session("driver")) for front in run.fronts()]
        theirs = [stack.enter_context(_first_there(way)) for way in run.backs()]
        opened, decision = open_move(run, sessions, theirs)
        if isinstance(decision, Resume) and decision.cleanup:
            finish_switch(run, decision.record)
            return
        begun = [one.record for one in opened] if isinstance(decision, Resume) else []
        others = [] if begun else _left_besides(run, opened, theirs)
        if isinstance(decision, Afresh) and decision.throws_away:
            for way, one, there in between(run, opened, theirs):
                trial = partial(way.session, "trial", native=True, there=True)
                require_accepted(trial, there, facing(one.contexts, way.config))
            run.stack.push(auxiliary.refuse_no_more)
        if not begun:
            auxiliary.await_definitions(run, *sessions, *theirs)
            drop_all(run, [*_names(opened[0].contexts), *others])
            for name in others:
                said = f"dropped what the earlier run of {'.'.join(name)} left"
                run.tell(AuxiliaryDropped(said=f"{said}, which was to move in the same run"))
        new = _new_tables(run, opened, theirs, begun)
        tables = _names(opened[0].contexts)
    try:
        copy_and_swap(run, new)
    except MigrationFailure as failure:
        if not run.may_be_swapped and (cause := what_became(run, tables)):
            run.stop.explain(cause)
            raise cause from failure
        raise


def _names(contexts: Contexts) -> list[Name]:
    return [(context.schema, context.table) for context in contexts]


def _left_besides(run: MoveRun, opened: Sequence[Opened], theirs: Sequence[Session]) -> list[Name]:
    """Return the other tables of the records that are replaced, locked: their copies go, too.

    Not where a table may be in use on a target: that one is warned of.
    """
    records = [(one.session, one.found.record) for one in opened]
    found = {
        name
        for session, record in records
        if isinstance(record, CheckpointRecord)
        for name in members(session, record)
    }
    others = sorted(found.difference(_names(opened[0].contexts)))
    if not others:
        return []
    run.lock_tables_from_other_runs(others)
    seen = [table for one in opened for table in look(one.session, theirs, one.run, others).tables]
    kept = {one.name for one in seen if one.arrived or one.has_gone or one.brought_from}
    for name in sorted(kept):
        run.warn(
            f"what the earlier run of {'.'.join(name)} left is kept: see which server the"
            " application uses for it, then spirit-py cleanup drops it, on all servers"
        )
    return [name for name in others if name not in kept]


def _first_there(run: MoveRun) -> Session:
    try:
        return run.session("driver", there=True)
    except ServerFault as fault:
        raise connection_refusal(fault, run.config.there) from fault


def _new_tables(
    run: MoveRun,
    opened: Sequence[Opened],
    theirs: Sequence[Session],
    begun: Sequence[CheckpointRecord],
) -> NewTables:
    """Make the new tables, or take them over from the run whose records ``begun`` are."""
    home = opened[0]
    begin_engines(run, home.contexts)
    traffic = traffic_now(home.session)
    tables = _names(home.contexts)
    if not begun:
        run.enter(Phase.CREATE)
    leave = partial(auxiliary.leave, run, tables, taken_over=bool(begun), drop=try_to_drop_all)
    run.stack.push(leave)
    if begun:
        _resumed(run, opened, theirs)
    else:
        # Its first tables are made on all servers: none may wait for a backup then.
        auxiliary.await_definitions(run, *(one.session for one in opened), *theirs)
    records = list(begun) or _first_records(run, opened, theirs)
    # One moment for all: that of the first source's record.
    begin = records[0].started_at
    ways = [
        (way, replace(one, contexts=facing(evaluated_at(one.contexts, begin), way.config)), there)
        for way, one, there in between(run, opened, theirs)
    ]
    mappings: dict[str, list[TableMapping]] = {}
    for way, one, there in ways:
        made = [
            take_over(way, there, context) if begun else _made_there(way, there, context, mappings)
            for context in one.contexts
        ]
        if not begun:
            require_aligned(made)
        mappings[way.config.shard] = made
    contexts = tuple(context for _, one, _ in ways for context in one.contexts)
    mapped = tuple(mapping for made in mappings.values() for mapping in made)
    if begun:
        for record in records:
            require_judged_alike(contexts, mapped, record.judged)
    noted = [
        _noted(run, one, record, mappings) for one, record in zip(opened, records, strict=True)
    ]
    judged, evaluated = judged_by(contexts, mapped), evaluated_under(contexts, mapped)
    records = [
        replace(
            compared_under(run, record, evaluated) if begun else record,
            judged=judged,
            evaluated=evaluated,
        )
        for record in noted
    ]
    plans = tuple(
        IndexPlan(deferred=nothing_deferred(one, shape_digest(one.target))) for one in mapped
    )
    reverse = plan_back(run, contexts, mapped)
    return NewTables(
        contexts,
        mapped,
        records[0],
        plans,
        traffic,
        reverse,
        Across(mappings, reverse),
        tuple(ReadServer(one.run, record) for one, record in zip(opened, records, strict=True)),
    )


def between(
    run: MoveRun, opened: Sequence[Opened], theirs: Sequence[Session]
) -> list[tuple[MoveRun, Opened, Session]]:
    """Return each way, with the source and the session of the target that it is between."""
    if run.config.sources:
        return [(way, one, theirs[0]) for way, one in zip(run.ways(), opened, strict=True)]
    return [(way, opened[0], there) for way, there in zip(run.ways(), theirs, strict=True)]


def _first_records(
    run: MoveRun, opened: Sequence[Opened], theirs: Sequence[Session]
) -> list[CheckpointRecord]:
    """Write the records of a move that begins, the first source's first: it leads to the others."""
    config, targets = run.config, told_targets(run.config, theirs)
    sources = told_sources(config, [one.session for one in opened])
    records: list[CheckpointRecord] = []
    for one in opened:
        statement = statement_of_move(targets, sources, config, one.contexts)
        tables = dict(zip(_names(one.contexts), (c.source for c in one.contexts), strict=True))
        facts = one.contexts[0].facts
        record = first_record(one.session, statement, tables, facts, config)
        names = [one.run.config.shard] if config.sources else [w.config.shard for w in run.ways()]
        record = with_shards(record, names)
        create_checkpoint_tables(one.session, record)
        note = MoveNote(target=targets) if one is opened[0] else note_of_move(config, targets)
        CheckpointTable(*record.home).write(one.session, note)
        records.append(record)
    begin_control(run, opened[0].session, records[0], run.fronts())
    return records


def _resumed(run: MoveRun, opened: Sequence[Opened], theirs: Sequence[Session]) -> None:
    note = note_of_move(run.config, told_targets(run.config, theirs))
    for one in opened[1:]:
        # The addresses may be other ones now, and status shows them there.
        CheckpointTable(*one.record.home).write(one.session, note)
    for one in opened:
        # What a switch that was taken back may have left: there is no way back from here.
        CheckpointTable(*one.record.home).forget(one.session, ReverseRecord)
    home = opened[0]
    if home.found.note is not None and home.found.note.away:
        note_move(home.session, [table.name for table in home.record.tables], away=False)
    run.note(PlainFact.RECORD_STAYS)


def _noted(
    run: MoveRun,
    one: Opened,
    record: CheckpointRecord,
    mappings: Mapping[str, Sequence[TableMapping]],
) -> CheckpointRecord:
    """Return the record of a source that a run goes on with, with what was made."""
    if record.position:
        return renewed(record, one.contexts[0].facts, run.config.swap_choices)
    for shard, made in mappings.items():
        new = {(each.source.schema, each.source.name): each.target for each in made}
        if not run.config.sources or shard == one.run.config.shard:
            record = with_new_tables(record, new, shard)
    return record


def _made_there(
    way: MoveRun,
    there: Session,
    context: PreflightContext,
    made: Mapping[str, Sequence[TableMapping]],
) -> TableMapping:
    """Create a new table, but where it was made with that of another source; see create_there."""
    for mapping in next(iter(made.values()), ()) if way.config.sources else ():
        if (mapping.source.schema, mapping.source.name) == (context.schema, context.table):
            return mapped_there(way, there, context, mapping.target)
    return create_there(way, there, context)


def require_aligned(mappings: Iterable[TableMapping]) -> None:
    """Refuse a key that the target orders otherwise: ranges of it cannot be compared there."""
    for mapping in mappings:
        if not ComparisonPlan(mapping=mapping).aligned:
            raise Refusal(
                f"the key of {mapping.source.full_name} would be ordered differently on the target",
                hint="change its type or collation on the target, after the move",
                error_code=ErrorCode.NOT_COMPARABLE,
            )


def move(
    config: MoveConfig,
    *,
    reporter: Reporter,
    engine_factory: Callable[[MigrationConfig], GangEngine] = SparkEngine,
    stop: StopSwitch | None = None,
    gate: Gate | None = None,
) -> MigrationReport:
    """Move tables to another server, and write the report to the file of ``config.records``.

    As :func:`spirit_py.migration.entry.migrate`. Raises SpiritError with the exit code of the
    process (R16).
    """
    reporter = Reporters([reporter])
    run = MoveRun(config, reporter, engine_factory=engine_factory, stop=stop, gate=gate)
    return run_to_its_end(
        run, reporter, "move", lambda: run_move(run), left_at_once=lambda: _left_at_once(run)
    )


def _left_at_once(run: MoveRun) -> SpiritError:
    if run.renaming:
        return OutcomeUnknown(
            "interrupted twice during the switch: it may or may not have happened",
            hint="the same command looks at both servers, and goes on from what it finds",
        )
    how = ": it resumes from the last checkpoint" if run.state.resumable else ""
    intact = f"the source's tables are intact; run the same command again{how}"
    return Interrupted(signal.SIGINT, hint=run.done_hint or intact)
