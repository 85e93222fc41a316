"""One comparison, from options to report: its checks, the checksum, the verdict."""

from __future__ import annotations

import contextlib
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from spirit_py.applier.applier import SqlApplier
from spirit_py.checksum.checker import Checker
from spirit_py.checksum.result import ChecksumOptions, shown_key
from spirit_py.checksum.worker import Comparison
from spirit_py.classes import InitVar, dataclass, replace
from spirit_py.compare import checks
from spirit_py.compare.column_matching import match
from spirit_py.compare.copyback import FittingRows, TwoServerCopier
from spirit_py.compare.report import CompareReport, advice
from spirit_py.errors import (
    DifferencesFound,
    DuplicateForUnique,
    Interrupted,
    StillDifferent,
    StoredOtherwise,
)
from spirit_py.estimates import SERVER, Outage, Speed, fraction_of, seconds_left
from spirit_py.events.copy import ChecksumBegun
from spirit_py.events.event import teller
from spirit_py.events.run import Summary, Warned
from spirit_py.locks.blockers import LockPolicy
from spirit_py.locks.named import migration_lock
from spirit_py.mysql.connect import connect, connect_first
from spirit_py.mysql.endpoint import require_one_server
from spirit_py.mysql.evaluation import comparing_settings
from spirit_py.mysql.processlist import performance_schema_shows_sessions
from spirit_py.phases import Phase
from spirit_py.progress import MigrationStatus, RunTotals
from spirit_py.signals import run_and_tell
from spirit_py.spark.choice import Engines
from spirit_py.spark.engine import SparkEngine
from spirit_py.status.report import run_begun, versions
from spirit_py.status.reporters import Reporters
from spirit_py.threads import Background, StopSwitch
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.checksum.result import ChecksumProgress
    from spirit_py.checksum.worker import Follower
    from spirit_py.command_config import CompareConfig
    from spirit_py.compare.column_matching import Matching
    from spirit_py.contracts import Reporter
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.spark.gang import GangEngine

_REPAIR_ROWS = 500


