"""The migration of one table of a batch, from its configuration to its report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from spirit_py.errors import AnotherServer, CriticalLoad, OutcomeUnknown
from spirit_py.migration.facts import TablesChanged
from spirit_py.migration.migration import run_migration
from spirit_py.migration.run import Run
from spirit_py.mysql.access import explain_access
from spirit_py.mysql.faults import server_away
from spirit_py.status.report import MigrationReport, versions

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import Reporter
    from spirit_py.events.event import Event, Gate
    from spirit_py.spark.gang import GangEngine
    from spirit_py.status.snapshot import MigrationStatus
    from spirit_py.stop import StopSwitch
    from spirit_py.throttle.measures import Measures

_ABOUT_THE_SERVER: Final = (OutcomeUnknown, CriticalLoad, AnotherServer)


class NamedReporter:
    """Shows each event under the name of its table; the batch shows the progress of all.

    Args:
        name: of the table.
    """

    def __init__(self, reporter: Reporter, name: str) -> None:
        self._reporter = reporter
        self._name = name

    def start(self) -> None:
        """Do nothing: the batch has begun to show."""

    def event(self, event: Event) -> None:
        """Show one thing that happened."""
        table = event.table or self._name
        self._reporter.event(replace(event, table=table, prefix=self._name))

    def progress(self, snapshot: Any) -> None:
        """Do nothing: the batch shows the progress."""

    def stop(self) -> None:
        """Do nothing: the batch goes on."""


class TableRun:
    """One migration.

    Args:
        changed: called when the table is changed, before what proves that is dropped; perhaps
            again by a later run.
        measures: as of :class:`spirit_py.migration.run.Run`, as is ``gate``.
        stop: a switch of its own: what ends this migration ends no other.

    Attributes:
        run: the migration's state, while it is under way.
        concerns_all: it has failed for a reason that any other table would meet too, or that the
            operator must look at first.
    """

    def __init__(
        self,
        config: MigrationConfig,
        reporter: Reporter,
        *,
        engine_factory: Callable[[MigrationConfig], GangEngine],
        stop: StopSwitch,
        changed: Callable[[], None],
        measures: Measures,
        gate: Gate | None = None,
    ) -> None:
        self._stop = stop
        self.concerns_all = False
        self._reporter = NamedReporter(reporter, f"{config.database}.{config.table}")
        self._changed = changed
        report = MigrationReport(
            threads=config.threads,
            versions=versions(),
            schema=config.database,
            table=config.table,
        )
        self.run = Run(
            config,
            self._reporter,
            engine_factory=engine_factory,
            stop=stop,
            report=report,
            gate=gate,
            measures=measures,
        )
        self.run.follow(self._happened)

    def _happened(self, happened: object) -> None:
        if isinstance(happened, TablesChanged):
            self._changed()

    @property
    def report(self) -> MigrationReport:
        """What has become of the table; whole when :meth:`execute` has returned."""
        return self.run.report

    def execute(self) -> None:
        """Run the migration to its end; what ends it is in the report."""
        try:
            run_migration(self.run)
        except BaseException as error:
            self.failed(self._stop.cause_of(error))
        finally:
            self.run.complete()

    def failed(self, error: BaseException) -> None:
        """Note what has ended it."""
        explain_access(error)
        self.run.broke(error)
        self.concerns_all = isinstance(error, _ABOUT_THE_SERVER) or server_away(error)

    def snapshot(self) -> MigrationStatus:
        """Take a snapshot for the display."""
        return self.run.snapshots.take()
