"""``spirit-py migrate``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from spirit_py.cli.batch import batch_config, is_batch, run
from spirit_py.cli.display import records_of, reporters_of
from spirit_py.cli.groups import SectionedCommand, options_of
from spirit_py.cli.outcome import (
    EXIT_CODES,
    ErrorsShown,
    can_ask,
    confirmed,
    leave_with,
    say,
)
from spirit_py.cli.values import (
    complete,
    connection_of,
    named_alike,
)
from spirit_py.config import FeedOptions, MigrationConfig, SessionModes, host_and_port
from spirit_py.errors import UnfinishedWork, UsageFault
from spirit_py.events.event import teller
from spirit_py.events.run import Summary
from spirit_py.options.commands import MigrateCommand

if TYPE_CHECKING:
    from spirit_py.status.report import MigrationReport
    from spirit_py.status.reporters import Reporters


@click.command(cls=SectionedCommand, epilog=EXIT_CODES)
@options_of(MigrateCommand)
def migrate(**options: Any) -> None:
    """Change a table online.

    \b
    spirit-py migrate --host db1 --database shop --table orders \\
        --alter "ADD COLUMN note VARCHAR(200)"
    """  # noqa: D301 - click reads the backspace
    with ErrorsShown(verbose=options["verbose"], log_format=options["log_format"]) as shown:
        if is_batch(options):
            run(batch_config(options, settings(options)), shown, yes=options["yes"])
        config = migration_config(options)
        reporter = shown.through(reporters_of(config.records, verbose=shown.verbose))
        report = _migrate(config, reporter)
        tell = teller(reporter.event)
        for line in report.summary():
            tell(Summary(said=line))
        leave_with(0)


def _migrate(config: MigrationConfig, reporter: Reporters) -> MigrationReport:
    """Run the migration; ask on a terminal before copied rows are dropped for it.

    The question is asked when the first try has ended: nothing is locked or open meanwhile, and
    whatever changed until the answer is looked at again.
    """
    from spirit_py import migration

    try:
        return migration.migrate(config, reporter=reporter, gate=reporter.gate)
    except UnfinishedWork as refusal:
        if not can_ask(config.records.log_format):
            raise
        say(refusal.message)
        for line in refusal.details:
            say(f"  {line}")
        if not confirmed("Drop it, and begin with this migration?"):
            raise
    return migration.migrate(
        replace(config, start_afresh=True), reporter=reporter, gate=reporter.gate
    )


def migration_config(options: dict[str, Any]) -> MigrationConfig:
    """Build the frozen configuration from the command line's values.

    Raises:
        UsageFault: when options are missing or contradict each other.
    """
    if bool(options["statement"]) == bool(options["table"] or options["alter"]):
        raise UsageFault(
            "the change is not clear: give either --statement, or --table with --alter",
            hint="spirit-py migrate --help shows an example",
        )
    if not options["statement"] and not (options["table"] and options["alter"]):
        raise UsageFault("--table and --alter go together", hint="add the missing one")
    config = settings(options)
    if config.table and not config.database:
        raise _no_schema(config.table)
    return config


def settings(options: dict[str, Any]) -> MigrationConfig:
    """Build the configuration from all options but those that say what is changed.

    Raises:
        UsageFault: when options contradict each other.
    """
    complete(options)
    if options["dry_run"] and (options["defer_cutover"] or options["keep_old_current"]):
        raise UsageFault(
            "--dry-run swaps nothing: --defer-cutover and --keep-old-current do not go with it",
            hint="leave them out of the rehearsal",
        )
    if options["allow_zero_dates"] and options["sql_mode"] is not None:
        raise UsageFault(
            "--allow-zero-dates takes two modes from the server's sql_mode, and --sql-mode replaces"
            " all of it",
            hint="give one of them: --sql-mode without NO_ZERO_DATE and NO_ZERO_IN_DATE, or only"
            " --allow-zero-dates",
        )
    for replica in options["replicas"]:
        host_and_port(replica)
    alike = named_alike(MigrationConfig, options)
    if alike.get("max_lag") == 0:
        alike["max_lag"] = None
    return MigrationConfig(
        connection=connection_of(options),
        feed=_feed_options(options),
        modes=_modes(options),
        records=records_of(options),
        named=frozenset(name for name in ("max_lag", "min_free_disk") if options[name] is not None),
        **alike | {"allow": tuple(window for given in options["allow"] for window in given)},
    )


def _modes(options: dict[str, Any]) -> SessionModes:
    """Build the chosen modes; the spelling of a ``sql_mode`` does not matter."""
    given = options["sql_mode"]
    if given is not None:
        given = ",".join(filter(None, (mode.strip().upper() for mode in given.split(","))))
    return SessionModes(
        sql_mode=given,
        allow_zero_dates=options["allow_zero_dates"],
        innodb_strict_mode=options["innodb_strict_mode"] or "",
    )


def _feed_options(options: dict[str, Any]) -> FeedOptions:
    """Build the options of the change feed."""
    if not options["tag_own_writes"]:
        return FeedOptions(passable=options["passable"])
    from spirit_py.mysql.ownwrites import new_run

    return FeedOptions(own_writes=new_run(), passable=options["passable"])


def _no_schema(table: str) -> UsageFault:
    """Ask for the schema of ``--table``, which may have been written in front of its name."""
    schema, _, name = table.partition(".")
    hint = f"write --database {schema} --table {name}" if schema and name else "add --database"
    return UsageFault(f"the schema of table {table} is not given", hint=hint)
