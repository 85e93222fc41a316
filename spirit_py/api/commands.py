"""Each command as a function. Options are checked at the call; large modules load only then.

What is not given has the command line's default, except that MySQL option files and login paths
are read only on request.
"""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from spirit_py.api.running import Running, refuse_in_fork
from spirit_py.api.values import option_values
from spirit_py.codes import ErrorCode
from spirit_py.errors import Interrupted, MigrationFailure, OutcomeUnknown, SpiritError
from spirit_py.events.event import teller
from spirit_py.options import commands

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from spirit_py.batch.listing import BatchShown
    from spirit_py.batch.report import BatchReport
    from spirit_py.command_config import BatchConfig
    from spirit_py.compare.report import CompareReport
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import Reporter, SwappedAlong
    from spirit_py.fleet.report import FleetReport
    from spirit_py.migration.migration_status import MigrationShown
    from spirit_py.plan import Plan
    from spirit_py.progress import BatchStatus, MigrationStatus
    from spirit_py.status.report import MigrationReport, OutcomeReport
    from spirit_py.threads import StopSwitch


R = TypeVar("R")


def migrate(
    *, handle_signals: bool = False, **options: Unpack[commands.MigrationArguments]
) -> MigrationReport:
    """Change a table online; return when it is changed.

    An exception in the calling thread stops the migration in order; the same call resumes.

    Args:
        handle_signals: SIGINT and SIGTERM stop the migration, in the main thread.
        options: those of ``spirit-py migrate``.

    Raises:
        UsageFault: an option is wrong; nothing was done.
        Refusal: the migration may not run; nothing was written.
        SpiritError: it has failed, with the exit code of the command.
    """
    return _done(start_migration(handle_signals=handle_signals, **options))


def start_migration(
    *, handle_signals: bool = False, **options: Unpack[commands.MigrationArguments]
) -> Running[MigrationReport, MigrationStatus]:
    """Return a migration that runs while its context is open; arguments as of :func:`migrate`."""
    return run_of(migration_config_of(**options), handle_signals=handle_signals)


def run_of(
    config: MigrationConfig, *, handle_signals: bool = False, along: SwappedAlong | None = None
) -> Running[MigrationReport, MigrationStatus]:
    """Return the run of a configuration; ``along`` is swapped in the same RENAME."""
    from spirit_py.migration import entry

    work = partial(entry.migrate, config, along=along)
    return Running(work, records=config.records, handle_signals=handle_signals)


def migration_config_of(
    *, also: Collection[str] = (), **options: Unpack[commands.MigrationArguments]
) -> MigrationConfig:
    """Build the same configuration as the command line; raises UsageFault."""
    from spirit_py.cli.changes import migration_config
    from spirit_py.cli.migrate import migrate as command

    return migration_config(option_values(command, commands.MigrationArguments, options, also=also))


def plan_migration(**options: Unpack[commands.PlanArguments]) -> Plan:
    """Return what :func:`migrate` would do with the same arguments, and why; write nothing.

    A refusal of the change is part of the plan: ``plan.refused``. Raises UsageFault for a wrong
    option, SpiritError where the server stopped answering.
    """
    from spirit_py.cli.changes import migration_config
    from spirit_py.cli.migrate import plan as command
    from spirit_py.plan import make_plan

    refuse_in_fork()
    values = option_values(command, commands.PlanArguments, options)
    return make_plan(migration_config(values), sample=values["sample"])


def archive_table(**options: Unpack[commands.ArchiveArguments]) -> MigrationReport:
    """Write a table's rows to Parquet files and prove them; return the report.

    Raises SpiritError where they are not proved; the same call carries on.
    """
    from spirit_py.cli.archive import archive as command
    from spirit_py.cli.archive import archive_config
    from spirit_py.migration.entry import archive

    config = archive_config(option_values(command, commands.ArchiveArguments, options))
    return _done(Running(partial(archive, config), records=config.records))


def move_tables(
    *, handle_signals: bool = False, **options: Unpack[commands.MoveArguments]
) -> MigrationReport:
    """Move tables to another server while they are written; return the report.

    Signals, exceptions and errors are as of :func:`migrate`.
    """
    return _done(start_move(handle_signals=handle_signals, **options))


