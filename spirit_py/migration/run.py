"""The state of one run of ``migrate``, which all its phases share."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from spirit_py.errors import SpiritError
from spirit_py.events.run import PhaseEntered
from spirit_py.migration.control.settings import SETTINGS
from spirit_py.migration.facts import Broken, Counted, Fact, LockHeldUp, PlainFact, WaitsFor
from spirit_py.migration.figures import Figures, Journal
from spirit_py.migration.job import Job
from spirit_py.migration.snapshots import Snapshots
from spirit_py.migration.swap.veto import Veto
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import end_own_statements
from spirit_py.phases import Phase, planned_phases
from spirit_py.signals import run_and_tell
from spirit_py.status.report import MigrationReport, run_begun, versions
from spirit_py.throttle.settings import LiveSettings, PaceSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import Reporter, SwappedAlong
    from spirit_py.events.event import Event, Gate
    from spirit_py.migration.control.subject import Conversation
    from spirit_py.migration.state import State
    from spirit_py.preflight.check import Finding
    from spirit_py.spark.gang import GangEngine
    from spirit_py.threads import StopSwitch
    from spirit_py.throttle.latency import Measures

#: Phases whose statements a stop may end.
_ENDED: Final = frozenset({Phase.PREFLIGHT, Phase.SHORTCUT, Phase.CREATE, Phase.ARCHIVE})
_HURRY_SECONDS: Final = 3


class Swaps(Protocol):
    """The swap, as far as the end of a run and an operator's request are about it."""

    @property
    def swapped(self) -> bool:
        """Whether the tables are known to be swapped."""

    @property
    def renaming(self) -> bool:
        """Whether a RENAME was sent, or is about to be, and is not known to have failed."""


class SwapsBack(Protocol):
    """The reverse replication, as far as an operator's request is about it."""

    @property
    def renaming(self) -> bool:
        """Whether a RENAME is under way, and not known to have swapped the tables back."""

    @property
    def hands_over(self) -> bool:
        """Whether it takes no more requests, and another will that swaps back too."""

    @property
    def asked(self) -> bool:
        """Whether a revert waits for an answer."""

    def may_be_back(self) -> bool:
        """Whether the old tables are in place again, or a RENAME that may do it was sent."""

    def ask(self, *, skip_drop: bool) -> Conversation:
        """Have the tables swapped back; any thread. Refusal once reverse replication is over."""


