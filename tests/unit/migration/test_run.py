"""What a run keeps for its report."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.migration.run import Run
from spirit_py.threads import StopSwitch
from spirit_py.units import Window
from tests.kits.reporter import RecordingReporter


@pytest.mark.parametrize(
    ("windows", "paused", "still"),
    [((), "", False), ((), "paused by me", True), (("00:00-24:00",), "", False)],
)
def test_work_stands_still_as_the_operator_wants_it(windows, paused, still):
    """In a pause, and not in a window that is open; then no end of the work is known."""
    run = run_of(allow=tuple(map(Window.parse, windows)))
    run.settings.change(paused=paused)
    assert run.figures.paused() is still


def test_outside_of_its_windows_the_work_stands_still():
    """A window of the hour that begins in six hours is closed now, whatever time it is."""
    hour = (datetime.now(UTC) + timedelta(hours=6)).strftime("%H")
    begins = Window.parse(f"{hour}:00-{hour}:59Z")
    assert run_of(allow=(begins,)).figures.paused() is True


def run_of(told: RecordingReporter | None = None, **more: Any) -> Run:
    """Return a run that does nothing."""
    config: Any = MigrationConfig(connection=ConnectionOptions(), database="s", table="t", **more)
    engine: Any = None
    return Run(config, told or RecordingReporter(), engine_factory=engine, stop=StopSwitch())


def test_a_warning_that_comes_again_is_in_the_report_once():
    """Throttlers are made again for the swap, and warn again of what they cannot watch."""
    told = RecordingReporter()
    run = run_of(told)
    for text in ("the server knows no replica", "another", "the server knows no replica"):
        run.warn(text)
    assert run.report.warnings == ["the server knows no replica", "another"]
    assert told.text.count("the server knows no replica") == 2
