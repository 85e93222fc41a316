"""Runs the migrations of a batch; tables related by foreign keys never at the same time."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import queue
import shlex
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeVar

from spirit_py.attached.foreign_keys.catalogue import child_and_parent_tables
from spirit_py.batch.plan import Slots, next_table
from spirit_py.batch.store import TableRecord, TableState, form_of
from spirit_py.batch.table_run import SharedSpark, TableRun
from spirit_py.batch.trial import (
    Step,
    drop_made_in_place,
    forms_of,
    is_begun,
    is_made_in_place,
    step_for,
)
from spirit_py.classes import InitVar, dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Interrupted, MigrationFailure, OutcomeUnknown, SpiritError
from spirit_py.events.event import Gate, teller
from spirit_py.events.run import Summary, TableEnded, TableSkipped, Warned
from spirit_py.locks.named import migration_lock
from spirit_py.mysql.connect import connect
from spirit_py.mysql.own_sessions import new_run
from spirit_py.mysql.retry import retrying
from spirit_py.mysql.tables.definition import read_shape
from spirit_py.progress import BatchStatus
from spirit_py.status.report import REVERTED
from spirit_py.threads import Background
from spirit_py.throttle.latency import Measures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spirit_py.batch.changes import TableChange
    from spirit_py.batch.plan import BatchPlan
    from spirit_py.batch.store import BatchTable
    from spirit_py.command_config import BatchConfig
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import Reporter, SqlSession
    from spirit_py.migration.run import Run
    from spirit_py.mysql.session import Session
    from spirit_py.spark.gang import GangEngine
    from spirit_py.status.report import MigrationReport
    from spirit_py.table.names import Name
    from spirit_py.threads import StopSwitch

T = TypeVar("T")
_log = logging.getLogger(__name__)

#: Tries of a note about a table.
_TRIES: Final = 8
_REVERTED: Final = (
    "spirit-py revert has put the old definition back; the same command makes the change again"
)
#: Between two looks whether a pause is over.
_LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class _Worker:
    run: TableRun
    thread: Background
    share: int


@dataclass(kw_only=True, eq=False)
class Batch:
    """The run of a batch. One thread, but for what it starts itself.

    ``store`` is None for a dry run; ``engine_factory`` makes Spark once for all tables; ``gate`` is
    as of :func:`spirit_py.migration.entry.migrate`. ``records`` are what became of each table, as
    far as it is known now.
    """

    config: BatchConfig
    plan: InitVar[BatchPlan]
    reporter: Reporter
    store: BatchTable | None
    records: dict[Name, TableRecord]
    engine_factory: InitVar[Callable[[MigrationConfig], GangEngine]]
    stop: StopSwitch
    gate: Gate | None = None

    def __post_init__(
        self, plan: BatchPlan, engine_factory: Callable[[MigrationConfig], GangEngine]
    ) -> None:
        self._tell = teller(self.reporter.event)
        self._spark = SharedSpark(engine_factory, self.config.each)
        self._measures = Measures()
        self._said = set(plan.warnings)
        self._slots = Slots(self.config.each.threads, self.config.parallel)
        # Those that are begun come first: the swap of a relative would end them (R14).
        left = sorted(plan.left, key=lambda one: not one.begun)
        self._waiting = {one.change.name: one.change for one in left}
        self._workers: dict[Name, _Worker] = {}
        self._related: dict[Name, frozenset[Name]] = {}
        self._ended: queue.SimpleQueue[Name] = queue.SimpleQueue()
        self._halted = self._held = False
        #: Why the record cannot be read or written, so that nobody knows what is to be done.
        self._record_lost: SpiritError | None = None
        self.ended = False
        self._began = time.monotonic()

    def run(self) -> None:
        """Run the migrations that are left; raise the reason of a stop when all have ended."""
        try:
            with self._session() as session:
                named = {name: change.other for name, change in self._waiting.items()}
                self._related = related_tables(session, named)
            while self._begin_all_that_may():
                with contextlib.suppress(queue.Empty):
                    self._end(self._ended.get(timeout=_LOOK_SECONDS if self._held else None))
        except BaseException as error:
            # They are not left to work unseen.
            self.stop.request(
                error if isinstance(error, SpiritError) else MigrationFailure(repr(error))
            )
            while self._workers:
                try:
                    self._end(self._ended.get())
                except Exception:
                    _log.exception("the end of a table could not be noted")
            raise
        finally:
            self._spark.stop()
            self.ended = True
        # The record of a batch that is done goes, so that it cannot be told from one to be resumed.
        if any(one.state != TableState.DONE for one in self.records.values()):
            self._check_stop()
        if self._record_lost is not None:
            raise self._record_lost

    def _check_stop(self) -> None:
        changed = [one for one in self.records.values() if one.state == TableState.CHANGED]
        if changed and isinstance(reason := self.stop.reason, Interrupted):
            names = ", ".join(".".join(one.name) for one in changed)
            raise reason.saying(
                f"the change of {names} is done; the same command finishes what is left to do"
            )
        self.stop.check()

    def _begin_all_that_may(self) -> bool:
        while self._begin_next():
            pass
        return bool(self._workers or self._held)

    def _begin_next(self) -> bool:
        self._held = False
        if self._halted or self.stop.requested or len(self._workers) == self.config.parallel:
            return False
        self._held = bool(self._waiting) and self._is_paused()
        if self._held or self._halted:
            return False
        name = next_table(self._waiting, self._workers, self._related)
        if name is None:
            return False
        share = self._slots.take(len(self._waiting))
        change = self._waiting.pop(name)
        run = self._table_run(change, share)
        thread = Background("table", lambda _stopping: self._work(change, run))
        self._workers[name] = _Worker(run=run, thread=thread, share=share)
        try:
            thread.start()
        except BaseException:
            # Its end would be waited for.
            del self._workers[name]
            raise
        return True

    def _is_paused(self) -> bool:
        """Whether an operator has paused the fleet, or may have: then no further table begins."""
        store = self.store if self.config.fleet else None
        if store is None:
            return False
        try:
            orders = self._step(store.orders)
            return orders.paused or orders.unseen
        except SpiritError as error:
            # Those under way go on; the next run begins the others.
            said = f"no further table begins: the orders of the fleet are unknown: {error.message}"
            self._tell(Warned(said=said))
            self._record_lost = error
            self._halted = True
            return False

    def _table_run(self, change: TableChange, share: int) -> TableRun:
        each, parallel = self.config.each, self.config.parallel
        feed = replace(
            each.feed,
            soft_limit_bytes=each.feed.soft_limit_bytes // parallel,
            apply_threads=max(1, each.feed.apply_threads // parallel),
            own_writes=new_run() if each.feed.own_writes else "",
        )
        config = replace(change.config(each), threads=share, feed=feed)
        return TableRun(
            config,
            self.reporter,
            engine_factory=self._spark.lease,
            stop=self.stop.linked(),
            measures=self._measures,
            said=self._said,
            gate=self.gate,
            changed=lambda: self._note(change.name, state=TableState.CHANGED.value),
        )

    def _work(self, change: TableChange, run: TableRun) -> None:
        try:
            if self._goes_on(change):
                run.execute()
        except BaseException as error:
            run.failed(error)
        finally:
            self._ended.put(change.name)

    def _goes_on(self, change: TableChange) -> bool:
        """Note that a migration begins; False where an earlier run has changed the table."""
        if self.store is None:
            return True
        record = self.records[change.name]
        step = self._step(lambda session: step_for(session, record, once=change.once))
        if step is Step.LOOK:
            raise MigrationFailure(
                f"{change} was, or may have been, changed since its migration began, and nothing"
                " on the server shows by whom",
                hint="see its definition: if it is what the statement makes, leave the table out"
                " with --exclude; otherwise, and for a file, which without its statement is another"
                f" batch: spirit-py cleanup --batch {shlex.quote(str(self.store))}, which says what"
                " is changed, then begin anew with what is left",
                error_code=ErrorCode.CANNOT_RESUME,
            )
        if step is Step.PASS:
            self._drop_made_in_place(record)
            self._tell(TableSkipped(table=str(change), reason="an earlier run has changed it"))
            return False
        # What ended it before is over.
        begins = {"outcome": "", "error": ""}
        if record.state == TableState.PENDING:
            before, after = self._step(lambda session: forms_of(session, self.config.each, change))
            begins |= {"state": TableState.RUNNING.value, "before": before, "after": after}
        if replace(record, **begins) != record:
            self._note(change.name, **begins)
        return True

    def _drop_made_in_place(self, record: TableRecord) -> None:
        # Another migration of the table may run by now, for days: where nothing is left, it may.
        if not self._step(lambda session: is_made_in_place(session, record)):
            return
        with migration_lock(self.config.each.connection, record.name, stop=self.stop):
            kept = self._step(lambda session: drop_made_in_place(session, record))
        if kept:
            self._tell(Warned(table=".".join(record.name), said=kept))

    def _end(self, name: Name) -> None:
        worker = self._workers.pop(name)
        worker.thread.join()
        self._slots.give_back(worker.share)
        report = worker.run.report
        table = ".".join(name)
        if report.error or report.outcome:
            summed_up = "" if report.error else report.headline()
            self._tell(report.ended(TableEnded, table=table, summed_up=summed_up))
            for line in report.rehearsal_lines:
                self._tell(Summary(table=table, said=f"{table}: {line.strip()}"))
        stops = worker.run.concerns_all or self.config.on_failure == "stop"
        self._halted |= bool(report.error) and stops
        known = self.records[name].state
        try:
            self._note(name, **self._outcome(name, report))
        except SpiritError as error:
            # Its state is one from which the next run finds out what is done.
            self.records[name] = replace(self.records[name], state=known)
            self._tell(
                Warned(table=table, said=f"{table}: its end could not be recorded: {error.message}")
            )
            self._record_lost = error
            self._halted = True

    def _outcome(self, name: Name, report: MigrationReport) -> dict[str, str]:
        if report.error:
            return {**self._failed(name, report), **_noted(report)}
        if self.store is None:
            return _noted(report)
        if report.outcome == REVERTED:
            return {**_noted(report), "state": TableState.PENDING.value, "error": _REVERTED}
        done = {"state": TableState.DONE.value}
        # Without an outcome an earlier run has changed it.
        return done | (_noted(report) if report.outcome else {"outcome": "done", "error": ""})

    def _failed(self, name: Name, report: MigrationReport) -> dict[str, str]:
        """Return the state of a failed table: as before where nothing of the change is left.

        By a checkpoint that is kept, or after an unknown outcome, it may still be made: the next
        run must know that it was begun.
        """
        record = self.records[name]
        unknown = report.exit_code == OutcomeUnknown.exit_code
        if record.state != TableState.RUNNING or unknown:
            return {}
        # Before the swap, or it would be another error.
        same = report.error_code == ErrorCode.SCHEMA_CHANGED
        try:
            with self._session() as session:
                if is_begun(session, record):
                    return {}
                same = same or form_of(read_shape(session, *name)) == record.before
        except SpiritError:
            return {}
        return {"state": TableState.PENDING.value} if same else {}

    def _note(self, name: Name, **changes: str) -> None:
        """Change the record of a table, on the server too; may raise SpiritError."""
        record = self.records[name] = replace(self.records[name], **changes)
        store = self.store
        if store is not None:
            self._step(lambda session: store.note(session, record))

    def _step(self, work: Callable[[Session], T]) -> T:
        """Do something in a session of its own, once at least, also after a stop request."""

        def once() -> T:
            with self._session() as session:
                return work(session)

        result: T = retrying(self.stop, attempts=_TRIES)(once)
        return result

    def _session(self) -> Session:
        return connect(self.config.each.connection, role="batch")

    def status(self) -> BatchStatus:
        """Take a snapshot for the display."""
        under_way = dict(self._workers)
        records, workers = list(self.records.values()), list(under_way.values())
        done = sum(one.state == TableState.DONE for one in records)
        failed = sum(bool(one.error) and one.name not in under_way for one in records)
        counts = f"{done} of {len(records)} tables done, {len(workers)} under way"
        return BatchStatus(
            described=f"{counts}, {failed} failed" if failed else counts,
            elapsed=time.monotonic() - self._began,
            tables=tuple(worker.run.snapshot() for worker in workers),
            counts={
                "done": done,
                "running": len(workers),
                "failed": failed,
                "left": len(records) - done - len(workers) - failed,
            },
        )

    @property
    def runs(self) -> tuple[Run, ...]:
        """The migrations that are under way."""
        return tuple(worker.run.run for worker in list(self._workers.values()))

    def hurry(self) -> None:
        """After a stop request: end long statements of what is under way."""
        for run in self.runs:
            run.hurry()


#: A position with more characters is not kept in a batch's record: a server whose GTIDs have tags
#: may have 100 KB of them, and the record has a row for each table.
_LONGEST_POSITION: Final = 4096


def _noted(report: MigrationReport) -> dict[str, str]:
    whole = dataclasses.asdict(report)
    for name in ("start_position", "final_position"):
        if len(whole[name]) > _LONGEST_POSITION:
            whole[name] = ""
    return {
        "outcome": report.outcome,
        "error": report.error,
        "report": json.dumps(whole, ensure_ascii=False),
    }


def related_tables(session: SqlSession, named: Mapping[Name, Name]) -> dict[Name, frozenset[Name]]:
    """Return for each of these tables the others that it references, or that reference it.

    Given is each with the other table that its statement names: a new key's parent, for instance.
    """
    schemas = sorted({schema for schema, _ in named})
    pairs = [*child_and_parent_tables(session, schemas), *named.items()]
    # A server to which letters are alike keeps names in small ones.
    pairs += [(name, (schema.lower(), table.lower())) for name, (schema, table) in named.items()]
    found: defaultdict[Name, set[Name]] = defaultdict(set)
    for child, parent in pairs:
        if child != parent and child in named and parent in named:
            found[child].add(parent)
            found[parent].add(child)
    return {name: frozenset(others) for name, others in found.items()}
