"""Every case of ``tests/cases`` through the real entry point, judged by the server itself.

One Spark serves all cases. A wave of chunks begins only after every writer of the case has written
again, so that rows change between the moment a chunk is cut and the moment it is copied; and in
one wave a chunk is held up between its reading and its writing.
``SPIRIT_PY_CASE_SEED`` replays the random numbers of a case's writers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py import runner
from spirit_py.chunk.sizing import ChunkSizer
from spirit_py.cli import migrate as command
from spirit_py.config import FeedOptions
from spirit_py.errors import SpiritError
from tests.oracle.case import FOLDER as CASES
from tests.oracle.case import Case, load, load_all
from tests.oracle.scene import Outcome, play
from tests.oracle.stall import Stalls
from tests.oracle.zones import test_zones as zones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from spirit_py.spark.session import SparkEngine
    from tests.fix_mysql import Database

THREADS = 2
FIRST_ROWS = 60
#: So many waves wait for the writers; the later ones have them as they come.
WAITING_WAVES = 3
#: In this wave a chunk is held up in the middle, for so many rounds of writes.
STALLED_WAVE = 2
ROUNDS_OF_STALL = 3
#: Changes are applied all the time in small batches, so that they meet chunks in flight.
FEED = FeedOptions(flush_interval=0.05, batch_rows=100)
WITHOUT_GTID = ("big_transactions", "hot_rows", "key_varchar_ai_ci", "unique_values_moving")


class SharedEngine:
    """The one Spark of all cases, as each migration sees it: stopping it does nothing."""

    def __init__(
        self, engine: SparkEngine, db: Database, round_of_writes: Callable[[], None]
    ) -> None:
        """Wrap ``engine``; ``round_of_writes`` returns when every writer has written again."""
        self._engine = engine
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

    def stop(self) -> None:
        """Leave Spark running for the next case."""

    def __getattr__(self, name: str) -> Any:
        """Give everything else as the engine has it."""
        return getattr(self._engine, name)


class Recorder:
    """A reporter that keeps what the operator would have read."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self.lines: list[str] = []

    def start(self) -> None:
        """Nothing to prepare."""

    def message(self, text: str, **fields: object) -> None:
        """Keep a line."""
        self.lines.append(f"{text} {fields or ''}")

    def progress(self, snapshot: Any) -> None:
        """Look at the snapshot as a display would."""
        str(snapshot)

    def stop(self) -> None:
        """Nothing to clean."""


@pytest.fixture
def spark(spark_engine: SparkEngine) -> SparkEngine:
    """Return the one Spark of the test session, for all cases."""
    return spark_engine


@pytest.fixture(autouse=True)
def other_time_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the program run in a time zone that is neither the server's nor any writer's."""
    monkeypatch.setenv("TZ", "XYZ-11:15")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def command_line(case: Case, db: Database) -> list[str]:
    """Give the command line of a case."""
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
        *case.expect.arguments,
    ]


def migrate(
    case: Case,
    db: Database,
    another_round: Callable[[], None],
    *,
    engine: SparkEngine,
    folder: Path,
) -> Outcome:
    """Run the command in this process, with the one Spark of all cases."""
    path = folder / "report.json"
    arguments = [*command_line(case, db), "--report-json", str(path)]
    config = command.migration_config(command.migrate.make_context("migrate", arguments).params)
    config = dataclasses.replace(config, feed=FEED)
    recorder = Recorder()
    shared: Any = SharedEngine(engine, db, another_round)
    try:
        runner.migrate(config, reporter=recorder, engine_factory=lambda _: shared)
    except SpiritError as error:
        text = "\n".join([error.message, *error.details, error.hint])
        return Outcome(exit_code=error.exit_code, text=text, report=json.loads(path.read_text()))
    finally:
        print("\n".join(recorder.lines))  # noqa: T201 -- shown when the case fails
    report = json.loads(path.read_text())
    return Outcome(exit_code=0, text="\n".join(recorder.lines), report=report)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first chunks be small, so that even a small table is copied in many."""
    defaults: Any = ChunkSizer.__init__.__kwdefaults__
    monkeypatch.setitem(defaults, "first_rows", FIRST_ROWS)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("case", load_all(), ids=lambda case: case.name)
def test_case(case: Case, db: Database, spark: SparkEngine, tmp_path: Path) -> None:
    """The table is, in every row and column, what the server itself would have made of it."""
    with zones(db) if case.named_zones else contextlib.nullcontext():
        play(case, db, functools.partial(migrate, engine=spark, folder=tmp_path))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("name", WITHOUT_GTID)
def test_case_without_gtid(
    name: str, db_file: Database, spark: SparkEngine, tmp_path: Path
) -> None:
    """On a server without GTIDs the feed knows places by file and offset, and nothing is lost."""
    play(load(CASES / name), db_file, functools.partial(migrate, engine=spark, folder=tmp_path))


def test_command_line(db: Database, tmp_path: Path) -> None:
    """The command itself, in a process of its own, does what the entry point does."""

    def command(case: Case, db: Database, another_round: Callable[[], None]) -> Outcome:
        path = tmp_path / "report.json"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "spirit_py", "migrate"),
                *(*command_line(case, db), "--report-json", str(path)),
            ],
            env={**os.environ, "SPIRIT_PY_LOG_FORMAT": "json"},
            capture_output=True,
            text=True,
            check=False,
        )
        report = json.loads(path.read_text()) if path.exists() else {}
        return Outcome(exit_code=done.returncode, text=done.stdout + done.stderr, report=report)

    play(load(CASES / "add_column"), db, command)
