"""Run a batch from its plan to its report."""

from __future__ import annotations

import contextlib
import signal
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from spirit_py.batch.batch import Batch
from spirit_py.batch.changes import schemas_of
from spirit_py.batch.report import BatchReport, refusal_of
from spirit_py.batch.store import (
    BatchRecord,
    BatchTable,
    TableRecord,
    TableState,
    find_batch,
    refuse_others,
)
from spirit_py.batch.trial import is_begun
from spirit_py.codes import ErrorCode
from spirit_py.errors import Interrupted, Refusal, SpiritError
from spirit_py.events.run import Warned
from spirit_py.locks.named import AdvisoryLock
from spirit_py.migration.entry import outcome_unknown
from spirit_py.mysql.connect import connect, connect_first
from spirit_py.signals import run_command, stop_on_signals
from spirit_py.spark.engine import SparkEngine
from spirit_py.status.report import refused_before, run_begun, versions
from spirit_py.status.reporters import Reporters
from spirit_py.table.names import lock_name
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from spirit_py.batch.plan import BatchPlan, PlannedTable
    from spirit_py.command_config import BatchConfig
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import Reporter
    from spirit_py.events.event import Gate
    from spirit_py.mysql.session import Session
    from spirit_py.spark.gang import GangEngine
    from spirit_py.table.names import Name


_REFUSED: Final = ErrorCode.BATCH_REFUSED
_STOPPED: Final = (
    "what is changed stays changed, and the other tables are intact; the same command carries on"
)


def run_batch(
    config: BatchConfig,
    plan: BatchPlan,
    *,
    reporter: Reporter,
    engine_factory: Callable[[MigrationConfig], GangEngine] | None = None,
    stop: StopSwitch | None = None,
    gate: Gate | None = None,
) -> BatchReport:
    """Run the migrations that a plan leaves to do; return and write the report.

    A batch of which tables have failed, or that was stopped, has a report too. Raises Refusal
    before anything is written: tables are refused with ``--on-failure stop`` (MigrationFailure
    after an earlier run has changed one), or another run of it goes on.
    """
    if plan.is_refused(config):
        refused = plan.refused
        codes = {one.code for one in refused}
        raise refusal_of(
            f"{len(refused)} of {len(plan.tables)} tables cannot be changed",
            written=plan.written,
            hint="see what refuses each; leave these tables out (--exclude, or in the file), or"
            " change the others with --on-failure continue",
            details=tuple(f"{one.change}: {line}" for one in refused for line in one.refusals),
            error_code=codes.pop() if codes == {ErrorCode.ALREADY_RUNNING} else _REFUSED,
        )
    began = time.monotonic()
    reporter = Reporters([reporter])
    switch = stop or StopSwitch()
    # Every session refuses another server than the planned one (R14).
    connection = replace(config.each.connection, server_uuid=plan.server_uuid)
    config = replace(config, each=replace(config.each, connection=connection))
    report, kept = _report(config), ""
    # To the end of the report: a hook may be waited for.
    with stop_on_signals(switch):
        with _opened(config, plan, report, switch) as (store, records):
            batch = Batch(
                config=config,
                plan=plan,
                reporter=reporter,
                store=store,
                records=records,
                engine_factory=engine_factory or SparkEngine,
                stop=switch,
                gate=gate,
            )
            stopped = _run(batch, switch, reporter)
            report.add(tuple(batch.records.values()))
            if store is not None:
                kept = "" if _close(config, store, batch, reporter) else str(store)
        report.conclude(stopped, seconds=time.monotonic() - began, record=kept)
        report.close(config.records.report_json, reporter)
    return report


def reported(config: BatchConfig, reporter: Reporter) -> AbstractContextManager[None]:
    """Report that a batch begins, and write the report of one that is refused before that."""
    begun = run_begun("batch", config.each.connection)
    path = config.records.report_json
    return refused_before(path, reporter, begun=begun, made=lambda: _report(config))


def _report(config: BatchConfig) -> BatchReport:
    return BatchReport(
        versions=versions(),
        asked=_asked(config),
        threads=config.each.threads,
        parallel=config.parallel,
        on_failure=config.on_failure,
    )


def _asked(config: BatchConfig) -> str:
    if not config.patterns:
        return f"the statements of {config.file}"
    left = f" without {', '.join(config.exclude)}" if config.exclude else ""
    return f"{', '.join(config.patterns)}{left}: {config.each.alter}"


