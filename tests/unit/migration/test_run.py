"""What a run keeps for its report."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.migration.figures import Figures
from spirit_py.migration.run import Run
from spirit_py.status.report import MigrationReport
from spirit_py.stop import StopSwitch
from spirit_py.windows import Window
from tests.kits.reporter import RecordingReporter


@pytest.mark.parametrize(
    ("windows", "paused", "still"),
    [((), "", False), ((), "paused by me", True), (("00:00-24:00",), "", False)],
)
def test_work_stands_still_as_the_operator_wants_it(windows, paused, still):
    """In a pause, and not in a window that is open; then no end of the work is known."""
    figures = Figures(MigrationReport(threads=1, versions={}))
    run = run_of(figures, allow=tuple(map(Window.parse, windows)))
    run.settings.change(paused=paused)
    assert figures.paused() is still


def test_outside_of_its_windows_the_work_stands_still():
    """A window of the hour that begins in six hours is closed now, whatever time it is."""
    hour = (datetime.now(UTC) + timedelta(hours=6)).strftime("%H")
    begins = Window.parse(f"{hour}:00-{hour}:59Z")
    figures = Figures(MigrationReport(threads=1, versions={}))
    run_of(figures, allow=(begins,))
    assert figures.paused() is True


def run_of(figures: Figures, **more: Any) -> Run:
    """Return a run that does nothing."""
    config: Any = MigrationConfig(connection=ConnectionOptions(), database="s", table="t", **more)
    engine: Any = None
    return Run(config, RecordingReporter(), figures, engine_factory=engine, stop=StopSwitch())


def test_a_warning_that_comes_again_is_in_the_report_once():
    """Throttlers are made again for the swap, and warn again of what they cannot watch."""
    report, told = MigrationReport(threads=1, versions={}), RecordingReporter()
    config: Any = MigrationConfig(connection=ConnectionOptions(), database="s", table="t")
    engine: Any = None
    run = Run(config, told, Figures(report), engine_factory=engine, stop=StopSwitch())
    for text in ("the server knows no replica", "another", "the server knows no replica"):
        run.warn(text)
    assert report.warnings == ["the server knows no replica", "another"]
    assert told.text.count("the server knows no replica") == 2
