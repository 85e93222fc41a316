"""Read and check each table of a batch before anything is written: what it will do."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from spirit_py.batch.changes import (
    changes_of,
    left_out,
    refuse_statements,
    require_left_out,
    schemas_of,
)
from spirit_py.batch.plan import ACTIONS, BatchPlan, PlannedTable, UsualDefinitions
from spirit_py.batch.report import refused_again
from spirit_py.batch.store import TableState, batch_name, find_batch, refuse_others
from spirit_py.batch.trial import Step, is_back, is_begun, refused_in_trial, step_for, trial_session
from spirit_py.checkpoint.decision import Afresh, GiveUp, Refuse
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.command_config import FleetOrders
from spirit_py.errors import FeedFailure, MigrationFailure, Refusal, ServerFault
from spirit_py.estimates import index_bytes, likely_sizes
from spirit_py.locks.named import NO_RUN_OF_OURS, named_lock_holder
from spirit_py.mysql.connect import connect_first
from spirit_py.mysql.endpoint import require_one_server
from spirit_py.mysql.evaluation import under_modes
from spirit_py.mysql.facts import read_facts, require_mysql
from spirit_py.mysql.faults import INTERRUPTED, server_away
from spirit_py.mysql.processlist import whose
from spirit_py.mysql.tables.definition import shape_of
from spirit_py.plan import Plan, make_plan
from spirit_py.plan.columns import method_of
from spirit_py.plan.definition import tried_definition
from spirit_py.plan.earlier_run import examine_and_decide
from spirit_py.plan.model import Note
from spirit_py.plan.text import how_changed
from spirit_py.preflight.checks.attached import relatives
from spirit_py.preflight.checks.disk_space import (
    adds_indexes,
    free_bytes,
    free_for_binlog,
    written_before,
)
from spirit_py.preflight.checks.kept_rows import share_written
from spirit_py.preflight.preflight import check_before_create, prepare
from spirit_py.sql import quote_table
from spirit_py.statement import alter_of
from spirit_py.table.names import lock_name
from spirit_py.units import counted, human_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spirit_py.batch.changes import Selection, TableChange
    from spirit_py.batch.store import BatchTable, TableRecord
    from spirit_py.command_config import BatchConfig
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.errors import SpiritError
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.mysql.session import Session
    from spirit_py.plan.model import Method
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.names import Name

_LEFT_OUT: Final = "--exclude matches no table of this server"
_UNMATCHED: Final = "the pattern matches no table that is not left out"
_BACK: Final = (
    "an earlier run has changed it, and it has its old definition again, as after spirit-py revert:"
    " it counts as done; to change it again takes a command for it alone"
)


def plan_batch(config: BatchConfig) -> BatchPlan:
    """Read and check all tables; write nothing. The plan has the tables that are refused.

    What refuses the whole is a MigrationFailure after an earlier run has begun a table.
    """
    connection = config.each.connection
    with connect_first(connection, role="plan") as session:
        require_one_server(session, connection)
        facts = read_facts(session)
        require_mysql(facts)
        sql_mode = under_modes(session, facts, config.each.modes).sql_mode
        chosen = changes_of(session, config, sql_mode)
        name = _name(config, chosen.named, sql_mode)
        schemas = schemas_of(session, config, chosen.named)
        table = None if config.each.dry_run else find_batch(session, name, schemas)
        if table is not None:
            table.require_server(session, facts.uuid)
        earlier = None if table is None else table.tables(session)
        begun = BatchPlan(
            name=name,
            server_uuid=facts.uuid,
            tables=(),
            earlier=earlier,
            written=any(
                one.state != TableState.PENDING or is_begun(session, one)
                for one in (earlier or {}).values()
            ),
            mysql=facts.version,
            orders=FleetOrders() if table is None or not config.fleet else table.orders(session),
            home="" if config.each.dry_run else _home(table, chosen.named),
        )
        try:
            return _with_tables(session, config, facts, chosen, begun)
        except Refusal as refusal:
            raise refused_again(refusal, written=begun.written) from refusal


def _with_tables(
    session: Session, config: BatchConfig, facts: ServerFacts, chosen: Selection, begun: BatchPlan
) -> BatchPlan:
    """Return a plan with its tables; Refusal for what is refused as a whole."""
    again = begun.earlier is not None and bool(chosen.changes)
    # A table of an earlier run may be gone since: then the rest is carried on.
    gone = {} if again else {change.place: why for change, why in chosen.gone}
    faults = chosen.faults | gone
    if chosen.unmatched and not again:
        raise next(iter(chosen.unmatched.values()))
    claims: list[str] = []
    if not faults:
        claims = refuse_others(session, begun.name, {change.name for change in chosen.changes})
    with trial_session(config.each) as trials:
        planner = _Planner(session, trials, config, begun.earlier or {})
        if not faults:
            _, nothing = left_out(session, config.exclude, config.each.database)
            # A fleet has servers with other tables.
            if config.excludes_surely and not config.fleet and not again:
                require_left_out(nothing)
            if nothing:
                planner.warnings[_LEFT_OUT] = [one.given for one in nothing]
            if chosen.unmatched:
                planner.warnings[_UNMATCHED] = [*chosen.unmatched]
        tables = planner.tables(chosen.changes)
    for one in tables if faults else ():
        if one.refusals:
            lines = (line.removeprefix("hint: ") for line in one.refusals)
            faults[one.change.place] = "; ".join(lines)
    if faults:
        refuse_statements(config.file, faults)
    planned = replace(begun, tables=tables, warnings=planner.warnings, claims=tuple(claims))
    sizes = [one.to_write for one in planned.left if one.copied]
    return replace(planned, room=room_for(sizes, config, facts))


def _name(config: BatchConfig, changes: list[TableChange], sql_mode: str) -> str:
    """Return the name of the batch; ``--exclude`` and the order of statements do not count."""
    modes = filter(None, (config.each.modes.options, config.each.modes.keep))
    if config.patterns:
        # Whatever the schema of the first table, which may be another one the next time.
        of = alter_of("", "", config.each.alter, sql_mode=sql_mode).normalized
        of = of.removeprefix(f"ALTER TABLE {quote_table('', '')}")
        return batch_name("tables", (config.each.database, of, *config.patterns, *modes))
    return batch_name("statements", (*(change.normalized for change in changes), *modes))


def _home(table: BatchTable | None, changes: list[TableChange]) -> str:
    return min((one.schema for one in changes), default="") if table is None else table.name[0]


def _told(error: SpiritError) -> tuple[str, ...]:
    hint = f"hint: {error.hint}" if error.hint else ""
    return tuple(line for line in (error.message, *error.details, hint) if line)


@dataclass
class _Planner:
    session: Session
    trials: Session
    config: BatchConfig
    earlier: Mapping[Name, TableRecord]

    def __post_init__(self) -> None:
        self._definitions = UsualDefinitions()
        self.warnings: dict[str, list[str]] = {}

    def tables(self, changes: list[TableChange]) -> tuple[PlannedTable, ...]:
        planned = [self._planned(change) for change in changes]
        differences = self._definitions.differences
        return tuple(replace(one, differs=differences(one.change)) for one in planned)

    def _planned(self, change: TableChange) -> PlannedTable:
        earlier = self.earlier.get(change.name)
        if earlier is not None and is_back(self.session, earlier):
            self.warnings.setdefault(_BACK, []).append(str(change))
        if earlier is not None and earlier.state == TableState.DONE:
            return PlannedTable(change=change, done=True, action="done by an earlier run")
        try:
            return self._checked(change)
        except Refusal as refusal:
            return PlannedTable(change=change, refusals=_told(refusal), code=refusal.error_code)
        except (ServerFault, FeedFailure) as fault:
            # These are about no table; a lock that is waited for in vain is.
            if server_away(fault) or getattr(fault, "code", 0) == INTERRUPTED:
                raise
            return PlannedTable(change=change, refusals=_told(fault))

    def _checked(self, change: TableChange) -> PlannedTable:
        config = change.config(self.config.each)
        earlier = self.earlier.get(change.name)
        begun = earlier is not None and earlier.state != TableState.PENDING
        holder = named_lock_holder(self.session, lock_name("migration", *change.name))
        if holder is not None:
            raise Refusal(
                f"another migration of {change} is running ({whose(self.session, holder)})",
                hint=f"wait for it to end, or stop it; {NO_RUN_OF_OURS.format(holder)}",
                error_code=ErrorCode.ALREADY_RUNNING,
            )
        if earlier is not None and begun:
            step = step_for(self.session, earlier, once=change.once)
            # Its definition may be the new one, to which the checks do not apply.
            if step is not Step.MIGRATE:
                return PlannedTable(change=change, action=ACTIONS[step])
        contexts = prepare(self.session, config)
        source = contexts[0].source
        action, copied, shape = "", True, shape_of(source)
        # Its checks were made when it began, and do not expect tables that are half copied.
        if left := CheckpointTable(*change.name).is_ours(self.session):
            action, copied = what_becomes_of_it(self.session, config, contexts)
        else:
            for finding in check_before_create(contexts):
                remedy = f" ({finding.remedy})" if finding.remedy else ""
                self.warnings.setdefault(f"{finding.cause}{remedy}", []).append(str(change))
            parsed = contexts[0].statement.parsed
            refusal = refused_in_trial(self.trials, change.name, shape, change.clauses, parsed)
            if refusal is not None:
                raise refusal
            self._definitions.add(change, shape)
            method = self._method(contexts[0])
            action, copied = how_changed(method), method.algorithm in {"copy", "unknown"}
        data, index = likely_sizes(source)
        if copied and adds_indexes(contexts[0].statement):
            index = self._with_new_indexes(contexts[0], index)
        written, share = written_before(contexts[0]), share_written(contexts[0]) if copied else 0.0
        rows, indexes = (
            max(0, round(size * share) - there)
            for size, there in zip((data, index), written, strict=True)
        )
        return PlannedTable(
            change=change,
            action=action,
            copied=copied,
            begun=left,
            rows=source.estimated_rows,
            data_bytes=data,
            index_bytes=index,
            to_write=(rows, indexes),
            shape=shape,
        )

    def _with_new_indexes(self, context: PreflightContext, known: int) -> int:
        """Return the bytes of a table's indexes with those that its statement adds."""
        table = context.source, context.statement
        with tried_definition(self.session, self.trials, *table) as tried:
            if (target := tried.target) is None:
                return known
            there = {one.name for one in context.source.indexes}
            added = [one for one in target.indexes if one.name not in there]
            return known + sum(index_bytes(target, one, context.source) for one in added)

    def _method(self, context: PreflightContext) -> Method:
        """Return how a table will be changed, by what its statement makes of an empty one."""
        method = method_of(context, None, 1)
        if method.algorithm != "unknown":
            return method
        table = context.source, context.statement
        with tried_definition(self.session, self.trials, *table) as tried:
            return method_of(context, tried.target, 1)


