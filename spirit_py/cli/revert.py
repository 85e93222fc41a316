"""``spirit-py revert``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from spirit_py.cli.display import reporter_of
from spirit_py.cli.options import (
    connection_of,
    connection_options,
    key_value,
    log_options,
    option,
    refuse_undecodable,
    spark_options,
    statement_writes_option,
    swap_options,
    threads_of,
)
from spirit_py.cli.outcome import ErrorsShown, leave_with
from spirit_py.config import FeedOptions
from spirit_py.errors import UsageFault

if TYPE_CHECKING:
    from spirit_py.migration.revert_options import RevertOptions

REVERT_EXIT_CODES = """\b
Exit codes:
  0    the old definition is in place, with every write
  1    not reverted; the table is whole, run again
  2    refused: there is no way back
  3    outcome of the swap unknown: look at the tables
  130  interrupted by SIGINT      143  by SIGTERM"""


@click.command(epilog=REVERT_EXIT_CODES)
@connection_options
@option("--database", help="Schema of the table.")
@option("--table", help="Table whose change is to be undone.")
@option("--skip-drop", is_flag=True, help="Keep the table that is swapped out, as _TABLE_undone.")
@option("--threads", type=click.IntRange(1, 256), help="Rows are compared by so many tasks.")
@swap_options
@statement_writes_option
@spark_options
@log_options
def revert(**options: Any) -> None:
    """Bring back the definition that a table had before its migration, without losing a write.

    Possible as long as "spirit-py migrate --keep-old-current" keeps the old table up to date. The
    process that does so is asked to swap back; where it has ended, this one goes on in its place,
    if the server still has the binlog since. All rows are compared before the swap.
    What was written into columns that only the new definition has is lost, and said before.

    \b
    spirit-py revert --host db1 --database shop --table orders
    """  # noqa: D301 - click reads the backspace
    with ErrorsShown(verbose=options["verbose"]):
        asked = revert_options(options)
        from spirit_py.migration.revert import revert as go_back
        from spirit_py.status.safe import SafeReporter

        go_back(asked, reporter=SafeReporter(reporter_of(asked.log_format)))
        leave_with(0)


def revert_options(options: dict[str, Any]) -> RevertOptions:
    """Build the frozen options from the command line's values.

    Raises:
        UsageFault: when options are missing or contradict each other.
    """
    from spirit_py.migration.revert_options import RevertOptions

    refuse_undecodable(options)
    if not options["database"] or not options["table"]:
        raise UsageFault("the table is not clear", hint="give --database and --table")
    return RevertOptions(
        connection=connection_of(options),
        database=options["database"],
        table=options["table"],
        skip_drop=options["skip_drop"],
        threads=threads_of(options["threads"], options["spark_master"]),
        lock_wait_timeout=options["lock_wait_timeout"],
        no_kill=options["no_kill"],
        kill_after=options["kill_after"],
        snapshot_guard=options["snapshot_guard"],
        spark_master=options["spark_master"],
        spark_conf=tuple(key_value(text) for text in options["spark_conf"]),
        spark_ui=options["spark_ui"],
        log_format=options["log_format"],
        verbose=options["verbose"],
        feed=FeedOptions(vouched=options["vouched"]),
    )
