"""Commands about migrations that are there: ``status``, ``cleanup``, ``ctl``, ``revert``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from spirit_py.classes import replace
from spirit_py.cli.display import records_of, reporters_of
from spirit_py.cli.groups import command
from spirit_py.cli.outcome import confirmed, show_document, show_lines, tell_out, tell_request
from spirit_py.cli.values import complete, connection_of, missing, named_alike
from spirit_py.config import FeedOptions, MigrationConfig, RevertConfig
from spirit_py.errors import UsageFault
from spirit_py.options import commands, declared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.batch.listing import BatchShown
    from spirit_py.cli.outcome import ErrorsShown
    from spirit_py.migration.migration_status import MigrationShown

STATUS_EXIT_CODES = """\b
Exit codes:
  0  shown, or there is none
  1  the server stopped answering
  2  refused: the command line is wrong, there is no such table, the server cannot be reached, or
     the account might not see what is there"""


@command(commands.StatusCommand, STATUS_EXIT_CODES, document="as_json")
def status(_: ErrorsShown, options: dict[str, Any]) -> None:
    """Show running and stopped migrations, and batches of them; change nothing.

    \b
    spirit-py status --host db1 --database shop --table orders
    """  # noqa: D301 - click reads the backspace
    _show(unfinished(options), options, none="no migration is under way or unfinished here")


def _show(
    found: Sequence[BatchShown | MigrationShown], options: dict[str, Any], *, none: str
) -> None:
    if options["as_json"]:
        show_document([one.to_dict() for one in found])
    else:
        show_lines(line for one in found for line in one.lines())
    if not found:
        click.echo(none, err=True)


def unfinished(options: dict[str, Any]) -> list[BatchShown | MigrationShown]:
    """Return the batches that are not done, and the migrations stopped or under way."""
    complete(options)
    if options["table"] and not options["database"]:
        raise UsageFault("--table goes with --database", hint="add --database")
    from spirit_py.batch.listing import batches
    from spirit_py.migration.listing import migrations, require_table

    connection = connection_of(options)
    named = {name: options[name] for name in ("database", "table")}
    shown = migrations(connection, **named, max_age=options["checkpoint_max_age"])
    together = batches(connection, **named)
    theirs = {name for batch in together for name in batch.left}
    # Finished alone, a table would not count as done by its batch.
    shown = [one if theirs.isdisjoint(one.tables) else replace(one, command="") for one in shown]
    found: list[BatchShown | MigrationShown] = [*together, *shown]
    if not found:
        require_table(connection, **named)
    return found


CLEANUP_EXIT_CODES = """\b
Exit codes:
  0  dropped, or there was nothing
  1  the server stopped answering
  2  refused: the server cannot be reached, there is no such table, a process works on it, the
     tables are not proven to be ours, or the answer was no"""


@command(commands.CleanupCommand, CLEANUP_EXIT_CODES)
def cleanup(_: ErrorsShown, options: dict[str, Any]) -> None:
    """Drop the tables that an abandoned migration left, or the record of an abandoned batch.

    The rows and the columns of the source table are never touched; where a swap was stopped
    half-way, its foreign keys and triggers are settled first, under a lock. An old table, which
    after the swap holds the rows from before it, is asked for separately.

    \b
    spirit-py cleanup --host db1 --database shop --table orders
    spirit-py cleanup --host db1 --batch shop_1._spirit_py_batch_0123456789ab
    """  # noqa: D301 - click reads the backspace
    sure, old_too = options["yes"], bool(options["drop_old"])
    give_up(
        options,
        ask=(lambda _: True) if sure else confirmed,
        ask_old=(lambda _: old_too) if sure else confirmed,
        say=tell_out,
    )


def give_up(
    options: dict[str, Any],
    *,
    ask: Callable[[str], bool],
    ask_old: Callable[[str], bool],
    say: Callable[[str], None],
) -> None:
    """Forget a batch, or drop what the migration of a table left; ``ask_old`` is for old tables."""
    complete(options)
    if not options["batch"] and (lacking := missing(options)):
        raise UsageFault(
            lacking, hint="name the table whose migration is abandoned, or a batch with --batch"
        )
    if options["batch"]:
        if options["table"] or options["drop_old"]:
            raise UsageFault(
                "--batch goes without --table and --drop-old",
                hint="what the migrations of its tables left is dropped by a command for each",
            )
        from spirit_py.batch.listing import give_up_batch

        give_up_batch(connection_of(options), batch=options["batch"], ask=ask, say=say)
        return
    from spirit_py.migration.cleanup import clean_up

    of_table = {name: options[name] for name in ("database", "table")}
    clean_up(connection_of(options), **of_table, ask=ask, ask_old=ask_old, say=say)


_LIVE: Final = ", ".join(one.live for one in declared(commands.MigrationArguments) if one.live)
CTL_EXIT_CODES = f"""\b
Verbs:
  pause            start no new work; changes are applied, checkpoints written
  resume           go on
  set NAME=VALUE   {_LIVE}
  throttle RATIO   sleep RATIO seconds for each second of work: set nice=RATIO
  cutover          cut over: drop the sentinel
  postpone         do not swap before "cutover": create the sentinel
  abort            stop; the same command resumes; with --cleanup drop the copy
  status           show the current figures

