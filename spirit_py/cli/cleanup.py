"""``spirit-py cleanup``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import click

from spirit_py.cli.groups import SectionedCommand, options_of
from spirit_py.cli.outcome import ErrorsShown, confirmed, leave_with, tell_out
from spirit_py.cli.values import complete, connection_of
from spirit_py.errors import UsageFault
from spirit_py.options.commands import CleanupCommand

if TYPE_CHECKING:
    from collections.abc import Callable

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