def start_move(
    *, handle_signals: bool = False, **options: Unpack[commands.MoveArguments]
) -> Running[MigrationReport, MigrationStatus]:
    """Return a move that runs while its context is open; arguments as of :func:`move_tables`."""
    from spirit_py.cli.move import move as command
    from spirit_py.cli.move import move_config
    from spirit_py.move.move import move

    config = move_config(option_values(command, commands.MoveArguments, options))
    work = partial(move, config)
    return Running(work, records=config.records, handle_signals=handle_signals)


def plan_move(**options: Unpack[commands.MovePlanArguments]) -> Plan:
    """Return what :func:`move_tables` would do with the same arguments, and why; write nothing.

    A refusal of the move is part of the plan: ``plan.refused``. Raises UsageFault for a wrong
    option, SpiritError where a server stopped answering.
    """
    from spirit_py.cli.move import move as command
    from spirit_py.cli.move import move_config
    from spirit_py.move import planning

    refuse_in_fork()
    values = option_values(command, commands.MovePlanArguments, options, also=("plan",))
    return planning.plan_move(move_config(values), sample=values["sample"])


def checksum_tables(**options: Unpack[commands.ChecksumArguments]) -> CompareReport:
    """Compare two tables row by row; return the report when they are equal.

    Raises:
        DifferencesFound: they differ; ``details`` has examples.
        SpiritError: there was no verdict.
    """
    from spirit_py.cli.checksum import checksum as command
    from spirit_py.cli.checksum import compare_config
    from spirit_py.compare.run import compare

    config = compare_config(option_values(command, commands.ChecksumArguments, options))
    return _done(Running(partial(compare, config), records=config.records))


def revert(**options: Unpack[commands.RevertArguments]) -> None:
    """Bring back the definition that a table had before its migration, without losing a write.

    Raises SpiritError where it was not brought back.
    """
    from spirit_py.cli.unfinished import revert as command
    from spirit_py.cli.unfinished import revert_config
    from spirit_py.migration.reverse.revert import revert as swap_back

    config = revert_config(option_values(command, commands.RevertArguments, options))
    _done(Running(partial(swap_back, config), records=config.records))


def migration_status(
    **options: Unpack[commands.StatusArguments],
) -> list[BatchShown | MigrationShown]:
    """Return the migrations that were stopped or are under way, and batches of them.

    Raises SpiritError where the server, or all that is there, cannot be seen.
    """
    from spirit_py.cli.unfinished import status as command
    from spirit_py.cli.unfinished import unfinished

    refuse_in_fork()
    return unfinished(option_values(command, commands.StatusArguments, options))


def cleanup(**options: Unpack[commands.CleanupArguments]) -> list[str]:
    """Drop what an abandoned migration of a table left, or forget an abandoned batch.

    Returns what was done, a line each. Raises Refusal where a process works on the table, or the
    tables are not proven to be ours; SpiritError where the server stopped answering.
    """
    from spirit_py.cli.unfinished import cleanup as command
    from spirit_py.cli.unfinished import give_up

    refuse_in_fork()
    values = option_values(command, commands.CleanupArguments, options)
    lines: list[str] = []
    give_up(
        values, ask=lambda _: True, ask_old=lambda _: bool(values["drop_old"]), say=lines.append
    )
    return lines


def _done(running: Running[R, Any]) -> R:
    with running:
        running.wait()
        return running.report


def _what_ended(stop: StopSwitch, failed: MigrationFailure) -> SpiritError:
    """Return the interruption that has ended a run in order, or what has failed."""
    in_order = failed.exit_code != OutcomeUnknown.exit_code
    return stop.reason if in_order and isinstance(stop.reason, Interrupted) else failed


class _PartsFailed(MigrationFailure):
    def __init__(
        self, report: OutcomeReport, message: str, hint: str, details: Iterable[str]
    ) -> None:
        super().__init__(
            report.error or message,
            hint=report.hint or hint,
            details=tuple(details),
            error_code=ErrorCode(report.error_code) if report.error_code else None,
        )
        self.exit_code = report.exit_code


class BatchFailed(_PartsFailed):
    """Tables of a batch have failed, or were refused; ``report`` has what became of each table."""

    def __init__(self, report: BatchReport) -> None:
        self.report = report
        failed = [one for one in report.tables if one["error"]]
        names = [f"{one['schema']}.{one['table']}" for one in failed]
        said = f"{len(failed)} of {len(report.tables)} tables failed: {', '.join(names)}"
        details = (f"{name}: {one['error']}" for name, one in zip(names, failed, strict=True))
        super().__init__(report, said, "the same call resumes with what is left", details)


