"""The phases of one migration, in order (design section 2).

What is opened goes on one ExitStack and is closed in reverse; a step of the teardown logs its
own failure, so that it never hides the error that ended the migration.
"""

from __future__ import annotations

import contextlib
import logging
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spirit_py import __version__
from spirit_py.applier.applier import SqlApplier
from spirit_py.change.source import binlog_source
from spirit_py.checkpoint.record import CheckpointRecord
from spirit_py.checkpoint.store import CheckpointStore
from spirit_py.checksum.checker import Checker
from spirit_py.checksum.result import ChecksumOptions
from spirit_py.chunk.chunker import make_chunker
from spirit_py.copier.boundary import BoundaryReader
from spirit_py.copier.copier import Copier, CopyOptions
from spirit_py.cutover.cleanup import drop_old_table
from spirit_py.cutover.cutover import Cutover
from spirit_py.cutover.plan import CutoverLimits, Swap
from spirit_py.errors import MigrationFailure, OutcomeUnknown, Refusal, SchemaChanged, ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.duplicates import duplicates_for
from spirit_py.mysql.faults import connection_refusal
from spirit_py.mysql.inspect import read_table, shape_of
from spirit_py.mysql.locks import AdvisoryLock
from spirit_py.mysql.newtable import align_auto_increment, create_new_table, drop_table
from spirit_py.phases import Phase
from spirit_py.preflight.preflight import check_after_create, check_before_create, prepare
from spirit_py.preflight.shortcut import try_shortcut
from spirit_py.sql import quote_table
from spirit_py.table.names import AuxiliaryNames, lock_name
from spirit_py.throttle.throttler import BacklogThrottler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.change.feed import ChangeFeed
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import Reporter, SqlSession, Subscription
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.context import PreflightContext
    from spirit_py.preflight.finding import Finding
    from spirit_py.runner.figures import Figures
    from spirit_py.spark.session import SparkEngine
    from spirit_py.stop import StopSwitch
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema

_log = logging.getLogger(__name__)


