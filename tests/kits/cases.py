"""A case played through the command's entry point, in this process, on the shared Spark.

A wave of chunks begins only after every writer of the case has written again, so that rows change
between the moment a chunk is cut and the moment it is copied; and in one wave a chunk is held up
between its reading and its writing.
"""

from __future__ import annotations

import dataclasses
import json
import threading
from typing import TYPE_CHECKING, Any

from spirit_py import migration
from spirit_py.cli import migrate as command
from spirit_py.config import FeedOptions
from spirit_py.errors import SpiritError
from tests.kits.engine import SharedEngine
from tests.kits.reporter import RecordingReporter
from tests.oracle.scene import Outcome
from tests.oracle.stall import Stalls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from spirit_py.spark.engine import SparkEngine
    from tests.fixtures.mysql import Database
    from tests.oracle.case import Case

THREADS = 2
FIRST_ROWS = 60
#: So many waves wait for the writers; the later ones have them as they come.
WAITING_WAVES = 3
#: In this wave a chunk is held up in the middle, for so many rounds of writes.
STALLED_WAVE = 2
ROUNDS_OF_STALL = 3
#: Changes are applied all the time in small batches, so that they meet chunks in flight.
FEED = FeedOptions(flush_interval=0.05, batch_rows=100)
#: After the last checksum a batch holds several images of a key, which is where it goes wrong.
LATE_FEED = FeedOptions(flush_interval=0.2, batch_rows=100)
#: The one checksum is over when the writes begin, and none may come after them.
DEFERRED = ("--defer-cutover", "--recheck-interval", "1h", "--no-repair")


class StallingEngine(SharedEngine):
    """The shared Spark, whose first waves wait for the case's writers."""

    def __init__(
        self, engine: SparkEngine, db: Database, round_of_writes: Callable[[], None]
    ) -> None:
        """Wrap ``engine``; ``round_of_writes`` returns when every writer has written again."""
        super().__init__(engine)
        self._round = round_of_writes
        self._lock = threading.Lock()
        self._waves = 0
        self._stalls = Stalls(db, self._some_rounds)

    def _some_rounds(self) -> None:
        for _ in range(ROUNDS_OF_STALL):
            self._round()

    def run_wave(self, specs: Sequence[Any], function: Any, **more: Any) -> None:
        """Let the case's applications write, then run the wave; hold up a chunk of one wave."""
        with self._lock:
            self._waves += 1
            wave = self._waves
        if wave <= WAITING_WAVES:
            self._round()
        if wave != STALLED_WAVE:
            self._engine.run_wave(specs, function, **more)
            return
        with self._stalls.held(specs[0].sql, specs[0].time_zone):
            self._engine.run_wave(specs, function, **more)


def case_arguments(case: Case, db: Database) -> list[str]:
    """Return the words of a case behind ``spirit-py migrate``."""
    server = db.server
    table = "`" + case.expect.table.replace("`", "``") + "`"
    what = (
        ["--statement", case.statement.replace("{table}", table)]
        if case.statement
        else ["--table", case.expect.table, "--alter", case.alter]
    )
    return [
        *("--host", server.host, "--port", str(server.port)),
        *("--user", server.user, "--password", server.password),
        *("--database", db.name, *what, "--threads", str(THREADS)),
        *("--target-chunk-time", "0.02"),
        *([] if case.expect.shortcut else ["--no-shortcut"]),
        *(DEFERRED if case.timing.deferred else ()),
        *case.expect.arguments,
    ]


def migrate(
    case: Case,
    db: Database,
    another_round: Callable[[], None],
    feed: FeedOptions | None = None,
    *,
    engine: SparkEngine,
    folder: Path,
) -> Outcome:
    """Run the command in this process, with the one Spark of all cases."""
    path = folder / "report.json"
    arguments = [*case_arguments(case, db), "--report-json", str(path)]
    config = command.migration_config(command.migrate.make_context("migrate", arguments).params)
    config = dataclasses.replace(config, feed=feed or (LATE_FEED if case.timing.deferred else FEED))
    reporter = RecordingReporter()
    shared: Any = StallingEngine(engine, db, another_round)
    try:
        migration.migrate(config, reporter=reporter, engine_factory=lambda _: shared)
    except SpiritError as error:
        text = "\n".join([error.message, *error.details, error.hint])
        return Outcome(exit_code=error.exit_code, text=text, report=json.loads(path.read_text()))
    finally:
        print(reporter.text)  # noqa: T201 -- shown when the case fails
    report = json.loads(path.read_text())
    return Outcome(exit_code=0, text=reporter.text, report=report)