def room_for(
    sizes: Sequence[tuple[int, int]], config: BatchConfig, facts: ServerFacts
) -> tuple[str, ...]:
    """Return what is known of the disk, if it is needed; Refusal where it is known to be too small.

    Old tables are dropped one after another, so only the largest ones of those side by side exist
    at a time, or all where they are kept. ``sizes`` are bytes of rows and of indexes.
    """
    if not sizes:
        return ()
    at_once = len(sizes) if math.isinf(config.each.drop_old_after) else config.parallel
    copies = sum(sorted((sum(size) for size in sizes), reverse=True)[:at_once])
    logs = facts.is_on("log_bin") and not config.each.connection.unlogged
    binlog = sum(data for data, _ in sizes) if logs else 0
    needed = f"{human_bytes(copies)} at a time for new tables, {human_bytes(binlog)} of binlog"
    free = free_bytes(facts)
    if free is None:
        return (f"room: up to {needed}; the server's free space cannot be seen from here",)
    if free < copies:
        raise Refusal(
            f"the server has {human_bytes(free)} free where the new tables need"
            f" {human_bytes(copies)} at a time",
            hint="free disk space, use a smaller --parallel, or let old tables be dropped",
            error_code=ErrorCode.NO_DISK_SPACE,
        )
    apart = free_for_binlog(facts)
    short = free < copies + binlog if apart is None else apart < binlog
    warning = "; not enough if the server keeps all of the binlog" if short else ""
    return (f"room: up to {needed}; {human_bytes(free)} are free{warning}",)


