"""Compare two tables from options to report, whether it succeeds or fails."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from spirit_py.compare.report import CompareReport
from spirit_py.compare.run import CompareRun
from spirit_py.errors import Interrupted
from spirit_py.signals import run_command
from spirit_py.spark.engine import SparkEngine
from spirit_py.status.report import run_begun, told, versions
from spirit_py.status.safe_reporter import SafeReporter
from spirit_py.stop import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import CompareConfig
    from spirit_py.contracts import Reporter
    from spirit_py.spark.gang import GangEngine


def compare(
    options: CompareConfig,
    *,
    reporter: Reporter,
    engine_factory: Callable[[CompareConfig], GangEngine] | None = None,
    stop: StopSwitch | None = None,
) -> CompareReport:
    """Compare two tables, and repair the target where that was asked for.

    Args:
        engine_factory: makes the Spark engine, which is stopped at the end.
        stop: a switch of the caller's own, to stop from outside.

    Returns:
        The report, when the tables are equal (at the end); it is also written to
        ``options.records.report_json``, as is the report of every other outcome.

    Raises:
        DifferencesFound: rows differ.
        SpiritError: with the exit code of the process (R16).
    """
    switch = stop or StopSwitch()
    reporter = SafeReporter(reporter)
    report = CompareReport(threads=options.threads, versions=versions())
    run = CompareRun(options, reporter, report, switch, engine_factory or SparkEngine)

    def completed() -> CompareReport:
        run.complete()
        return report

    with told(
        options.records.report_json,
        reporter,
        begun=run_begun("checksum", options.source),
        broke=report.note_failure,
        completed=completed,
    ):
        run_command(
            run.run,
            stop=switch,
            reporter=reporter,
            status=run.status,
            left_at_once=lambda: Interrupted(
                signal.SIGINT, hint="nothing needs to be cleaned up by hand"
            ),
        )
    return report
