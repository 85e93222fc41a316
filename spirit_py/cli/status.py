"""``spirit-py status``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from spirit_py.cli.groups import SectionedCommand, options_of
from spirit_py.cli.outcome import ErrorsShown, leave_with, show_document, show_lines
from spirit_py.cli.values import complete, connection_of
from spirit_py.errors import UsageFault
from spirit_py.options.commands import StatusCommand

if TYPE_CHECKING:
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