class Run(Job):
    """One run of ``migrate``.

    One class because it is a process with a state: what it adds is what happens, and what may
    hold back or undo the swap. ``measures`` are shared with the runs of the same process;
    a change of ``settings``, those of the pace, takes effect at once.
    """

    config: MigrationConfig

    def __init__(
        self,
        config: MigrationConfig,
        reporter: Reporter,
        *,
        engine_factory: Callable[[MigrationConfig], GangEngine],
        stop: StopSwitch | None,
        report: MigrationReport | None = None,
        gate: Gate | None = None,
        measures: Measures | None = None,
        along: SwappedAlong | None = None,
    ) -> None:
        super().__init__(config, reporter, engine_factory=engine_factory, stop=stop)
        self.journal = Journal(
            report or MigrationReport(threads=config.threads, versions=versions()),
            planned=planned_phases(
                defers=config.defer_cutover,
                keeps_current=config.keep_old_current > 0,
                archives=bool(config.archive_to),
                has_grace=config.drop_old_after > 0,
                rehearses=config.dry_run,
            ),
        )
        pace = {one.field: getattr(config, one.field) for one in SETTINGS.values()}
        self.settings = LiveSettings(PaceSettings(**pace))
        self.figures = Figures(self.journal, paused=self._paused)
        self.snapshots = Snapshots(self.figures, server=config.connection.address)
        self.measures = measures
        self.lag_warnings: set[str] = set()
        self.along = along
        self.veto = Veto(self, gate, tables=lambda: list(self.report.tables))
        #: The swap, and the reverse replication, once they began.
        self.cutover: Swaps | None = None
        self.keeper: SwapsBack | None = None

    @property
    def state(self) -> State:
        """How far the run is."""
        return self.journal.state

    @property
    def report(self) -> MigrationReport:
        """What the report says so far."""
        return self.state.report

    @property
    def table(self) -> str:
        """The table that every event names; empty where there are several."""
        return self.state.table

    def hurry(self) -> None:
        """End statements that may run for hours, after a stop request: they wrote nothing yet.

        Those of the preparation, and those of an archive, which only read.
        """
        connection = self.config.connection
        state = self.state
        if state.leaving or state.phase not in _ENDED or not connection.label:
            return
        for options in dict.fromkeys((connection, *self.config.others)):
            quick = replace(options, connect_timeout=_HURRY_SECONDS)
            with (
                # Also of another server that answers, as after a failover.
                contextlib.suppress(SpiritError),
                connect(quick, role="hurry", read_timeout=_HURRY_SECONDS) as session,
            ):
                end_own_statements(session, options.label)

    def _paused(self) -> bool:
        windows, now = self.config.allow, datetime.now(UTC)
        closed = bool(windows) and not any(window.is_open(now) for window in windows)
        return closed or bool(self.settings.current.paused)

    def swap_with(self, cutover: Swaps) -> None:
        """Note the swap that begins."""
        self.cutover = cutover

    def keep_with(self, keeper: SwapsBack) -> None:
        """Note the reverse replication that begins."""
        self.keeper = keeper

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
    def is_changed(self) -> bool:
        """Whether the tables are known to be changed, by this or an earlier run, and not back."""
        if self.keeper is not None and self.keeper.may_be_back():
            return False
        state, cutover = self.state, self.cutover
        swapped = state.swapped_before or (cutover is not None and cutover.swapped)
        return swapped or state.altered or state.changed

    #: What a stop says is done, after a revert and after the change.
    _done_by_then = "the old definition is in place again", "the change is done"

    @property
    def done_hint(self) -> str:
        """What is left to do once the tables are changed, or swapped back; empty before."""
        back, done = self._done_by_then
        if self.keeper is not None and self.keeper.may_be_back():
            return f"{back}, and the same command ends that"
        return f"{done}; the same command finishes what is left to do" if self.is_changed else ""

    # -- what happens

    def tell(self, event: Event) -> None:
        """Report that something happened, to the state and to people."""
        told = event.about(self.table)
        self.journal.note(told)
        super().tell(told)

    def note(self, fact: Fact) -> None:
        """Report what only the run itself needs to know."""
        self.journal.note(fact)
        self._pass_on(fact)

    def show(self, waiting_for: str) -> None:
        """Show what is waited for now."""
        self.journal.note(WaitsFor(waiting_for))

    def held_up(self, what: str, seconds: float) -> None:
        """Count seconds in which others held up a lock."""
        self.journal.note(LockHeldUp(what, seconds))

    def enter(self, phase: Phase) -> None:
        """Go to the next phase, unless the run is to stop."""
        self.stop.check()
        self.go_on_to(phase)

    def go_on_to(self, phase: Phase) -> None:
        """Go to a phase in which the run may end at any time: the tables are changed."""
        log, now = self.state.phases, self.journal.clock()
        spent = round(now - log.entered_at, 3)
        self.tell(PhaseEntered(phase=phase.value, before=log.current.value, seconds=spent))

    def complete(self) -> None:
        """Count what the parts have done, for the report."""
        self.note(Counted(self.figures.counted()))

    def broke(self, error: BaseException) -> None:
        """Note what has ended the run; of an archive the same command carries on."""
        resumable = not isinstance(error, SpiritError) or error.resumable
        if self.state.phase is Phase.ARCHIVE and resumable:
            self.note(PlainFact.STAYS_RESUMABLE)
        self.note(Broken(error))

    def warn_of(self, findings: tuple[Finding, ...]) -> None:
        """Report what the checks found and did not refuse."""
        for finding in findings:
            text = f"{finding.cause} ({finding.remedy})" if finding.remedy else finding.cause
            self.warn(text, code=finding.code)


def run_to_its_end(
    run: Run,
    reporter: Reporter,
    command: str,
    work: Callable[[], None],
    *,
    left_at_once: Callable[[], SpiritError],
) -> MigrationReport:
    """Do a command's work under its signals and its display; write and return the report.

    Raises SpiritError with the exit code of the process (R16): ``left_at_once`` that of one who
    does not wait for the end.
    """

    def completed() -> MigrationReport:
        run.complete()
        return run.report

    run_and_tell(
        partial(run.to_its_end, work),
        stop=run.stop,
        reporter=reporter,
        report_json=run.config.records.report_json,
        begun=partial(run_begun, command, run.config.connection),
        broke=run.broke,
        completed=completed,
        status=run.snapshots.take,
        left_at_once=left_at_once,
        hurry=run.hurry,
    )
    return run.report
