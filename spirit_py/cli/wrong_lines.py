"""A wrong command line as a JSON line, for whoever asked for JSON lines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from spirit_py.cli.outcome import say, show
from spirit_py.codes import ErrorCode
from spirit_py.events import Event, EventName
from spirit_py.status.report import OutcomeReport

if TYPE_CHECKING:
    from collections.abc import Sequence

_VARIABLE: Final = "SPIRIT_PY_LOG_FORMAT"
_GIVEN: Final = "spirit_py.given"


class JsonAwareGroup(click.Group):
    """A group whose commands refuse a wrong command line as they log: in text or in JSON.

    Such a line is refused before any command has read its options, ``--log-format`` among them:
    so this looks for it among the arguments, in the environment and in the configuration file.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments as they were given; ``help migrate`` means ``migrate --help``."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        ctx.meta[_GIVEN] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a wrong command line ends with exit code 2."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            if not asked_for_json(ctx.meta[_GIVEN], ctx.default_map or {}):
                raise
            _refuse(error, ctx)


def warn(context: click.Context, text: str) -> None:
    """Warn of something on the command line, before the command runs."""
    root = context.find_root()
    event = Event(name=EventName.WARNING, text=text, level="warning", fields={"code": None})
    if asked_for_json(root.meta.get(_GIVEN, ()), root.default_map or {}):
        show(event)
    else:
        say(event.line)


def asked_for_json(arguments: Sequence[str], defaults: Any) -> bool:
    """Return whether JSON lines are asked for; the command line wins over the environment.

    Args:
        arguments: of the whole command line.
        defaults: those of the configuration file, by command and option.
    """
    found = None
    for number, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == "--log-format":
            found = value if equals else "".join(arguments[number + 1 : number + 2])
    if found is None:
        found = os.environ.get(_VARIABLE)
    if found is None:
        given = set(arguments)
        found = next((one.get("log_format") for name, one in defaults.items() if name in given), "")
    return found == "json"


def _refuse(error: click.ClickException, ctx: click.Context) -> NoReturn:
    report = OutcomeReport(
        outcome="refused",
        exit_code=error.exit_code,
        error_code=ErrorCode.WRONG_OPTIONS,
        error=error.format_message(),
        hint="see --help",
    )
    show(report.ended(EventName.RUN_ENDED))
    ctx.exit(error.exit_code)
