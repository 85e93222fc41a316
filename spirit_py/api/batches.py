"""Many tables, each by a migration of its own, as functions.

The plan, the record on the server and the report are those of ``spirit-py migrate --tables`` and
``--statements`` (:mod:`spirit_py.batch`). Nothing asks whether the tables are those that are meant:
a caller who wants to see them first has ``dry_run``, or stops the run at ``batch.planned``.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from spirit_py.api.running import Running
from spirit_py.api.values import option_values
from spirit_py.codes import ErrorCode
from spirit_py.errors import Interrupted, MigrationFailure, OutcomeUnknown
from spirit_py.events.event import teller
from spirit_py.options.commands import BatchArguments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.batch.report import BatchReport
    from spirit_py.config import BatchConfig
    from spirit_py.contracts import Reporter
    from spirit_py.status.snapshot import BatchStatus
    from spirit_py.stop import StopSwitch


class BatchFailed(MigrationFailure):
    """Tables of a batch have failed, or were refused; the others are changed, or left.

    Attributes:
        report: what became of each table.
    """

    def __init__(self, report: BatchReport) -> None:
        self.report = report
        failed = [one for one in report.tables if one["failed"] or one["stopped"]]
        names = ", ".join(f"{one['schema']}.{one['table']}" for one in failed)
        super().__init__(
            report.error or f"{len(failed)} of {len(report.tables)} tables failed: {names}",
            hint=report.hint or "the same call carries on with what is left",
            details=tuple(f"{one['schema']}.{one['table']}: {one['error']}" for one in failed),
            error_code=ErrorCode(report.error_code) if report.error_code else None,
        )
        self.exit_code = report.exit_code


def migrate_batch(
    *, handle_signals: bool = False, **options: Unpack[BatchArguments]
) -> BatchReport:
    """Change many tables online; return when all are changed.

    Give ``tables`` with ``alter``, or ``statements``: the name of a file, or a list of statements.

    An exception in the calling thread stops the migrations in order; the same call carries on.

    Args:
        handle_signals: SIGINT and SIGTERM stop the migrations, in the main thread.
        options: those of ``spirit-py migrate``.

    Raises:
        UsageFault: an option is wrong; nothing was done.
        Refusal: the tables may not be changed; nothing was written.
        BatchFailed: tables have failed; it has the report.
        SpiritError: it has failed as a whole.
    """
    with start_batch(handle_signals=handle_signals, **options) as running:
        running.wait()
        return running.report


def start_batch(
    *, handle_signals: bool = False, **options: Unpack[BatchArguments]
) -> Running[BatchReport, BatchStatus]:
    """Return a batch that runs while its context is open; arguments as of :func:`migrate_batch`."""
    config = batch_config_of(**options)

    def work(reporter: Reporter, stop: StopSwitch) -> BatchReport:
        from spirit_py.batch import plan_batch, reported, run_batch
        from spirit_py.batch.plan_events import tell_plan

        with reported(config, reporter):
            plan = plan_batch(config)
            tell_plan(plan, teller(reporter.event))
            stop.check()
            report = run_batch(config, plan, reporter=reporter, stop=stop)
        if not report.exit_code:
            return report
        known = report.exit_code != OutcomeUnknown.exit_code
        if known and isinstance(stop.reason, Interrupted):
            raise stop.reason
        raise BatchFailed(report)

    return Running(work, records=config.records, handle_signals=handle_signals)


def batch_config_of(**options: Unpack[BatchArguments]) -> BatchConfig:
    """Build the same configuration as the command line.

    Raises:
        UsageFault: an option is wrong, or options contradict each other.
    """
    from spirit_py.cli.batch import batch_config
    from spirit_py.cli.migrate import migrate as command
    from spirit_py.cli.migrate import settings

    given: dict[str, Any] = dict(options)
    listed = _listed(given.get("statements"))
    if listed is not None:
        del given["statements"]
    values = option_values(command, BatchArguments, given)
    return batch_config(values, settings(values), listed=listed or "")


def _listed(statements: str | PathLike[str] | Iterable[str] | None) -> str | None:
    """Return statements that are given as a list, as a file has them; None for a file's name."""
    if statements is None or isinstance(statements, (str, PathLike)):
        return None
    return "".join(f"{one.rstrip().removesuffix(';')};\n" for one in statements)
