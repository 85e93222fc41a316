"""A wrong command line, shown as every other error is: cause, remedy, page; or as a JSON line."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from spirit_py.cli import outcome
from spirit_py.cli.configfile import WrongFile, place_of
from spirit_py.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_YES: Final = frozenset({"1", "true", "t", "yes", "y", "on"})
_GIVEN: Final = "spirit_py.given"
#: What people write for a verb of ctl, and no spelling is near to.
_MEANT: Final = {
    "continue": ("resume",),
    "unpause": ("resume",),
    "stop": ("pause", "abort"),
    "cancel": ("abort",),
}
_NAMES: Final = (click.NoSuchOption, click.exceptions.NoSuchCommand)


class JsonAwareGroup(click.Group):
    """A group that refuses a wrong command line as its commands log: in text or in JSON."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments as they were given; ``help migrate`` means ``migrate --help``."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        ctx.meta[_GIVEN] = list(args)
        return super().parse_args(ctx, args)

    def make_context(self, *arguments: Any, **more: Any) -> click.Context:
        """Read the options before the command's name; a wrong one ends with exit code 2."""
        try:
            return super().make_context(*arguments, **more)
        except click.UsageError as error:
            _refuse(error, error.ctx)
        except OSError as error:
            outcome.leave_unwritten(error)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a wrong command line ends with exit code 2."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            _refuse(error, ctx)
        except OSError as error:
            outcome.leave_unwritten(error)


def warn(context: click.Context, text: str) -> None:
    """Warn of something on the command line, before the command runs."""
    from spirit_py.events.run import Warned

    root = context.find_root()
    event = Warned(said=text)
    if asked_for_json(root.meta.get(_GIVEN, ()), root.default_map or {}):
        outcome.show(event)
    else:
        outcome.say(event.line)


def asked_for_json(arguments: Sequence[str], defaults: Any) -> bool:
    """Return whether JSON lines are asked for; ``defaults`` are the configuration file's."""
    found = _given("--log-format", arguments)
    if found is None:
        given = set(arguments)
        found = next((one.get("log_format") for name, one in defaults.items() if name in given), "")
    return found == "json"


def asked_for_document(arguments: Sequence[str]) -> bool:
    """Return whether the command would answer in one JSON document: so is its error then."""
    words = set(arguments)
    if words & {"status", "ctl", "explain"}:
        return "--json" in words or os.environ.get("SPIRIT_PY_JSON", "").lower() in _YES
    return bool(words & {"plan", "move"}) and _given("--format", arguments) == "json"


def _given(option: str, arguments: Sequence[str]) -> str | None:
    found = os.environ.get(f"SPIRIT_PY_{option.removeprefix('--').replace('-', '_').upper()}")
    for number, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == option:
            found = value if equals else "".join(arguments[number + 1 : number + 2])
    return found


def _refuse(error: click.ClickException, ctx: click.Context | None) -> NoReturn:
    root = ctx.find_root() if ctx else None
    cause, hint = _explained(error, root)
    from spirit_py.events.run import RunEnded
    from spirit_py.status.report import OutcomeReport

    report = OutcomeReport(
        outcome="refused",
        exit_code=error.exit_code,
        error_code=ErrorCode.WRONG_OPTIONS,
        error=cause,
        hint=hint,
    )
    if root and asked_for_document(root.meta.get(_GIVEN, ())):
        with contextlib.suppress(outcome.OutputFailed):
            outcome.show_document(report.end_fields())
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
    elif root and asked_for_json(root.meta.get(_GIVEN, ()), root.default_map or {}):
        outcome.show(report.ended(RunEnded))
    else:
        outcome.say_error(cause)
        outcome.say_hint(hint)
        outcome.say_more([ErrorCode.WRONG_OPTIONS])
    raise click.exceptions.Exit(error.exit_code)


def _explained(error: click.ClickException, root: click.Context | None) -> tuple[str, str]:
    if isinstance(error, WrongFile):
        return error.message, error.hint
    if place := place_of(error):
        near = _near(error)
        hint = " ".join([*([_question(near)] if near else []), place[1]])
        return f"{place[0]}: {error.message.removesuffix('.')}", hint
    cause = error.message if isinstance(error, _NAMES) else error.format_message()
    # Where an argument is missing, the choices are lines with tabs.
    cause = re.sub(r"\s*\n\s*", " ", cause)
    return f"{cause[:1].lower()}{cause[1:].removesuffix('.')}", " ".join(_remedy(error, root))


def _remedy(error: click.ClickException, root: click.Context | None) -> Iterator[str]:
    if near := _near(error):
        yield _question(near)
    if "unexpected extra argument" in error.format_message():
        yield 'write a value with spaces in quotes: --alter "ADD COLUMN x INT";'
    where = f"spirit-py {(root and root.invoked_subcommand) or ''}".rstrip()
    if context := getattr(error, "ctx", None):
        where = context.command_path
    yield f"{where} {_help_for(error)} shows what there is"


def _question(near: Sequence[str]) -> str:
    return f"did you mean {', '.join(near)}?"


def _help_for(error: click.ClickException) -> str:
    """Return the option that shows the help where the wrong option stands."""
    param, context = getattr(error, "param", None), getattr(error, "ctx", None)
    options = context.command.params if context and not getattr(param, "common", True) else ()
    everything = "--help-all"
    return everything if any(everything in one.opts for one in options) else "--help"


def _near(error: click.ClickException) -> list[str]:
    if isinstance(error, _NAMES):
        return list(error.possibilities or ())
    import difflib

    kind = getattr(getattr(error, "param", None), "type", None)
    refused = error.message.split("'")[1:2]
    if not isinstance(kind, click.Choice) or not refused:
        return []
    given, choices = refused[0].lower(), list(map(str, kind.choices))
    meant = [one for one in _MEANT.get(given, ()) if one in choices]
    return meant or difflib.get_close_matches(given, choices, n=1)
