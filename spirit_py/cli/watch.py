"""``spirit-py watch``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from spirit_py.cli.groups import command
from spirit_py.cli.outcome import say, show
from spirit_py.cli.values import complete, connection_of, named_alike
from spirit_py.config import WatchConfig
from spirit_py.errors import UsageFault
from spirit_py.events.event import teller
from spirit_py.options.commands import WatchCommand

if TYPE_CHECKING:
    from spirit_py.cli.outcome import ErrorsShown

WATCH_EXIT_CODES = """\b
Exit codes:
  0    ended where --until asked
  1    the stream, or writing its lines, failed; stderr has the position
  2    refused: the command line is wrong
  130  interrupted by SIGINT      143  by SIGTERM
  141  the reader of the output closed it"""


@command(WatchCommand, WATCH_EXIT_CODES)
def watch(shown: ErrorsShown, options: dict[str, Any]) -> int:
    """Print every committed change as it happens, one event a line.

    \b
    spirit-py watch --host db1 --database shop --table orders --from "$POSITION"
    """  # noqa: D301 - click reads the backspace
    given = watch_config(options)
    if shown.output_was_closed:
        raise UsageFault("the standard output is closed", hint="redirect it")
    from spirit_py.watch.command import watch as follow

    as_json = options["log_format"] == "json"
    tell = teller(show if as_json else lambda event: say(f"watch: {event.line}"))
    code = follow(given, descriptor=_standard_output(), tell=tell)
    shown.end(code)
    return code


def _standard_output() -> int:
    """Return the descriptor of the standard output, with nothing left to write before it."""
    sys.stdout.flush()
    return sys.stdout.fileno()


def watch_config(options: dict[str, Any]) -> WatchConfig:
    """Build the configuration from the command line's values; raises UsageFault."""
    complete(options)
    if options["table"] and not options["database"]:
        raise UsageFault("--table goes with --database", hint="add --database")
    alike = named_alike(WatchConfig, options)
    if alike.get("position") == "now":
        alike["position"] = ""
    return WatchConfig(
        connection=connection_of(options), until_now=options["until"] == "now", **alike
    )
