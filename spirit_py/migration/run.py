"""The state of one run of ``migrate``, which all its phases share."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from spirit_py.errors import ServerFault
from spirit_py.events.run import PhaseEntered
from spirit_py.migration.process import Process
from spirit_py.migration.veto import Veto
from spirit_py.mysql.connect import connect
from spirit_py.mysql.earlier_runs import end_own_statements
from spirit_py.phases import Phase, planned_phases
from spirit_py.throttle.settings import LiveSettings, PaceSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import Reporter
    from spirit_py.cutover.cutover import Cutover
    from spirit_py.events.event import Gate
    from spirit_py.migration.figures import Figures
    from spirit_py.mysql.traffic import Traffic
    from spirit_py.preflight.check import Finding
    from spirit_py.spark.gang import GangEngine
    from spirit_py.status.report import MigrationReport
    from spirit_py.stop import StopSwitch
    from spirit_py.throttle.measures import Measures

_PREPARING: Final = frozenset({Phase.PREFLIGHT, Phase.SHORTCUT, Phase.CREATE})
_HURRY_SECONDS: Final = 3


class SwapsBack(Protocol):
    """The reverse replication, as far as an operator's request meets its RENAME."""

    @property
    def renaming(self) -> bool:
        """Whether a RENAME is under way, and not known to have swapped the tables back."""

    def may_be_back(self) -> bool:
        """Whether the old tables are in place again, or a RENAME that may do it was sent."""


class Run(Process):
    """One run of ``migrate``.

    Attributes:
        leaving: the teardown has begun.
        resumable: a record that can be resumed from is in the checkpoint table.
        recorded: whether there is one already, while the run still writes them.
        cutover: the swap, once it began.
        altering: a change in place was sent, or is about to be, and its outcome is not known yet.
        altered: it was made; set before ``altering`` ends.
        keeper: the reverse replication, once it began.
        entered: called when a phase begins.
        veto: the hook that may hold the swap back.
        undeferred: an operator wants the swap not to wait for a sentinel of ours.
        postponements: how often an operator has postponed the swap, each counted once its sentinel
            is there.
        swapped_before: an earlier run has swapped the tables.
        settings: those of the pace; a change takes effect at once.
        measures: shared with the migrations that run at the same time in this process; None where
            none does.
        traffic: when, on the monotonic clock, and what the other sessions had done before the new
            tables were made; None before that.
        changed: called when the tables are changed, before what proves that is dropped; perhaps
            again by a later run.
    """

    config: MigrationConfig

    def __init__(
        self,
        config: MigrationConfig,
        reporter: Reporter,
        figures: Figures,
        *,
        engine_factory: Callable[[MigrationConfig], GangEngine],
        stop: StopSwitch,
        gate: Gate | None = None,
    ) -> None:
        super().__init__(config, reporter, engine_factory=engine_factory, stop=stop)
        self.figures = figures
        figures.phase_entered = self._tell_phase
        figures.planned = planned_phases(
            defers=config.defer_cutover,
            keeps_current=config.keep_old_current > 0,
            has_grace=config.drop_old_after > 0,
            rehearses=config.dry_run,
        )
        self.leaving = False
        self.resumable = False
        self.recorded: Callable[[], bool] = lambda: self.resumable
        self.cutover: Cutover | None = None
        self.keeper: SwapsBack | None = None
        self.entered: Callable[[], None] = lambda: None
        self.altering = self.altered = False
        self.undeferred = False
        self.postponements = 0
        self.swapped_before = False
        self.measures: Measures | None = None
        self.traffic: tuple[float, Traffic] | None = None
        self.changed: Callable[[], None] = lambda: None
        self.settings = LiveSettings(_pace_settings(config))
        figures.paused = self._paused
        self.veto = Veto(
            self, gate, unpaused=self.settings.unpaused, tables=lambda: list(self.report.tables)
        )

    def hurry(self) -> None:
        """After a stop request: end a statement of the preparation that may run for hours.

        All later phases look at the stop switch themselves, and end their statements.
        """
        connection = self.config.connection
        if self.leaving or self.figures.phase not in _PREPARING or not connection.label:
            return
        quick = replace(connection, connect_timeout=_HURRY_SECONDS)
        with (
            contextlib.suppress(ServerFault),
            connect(quick, role="hurry", read_timeout=_HURRY_SECONDS) as session,
        ):
            end_own_statements(session, connection.label)

    def _paused(self) -> bool:
        """Whether the work stands still as the operator wants it: a pause, or the time of day."""
        windows, now = self.config.allow, datetime.now(UTC)
        closed = bool(windows) and not any(window.is_open(now) for window in windows)
        return closed or bool(self.settings.current.paused)

    @property
    def may_be_swapped(self) -> bool:
        """Whether the tables are swapped, or a RENAME that may have swapped them was sent."""
        return self.cutover is not None and (self.cutover.swapped or self.cutover.renaming)

    @property
    def renaming(self) -> bool:
        """Whether a RENAME is under way, and not known to have swapped the tables."""
        if self.keeper is not None:
            return self.keeper.renaming
        return self.cutover is not None and self.cutover.renaming and not self.cutover.swapped

    @property
    def report(self) -> MigrationReport:
        """The report that this run fills."""
        return self.figures.report

    def show(self, waiting_for: str) -> None:
        """Show what is waited for now."""
        self.figures.waiting_for = waiting_for

    def enter(self, phase: Phase) -> None:
        """Go to the next phase."""
        self.stop.check()
        self.figures.enter(phase)
        self.entered()

    def warn(self, text: str, *, code: str | None = None) -> None:
        """Report something that the operator should know; in the final report once."""
        if text not in self.report.warnings:
            self.report.warnings.append(text)
        super().warn(text, code=code)

    def _tell_phase(self, before: Phase, phase: Phase, seconds: float) -> None:
        self.tell(PhaseEntered(phase=phase.value, before=before.value, seconds=round(seconds, 3)))

    def warn_of(self, findings: tuple[Finding, ...]) -> None:
        """Report what the checks found and did not refuse."""
        for finding in findings:
            text = f"{finding.cause} ({finding.remedy})" if finding.remedy else finding.cause
            self.warn(text, code=finding.code)


def _pace_settings(config: MigrationConfig) -> PaceSettings:
    """Return what the operator asked for at the beginning."""
    return PaceSettings(
        threads=config.threads,
        chunk_seconds=config.target_chunk_time,
        nice=config.nice,
        adaptive=not config.aggressive,
        max_load=config.max_load,
        critical_load=config.critical_load,
        max_lag=config.max_lag,
    )
