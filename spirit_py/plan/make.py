"""Read the server and fill the plan."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.model import not_brought_back
from spirit_py.checkpoint.decision import Afresh, Refuse, Resume
from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault, ValueLost
from spirit_py.estimates import likely_sizes
from spirit_py.mysql.connect import connect, connect_first, evaluate_with
from spirit_py.mysql.duplicates import search_room
from spirit_py.mysql.endpoint import require_one_server
from spirit_py.mysql.evaluation import choose_modes, evaluation_settings
from spirit_py.mysql.tables.definition import shape_of
from spirit_py.pace import FIRST_TASKS
from spirit_py.phases import Phase
from spirit_py.plan import earlier_run
from spirit_py.plan.columns import (
    clauses_of,
    columns_of,
    indexes_of,
    key_of,
    method_of,
    values_gone,
)
from spirit_py.plan.definition import LOCK_WAIT, Tried, refused_keys, tried_definition
from spirit_py.plan.environment import attached_to, locks_of, pace_of, replicas_of, space_of
from spirit_py.plan.findings import Remarks, note_checks, note_surroundings, timed
from spirit_py.plan.model import Definition, Method, Note, Plan, SizePlan, TablePlan, TimePlan
from spirit_py.plan.sample import Sampler, native_time, time_of
from spirit_py.preflight.checks.kept_rows import kept_share, with_margin
from spirit_py.preflight.checks.other_writers import require_own_rehearsal
from spirit_py.preflight.checks.syntax import syntax
from spirit_py.preflight.clauses import as_begun, made_by_server
from spirit_py.preflight.preflight import mapping_of, prepare
from spirit_py.preflight.registry import CheckScope, findings_of
from spirit_py.statement.index_definitions import without_indexes
from spirit_py.table.build import NO_REVERT, losses_of, no_way_back, way_back
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.checkpoint.decision import Decision
    from spirit_py.checkpoint.earlier_run import Found
    from spirit_py.checkpoint.record import CheckpointRecord
    from spirit_py.config import MigrationConfig
    from spirit_py.mysql.session import Session
    from spirit_py.plan.model import Algorithm, EarlierRun, IndexesPlan
    from spirit_py.plan.sample import Carried
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema

Contexts = tuple["PreflightContext", ...]
#: The phases of a record whose deferred indexes are built.
_BUILT: Final = {Phase.DRAIN, Phase.ANALYZE, Phase.CHECKSUM, Phase.SENTINEL, Phase.CUTOVER}
_UNREAD: Final = "the new definition: the server cannot read the statement"
_LOGGED: Final = (
    "the new definition: binlog_format=STATEMENT logs the temporary table that tries it"
)


def make_plan(config: MigrationConfig, *, sample: bool = True) -> Plan:
    """Return the plan of a migration; write nothing; raise Refusal without a usable server."""
    stop = StopSwitch()
    with connect_first(config.connection, role="plan", lock_wait_timeout=LOCK_WAIT) as session:
        require_one_server(session, config.connection)
        noted = Remarks()
        try:
            contexts = prepare(session, config)
        except Refusal as refusal:
            return Plan(server=config.connection.address, refusals=(Remarks.of_error(refusal),))
        settings = evaluation_settings(contexts[0].facts)
        evaluate_with(session, settings)
        config = replace(config, connection=replace(config.connection, settings=settings))
        contexts = timed(session, contexts, stop)
        left: Found | None = None
        decision: Decision = Afresh()
        with noted.refusing():
            if there := [context for context in contexts if context.found is not None]:
                if config.connection.unlogged:
                    require_own_rehearsal(session, [(one.schema, one.table) for one in there])
                left, decision = earlier_run.examine_and_decide(session, config, there)
        if isinstance(decision, Resume):
            contexts = as_begun(contexts)
        note_checks(session, config, contexts, decision, noted)
        sampling = stop if sample else None
        maker = PlanMaker(session, config, contexts, decision, noted, sampling=sampling, left=left)
        return maker.plan()


def brief_plan(
    config: MigrationConfig, contexts: Contexts, decision: Decision, warnings: Sequence[str]
) -> Plan:
    """Return the plan of a migration that begins now, without what reads rows.

    It has its own session: a temporary table of the migration's would hide a real one.
    """
    noted = Remarks(warnings=[Note(cause=text) for text in warnings])
    with connect(config.connection, role="plan", lock_wait_timeout=LOCK_WAIT) as session:
        return PlanMaker(session, config, contexts, decision, noted, brief=True).plan()


@dataclass
class PlanMaker:
    """Makes a plan of what was found; what a move does otherwise is in methods of their own.

    ``statement`` is what a running one's is compared with, by default that of the contexts.
    """

    session: Session
    config: MigrationConfig
    contexts: Contexts
    decision: Decision
    noted: Remarks
    sampling: StopSwitch | None = None
    left: Found | None = None
    brief: bool = False
    statement: str = ""

    def __post_init__(self) -> None:
        self._facts = self.contexts[0].facts
        self.contexts = tuple(one for one in self.contexts if one.found is not None)
        self._refused_before = bool(self.noted.refused())
        self._running: EarlierRun | None = None
        self._limits = (*self.config.max_load, *self.config.critical_load)
        self._targets: dict[tuple[str, str], TableSchema] = {}

    def plan(self) -> Plan:
        """Return the plan."""
        if not self.brief:
            self._running = self.running()
            for one in self.contexts:
                self.noted.warnings += earlier_run.kept_by_others(
                    self.session, (one.schema, one.table)
                )
        tables = tuple(self._tables())
        earlier = earlier_run.earlier_run(self.decision, start_afresh=self.config.start_afresh)
        if self._running is not None:
            self.noted.refusals.append(earlier_run.note_of(self._running))
        elif kept := self._kept_from_dry_run():
            self.noted.refusals.append(Remarks.of_error(kept))
        else:
            self.noted.refusals += earlier_run.refusals_of(self.decision, earlier)
        copied = any(one.method.algorithm in {"copy", "unknown"} for one in tables)
        copies = copied and not self.brief
        note_surroundings(self.session, self.config, self.noted, copies=copies)
        deferred = any(one.indexes is not None and one.indexes.deferred for one in tables)
        return Plan(
            server=self.config.connection.address,
            version=self._facts.version,
            together=len(self.contexts) > 1,
            tables=tables,
            earlier=self._running or earlier,
            replicas=self.replicas(copied=copied, deferred=deferred),
            pace=tuple(pace_of(self.config)) if copied else (),
            warnings=tuple(dict.fromkeys(self.noted.warnings)),
            refusals=self.noted.refused(),
        )

    def running(self) -> EarlierRun | None:
        """Return the run that works on one of the tables now."""
        return earlier_run.running_run(self.session, self.contexts, self.statement)

    def replicas(self, *, copied: bool, deferred: bool) -> tuple[str, ...]:
        """Return what replicates, and what it will meet."""
        return replicas_of(self.session, self.config, copied=copied, deferred=deferred)

    def method(self, context: PreflightContext, target: TableSchema | None) -> Method:
        """Return how a table is changed."""
        return self.going_on() or method_of(context, target, len(self.contexts))

    def _kept_from_dry_run(self) -> Refusal | None:
        if not self.config.dry_run or self.left is None or isinstance(self.decision, Refuse):
            return None
        return earlier_run.why_not_dropped(self.left, self.decision)

    def _tables(self) -> Iterator[TablePlan]:
        if not self.contexts:
            return
        options = self.config.connection
        with connect(options, role="plan", native=True, lock_wait_timeout=LOCK_WAIT) as native:
            choose_modes(native, self._facts)
            for context in self.contexts:
                yield self._table(context, native)
        if self._targets and not self.brief:
            with self.noted.refusing():
                self.noted.refusals += refused_keys(self.session, self.contexts, self._targets)

    def _table(self, context: PreflightContext, native: Session) -> TablePlan:
        source = context.source
        data, index = likely_sizes(source)
        plain = TablePlan(
            schema=source.schema,
            table=source.name,
            statement=context.statement.sql,
            method=self.method(context, None),
            size=SizePlan(
                rows=source.estimated_rows,
                data_bytes=data,
                index_bytes=index,
                computed=data != source.data_bytes,
            ),
        )
        if isinstance(self.decision, Resume) and self.decision.cleanup:
            return plain
        unread = _UNREAD if not self.brief and any(syntax(context)) else ""
        if self._facts.text("binlog_format").upper() == "STATEMENT":
            unread = _LOGGED
        if unread:
            return replace(plain, definition=Definition(old=shape_of(source), unknown=(unread,)))
        if made_by_server([context]) is not None:
            return replace(
                plain,
                definition=Definition(old=shape_of(source)),
                locks=locks_of(context, None, copied=False, known=True, deferred=False),
                time=self._time(plain, None, None, ""),
            )
        with tried_definition(self.session, native, source, context.statement) as tried:
            made = Definition(old=shape_of(source), new=tried.new, unknown=tried.unknown)
            return self._tried(context, replace(plain, definition=made), tried)

    def going_on(self) -> Method | None:
        """Return how an earlier run goes on; None where it does not."""
        if not isinstance(self.decision, Resume):
            return None
        why = f"an earlier run is resumed: {self.decision.reason}"
        if self._running is not None:
            why = earlier_run.working(self._running.running)
        algorithm: Algorithm = "cleanup" if self.decision.cleanup else "copy"
        return Method(algorithm=algorithm, certain=True, why=why)

    def _tried(self, context: PreflightContext, plain: TablePlan, tried: Tried) -> TablePlan:
        if tried.refusal is not None and not self.brief:
            self.noted.refusals.append(Remarks.of_error(tried.refusal, plain.name))
        mapping: TableMapping | None = None
        if tried.target is not None:
            plain = replace(plain, method=self.method(context, tried.target))
            mapping = self._mapped(context, plain, tried.target, tried.new)
        copied = plain.method.algorithm in {"copy", "unknown"}
        key, indexes, search = None, None, 0
        if copied and mapping is not None:
            key = key_of(mapping)
            indexes = indexes_of(self.session, self.config, self._facts, mapping)
            if isinstance(self.decision, Afresh):
                search = search_room(self.session, mapping)
        columns = columns_of(mapping) if mapping is not None else ()
        if plain.method.algorithm in {"instant", "inplace", "native"} and not self.brief:
            self.noted.warnings += values_gone(columns, context.source)
        if self.sampling is not None and plain.method.algorithm == "native":
            time = native_time(self.session, context.source, self.sampling, self._limits)
        else:
            time = self._time(plain, mapping, indexes, tried.create)
        if mapping is not None and mapping.keep is not None:
            kept, folder = self.config.modes.keep, self.config.archive_to
            plain = replace(plain, keeps=kept, kept_share=kept_share(context), archive_to=folder)
        plain = replace(plain, columns=columns, key=key, indexes=indexes, time=time)
        return self.surrounded(context, plain, mapping, search)

    def surrounded(
        self,
        context: PreflightContext,
        plain: TablePlan,
        mapping: TableMapping | None,
        search: int,
    ) -> TablePlan:
        """Return a table's plan with what is attached to it, locks and room."""
        copied, indexes = plain.method.algorithm in {"copy", "unknown"}, plain.indexes
        return replace(
            plain,
            attached=attached_to(self.session, context, copied=copied),
            locks=locks_of(
                context,
                mapping,
                copied=copied,
                known=plain.method.certain,
                deferred=bool(indexes and indexes.deferred),
            ),
            space=space_of(
                context,
                mapping,
                indexes,
                search=search,
                share=with_margin(plain.kept_share),
            )
            if copied
            else None,
        )

    def _mapped(
        self, context: PreflightContext, plain: TablePlan, target: TableSchema, definition: str
    ) -> TableMapping | None:
        mapping: TableMapping | None = None
        copied, afresh = plain.method.algorithm == "copy", isinstance(self.decision, Afresh)
        told = copied and not self.brief
        # In place the server needs no mapping, and the migration says what it refuses itself.
        with self.noted.refusing(plain.name) if told else contextlib.suppress(Refusal):
            mapping = mapping_of(context, target)
        if copied and afresh:
            self._targets[context.schema, context.table] = target
        if told and mapping is not None:
            if afresh:
                with self.noted.refusing(plain.name):
                    self.check(context, mapping, definition)
            with self.noted.refusing(plain.name):
                self.note_way_back(context, mapping, plain.name)
        return mapping

    def note_way_back(self, context: PreflightContext, mapping: TableMapping, name: str) -> None:
        """Note why the old table could not be followed, or what it loses."""
        asked = self.config.keep_old_current > 0
        if not (asked or self.config.drop_old_after):
            return
        try:
            facts = context.facts
            zone, now = facts.time_zone, facts.null_is_now
            _, back = way_back(mapping, context.statement, zone, null_is_now=now)
        except Refusal as refusal:
            if asked:
                raise
            cause = f"{NO_REVERT}: {no_way_back(refusal)}"
            self.noted.warnings.append(Note(cause=cause, table=name))
            return
        keys = not_brought_back(mapping.source, context.statement)
        losses = [*losses_of(back, name), *keys] if asked else ()
        self.noted.warnings += [Note(cause=line, table=name) for line in losses]

    def check(self, context: PreflightContext, mapping: TableMapping, definition: str) -> None:
        """Note what the checks of a new definition find."""
        whole = replace(mapping, target=replace(mapping.target, create_sql=definition))
        found = findings_of([replace(context, made=whole)], CheckScope.AFTER_CREATE)
        if self._refused_before:
            # The migration ends before these checks: one that fails now tells its consequence.
            found = tuple(one for one in found if one.code is not ErrorCode.SERVER_ERROR)
        self.noted.add(found, f"{context.schema}.{context.table}")

    def _time(
        self,
        plain: TablePlan,
        mapping: TableMapping | None,
        indexes: IndexesPlan | None,
        create: str,
    ) -> TimePlan:
        if plain.method.algorithm in {"instant", "inplace"}:
            how = "the server changes only metadata"
            return TimePlan(seconds=1.0, least=0.0, most=3.0, how=how)
        if self.sampling is None or mapping is None:
            return TimePlan(how="no sample was taken")
        if self.noted.refused():
            return TimePlan(how="no sample is taken for a change that is refused")
        records, name = self.records(), (mapping.source.schema, mapping.source.name)
        begun = [one for record in records for one in record.everywhere if one.name == name]
        if begun and indexes is not None:
            built = all(record.phase in _BUILT for record in records)
            indexes = replace(indexes, deferred=() if built else begun[0].deferred)
        try:
            sample = Sampler(
                self.config.connection,
                mapping,
                without_indexes(create, clauses_of(mapping, indexes)),
                sessions=min(FIRST_TASKS, self.config.threads),
                stop=self.sampling,
                limits=self._limits,
                carried=self.carried(mapping),
            ).take()
        except ValueLost as lost:
            self.noted.refusals.append(Remarks.of_error(lost, plain.name))
            return TimePlan(how="no time is estimated for a copy that would fail")
        except ServerFault as fault:
            return TimePlan(how=f"not measured: {fault.message}")
        return time_of(
            self.whole(mapping),
            indexes,
            sample,
            before=sum(one.rows_copied for one in begun),
            compared=any(one.checked_up_to for one in begun),
        )

    def records(self) -> list[CheckpointRecord]:
        """Return the records of the runs that are resumed."""
        return [self.decision.record] if isinstance(self.decision, Resume) else []

    def carried(self, _: TableMapping) -> Carried | None:
        """Return how rows reach another server; None where they stay on it."""
        return None

    def whole(self, mapping: TableMapping) -> TableMapping:
        """Return the mapping with the sizes of all that is copied."""
        return mapping