\b
With --fleet, for all servers: pause, resume, abort, status, set servers-at-once=N, and forget,
which drops its records; other verbs and settings reach each migration that is at work.

\b
Exit codes:
  0    done
  1    the process, or a server that was reached, does not answer; status: there is no migration
  2    refused: no connection, no process runs, it refused, no rights, or a wrong command line
  130  interrupted by SIGINT      143  by SIGTERM"""

_VERBS: Final = (
    "pause", "resume", "set", "throttle", "cutover", "postpone", "abort", "status", "forget",
)  # fmt: skip


@command(commands.CtlCommand, CTL_EXIT_CODES, document="as_json")
@click.argument("verb", type=click.Choice(_VERBS), metavar="VERB")
@click.argument("values", nargs=-1, metavar="[VALUE]...")
def ctl(_: ErrorsShown, options: dict[str, Any]) -> int:
    """Control a migration while it runs, from any machine that reaches the server.

    \b
    spirit-py ctl --host db1 --database shop --table orders pause
    spirit-py ctl --host db1 --database shop --table orders set threads=2 max-lag=5s
    """  # noqa: D301 - click reads the backspace
    as_json = options["as_json"]
    if options["fleet"]:
        from spirit_py.cli import fleet

        return fleet.control(options, request_of)
    complete(options)
    if options["verb"] == "forget":
        raise UsageFault("forget goes with --fleet", hint="one migration: spirit-py cleanup")
    if lacking := missing(options):
        raise UsageFault(lacking, hint="name the table whose migration is meant, with its schema")
    verb, arguments = request_of(options)
    named = {name: options[name] for name in ("database", "table")}
    if verb == "status":
        from spirit_py.migration.listing import migrations, require_table

        age = MigrationConfig.checkpoint_max_age
        connection = connection_of(options)
        found = migrations(connection, **named, max_age=age)
        if not found:
            require_table(connection, **named)
        _show(found, options, none="no migration has left a checkpoint here")
        return 0 if found else 1
    from spirit_py.migration.control.command import control

    said: list[str] = []
    say = said.append if as_json else tell_out
    control(connection_of(options), **named, verb=verb, arguments=arguments, say=say)
    if as_json:
        tell_request(verb, arguments, said)
    return 0


def request_of(options: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the verb that is sent, and its arguments; raises UsageFault."""
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


REVERT_EXIT_CODES = """\b
Exit codes:
  0    the old definition is in place, with every write
  1    not reverted; the table is intact, run again
  2    refused: there is no old table that could be brought up to date
  3    outcome of the swap unknown: look at the tables
  130  interrupted by SIGINT      143  by SIGTERM"""


@command(commands.RevertCommand, REVERT_EXIT_CODES)
def revert(shown: ErrorsShown, options: dict[str, Any]) -> None:
    """Bring back the definition that a table had before its migration, without losing a write.

    Possible as long as "spirit-py migrate --keep-old-current" keeps the old table up to date, or
    --drop-old-after keeps it at all. The process that does so is asked to swap back; where it has
    ended, this one takes its place, if the server still has the binlog since. All rows are
    compared before the swap. What was written into columns that only the new definition has is
    lost, and reported before.

    \b
    spirit-py revert --host db1 --database shop --table orders
    """  # noqa: D301 - click reads the backspace
    asked = revert_config(options)
    from spirit_py.migration.reverse.revert import revert as swap_back

    swap_back(asked, reporter=shown.through(reporters_of(asked.records, verbose=shown.verbose)))


def revert_config(options: dict[str, Any]) -> RevertConfig:
    """Build the configuration from the command line's values; raises UsageFault."""
    complete(options)
    if lacking := missing(options):
        raise UsageFault(lacking, hint="name the table to revert, with its schema")
    return RevertConfig(
        connection=connection_of(options),
        feed=FeedOptions(passable=options["passable"]),
        records=records_of(options),
        **named_alike(RevertConfig, options),
    )