@dataclass(eq=False)
class CompareRun:
    """One comparison; :meth:`run` once."""

    options: CompareConfig
    reporter: InitVar[Reporter]
    report: CompareReport
    stop: StopSwitch
    engine_factory: Callable[[CompareConfig], GangEngine]

    def __post_init__(self, reporter: Reporter) -> None:
        self._tell = teller(reporter.event, f"{self.options.database}.{self.options.table}")
        self._checker: Checker | None = None
        self._rows_total: int | None = None
        self._left: tuple[str, ...] = ()
        self._unrepaired, self._unfit = "", 0
        self._waiting_for = ""
        self._stack = contextlib.ExitStack()
        self._began = time.monotonic()
        self._compare_began = self._began
        #: Tasks on Spark can exchange messages with the driver, without a checkpoint table.
        self._spark_can_talk = False
        self._speed, self._outage = Speed(restarts=True), Outage()
        servers = (self.options.source, self.options.target)
        self._sight = checks.Sight([one for one in servers if one is not None], self._compared)

    def run(self) -> None:
        """Check, compare, and judge."""
        with self._stack:
            matching, side_that_follows = self._prepare()
            engines = Engines(self.options, self.engine_factory, stop=self.stop, warn=self._warn)
            self._stack.callback(engines.stop)
            size = max(matching.mapping.source.total_bytes, matching.mapping.target.total_bytes)
            engine = self._engine_of(engines, size)
            repairer = self._repairer(matching) if self.options.repair else None
            comparison = Comparison(
                mapping=matching.mapping,
                source=self.options.source,
                target=self.options.target,
                engine=engine,
                stop=self.stop,
                options=ChecksumOptions(
                    lock=self.options.lock,
                    locking=LockPolicy(
                        wait=self.options.lock_wait_timeout, timeout=self.options.lock_timeout
                    ),
                    yield_seconds=self.options.checksum_yield_timeout,
                    recheck_pauses=self.options.recheck_pauses,
                ),
                follower=side_that_follows,
                tell=self._tell,
            )
            checker = self._checker = Checker(comparison, applier=repairer)
            self._compare_began = time.monotonic()
            with Background("sight", self._sight.run):
                self._check(checker, matching)
            self._require_unchanged(matching)
            self._tell_unfit(repairer)
        self._judge(checker, follows=bool(side_that_follows))

    def complete(self) -> None:
        """Fill the report with the figures as they are now."""
        self.report.seconds = round(time.monotonic() - self._began, 3)
        if self._checker is not None:
            self.report.note_result(self._checker.result)

    def status(self) -> MigrationStatus:
        """Take a snapshot for the display. No I/O."""
        now = time.monotonic()
        options, checker = self.options, self._checker
        shown: dict[str, Any] = {
            "table": f"{options.database}.{options.table} : "
            f"{options.target_database}.{options.target_table}",
            "phase": Phase.PREFLIGHT if checker is None else Phase.CHECKSUM,
            "elapsed": now - self._began,
            "phase_elapsed": now - self._compare_began,
            "path": (Phase.PREFLIGHT, Phase.CHECKSUM),
            "to_come": (Phase.CHECKSUM,) if checker is None else (),
            "waiting_for": self._waiting_for,
        }
        if checker is not None:
            shown |= self._progress(checker.progress, now)
        return MigrationStatus(**shown)

    def _progress(self, seen: ChecksumProgress, now: float) -> dict[str, Any]:
        total = seen.total(self._rows_total or None)
        self._speed.note(now, seen.rows)
        left = None if total is None else total - seen.rows
        shown: dict[str, Any] = {
            "rows": seen.rows,
            "rows_total": total,
            "fraction": fraction_of(seen.rows, total, ended=seen.ended),
            # What follows is not counted in rows of the table.
            "rate": None if seen.ended else self._speed.recent(now),
            "eta": None if seen.ended else seconds_left(left, self._speed.steady(now)),
            "note": seen.note,
            "waiting_for": seen.waiting_for or self._waiting_for,
        }
        trouble = self._sight.trouble
        waited = self._outage.waited(now, _done(seen), trouble)
        if waited is not None:
            what = shown["waiting_for"] or trouble
            shown |= {"waiting_for": what, "waited": waited, "rate": 0.0, "eta": None}
        if self._outage.seconds:
            shown["totals"] = RunTotals(throttled={SERVER: self._outage.seconds})
        return shown

    def _compared(self) -> tuple[int, int, str] | None:
        checker = self._checker
        return _done(checker.progress) if checker and checker.result.snapshots else None

    def _prepare(self) -> tuple[Matching, Follower]:
        options = self.options
        with (
            connect_first(options.source, role="compare") as one,
            connect_first(
                options.target_server, role="compare", target=options.target is not None
            ) as other,
        ):
            require_one_server(one, options.source)
            if options.target is not None:
                require_one_server(other, options.target)
            source = checks.open_side("source", one, options.database, options.table)
            target = checks.open_side(
                "target", other, options.target_database, options.target_table
            )
            self._describe(source, target)
            matching = match(
                source.table,
                target.table,
                renames=options.renames,
                ignored=options.ignored,
                time_zone=source.facts.time_zone,
                written_in=target.facts.zone if options.repair else "",
            )
            self._evaluate_as(source.facts, target.facts)
            checks.require_comparable(source, target, matching, lock=options.lock)
            two = options.target is not None
            if options.repair:
                checks.require_repairable(source, target, matching, two_servers=two)
            following: Follower = checks.follower(source, target) if two and options.lock else ""
            for text in checks.standing(source, target) if two else ():
                self._warn(text)
            self._spark_can_talk = performance_schema_shows_sessions(one)
        self._describe_match(matching, two_servers=two, following=following)
        self.stop.check()
        return matching, following

    def _evaluate_as(self, here: ServerFacts, there: ServerFacts) -> None:
        """Have later sessions be on these servers (R14), and compute as those themselves do."""
        options, (one, other) = self.options, map(comparing_settings, (here, there))
        target = options.target
        self.options = replace(
            options,
            source=replace(options.source, settings=one, server_uuid=here.uuid),
            target=target and replace(target, settings=other, server_uuid=there.uuid),
        )

    def _engine_of(self, engines: Engines, size: int) -> GangEngine:
        if self._spark_can_talk:
            return engines.for_comparison(size, self._show)
        if self.options.spark_master:
            self._warn(
                "Spark is not used: performance_schema of the source's server is OFF, or this"
                " account may not read it, and tasks on Spark exchange messages through it"
            )
        return engines.driver

    def _describe(self, source: checks.Side, target: checks.Side) -> None:
        self.report.source, self.report.target = (
            {"address": at.address, "schema": side.table.schema, "table": side.table.name}
            for side, at in ((source, self.options.source), (target, self.options.target_server))
        )
        self.report.versions["mysql"] = source.facts.version
        self.report.versions["mysql_target"] = target.facts.version
        self._rows_total = max(source.table.estimated_rows, target.table.estimated_rows)

    def _describe_match(
        self, matching: Matching, *, two_servers: bool, following: Follower
    ) -> None:
        self.report.note_matching(matching)
        mapping, report = matching.mapping, self.report
        target = mapping.target.full_name
        self._tell(
            ChecksumBegun(
                said=f"{mapping.source.full_name} on"
                f" {report.source['address']} with {target} on {report.target['address']}:"
                f" {len(mapping.pairs)} columns, by key {report.key}",
                target=target,
                columns=len(mapping.pairs),
                key=mapping.key.name,
                reason=None,
            )
        )
        warnings = list(matching.warnings())
        if two_servers and not following:
            warnings.append(
                "the snapshots on the two servers are taken together, but are not of one moment:"
                " differing rows are read again"
            )
        if not self.options.lock:
            warnings.append(
                "without the table lock the snapshots are not of one moment, and the rows are not"
                " counted again"
            )
        for text in warnings:
            self._warn(text)

    def _warn(self, text: str) -> None:
        self.report.warnings.append(text)
        self._tell(Warned(said=text))

    def _show(self, waiting_for: str) -> None:
        self._waiting_for = waiting_for

    def _repairer(self, matching: Matching) -> FittingRows:
        options, target = self.options, matching.mapping.target
        there = options.target_server
        self._stack.enter_context(
            migration_lock(there, (target.schema, target.name), stop=self.stop, reads=True)
        )
        applier = SqlApplier(
            there, sessions=1, batch_rows=_REPAIR_ROWS, stop=self.stop, judge_first=True
        )
        self._stack.callback(applier.close)
        copier = applier if options.target is None else TwoServerCopier(options.source, applier)
        return FittingRows(copier, partial(checks.require_still_repairable, there, target))

    def _check(self, checker: Checker, matching: Matching) -> None:
        """Run the checksum; rows that still differ after a repair are reported at the end."""
        try:
            checker.run()
        except StillDifferent as failure:
            self._left = failure.details
            return
        except StoredOtherwise as failure:
            self._left = failure.details
            self._warn(failure.message)
            return
        except DuplicateForUnique as failure:
            unique = ", ".join(index.name for index in matching.mapping.tightened)
            for detail in failure.details:
                self._warn(f"the source has rows that the target cannot hold together: {detail}")
            self._unrepaired = (
                "nothing is repaired while the source has duplicates for a UNIQUE key of the target"
                f" ({unique}): remove them, or drop that key"
            )
        self._left = tuple(str(example) for example in checker.result.examples)

    def _tell_unfit(self, repairer: FittingRows | None) -> None:
        unfit = {} if repairer is None else repairer.unfit
        self._unfit = len(unfit)
        shown = [
            f"row {shown_key(key)} is not repaired: {reason}" for key, reason in unfit.items()
        ][: len(self._left)]
        if len(unfit) > len(shown):
            shown.append(f"{len(unfit)} rows are not repaired, because they do not fit")
        for text in shown:
            self._warn(text)

    def _require_unchanged(self, matching: Matching) -> None:
        mapping = matching.mapping
        there = self.options.target_server
        for table, options in ((mapping.source, self.options.source), (mapping.target, there)):
            with connect(options, role="compare") as session:
                checks.require_same(session, table)

    def _judge(self, checker: Checker, *, follows: bool) -> None:
        self.complete()
        result, report = checker.result, self.report
        if follows and not result.one_moment:
            self._warn(
                "the replica had not caught up when its rows were read: what it has not applied"
                " yet counts as different"
            )
        self._tell(result.event(remaining=result.remaining, kinds=str(result.left)))
        if not result.remaining:
            report.outcome = "repaired" if result.differences else "equal"
            return
        report.outcome = "different"
        for line in report.summary():
            self._tell(Summary(said=line))
        repaired = self.options.repair and not self._unrepaired
        again = "after the repair " if repaired else ""
        shown = len(self._left)
        what = "all are listed" if result.remaining <= shown else f"the first {shown} are listed"
        rows = counted(result.remaining, "row")
        then = advice(
            result, repair=self.options.repair, unrepaired=self._unrepaired, unfit=self._unfit
        )
        raise DifferencesFound(
            f"{report.names}: {again}{rows} {'differs' if result.remaining == 1 else 'differ'};"
            f" {what}",
            hint=f"missing: only the source has the row; extra: only the target has it{then}",
            details=self._left,
        )


def _done(seen: ChecksumProgress) -> tuple[int, int, str]:
    return seen.passes, seen.rows, seen.doing


def compare(
    options: CompareConfig,
    *,
    reporter: Reporter,
    engine_factory: Callable[[CompareConfig], GangEngine] = SparkEngine,
    stop: StopSwitch | None = None,
) -> CompareReport:
    """Compare two tables, and repair the target where that was asked for; write the report.

    ``engine_factory`` makes the Spark engine, which is stopped at the end. Raises DifferencesFound,
    or a SpiritError with the exit code of the process (R16).
    """
    switch = stop or StopSwitch()
    reporter = Reporters([reporter])
    report = CompareReport(threads=options.threads, versions=versions())
    run = CompareRun(options, reporter, report, switch, engine_factory)

    def completed() -> CompareReport:
        run.complete()
        return report

    run_and_tell(
        run.run,
        stop=switch,
        reporter=reporter,
        report_json=options.records.report_json,
        begun=partial(run_begun, "checksum", options.source),
        broke=report.note_failure,
        completed=completed,
        status=run.status,
        left_at_once=lambda: Interrupted(
            signal.SIGINT, hint="nothing needs to be cleaned up by hand"
        ),
    )
    return report
