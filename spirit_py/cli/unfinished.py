"""Commands about migrations that are there: ``status``, ``cleanup``, ``ctl``, ``revert``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from spirit_py.cli.display import records_of, reporters_of
from spirit_py.cli.groups import SectionedCommand, options_of
from spirit_py.cli.outcome import (
    ErrorsShown,
    confirmed,
    leave_with,
    show_document,
    show_lines,
    tell_document,
    tell_out,
)
from spirit_py.cli.values import complete, connection_of, named_alike
from spirit_py.config import FeedOptions, RevertConfig
from spirit_py.errors import UsageFault
from spirit_py.options import declared
from spirit_py.options.commands import (
    CleanupCommand,
    CtlCommand,
    MigrationArguments,
    RevertCommand,
    StatusCommand,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.batch.listing import BatchShown
    from spirit_py.migration.migration_status import MigrationShown

STATUS_EXIT_CODES = """\b
Exit codes:
  0  shown, also that there is none
  1  the server stopped answering
  2  refused: the command line is wrong, the server cannot be reached, or the account might not
     see what is there"""


@click.command(cls=SectionedCommand, epilog=STATUS_EXIT_CODES)
@options_of(StatusCommand)
def status(**options: Any) -> None:
    """Show migrations that were stopped or are under way, and batches of them; touch nothing.

    \b
    spirit-py status --host db1 --database shop --table orders
    """  # noqa: D301 - click reads the backspace
    with ErrorsShown(verbose=options["verbose"], document=options["as_json"]):
        complete(options)
        if options["table"] and not options["database"]:
            raise UsageFault("--table goes with --database", hint="add --database")
        found = unfinished(options)
        if options["as_json"]:
            show_document([one.to_dict() for one in found])
        else:
            show_lines(line for one in found for line in one.lines())
        if not found:
            click.echo("no migration is under way or unfinished here", err=True)
        leave_with(0)


def unfinished(options: dict[str, Any]) -> list[BatchShown | MigrationShown]:
    """Return the batches that are not done, and the migrations stopped or under way."""
    from spirit_py.batch.listing import batches
    from spirit_py.migration.listing import migrations

    connection = connection_of(options)
    named = {name: options[name] for name in ("database", "table")}
    shown = migrations(connection, **named, max_age=options["checkpoint_max_age"])
    return [*batches(connection, **named), *shown]


CLEANUP_EXIT_CODES = """\b
Exit codes:
  0  dropped, or there was nothing
  1  the server stopped answering
  2  refused: the server cannot be reached, a process works on it, the tables are not proven to
     be ours, or the answer was no"""


@click.command(cls=SectionedCommand, epilog=CLEANUP_EXIT_CODES)
@options_of(CleanupCommand)
def cleanup(**options: Any) -> None:
    """Drop the tables that an abandoned migration left, or the record of an abandoned batch.

    The source table is never touched. An old table, which after the swap holds the rows from
    before it, is asked for separately.

    \b
    spirit-py cleanup --host db1 --database shop --table orders
    spirit-py cleanup --host db1 --batch shop_1._spirit_py_batch_0123456789ab
    """  # noqa: D301 - click reads the backspace
    with ErrorsShown(verbose=options["verbose"]):
        complete(options)
        sure, old_too = options["yes"], options["drop_old"]
        ask = (lambda _: True) if sure else confirmed
        if options["batch"]:
            _give_up(options, ask)
        if not (options["database"] and options["table"]):
            raise UsageFault(
                "--database and --table are missing",
                hint="name the table whose migration is abandoned, or a batch with --batch",
            )
        from spirit_py.migration.cleanup import clean_up

        clean_up(
            connection_of(options),
            database=options["database"],
            table=options["table"],
            ask=ask,
            ask_old=(lambda _: bool(old_too)) if sure else confirmed,
            say=tell_out,
        )
        leave_with(0)


def _give_up(options: dict[str, Any], ask: Callable[[str], bool]) -> NoReturn:
    """Forget a batch."""
    require_batch_alone(options)
    from spirit_py.batch.listing import give_up_batch

    give_up_batch(connection_of(options), batch=options["batch"], ask=ask, say=tell_out)
    leave_with(0)


def require_batch_alone(options: dict[str, Any]) -> None:
    """Raise UsageFault for options that are about one table, beside a batch."""
    if options["table"] or options["drop_old"]:
        raise UsageFault(
            "--batch goes without --table and --drop-old",
            hint="what the migrations of its tables left is dropped by a command for each",
        )


_LIVE: Final = ", ".join(one.live for one in declared(MigrationArguments) if one.live)
CTL_EXIT_CODES = f"""\b
Verbs:
  pause            begin nothing new; changes are applied, the checkpoint goes on
  resume           go on
  set NAME=VALUE   {_LIVE}
  throttle RATIO   rest so many seconds for each second of work: set nice=RATIO
  cutover          let the swap happen: drop the sentinel
  postpone         do not swap before "cutover": create the sentinel
  abort            stop; the same command carries on; with --cleanup drop the copy
  status           show the figures of now