@contextlib.contextmanager
def _opened(
    config: BatchConfig, plan: BatchPlan, report: BatchReport, stop: StopSwitch
) -> Iterator[tuple[BatchTable | None, dict[Name, TableRecord]]]:
    """Open the record of the batch, or begin it; Refusal while another run of it goes on."""
    connection = config.each.connection
    if config.each.dry_run:
        yield None, _records(plan, {})
        return
    lock = AdvisoryLock(
        connection, lock_name("batch", plan.name), stop=stop, purpose="run of this batch"
    )
    with lock:
        with connect_first(connection, role="batch") as session:
            schemas = schemas_of(session, config, (one.change for one in plan.tables))
            # The first table may be gone.
            store = find_batch(session, plan.name, {*schemas, plan.home})
            if store is None and plan.earlier is not None:
                raise Refusal(
                    "this batch was finished, or given up, meanwhile",
                    hint="run the same command again only if its tables must be changed once more",
                    error_code=ErrorCode.BATCH_RECORD,
                )
            if store is None:
                store = BatchTable(plan.home, plan.name)
                begun = BatchRecord(
                    home=store.name[0],
                    server_uuid=plan.server_uuid,
                    asked=_asked(config),
                    started_at=datetime.now(UTC).isoformat(timespec="seconds"),
                    runs=1,
                    parallel=config.parallel,
                    on_failure=config.on_failure,
                    program=versions()["spirit-py"],
                    fleet=config.fleet,
                )
                orders = replace(config.orders, unseen=True)
                store.create(session, begun, orders if config.fleet else None)
                earlier: dict[Name, TableRecord] = {}
            else:
                earlier = store.tables(session)
                report.carry_on(store.begin_again(session, plan.server_uuid, config.fleet))
            records = _records(plan, earlier)
            store.forget(session, earlier.keys() - records.keys())
            for name, record in records.items():
                if record is not earlier.get(name):
                    store.note(session, record)
            # Each looks after its own record is written, so at least one sees the other.
            try:
                refuse_others(session, store.name[1], records)
            except Refusal:
                if not earlier:
                    store.drop(session)
                raise
        yield store, records


def _records(plan: BatchPlan, earlier: dict[Name, TableRecord]) -> dict[Name, TableRecord]:
    """Return the record of each table; those that earlier runs have changed stay as they are.

    One that is left out now is done: the same command is not to change it again.
    """
    planned = {one.change.name: _record(one, earlier) for one in plan.tables}
    left = {name: record for name, record in earlier.items() if name not in planned}
    done = {name: one for name, one in left.items() if one.state == TableState.DONE}
    changed = {name: one for name, one in left.items() if one.state == TableState.CHANGED}
    ended = {name: replace(one, state=TableState.DONE.value) for name, one in changed.items()}
    return planned | done | ended


def _record(planned: PlannedTable, earlier: dict[Name, TableRecord]) -> TableRecord:
    change = planned.change
    record = earlier.get(change.name) or TableRecord(
        schema=change.schema, table=change.table, statement=change.normalized
    )
    if not planned.refusals:
        return record
    return replace(record, outcome=Refusal.outcome, error="; ".join(planned.refusals), report="")


def _is_free(store: BatchTable, session: Session) -> bool:
    """Whether no operator has ordered anything, which the record keeps."""
    orders = store.orders(session)
    return not (orders.paused or orders.aborted)


def _run(batch: Batch, stop: StopSwitch, reporter: Reporter) -> SpiritError | None:
    reporter.start()
    try:
        run_command(
            batch.run,
            stop=stop,
            reporter=reporter,
            status=batch.status,
            left_at_once=lambda: _left_at_once(batch),
            hurry=batch.hurry,
        )
    except SpiritError as error:
        if error is stop.reason and isinstance(error, Interrupted):
            error.hint = _STOPPED
        return error
    return None


def _left_at_once(batch: Batch) -> SpiritError:
    runs = batch.runs
    if unknown := outcome_unknown(runs):
        return unknown
    hint = "the source tables are intact; run the same command again"
    if changed := [run.report for run in runs if run.is_changed]:
        names = ", ".join(one.names for one in changed)
        hint = f"the change of {names} is done; the same command finishes what is left to do"
    return Interrupted(signal.SIGINT, hint=hint)


def _close(config: BatchConfig, store: BatchTable, batch: Batch, reporter: Reporter) -> bool:
    """Drop the record of a finished batch, or of one that left nothing; return whether it did.

    In a fleet the record is what says that this server is done, until all are.
    """
    records = batch.records.values()
    states = {one.state for one in records}
    nothing = states == {TableState.PENDING}
    # After a second SIGINT its thread may still write.
    if not batch.ended or (states != {TableState.DONE} and not nothing):
        return False
    try:
        with connect(config.each.connection, role="batch") as session:
            if nothing and any(is_begun(session, one) for one in records):
                return False
            record = store.read(session)
            if record is not None and record.fleet and not (nothing and _is_free(store, session)):
                return False
            store.drop(session)
    except SpiritError as error:
        reporter.event(Warned(said=f"the record {store} could not be dropped: {error.message}"))
        return False
    return True
