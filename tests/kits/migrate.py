"""Run a whole migration in this process, on the engine that a test has."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from spirit_py.config import MigrationConfig
from spirit_py.migration import entry
from spirit_py.threads import StopSwitch
from tests.kits.connection import connection_options
from tests.kits.engine import SharedEngine
from tests.kits.reporter import RecordingReporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.spark.gang import GangEngine
    from spirit_py.status.report import MigrationReport
    from tests.fixtures.mysql import Database


def config_for(db: Database, **more: Any) -> MigrationConfig:
    """Return the configuration of a small migration in the test's schema."""
    return MigrationConfig(
        **{
            "connection": connection_options(db),
            "database": db.name,
            "threads": 2,
            "target_chunk_time": 0.05,
            **more,
        }
    )


class Migrating:
    """A migration that runs in a thread of its own."""

    def __init__(self, engine: GangEngine, config: MigrationConfig) -> None:
        self.told = RecordingReporter()
        self.stop = StopSwitch()
        self.error: BaseException | None = None
        self.report: MigrationReport | None = None
        self._engine: Any = SharedEngine(engine)
        self._config = config
        self._thread = threading.Thread(target=self._run, name="migrating", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.report = entry.migrate(
                self._config,
                reporter=self.told,
                engine_factory=lambda _: self._engine,
                stop=self.stop,
            )
        except BaseException as error:
            self.error = error

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def wait_until(self, condition: Callable[[], Any], what: str, seconds: float = 150.0) -> None:
        """Wait until a condition holds, while the migration runs; tell what it said if not."""
        deadline = time.monotonic() + seconds
        while not condition():
            alive = self.running or condition()
            assert alive, f"it ended before {what}: {self.error!r}\n{self.told.text}"
            assert time.monotonic() < deadline, f"no {what} in {seconds} s\n{self.told.text}"
            time.sleep(0.05)

    def end(self, seconds: float = 240.0) -> MigrationReport:
        """Wait for the end; return the report, or raise what ended it."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"still running: {self.told.text}"
        if self.error is not None:
            raise self.error
        assert self.report is not None
        return self.report


def warnings_of(report: MigrationReport) -> list[str]:
    """Return the warnings of a run, but for that its server, as tests have it, is not durable."""
    return [text for text in report.warnings if "sync_binlog" not in text]


def migrate_here(
    engine: GangEngine, config: MigrationConfig
) -> tuple[MigrationReport, RecordingReporter]:
    """Run a migration to its end; return the report and what was said."""
    migrating = Migrating(engine, config)
    return migrating.end(), migrating.told