def migrate_batch(
    *, handle_signals: bool = False, **options: Unpack[commands.BatchArguments]
) -> BatchReport:
    """Change many tables online; return when all are changed.

    Give ``tables`` with ``alter``, or ``statements``: the name of a file, or a list of statements.

    Signals, exceptions and errors are as of :func:`migrate`.

    Raises:
        BatchFailed: tables have failed; it has the report.
        SpiritError: it has failed as a whole.
    """
    return _done(start_batch(handle_signals=handle_signals, **options))


def start_batch(
    *, handle_signals: bool = False, **options: Unpack[commands.BatchArguments]
) -> Running[BatchReport, BatchStatus]:
    """Return a batch that runs while its context is open; arguments as of :func:`migrate_batch`."""
    config = batch_config_of(**options)

    def work(reporter: Reporter, stop: StopSwitch) -> BatchReport:
        from spirit_py.batch.entry import reported, run_batch
        from spirit_py.batch.plan import tell_plan
        from spirit_py.batch.planning import plan_batch

        with reported(config, reporter):
            plan = plan_batch(config)
            tell_plan(plan, teller(reporter.event))
            stop.check()
            report = run_batch(config, plan, reporter=reporter, stop=stop)
        if report.exit_code:
            raise _what_ended(stop, BatchFailed(report))
        return report

    return Running(work, records=config.records, handle_signals=handle_signals)


class FleetFailed(_PartsFailed):
    """Servers of a fleet have failed, or were refused; ``report`` has what became of each."""

    def __init__(self, report: FleetReport) -> None:
        self.report = report
        failed = [one for one in report.servers if one["state"] != "done"]
        said = f"{len(failed)} of {len(report.servers)} servers are not done"
        hint = "the same call carries on with the servers that are not done"
        details = (f"{one['name']}: {one['state']} {one['error']}" for one in failed)
        super().__init__(report, said, hint, details)


def migrate_fleet(
    *, handle_signals: bool = False, **options: Unpack[commands.FleetArguments]
) -> FleetReport:
    """Make the same change on many servers; return when all are done.

    Give ``servers``, the name of a list, or ``servers_from``, a command that prints one.

    Signals, exceptions and errors are as of :func:`migrate`.

    Raises:
        FleetFailed: servers have failed; it has the report.
        SpiritError: it has failed as a whole.
    """
    return _done(start_fleet(handle_signals=handle_signals, **options))


def start_fleet(
    *, handle_signals: bool = False, **options: Unpack[commands.FleetArguments]
) -> Running[FleetReport, BatchStatus]:
    """Return a fleet that runs while its context is open; arguments as of :func:`migrate_fleet`."""
    from spirit_py.cli.fleet import fleet_config
    from spirit_py.cli.migrate import migrate as command

    config = fleet_config(option_values(command, commands.FleetArguments, options))

    def work(reporter: Reporter, stop: StopSwitch) -> FleetReport:
        from spirit_py.fleet.entry import reported, run_fleet
        from spirit_py.fleet.planning import plan_fleet, tell_fleet_plan

        with reported(config, reporter):
            plan = plan_fleet(config)
            tell_fleet_plan(plan, config, teller(reporter.event))
            stop.check()
            report = run_fleet(config, plan, reporter=reporter, stop=stop)
        if report.exit_code:
            raise _what_ended(stop, FleetFailed(report))
        return report

    return Running(work, records=config.records, handle_signals=handle_signals)


def batch_config_of(**options: Unpack[commands.BatchArguments]) -> BatchConfig:
    """Build the same configuration as the command line; raises UsageFault."""
    from spirit_py.cli.changes import batch_config, settings
    from spirit_py.cli.migrate import migrate as command

    given: dict[str, Any] = dict(options)
    listed = _listed(given.get("statements"))
    also = () if listed is None else ("statements",)
    for name in also:
        del given[name]
    values = option_values(command, commands.BatchArguments, given, also=also)
    return batch_config(values, settings(values), listed=listed or "")


def _listed(statements: str | PathLike[str] | Iterable[str] | None) -> str | None:
    if statements is None or isinstance(statements, (str, PathLike)):
        return None
    return "".join(_ended(one.rstrip().removesuffix(";")) for one in statements)


def _ended(statement: str) -> str:
    """Return a statement with its end, which a comment in the last line would swallow."""
    last = statement.rpartition("\n")[2]
    return f"{statement}\n;\n" if "--" in last or "#" in last else f"{statement};\n"