\b
Exit codes:
  0    done
  1    the process, or the server, does not answer; status: there is no migration
  2    refused: no process runs, it refused, the account has no rights, or the command line is wrong
  130  interrupted by SIGINT      143  by SIGTERM"""

_VERBS: Final = (
    "pause", "resume", "set", "throttle", "cutover", "postpone", "abort", "status",
)  # fmt: skip


@click.command(cls=SectionedCommand, epilog=CTL_EXIT_CODES)
@options_of(CtlCommand)
@click.argument("verb", type=click.Choice(_VERBS), metavar="VERB")
@click.argument("values", nargs=-1, metavar="[VALUE]...")
def ctl(**options: Any) -> None:
    """Control a migration while it runs, from any machine that reaches the server.

    \b
    spirit-py ctl --host db1 --database shop --table orders pause
    spirit-py ctl --host db1 --database shop --table orders set threads=2 max-lag=5s
    """  # noqa: D301 - click reads the backspace
    as_json = options["as_json"]
    with ErrorsShown(verbose=options["verbose"], document=as_json):
        complete(options)
        if not (options["database"] and options["table"]):
            raise UsageFault("--database and --table are missing", hint="name the table")
        verb, arguments = request_of(options)
        if verb == "status":
            _show(options)
        else:
            from spirit_py.migration.control.command import control

            said: list[str] = []
            control(
                connection_of(options),
                database=options["database"],
                table=options["table"],
                verb=verb,
                arguments=arguments,
                say=said.append if as_json else tell_out,
            )
            if as_json:
                from spirit_py.status.report import OutcomeReport

                done = OutcomeReport(outcome="done").end_fields()
                tell_document({**done, "verb": verb, "arguments": arguments, "said": said})
        leave_with(0)


def request_of(options: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the verb that is sent, and its arguments.

    Raises:
        UsageFault: a value is missing, too many, or cannot be.
    """
    verb, values = options["verb"], options["values"]
    if options["cleanup"] and verb != "abort":
        raise UsageFault("--cleanup goes with abort", hint="leave it out")
    if verb == "throttle":
        if len(values) != 1:
            raise UsageFault("throttle needs one ratio", hint="write for instance: throttle 0.5")
        return "set", _settings((f"nice={values[0]}",))
    if verb == "set":
        return verb, _settings(values)
    if values:
        raise UsageFault(f"{verb} takes no value: {values[0]!r}", hint="leave it out")
    return verb, {"cleanup": "yes"} if options["cleanup"] else {}


def _settings(values: tuple[str, ...]) -> dict[str, str]:
    """Split settings, and check them before anybody is asked."""
    from spirit_py.migration.control.settings import read_changes

    given: dict[str, str] = {}
    for text in values:
        name, separator, value = text.partition("=")
        if not separator:
            raise UsageFault(f"{text!r} is not NAME=VALUE", hint="write for instance threads=2")
        if name in given:
            raise UsageFault(f"{name} is given twice", hint="leave one of them out")
        given[name] = value
    read_changes(given)
    return given


def _show(options: dict[str, Any]) -> NoReturn:
    """Show the migration of the table, live where its process runs."""
    from spirit_py.config import MigrationConfig
    from spirit_py.migration.listing import migrations

    shown = migrations(
        connection_of(options),
        database=options["database"],
        table=options["table"],
        max_age=MigrationConfig.checkpoint_max_age,
    )
    if options["as_json"]:
        show_document([one.to_dict() for one in shown])
    else:
        show_lines(line for one in shown for line in one.lines())
    if not shown:
        click.echo("no migration has left a checkpoint here", err=True)
    leave_with(0 if shown else 1)


REVERT_EXIT_CODES = """\b
Exit codes:
  0    the old definition is in place, with every write
  1    not reverted; the table is whole, run again
  2    refused: the old table does not follow
  3    outcome of the swap unknown: look at the tables
  130  interrupted by SIGINT      143  by SIGTERM"""


@click.command(cls=SectionedCommand, epilog=REVERT_EXIT_CODES)
@options_of(RevertCommand)
def revert(**options: Any) -> None:
    """Bring back the definition that a table had before its migration, without losing a write.

    Possible as long as "spirit-py migrate --keep-old-current" keeps the old table up to date. The
    process that does so is asked to swap back; where it has ended, this one takes its place, if
    the server still has the binlog since. All rows are compared before the swap. What was written
    into columns that only the new definition has is lost, and reported before.

    \b
    spirit-py revert --host db1 --database shop --table orders
    """  # noqa: D301 - click reads the backspace
    with ErrorsShown(verbose=options["verbose"], log_format=options["log_format"]) as shown:
        asked = revert_config(options)
        from spirit_py.migration.reverse.revert import revert as swap_back

        swap_back(asked, reporter=shown.through(reporters_of(asked.records, verbose=shown.verbose)))
        leave_with(0)


def revert_config(options: dict[str, Any]) -> RevertConfig:
    """Build the frozen options from the command line's values.

    Raises:
        UsageFault: when options are missing or contradict each other.
    """
    from spirit_py.config import RevertConfig

    complete(options)
    if not options["database"] or not options["table"]:
        raise UsageFault("the table is not clear", hint="give --database and --table")
    return RevertConfig(
        connection=connection_of(options),
        feed=FeedOptions(passable=options["passable"]),
        records=records_of(options),
        **named_alike(RevertConfig, options),
    )
