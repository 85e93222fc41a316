"""The plan of a move: all servers are read, and nothing is written (docs/plan.md)."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint.decision import Afresh, Resume
from spirit_py.checkpoint.record import CheckpointRecord
from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.copier.chunk_sql import source_range
from spirit_py.errors import Refusal
from spirit_py.estimates import likely_sizes
from spirit_py.move.carrier import rows_in, write_over
from spirit_py.move.checks import found_between, on_source, parted
from spirit_py.move.decision import rows_copied
from spirit_py.move.move import between, require_aligned
from spirit_py.move.opening import (
    decided,
    excluded_nothing,
    opened_by,
    read_servers,
    require_no_other,
    require_rights,
)
from spirit_py.move.remains import statement_of_move, told_sources, told_targets
from spirit_py.move.run import MoveRun, set_apart
from spirit_py.move.shards import facing
from spirit_py.mysql.connect import connect, connect_first
from spirit_py.mysql.evaluation import choose_modes
from spirit_py.plan.definition import tried_definition
from spirit_py.plan.earlier_run import goes_on, running_run
from spirit_py.plan.environment import locks_of, replicas_of, space_of
from spirit_py.plan.findings import Remarks
from spirit_py.plan.make import PlanMaker
from spirit_py.plan.model import Method, Plan, SizePlan, WayPlan
from spirit_py.plan.sample import Carried
from spirit_py.preflight.check import warn
from spirit_py.preflight.checks.kept_rows import kept_share, with_margin
from spirit_py.preflight.preflight import mapping_of
from spirit_py.preflight.registry import CheckScope, findings_of
from spirit_py.spark.engine import SparkEngine
from spirit_py.status.reporters import Reporters
from spirit_py.table.names import AuxiliaryNames
from spirit_py.threads import StopSwitch
from spirit_py.throttle.option_checks import require_throttlers
from spirit_py.units import diff_of, human_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.chunk.chunk import Chunk
    from spirit_py.config import MoveConfig
    from spirit_py.move.decision import Decision
    from spirit_py.move.run import Opened
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.mysql.session import Session
    from spirit_py.plan.model import EarlierRun, TablePlan
    from spirit_py.preflight.check import Finding, PreflightContext
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema

_LOCK_WAIT: Final = 1
#: Of a definition, what only the source's server shows, or only the target's.
_OTHER: Final = {"removed": "-", "added": "+"}
_SHOWN_LINES: Final = 6


def plan_move(config: MoveConfig, *, stop: StopSwitch | None = None, sample: bool = True) -> Plan:
    """Return the plan of a move; write nothing; raise Refusal where a server is not usable."""
    stop, noted = stop or StopSwitch(), Remarks()
    run = MoveRun(config, Reporters([]), engine_factory=SparkEngine, stop=stop)
    opening = partial(connect_first, role="plan", lock_wait_timeout=_LOCK_WAIT)
    with contextlib.ExitStack() as stack:
        ours = [stack.enter_context(opening(one)) for one in config.origins]
        theirs = [stack.enter_context(opening(one, target=True)) for one in config.targets]
        try:
            facts, found = read_servers(run, ours, theirs)
            noted.add(excluded_nothing(ours, config))
            require_rights(run, opened_by(run, ours, found), theirs)
        except Refusal as refusal:
            return Plan(server=config.connection.address, refusals=(Remarks.of_error(refusal),))
        run.evaluate_as(found[0][0].facts, (*ours, *theirs))
        opened, facts = opened_by(run, ours, found), facts[len(ours) :]
        decision: Decision = Afresh()
        with noted.refusing():
            opened, decision = decided(run, opened, theirs, plans=True)
            require_no_other(config, opened)
        if goes_on(decision):
            _note_checks(run, opened, theirs, facts, noted)
        targets, sources = told_targets(config, theirs), told_sources(config, ours)
        return _MovePlanner(
            ours[0],
            run.config,
            opened[0].contexts,
            decision,
            noted,
            sampling=stop if sample else None,
            statement=statement_of_move(targets, sources, config, opened[0].contexts),
            run=run,
            opened=opened,
            theirs=theirs,
            facts=facts,
        ).plan()


def _note_checks(
    run: MoveRun,
    opened: Sequence[Opened],
    theirs: Sequence[Session],
    facts: Sequence[ServerFacts],
    noted: Remarks,
) -> None:
    with noted.refusing():
        noted.add(found_between(run, opened, theirs, facts))
    for one in opened:
        contexts = parted(run, one)
        _note(noted, one, findings_of(contexts, CheckScope.SERVER))
        for context in contexts:
            if context.found is not None:
                with noted.refusing(context.source.full_name):
                    found = findings_of([context], CheckScope.SOURCE)
                    _note(noted, one, found, context.source.full_name)
    with noted.refusing():
        require_throttlers(run.config, opened[0].session)


def _note(noted: Remarks, one: Opened, found: Sequence[Finding], table: str = "") -> None:
    noted.add([replace(each, cause=on_source(one, each.cause)) for each in found], table)


@dataclass(kw_only=True)
class _MovePlanner(PlanMaker):
    run: MoveRun
    opened: Sequence[Opened]
    theirs: Sequence[Session]
    facts: Sequence[ServerFacts]

    @property
    def _servers(self) -> list[tuple[Session, str]]:
        """All servers by their addresses."""
        options = (*self.run.config.origins, *self.run.config.targets)
        sessions = (*(one.session for one in self.opened), *self.theirs)
        return [(one, each.address) for one, each in zip(sessions, options, strict=True)]

    def plan(self) -> Plan:
        """Return the plan."""
        made = super().plan()
        copied = sum(rows_copied(one.found) for one in self.opened)
        if copied and made.earlier.running is None:
            made = replace(made, earlier=replace(made.earlier, rows_copied=copied))
        return replace(made, switch=tuple(self._switch()))

    def running(self) -> EarlierRun | None:
        """Return the run that works on one of the tables on any of the servers now."""
        looked_at = (
            running_run(session, self.contexts, self.statement) for session, _ in self._servers
        )
        return next(filter(None, looked_at), None)

    def replicas(self, *, copied: bool, deferred: bool) -> tuple[str, ...]:
        """Return what replicates from each server."""
        return tuple(
            f"of {address}: {line}"
            for session, address in self._servers
            for line in replicas_of(session, self.run.config, copied=copied, deferred=deferred)
        )

    def method(self, _: PreflightContext, _target: TableSchema | None) -> Method:
        """Return that the table is copied, or already moved."""
        return self.going_on() or Method(
            algorithm="copy", certain=True, why="it goes to another server"
        )

    def note_way_back(self, context: PreflightContext, mapping: TableMapping, name: str) -> None:
        """Note what a table that is left on the source loses, where it is to follow the target."""
        if self.run.config.keep_old_current:
            super().note_way_back(context, mapping, name)

    def check(self, context: PreflightContext, mapping: TableMapping, definition: str) -> None:
        """Note what the checks of a new definition find, for each way."""
        asked: list[Session] = []
        for way, one, there in self._ways():
            with self.noted.refusing(context.source.full_name):
                # All sources have the same definition, or are refused.
                (faced,) = facing([replace(context, session=one.session)], way.config)
                if there not in asked:
                    asked.append(there)
                    self._try_there(way, there, faced, definition)
                apart = mapping_of(faced, mapping.target)
                super().check(faced, apart, definition)
                set_apart(way, there, faced, apart)
                require_aligned([apart])

    def _try_there(
        self, way: MoveRun, there: Session, context: PreflightContext, definition: str
    ) -> None:
        """Refuse a target whose server does not take the new definition, such as an older one."""
        options, source = way.config.there, context.source
        with connect(options, role="plan", native=True, lock_wait_timeout=_LOCK_WAIT) as native:
            choose_modes(native, context.facts, apart=True)
            with tried_definition(there, native, source, context.statement) as tried:
                made = tried
        if (refusal := made.refusal) is not None:
            raise Refusal(
                f"on the target {options.address}: {refusal.message}",
                hint=refusal.hint,
                error_code=refusal.error_code,
            )
        if made.target is None:
            raise Refusal(
                f"the server of the target {options.address} does not take the table:"
                f" {'; '.join(made.unknown)}",
                hint="make it fit with --alter, or move to a server of the source's version",
                error_code=ErrorCode.DEFINITION_REFUSED,
            )
        lines = [line for line in diff_of(definition, made.new) if line.mark in _OTHER]
        if lines:
            shown = [f"{_OTHER[line.mark]} {line.text.strip()}" for line in lines[:_SHOWN_LINES]]
            said = f"the server of the target {options.address} shows the new definition otherwise"
            self.noted.add([replace(warn(said), details=tuple(shown))], source.full_name)

    def carried(self, mapping: TableMapping) -> Carried:
        """Return how rows reach the first target, and are judged by --shard-by."""
        (context,) = (one for one in parted(self.run, self.opened[0]) if _is_of(one, mapping))
        apart = replace(mapping, apart=True)
        judged = mapping_of(context, mapping.target) if self.run.config.shard_by else None
        packet = int(self.theirs[0].value("SELECT @@SESSION.max_allowed_packet"))

        def copy(session: Session, own: Session, chunk: Chunk) -> int:
            if judged is not None:
                session.query(f"SELECT COUNT(*) FROM {source_range(judged, chunk)}")
            number = 0
            for before, rows in rows_in(session, apart, chunk):
                write_over(own, apart, rows, packet)
                number = before + len(rows)
            return number

        return Carried(there=self.run.config.targets[0], copy=copy)

    def whole(self, mapping: TableMapping) -> TableMapping:
        """Return the mapping with the sizes of all sources."""
        (context,) = (one for one in self.opened[0].contexts if _is_of(one, mapping))
        sources = [self._of(one, context).source for one in self.opened]
        sizes = {name: sum(getattr(one, name) for one in sources) for name in _SIZES}
        return replace(mapping, source=replace(mapping.source, **sizes))

    def records(self) -> list[CheckpointRecord]:
        """Return the records on all sources of a move that is resumed."""
        resumed = isinstance(self.decision, Resume)
        found = (one.found.record for one in self.opened if resumed)
        return [one for one in found if isinstance(one, CheckpointRecord)]

    def surrounded(
        self,
        context: PreflightContext,
        plain: TablePlan,
        mapping: TableMapping | None,
        _search: int,
    ) -> TablePlan:
        """Return a table's plan with where its rows go, and the locks of the switch."""
        snapshot, swap = locks_of(context, mapping, copied=True, known=True, deferred=False)
        servers = " and ".join(address for _, address in self._servers)
        held = "tens of milliseconds: the last changes are applied, and the tables renamed"
        if self.run.config.on_switch:
            longest = human_seconds(self.run.config.switch_timeout)
            held += f"; then until the command of --on-switch has ended, {longest} at most"
        on = f"{context.source.full_name} and its new tables, on {servers}: LOCK TABLES WRITE"
        ways = tuple(
            self._way(way, self._of(one, context), mapping, self.facts[self.theirs.index(there)])
            for way, one, there in self._ways()
        )
        sizes = [plain.size]
        for one in self.opened[1:]:
            found = self._of(one, context).source
            data, index = likely_sizes(found)
            sizes.append(SizePlan(rows=found.estimated_rows, data_bytes=data, index_bytes=index))
        return replace(
            plain,
            ways=ways,
            size=SizePlan(
                rows=sum(one.rows for one in sizes),
                data_bytes=sum(one.data_bytes for one in sizes),
                index_bytes=sum(one.index_bytes for one in sizes),
                computed=plain.size.computed,
            ),
            locks=(snapshot, replace(swap, name="switch", on=on, held=held)),
        )

    def _ways(self) -> list[tuple[MoveRun, Opened, Session]]:
        return between(self.run, self.opened, self.theirs)

    @staticmethod
    def _of(one: Opened, context: PreflightContext) -> PreflightContext:
        """Return the same table on another source; that of the first where it has none."""
        name = (context.schema, context.table)
        found = (each for each in one.contexts if (each.schema, each.table) == name and each.found)
        return next(found, context)

    @staticmethod
    def _way(
        way: MoveRun, own: PreflightContext, mapping: TableMapping | None, there: ServerFacts
    ) -> WayPlan:
        config, source = way.config, own.source
        share = kept_share(facing([own], config)[0]) if config.shards else None
        rows = None if config.shards else source.estimated_rows
        return WayPlan(
            source=config.connection.address,
            target=config.there.address,
            name=config.shard,
            rows=int(source.estimated_rows * share) if share is not None else rows,
            share=share,
            space=space_of(own, mapping, None, search=0, share=with_margin(share), there=there),
        )

    def _switch(self) -> Iterator[str]:
        config = self.run.config
        if isinstance(self.decision, Resume) and self.decision.cleanup:
            yield "made by an earlier run; what follows it is carried on"
            return
        if not self.contexts:
            return
        if config.dry_run:
            yield "none: a rehearsal drops what it made (--dry-run)"
            return
        sources = " and ".join(one.address for one in config.origins)
        targets = " and ".join(one.address for one in config.targets)
        named = [(one, AuxiliaryNames.of(one.table)) for one in self.contexts]
        new = ", ".join(f"{one.schema}.{name.new} TO {one.table}" for one, name in named)
        moved = ", ".join(f"{one.schema}.{one.table} TO {name.moved}" for one, name in named)
        yield f"on {targets}: RENAME TABLE {new}"
        yield f"on {sources}: RENAME TABLE {moved}; this decides"
        if config.on_switch:
            yield "the command of --on-switch runs; its failure takes both back"
        else:
            yield "no command runs (--on-switch): clients of the source get error 1146 until you"
            yield "send them to the target"
        left = ", ".join(f"{one.schema}.{name.moved}" for one, name in named)
        yield f"leaves {left} on {sources}, {self._left()}"

    def _left(self) -> str:
        config = self.run.config
        if config.keep_old_current:
            kept = human_seconds(config.keep_old_current)
            return f"which follows the target for {kept}, for spirit-py revert"
        if config.drop_old_after == float("inf"):
            return "until spirit-py cleanup --drop-old"
        return f"for {human_seconds(config.drop_old_after)}"


_SIZES: Final = ("estimated_rows", "data_bytes", "index_bytes", "file_bytes", "files")


def _is_of(context: PreflightContext, mapping: TableMapping) -> bool:
    return (context.schema, context.table) == (mapping.source.schema, mapping.source.name)
