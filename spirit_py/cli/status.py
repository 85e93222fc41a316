"""``spirit-py status``."""

from __future__ import annotations

import json
from typing import Any

import click

from spirit_py.cli.groups import connection_options, option
from spirit_py.cli.outcome import ErrorsShown, leave_with
from spirit_py.cli.sections import SectionedCommand
from spirit_py.cli.values import Duration, complete, connection_of
from spirit_py.errors import UsageFault

STATUS_EXIT_CODES = """\b
Exit codes:
  0  shown
  1  there is none, or the server stopped answering
  2  refused: the command line is wrong, the server cannot be reached, or the account might not
     see what is there"""


@click.command(cls=SectionedCommand, epilog=STATUS_EXIT_CODES)
@connection_options
@option("--database", default="", help="Schema to look in. [default: all of them]")
@option("--table", default="", help="Table of it. [default: all of them]")
@option(
    "--checkpoint-max-age",
    type=Duration(),
    default="7d",
    show_default=True,
    help="Age from which on the migrate command would not carry on.",
)
@option("--json", "as_json", is_flag=True, help="JSON for programs, one list.")
@option("--verbose", is_flag=True, help="Tracebacks.")
def status(**options: Any) -> None:
    """Show migrations that were stopped or are under way, without touching them.

    \b
    spirit-py status --host db1 --database shop --table orders
    """  # noqa: D301 - click reads the backspace
    with ErrorsShown(verbose=options["verbose"]):
        complete(options)
        if options["table"] and not options["database"]:
            raise UsageFault("--table goes with --database", hint="add --database")
        from spirit_py.migration.listing import migrations

        connection = connection_of(options)
        shown = migrations(
            connection,
            database=options["database"],
            table=options["table"],
            max_age=options["checkpoint_max_age"],
        )
        if options["as_json"]:
            found = [one.to_dict() for one in shown]
            click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        else:
            for line in (line for one in shown for line in one.lines()):
                click.echo(line)
        if not shown:
            click.echo("no migration has left a checkpoint here", err=True)
        leave_with(0 if shown else 1)
