"""``spirit-py ctl``."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import click

from spirit_py.cli.groups import SectionedCommand, options_of
from spirit_py.cli.outcome import (
    ErrorsShown,
    leave_with,
    show_document,
    show_lines,
    tell_document,
    tell_out,
)
from spirit_py.cli.values import complete, connection_of
from spirit_py.errors import UsageFault
from spirit_py.options import declared
from spirit_py.options.commands import CtlCommand, MigrationArguments

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
