"""Each command as a function.

Options are checked when a function is called, before anything is done. Large modules are imported
only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, Unpack

from spirit_py.api.forked import refuse_in_fork
from spirit_py.api.running import Running
from spirit_py.api.values import option_values
from spirit_py.errors import UsageFault
from spirit_py.options.commands import (
    ChecksumArguments,
    CleanupArguments,
    MigrationArguments,
    PlanArguments,
    RevertArguments,
    StatusArguments,
)

if TYPE_CHECKING:
    from spirit_py.batch.listing import BatchShown
    from spirit_py.compare.report import CompareReport
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import Reporter
    from spirit_py.migration.migration_status import MigrationShown
    from spirit_py.plan import Plan
    from spirit_py.status.report import MigrationReport
    from spirit_py.status.snapshot import MigrationStatus
    from spirit_py.stop import StopSwitch

R = TypeVar("R")


def migrate(
    *, handle_signals: bool = False, **options: Unpack[MigrationArguments]
) -> MigrationReport:
    """Change a table online; return when it is changed.

    An exception in the calling thread, such as KeyboardInterrupt, stops the migration in order;
    the same call carries on.

    Args:
        handle_signals: SIGINT and SIGTERM stop the migration, in the main thread.
        options: those of ``spirit-py migrate``.

    Raises:
        UsageFault: an option is wrong; nothing was done.
        Refusal: the migration may not run; nothing was written.
        SpiritError: it has failed, with the exit code of the command.
    """
    with start_migration(handle_signals=handle_signals, **options) as running:
        running.wait()
        return running.report


def start_migration(
    *, handle_signals: bool = False, **options: Unpack[MigrationArguments]
) -> Running[MigrationReport, MigrationStatus]:
    """Return a migration that runs while its context is open; arguments as of :func:`migrate`."""
    return run_of(migration_config_of(**options), handle_signals=handle_signals)


def run_of(
    config: MigrationConfig, *, handle_signals: bool = False
) -> Running[MigrationReport, MigrationStatus]:
    """Return the run of a configuration, which begins when its context is entered."""

    def work(reporter: Reporter, stop: StopSwitch) -> MigrationReport:
        from spirit_py import migration

        return migration.migrate(config, reporter=reporter, stop=stop)

    return Running(work, records=config.records, handle_signals=handle_signals)


def migration_config_of(**options: Unpack[MigrationArguments]) -> MigrationConfig:
    """Build the same configuration as the command line.

    Raises:
        UsageFault: an option is wrong, or options contradict each other.
    """
    from spirit_py.cli.migrate import migrate as command
    from spirit_py.cli.migrate import migration_config

    return migration_config(option_values(command, MigrationArguments, options))


def plan_migration(**options: Unpack[PlanArguments]) -> Plan:
    """Return what :func:`migrate` would do with the same arguments, and why; write nothing.

    A refusal of the change is part of the plan: ``plan.refused``.

    Raises:
        UsageFault: an option is wrong.
        SpiritError: the server stopped answering.
    """
    from spirit_py.cli.migrate import migration_config
    from spirit_py.cli.plan import plan as command
    from spirit_py.plan import make_plan

    refuse_in_fork()
    values = option_values(command, PlanArguments, options)
    return make_plan(migration_config(values), sample=values["sample"])


def checksum_tables(**options: Unpack[ChecksumArguments]) -> CompareReport:
    """Compare two tables row by row; return the report when they are equal.

    Raises:
        DifferencesFound: they differ; ``details`` has examples.
        SpiritError: there was no verdict.
    """
    from spirit_py.cli.checksum import checksum as command
    from spirit_py.cli.checksum import compare_config

    config = compare_config(option_values(command, ChecksumArguments, options))

    def work(reporter: Reporter, stop: StopSwitch) -> CompareReport:
        from spirit_py.compare import entry

        return entry.compare(config, reporter=reporter, stop=stop)

    return _done(Running(work, records=config.records))


def revert(**options: Unpack[RevertArguments]) -> None:
    """Bring back the definition that a table had before its migration, without losing a write.

    Raises:
        SpiritError: it was not brought back.
    """
    from spirit_py.cli.revert import revert as command
    from spirit_py.cli.revert import revert_config

    config = revert_config(option_values(command, RevertArguments, options))

    def work(reporter: Reporter, stop: StopSwitch) -> None:
        from spirit_py.migration.reverse.revert import revert as swap_back

        swap_back(config, reporter=reporter, stop=stop)

    _done(Running(work, records=config.records))


def migration_status(**options: Unpack[StatusArguments]) -> list[BatchShown | MigrationShown]:
    """Return the migrations that were stopped or are under way, and batches of them.

    Raises:
        SpiritError: the server cannot be reached, or the account might not see what is there.
    """
    from spirit_py.batch.listing import batches
    from spirit_py.cli.status import status as command
    from spirit_py.cli.values import complete, connection_of
    from spirit_py.migration.listing import migrations

    refuse_in_fork()
    values = option_values(command, StatusArguments, options)
    complete(values)
    database, table = values["database"], values["table"]
    if table and not database:
        raise UsageFault("table goes with database", hint="add database")
    connection = connection_of(values)
    shown = migrations(
        connection, database=database, table=table, max_age=values["checkpoint_max_age"]
    )
    return [*batches(connection, database=database, table=table), *shown]


def cleanup(**options: Unpack[CleanupArguments]) -> list[str]:
    """Drop what an abandoned migration of a table left, or forget an abandoned batch.

    Returns:
        What was done, a line each.

    Raises:
        Refusal: a process works on the table, or the tables are not proven to be ours.
        SpiritError: the server stopped answering.
    """
    from spirit_py.batch.giving_up import give_up_batch
    from spirit_py.cli.cleanup import cleanup as command
    from spirit_py.cli.cleanup import require_batch_alone
    from spirit_py.cli.values import complete, connection_of
    from spirit_py.migration.cleanup import clean_up

    refuse_in_fork()
    values = option_values(command, CleanupArguments, options)
    complete(values)
    lines: list[str] = []
    if values["batch"]:
        require_batch_alone(values)
        give_up_batch(
            connection_of(values), batch=values["batch"], ask=lambda _: True, say=lines.append
        )
        return lines
    if not (values["database"] and values["table"]):
        raise UsageFault(
            "database and table are missing", hint="name the table, or a batch with batch"
        )
    clean_up(
        connection_of(values),
        database=values["database"],
        table=values["table"],
        ask=lambda _: True,
        ask_old=lambda _: bool(values["drop_old"]),
        say=lines.append,
    )
    return lines


def _done(running: Running[R, MigrationStatus]) -> R:
    """Run to the end, and return the report."""
    with running:
        running.wait()
        return running.report
