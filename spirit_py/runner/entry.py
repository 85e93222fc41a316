"""Run one migration from configuration to report, whatever happens on the way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spirit_py.errors import Interrupted, OutcomeUnknown, Refusal, SpiritError
from spirit_py.runner.figures import Figures
from spirit_py.runner.migration import Migration
from spirit_py.signals import stop_on_signals
from spirit_py.spark.options import SparkOptions
from spirit_py.spark.session import SparkEngine
from spirit_py.status.report import MigrationReport, versions
from spirit_py.status.ticker import Ticker
from spirit_py.stop import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import Reporter

_OUTCOMES = ((Refusal, "refused"), (OutcomeUnknown, "unknown"), (Interrupted, "interrupted"))


def migrate(
    config: MigrationConfig,
    *,
    reporter: Reporter,
    engine_factory: Callable[[MigrationConfig], SparkEngine] | None = None,
    stop: StopSwitch | None = None,
) -> MigrationReport:
    """Run one migration to its end.

    Args:
        engine_factory: Makes the Spark engine, which the migration stops at its end.
        stop: A switch of the caller's own, to stop the migration from outside.

    Returns:
        The report of a finished migration; it is also written to ``config.report_json``, as is
        the report of one that failed.

    Raises:
        SpiritError: with the exit code of the process (R16).
    """
    switch = stop or StopSwitch()
    report = MigrationReport(threads=config.threads, versions=versions())
    figures = Figures(report)
    migration = Migration(
        config, reporter, figures, engine_factory=engine_factory or spark_engine, stop=switch
    )
    try:
        with stop_on_signals(switch), Ticker(figures.snapshot, reporter):
            migration.run()
    except BaseException as error:
        cause = _true_cause(error, switch)
        _note_failure(report, cause)
        if cause is error:
            raise
        raise cause from error
    finally:
        figures.complete()
        if config.report_json is not None:
            report.write(config.report_json)
    return report


def spark_engine(config: MigrationConfig) -> SparkEngine:
    """Make the Spark engine that the configuration asks for.

    Raises:
        Refusal: when there is no usable Java.
    """
    return SparkEngine(
        SparkOptions(
            master=config.spark_master,
            threads=config.threads,
            conf=config.spark_conf,
            ui=config.spark_ui,
            log_file=Path("spirit-py-spark.log").absolute() if config.verbose else None,
        )
    )


def _true_cause(error: BaseException, stop: StopSwitch) -> BaseException:
    """Give the reason of the stop request where ``error`` only followed from it."""
    if isinstance(error, (OutcomeUnknown, Refusal)) or stop.reason is None:
        return error
    return stop.reason


def _note_failure(report: MigrationReport, error: BaseException) -> None:
    """Put outcome, exit code, cause and remedy into the report."""
    report.outcome = next((name for kind, name in _OUTCOMES if isinstance(error, kind)), "failed")
    report.exit_code, report.error = 1, f"{type(error).__name__}: {error}"
    if isinstance(error, SpiritError):
        report.exit_code, report.error = error.exit_code, error.message
        report.hint, report.details = error.hint, list(error.details)
