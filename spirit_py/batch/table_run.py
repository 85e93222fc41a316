"""The migration of one table of a batch, and the one Spark for all of them.

Each migration gets a lease, which it starts and stops like an engine of its own; the engine
(:class:`spirit_py.spark.engine.SparkEngine`) is stopped at the end of the batch. Where Spark is
lost, the migrations under way go on in threads of the driver, and the next one starts another
Spark.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spirit_py.contracts import QuietReporter
from spirit_py.errors import AnotherServer, CriticalLoad, OutcomeUnknown
from spirit_py.events.copy import ChecksumDone, CopyDone
from spirit_py.events.run import AlgorithmChosen, PlanMade, StatementRead, Warned
from spirit_py.events.swap import SwapDone
from spirit_py.migration.facts import PlainFact
from spirit_py.migration.migration import run_migration
from spirit_py.migration.run import Run
from spirit_py.mysql.faults import server_away
from spirit_py.mysql.grants import explain_access
from spirit_py.status.report import MigrationReport, versions

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import Reporter
    from spirit_py.errors import SpiritError
    from spirit_py.events.event import Event, Gate
    from spirit_py.progress import MigrationStatus
    from spirit_py.spark.gang import GangEngine
    from spirit_py.spark.member import Outcome
    from spirit_py.threads import StopSwitch
    from spirit_py.throttle.latency import Measures

_R = TypeVar("_R")


class SharedSpark:
    """Makes the engine, with all slots, when the first migration needs one. Thread-safe."""

    def __init__(
        self, factory: Callable[[MigrationConfig], GangEngine], config: MigrationConfig
    ) -> None:
        self._factory = factory
        self._config = config
        self._lock = threading.Lock()
        self._engine: GangEngine | None = None

    def lease(self, config: MigrationConfig) -> SparkLease:
        """Return the engine of one migration; Refusal for wrong settings, or without Java."""
        with self._lock:
            if self._engine is not None and self._engine.failure is not None:
                self._engine.stop()
                self._engine = None
            if self._engine is None:
                self._engine = self._factory(self._config)
            return SparkLease(self._engine, config.threads, of=self._config.threads)

    def stop(self) -> None:
        """Stop the engine, if there is one."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.stop()


class SparkLease:
    """Spark as one migration sees it; see :class:`spirit_py.spark.gang.GangEngine`."""

    def __init__(self, engine: GangEngine, slots: int, *, of: int) -> None:
        self._engine = engine
        self._slots = slots
        self._of = of
        self._ended = False

    @property
    def in_process(self) -> bool:
        """Whether the tasks are threads of this process."""
        return self._engine.in_process

    @property
    def ready(self) -> bool:
        """Whether a gang would begin at once."""
        return self._engine.ready and not self._ended

    @property
    def failure(self) -> SpiritError | None:
        """Why it will never be ready."""
        return self._engine.failure

    @property
    def slots(self) -> int:
        """How many tasks of this migration can run at the same time."""
        slots = self._engine.slots
        return max(1, min(self._slots, slots, slots * self._slots // self._of))

    def run_gang(self, function: Callable[[int], _R], **how: Any) -> list[Outcome[_R]]:
        """Run ``function(rank)`` in some tasks at once; block until all have ended."""
        return self._engine.run_gang(function, **how)

    def cancel(self, group: str) -> None:
        """Cancel the jobs of a group."""
        self._engine.cancel(group)

    def context(self) -> Any:
        """Return Spark's context, once it has started."""
        return self._engine.context()

    def start(self) -> None:
        """Begin to start Spark."""
        self._engine.start()

    def stop(self) -> None:
        """End the lease; Spark itself goes on for the next migration."""
        self._ended = True


_ABOUT_THE_SERVER: Final = (OutcomeUnknown, CriticalLoad, AnotherServer)

#: What each table says; the batch has a line of each when it is changed, and of what goes wrong.
_ROUTINE: Final = (StatementRead, PlanMade, AlgorithmChosen, CopyDone, SwapDone)


class NamedReporter(QuietReporter):
    """Shows events under their table's name, the batch the rest; ``said`` are others' warnings."""

    def __init__(self, reporter: Reporter, name: str, said: set[str]) -> None:
        self._reporter = reporter
        self._name = name
        self._said = said

    def event(self, event: Event) -> None:
        """Show one thing that happened."""
        table = event.table or self._name
        quiet = isinstance(event, _ROUTINE) or (
            isinstance(event, ChecksumDone) and not event.differences
        )
        if isinstance(event, Warned):
            quiet = event.sentence in self._said
            self._said.add(event.sentence)
        self._reporter.event(replace(event, table=table, prefix=self._name, quiet=quiet))


class TableRun:
    """One migration.

    ``changed`` is called before the proof of the change is dropped, perhaps again by a later run;
    ``stop`` ends no other migration. ``concerns_all``: it failed for a reason that any other table
    would meet too, or that the operator must look at first.
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
        said: set[str],
        gate: Gate | None = None,
    ) -> None:
        self._stop = stop
        self.concerns_all = False
        self._reporter = NamedReporter(reporter, f"{config.database}.{config.table}", said)
        self._changed = changed
        report = MigrationReport(
            threads=config.threads, versions=versions(), schema=config.database, table=config.table
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
        if happened is PlainFact.TABLES_CHANGED:
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
            self.failed(self.run.cause_of(error))
        finally:
            self.run.complete()

    def failed(self, error: BaseException) -> None:
        """Note what has ended it."""
        explain_access(error)
        self.run.broke(error)
        # After the swap the error says that the change is done, whatever has ended the run.
        ended = (error, self._stop.reason)
        self.concerns_all = any(isinstance(one, _ABOUT_THE_SERVER) for one in ended)
        self.concerns_all |= server_away(error)

    def snapshot(self) -> MigrationStatus:
        """Take a snapshot for the display."""
        return self.run.snapshots.take()