class Migration:
    """One table's migration; :meth:`run` once."""

    def __init__(
        self,
        config: MigrationConfig,
        reporter: Reporter,
        figures: Figures,
        *,
        engine_factory: Callable[[MigrationConfig], SparkEngine],
        stop: StopSwitch,
    ) -> None:
        self._config = config
        self._reporter = reporter
        self._figures = figures
        self._report = figures.report
        self._engine_factory = engine_factory
        self._stop = stop
        self._stack = contextlib.ExitStack()
        #: Set when rows must be copied.
        self._engine: SparkEngine
        #: True from the moment at which the new table may be the application's.
        self._swapped = False

    def run(self) -> None:
        """Run all phases; on return the table is changed.

        Raises:
            SpiritError: as the part that failed; everything is closed and cleaned by then.
        """
        with self._stack:
            mapping = self._prepare()
            if mapping is not None:
                self._copy_path(mapping)
            self._figures.enter(Phase.DONE)
        self._report.outcome = "done"

    def _prepare(self) -> TableMapping | None:
        """Check, try the shortcuts, create the new table; None when the table is changed."""
        with self._first_session() as session:
            context = self._preflight(session)
            self._figures.enter(Phase.SHORTCUT)
            if self._shortcut(context):
                return None
            self._report.algorithm = "copy"
            self._engine = self._engine_factory(self._config)
            self._closing("Spark", self._engine.stop)
            self._engine.start()
            self._figures.enter(Phase.CREATE)
            return self._create(context)

    # -- before anything is written

    def _first_session(self) -> Session:
        """Open the driver's session; what cannot be reached is a refusal."""
        try:
            return self._session("driver")
        except ServerFault as fault:
            raise connection_refusal(fault, self._config.connection) from fault

    def _session(self, role: str, *, native: bool = False) -> Session:
        """Open a session for one step: none is kept over the days that a copy may take."""
        return connect(self._config.connection, role=role, native=native)

    def _preflight(self, session: Session) -> PreflightContext:
        """Read everything, keep other migrations of the table away, run the checks."""
        context = prepare(session, self._config)
        self._describe(context)
        advisory = AdvisoryLock(
            self._config.connection,
            lock_name("migration", context.schema, context.table),
            stop=self._stop,
            purpose=f"migration of {context.schema}.{context.table}",
        )
        self._stack.enter_context(advisory)
        self._warn(check_before_create(context))
        self._stop.check()
        return context

    def _describe(self, context: PreflightContext) -> None:
        """Put what is migrated, and where, into the report."""
        report = self._report
        report.schema, report.table = context.schema, context.table
        report.statement = context.statement.sql
        report.versions["mysql"] = context.facts.version
        if context.source is not None:
            self._figures.rows_total = context.source.estimated_rows
        self._reporter.message(f"{report.statement}", server=self._config.connection.address)

    def _warn(self, findings: tuple[Finding, ...]) -> None:
        for finding in findings:
            text = f"{finding.cause} ({finding.remedy})" if finding.remedy else finding.cause
            self._report.warnings.append(text)
            self._reporter.message(f"warning: {text}")

    # -- without a copy

    def _shortcut(self, context: PreflightContext) -> bool:
        """Let the server change the table itself where that takes no time."""
        source = self._source_table(context)
        if self._config.no_shortcut:
            self._report.reason = "shortcuts were switched off"
            return False
        with self._session("shortcut", native=True) as native:
            result = try_shortcut(native, context.session, source, context.statement, self._stop)
        self._report.reason = result.reason
        if result.algorithm is None:
            self._reporter.message(f"copying, because {result.reason}")
            return False
        self._report.algorithm = result.algorithm
        return True

    @staticmethod
    def _source_table(context: PreflightContext) -> TableSchema:
        if context.source is None:
            raise Refusal(
                f"there is no table {context.schema}.{context.table}", hint="check the name"
            )
        return context.source

    # -- the copy

    def _copy_path(self, mapping: TableMapping) -> None:
        """Copy while changes are applied, drain, check, swap."""
        applier = SqlApplier(
            self._config.connection,
            sessions=self._config.feed.apply_threads,
            batch_rows=self._config.feed.batch_rows,
            stop=self._stop,
        )
        self._closing("the applier", applier.close)
        source = binlog_source(self._config.connection, applier, self._config.feed, self._stop)
        self._closing("the change feed", source.close)
        self._figures.source = source
        subscription = source.add_subscription(mapping)
        source.start()
        self._require_unchanged(mapping.source)
        self._report.start_position = source.position()
        self._reporter.message("the change feed runs", position=self._report.start_position)
        self._figures.enter(Phase.COPY)
        self._copy(mapping, source, subscription)
        self._figures.enter(Phase.DRAIN)
        source.set_watermark_optimization(enabled=False)
        source.block_wait()
        source.flush()
        self._figures.enter(Phase.ANALYZE)
        self._analyze(mapping)
        self._figures.enter(Phase.CHECKSUM)
        self._check(mapping, source, applier)
        self._figures.enter(Phase.CUTOVER)
        self._swap(mapping, source)
        self._figures.enter(Phase.CLEANUP)
        self._clean_up(mapping)

    def _create(self, context: PreflightContext) -> TableMapping:
        """Create the new table, and the row that says whose it is, before the first write."""
        names = AuxiliaryNames.of(context.table)
        store = CheckpointStore(context.schema, names.checkpoint)
        if store.exists(context.session):
            self._reporter.message(
                "an earlier run of spirit-py was killed here; its tables are dropped and the"
                " migration starts afresh"
            )
            drop_table(context.session, context.schema, names.new)
            store.drop(context.session)
        self._stack.callback(self._drop_tables, context.schema, names)
        store.create(context.session, self._checkpoint(context))
        with self._session("alter", native=True) as native:
            target = create_new_table(
                context.session, native, self._source_table(context), context.statement
            )
        mapping, findings = check_after_create(context, target)
        self._warn(findings)
        return mapping

    def _checkpoint(self, context: PreflightContext) -> CheckpointRecord:
        return CheckpointRecord(
            statement=context.statement.normalized,
            schema=context.schema,
            table=context.table,
            server_uuid=context.facts.uuid,
            phase=self._figures.phase.value,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            program=__version__,
        )

    def _require_unchanged(self, source: TableSchema) -> None:
        """Compare the source's definition again: from here on the feed sees every DDL (R14)."""
        with self._session("definition") as session:
            found = read_table(session, source.schema, source.name)
        if found is None or shape_of(found) != shape_of(source):
            raise SchemaChanged(
                f"somebody else changed the definition of {source.schema}.{source.name} while the"
                " migration was prepared",
                hint="see what was changed, then start the migration again",
            )

    def _copy(
        self,
        mapping: TableMapping,
        source: ChangeFeed,
        subscription: Subscription,
    ) -> None:
        self._figures.waiting_for = "Spark to start"
        slots = self._engine.slots
        self._figures.waiting_for = ""
        reader = BoundaryReader(self._config.connection, stop=self._stop)
        self._closing("the chunker's session", reader.close)
        copier = Copier(
            engine=self._engine,
            mapping=mapping,
            connection=self._config.connection,
            chunker=make_chunker(mapping, reader.query),
            query=reader.query,
            subscription=subscription,
            throttler=BacklogThrottler(source.statistics),
            stop=self._stop,
            options=CopyOptions(slots=slots, target_chunk_time=self._config.target_chunk_time),
        )
        self._figures.copier = copier
        copier.run()
        copied = copier.statistics()
        self._reporter.message(
            f"copied {copied.rows} rows in {copied.chunks} chunks", seconds=round(copied.seconds, 1)
        )

    def _analyze(self, mapping: TableMapping) -> None:
        """Give the optimizer statistics of the new table before the application meets it."""
        table = quote_table(mapping.target.schema, mapping.target.name)
        with self._session("analyze") as session:
            session.query(f"ANALYZE NO_WRITE_TO_BINLOG TABLE {table}")

    def _check(
        self,
        mapping: TableMapping,
        source: ChangeFeed,
        applier: SqlApplier,
    ) -> None:
        """Compare every row; a pass without a difference is needed."""

        def duplicates() -> list[str]:
            with self._session("duplicates") as session:
                return [
                    f"{index.name}: {duplicate}"
                    for index in mapping.tightened
                    for duplicate in duplicates_for(session, mapping, index)
                ]

        checker = Checker(
            mapping=mapping,
            source=self._config.connection,
            engine=self._engine,
            stop=self._stop,
            feed=source,
            applier=applier,
            find_duplicates=duplicates,
            options=ChecksumOptions(lock_wait_timeout=math.ceil(self._config.lock_wait_timeout)),
        )
        self._figures.checker = checker
        result = checker.run()
        self._reporter.message(
            f"checksum clean: {result.rows} rows compared in pass {result.passes}",
            differences=result.differences,
            repaired_chunks=result.repaired_chunks,
            lock_held_ms=round(result.lock_held_ms, 1),
        )

    # -- the swap

    def _swap(self, mapping: TableMapping, source: ChangeFeed) -> None:
        """Swap the tables under one lock (R15)."""
        cutover = Cutover(
            self._config.connection,
            [Swap.of(mapping)],
            source,
            stop=self._stop,
            limits=CutoverLimits(
                lock_wait=self._config.lock_wait_timeout,
                attempts=self._config.cutover_attempts,
                kill=not self._config.no_kill,
                kill_after=self._config.kill_after,
            ),
            before_lock=lambda session: _align(session, mapping),
            final_checks=lambda session: _align(session, mapping),
            message=self._reporter.message,
        )
        try:
            result = cutover.run()
        except OutcomeUnknown:
            self._swapped = True
            raise
        finally:
            self._swapped = self._swapped or cutover.swapped
        self._figures.note_cutover(result)
        self._reporter.message(
            f"swapped in try {result.attempts}",
            lock_wait_ms=round(result.lock_wait_ms, 1),
            lock_held_ms=round(result.lock_held_ms, 1),
        )

    def _clean_up(self, mapping: TableMapping) -> None:
        """Drop what is left; the table is changed whatever happens here."""
        schema, names = mapping.source.schema, AuxiliaryNames.of(mapping.source.name)
        with (
            self._remarked(f"the checkpoint table {names.checkpoint}"),
            self._session("cleanup") as session,
        ):
            CheckpointStore(schema, names.checkpoint).drop(session)
        if self._config.skip_drop_after_cutover:
            self._report.old_table = names.old
            return
        why = drop_old_table(self._config.connection, schema, names.old, stop=self._stop)
        if why:
            self._report.old_table = names.old
            self._remark(f"the old table {names.old}", why)

    @contextlib.contextmanager
    def _remarked(self, what: str) -> Iterator[None]:
        """Turn a failure after the swap into a warning: the migration is done."""
        try:
            yield
        except MigrationFailure as error:
            self._remark(what, error.message)

    def _remark(self, what: str, why: str) -> None:
        text = f"{what} could not be dropped: {why}; drop it by hand"
        self._report.warnings.append(text)
        self._reporter.message(f"warning: {text}")

    # -- the end

    def _closing(self, what: str, close: Callable[[], None]) -> None:
        """Close ``what`` at the end; a failure is logged and hides nothing."""

        def step() -> None:
            try:
                close()
            except Exception:
                _log.exception("could not close %s", what)

        self._stack.callback(step)

    def _drop_tables(self, schema: str, names: AuxiliaryNames) -> None:
        """Drop the auxiliary tables of a migration that did not get to the swap."""
        if self._swapped:
            return
        try:
            with self._session("cleanup") as session:
                drop_table(session, schema, names.new)
                CheckpointStore(schema, names.checkpoint).drop(session)
        except ServerFault as fault:
            text = (
                f"the tables {names.new} and {names.checkpoint} could not be dropped: {fault.text}"
            )
            self._report.warnings.append(text)
            self._reporter.message(f"warning: {text}; the next run drops them")


def _align(session: SqlSession, mapping: TableMapping) -> None:
    """Raise the new table's AUTO_INCREMENT counter to the source's."""
    align_auto_increment(session, mapping)
