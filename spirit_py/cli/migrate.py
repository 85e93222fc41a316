"""``spirit-py migrate``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from spirit_py.cli.batch import batch_config, batch_options, is_batch, run
from spirit_py.cli.display import reporters_of
from spirit_py.cli.groups import (
    connection_options,
    docs_option,
    option,
    spark_options,
    statement_writes_option,
    surroundings_options,
    swap_options,
    yield_option,
)
from spirit_py.cli.outcome import (
    EXIT_CODES,
    ErrorsShown,
    can_ask,
    confirmed,
    leave_with,
    say,
)
from spirit_py.cli.records import hook_options, log_options, records_of, report_options, veto_option
from spirit_py.cli.sections import SectionedCommand
from spirit_py.cli.values import (
    Duration,
    DurationOrNever,
    FiniteRange,
    LoadLimits,
    complete,
    connection_of,
    named_alike,
)
from spirit_py.config import FeedOptions, MigrationConfig, SessionModes, host_and_port
from spirit_py.errors import UnfinishedWork, UsageFault
from spirit_py.events.event import teller
from spirit_py.events.run import Summary

if TYPE_CHECKING:
    from spirit_py.status.report import MigrationReport
    from spirit_py.status.reporters import Reporters


@click.command(cls=SectionedCommand, epilog=EXIT_CODES)
@connection_options
@option("--database", default="", help="Schema of the table.")
@option("--table", default="", help="Table to change; goes with --alter.")
@option("--alter", default="", help="The clauses after ALTER TABLE t.")
@option(
    "--statement",
    default="",
    help="A whole ALTER TABLE or CREATE INDEX, instead of --table and --alter; several tables,"
    " with a semicolon between, are changed at one moment.",
)
@batch_options
@option(
    "--threads", type=click.IntRange(1, 256), help="Chunks copied at once. [default: 4 at most]"
)
@option(
    "--target-chunk-time",
    type=FiniteRange(0.01, 60),
    default=0.5,
    show_default=True,
    help="Seconds that one chunk should take.",
)
@option(
    "--nice",
    metavar="RATIO",
    type=FiniteRange(0, 100),
    default=0.0,
    show_default=True,
    help="Seconds of rest for each second of the copy's work: 1 halves its speed.",
)
@option(
    "--aggressive",
    is_flag=True,
    help="Use all threads and large transactions, whoever else uses the server; by default the"
    " work slows down where the commits of others take twice as long as without it.",
)
@option(
    "--max-load",
    type=LoadLimits(),
    default=(),
    metavar="NAME=VALUE,...",
    help="Wait while a counter of SHOW GLOBAL STATUS is above its value: Threads_running=25.",
)
@option(
    "--critical-load",
    type=LoadLimits(),
    default=(),
    metavar="NAME=VALUE,...",
    help="End the run above such a value, seen twice in half a second; the same command carries"
    " on.",
)
@option(
    "--defer-indexes",
    type=click.Choice(["auto", "on", "off"]),
    default="auto",
    show_default=True,
    help="Leave secondary indexes that are not unique out while rows are copied, and build them"
    " afterwards, before the checksum. auto: where they are large beside the buffer pool and no"
    " replica would have to apply one long ADD INDEX.",
)
@surroundings_options
@swap_options
@option(
    "--drop-old-after",
    type=DurationOrNever(),
    default="0s",
    show_default=True,
    help="Time after the swap before which the old table is not dropped, such as 1h; never: leave"
    " it to spirit-py cleanup --drop-old. A column that could be dropped at once is then dropped by"
    " a copy, so that there is an old table.",
)
@option(
    "--sql-mode",
    metavar="MODES",
    default=None,
    help="Change the table as an ALTER in a session with this sql_mode would, not under the"
    " server's: for a definition that only an older one accepts. Values are never shortened or"
    " replaced all the same.",
)
@option(
    "--allow-zero-dates",
    is_flag=True,
    help="The same under the server's sql_mode without NO_ZERO_DATE and NO_ZERO_IN_DATE.",
)
@option(
    "--innodb-strict-mode",
    type=click.Choice(["on", "off"]),
    default=None,
    help="The same with this innodb_strict_mode: off accepts a definition whose rows may become"
    " too long for a page.",
)
@option(
    "--triggers",
    type=click.Choice(["keep", "refuse"]),
    default="keep",
    show_default=True,
    help="keep: the changed table has the same triggers, from the moment of the swap. refuse: a"
    " table with triggers is not migrated.",
)
@option("--no-shortcut", is_flag=True, help="Copy even where INSTANT or INPLACE would do.")
@option(
    "--dry-run",
    is_flag=True,
    help="Do everything but the swap, under the real load; report, and leave nothing behind.",
)
@option(
    "--writes-only-here",
    is_flag=True,
    help="State that no session writes the table through another server (several primaries, Galera,"
    " circular replication) until the swap has reached it: the table lock holds on this one alone.",
)
@option(
    "--defer-cutover",
    is_flag=True,
    help="Create a sentinel table (_t_snt) and swap only when it was dropped.",
)
@option(
    "--defer-timeout",
    type=Duration(least=1),
    default="48h",
    show_default=True,
    help="How long to wait for that; the same command carries on later.",
)
@option(
    "--recheck-interval",
    type=Duration(least=1),
    default="10m",
    show_default=True,
    help="Pause between two checksums while the cutover is deferred.",
)
@yield_option
@option("--no-repair", is_flag=True, help="Fail when the checksum finds a difference.")
@option(
    "--recompute-generated",
    is_flag=True,
    help="Accept that stored generated columns are recomputed under the server's own time zone"
    " and settings, where sessions of other settings stored other values.",
)
@option(
    "--allow-nullable-unique-key",
    is_flag=True,
    help="Tell rows apart by a unique key with nullable columns where there is no other key; a row"
    " with NULL in it stops the run.",
)
@option(
    "--keep-old-current",
    type=Duration(least=1),
    default=0.0,
    help="Keep the old table up to date for this long after the swap, for spirit-py revert.",
)
@option(
    "--checkpoint-max-age",
    type=Duration(least=1),
    default="7d",
    show_default=True,
    help="Do not carry on from a checkpoint that is older.",
)
@option(
    "--start-afresh",
    is_flag=True,
    help="Drop the rows that an unfinished migration of the table has copied, where this command"
    " cannot carry on with them; without it a terminal asks, and anything else is refused.",
)
@option(
    "--tag-own-writes",
    is_flag=True,
    help="Let the server not send the copy's own writes to the change feed; needs GTIDs. Leaves an"
    " identifier in gtid_executed for good.",
)
@statement_writes_option
@spark_options
@report_options
@hook_options
@veto_option
@docs_option
@log_options
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
        reporter = shown.through(reporters_of(config.records))
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
    complete(options)
    if bool(options["statement"]) == bool(options["table"] or options["alter"]):
        raise UsageFault(
            "the change is not clear: give either --statement, or --table with --alter",
            hint="spirit-py migrate --help shows an example",
        )
    if not options["statement"] and not (options["table"] and options["alter"]):
        raise UsageFault("--table and --alter go together", hint="add the missing one")
    if options["table"] and not options["database"]:
        raise _no_schema(options["table"])
    return settings(options)


def settings(options: dict[str, Any]) -> MigrationConfig:
    """Build the configuration from all options but those that say what is changed.

    Raises:
        UsageFault: when options contradict each other.
    """
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