def what_becomes_of_it(
    session: SqlSession, config: MigrationConfig, contexts: Sequence[PreflightContext]
) -> tuple[str, bool]:
    """Return what is done with an earlier run's work, and whether that copies rows.

    Refusal where the operator must decide.
    """
    _, decision = examine_and_decide(session, config, contexts)
    if isinstance(decision, Refuse):
        raise Refusal(decision.reason, hint=decision.hint, error_code=decision.code)
    if isinstance(decision, GiveUp):
        # The table's own turn drops what is left of it: the next run finds nothing.
        return f"given up: {decision.reason}", True
    if isinstance(decision, Afresh):
        if decision.throws_away and not config.start_afresh:
            raise Refusal(
                f"an unfinished migration would be dropped: {decision.reason}",
                hint=f"to resume it: {decision.instead}; to drop it: --start-afresh",
                error_code=ErrorCode.CANNOT_RESUME,
            )
        return f"copied afresh: {decision.reason}" if decision.reason else "copied", True
    return f"resumed: {decision.reason}", not decision.cleanup


def plan_of_batch(
    config: BatchConfig, *, sample: bool = True, planned: BatchPlan | None = None
) -> Plan:
    """Return the plan of a batch; write nothing. May raise Refusal or ServerFault."""
    try:
        batch = planned or plan_batch(config)
    except MigrationFailure as failure:
        # Whoever plans alone asks whether it can be made, whatever an earlier run did.
        if isinstance(failure.__cause__, Refusal):
            raise failure.__cause__ from None
        raise
    made = [
        (planned, make_plan(planned.change.config(config.each), sample=sample))
        for planned in batch.tables
        if not (planned.done or planned.passed)
    ]
    if any(planned.begun for planned, _ in made):
        # What is begun comes first, and is finished when the relatives' turn comes.
        made = [(planned, _without(relatives.__name__, plan)) for planned, plan in made]
    plans = [plan for _, plan in made]
    causes = Counter((note.cause, note.remedy) for plan in plans for note in plan.refusals)
    refusals = (
        replace(note, table=note.table or str(planned.change))
        if causes[note.cause, note.remedy] < len(plans) or len(plans) == 1
        else note
        for planned, plan in made
        for note in plan.refusals
    )
    known = {note.cause for plan in plans for note in plan.refusals}
    first = plans[0] if plans else Plan(server=config.each.connection.address)
    warnings: dict[tuple[str, str], Note] = {}
    for note in (note for plan in plans for note in plan.warnings):
        warnings.setdefault((note.cause, note.remedy), note)
    left = (one.earlier for one in plans if one.earlier.action != "none")
    return replace(
        first,
        together=False,
        earlier=next(left, first.earlier),
        tables=tuple(
            replace(one, differs=planned.differs) for planned, plan in made for one in plan.tables
        ),
        replicas=tuple(dict.fromkeys(line for plan in plans for line in plan.replicas)),
        pace=tuple(dict.fromkeys(line for plan in plans for line in plan.pace)),
        warnings=tuple(warnings.values()),
        refusals=(*dict.fromkeys(refusals), *_of_batch(batch, known)),
        batch=tuple(_lines(batch)),
    )


def _without(check: str, plan: Plan) -> Plan:
    return replace(plan, refusals=tuple(one for one in plan.refusals if one.check != check))


def _of_batch(batch: BatchPlan, known: set[str]) -> Iterator[Note]:
    for planned in batch.refused:
        cause = planned.refusals[0]
        if not any(cause == one or one in planned.refusals for one in known) and not (
            cause.endswith("nothing was written") and known
        ):
            remedy = next((x for x in planned.refusals if x.startswith("hint: ")), "")
            yield Note(cause=cause, remedy=remedy.removeprefix("hint: "), table=str(planned.change))


def _lines(batch: BatchPlan) -> Iterator[str]:
    done = [str(one.change) for one in batch.tables if one.done or one.passed]
    if batch.earlier is not None:
        yield "this command goes on with a batch that an earlier run has not finished"
    if done:
        yield f"{counted(len(done), 'table')} done by an earlier run: {', '.join(done)}"
    yield from batch.left_out()
    yield from batch.room
    yield from batch.kept_in()
