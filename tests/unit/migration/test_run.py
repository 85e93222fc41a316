"""What a run keeps for its report."""

from __future__ import annotations

from typing import Any

from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.migration.figures import Figures
from spirit_py.migration.run import Run
from spirit_py.status.report import MigrationReport
from spirit_py.stop import StopSwitch
from tests.kits.reporter import RecordingReporter


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
