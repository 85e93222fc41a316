"""``spirit-py revert``."""

from __future__ import annotations

from typing import Any

import click

from spirit_py.cli.display import records_of, reporters_of
from spirit_py.cli.groups import SectionedCommand, options_of
from spirit_py.cli.outcome import ErrorsShown, leave_with
from spirit_py.cli.values import complete, connection_of, named_alike
from spirit_py.config import FeedOptions, RevertConfig
from spirit_py.errors import UsageFault
from spirit_py.options.commands import RevertCommand

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
