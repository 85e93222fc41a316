"""The options of a command, as click takes them: derived from :mod:`spirit_py.options`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args, get_origin

import click

from spirit_py.cli import WholeNamesContext, values
from spirit_py.cli.configfile import has_password, unread_variables, variables_that_do_not_count
from spirit_py.cli.outcome import ErrorsShown, keep_docs_url, leave_with
from spirit_py.cli.wrong_lines import warn
from spirit_py.config import is_secret_of_spark
from spirit_py.options import Form, Option, SslMode, declared, require_needed

OUTPUT: Final = "Output"
"""The section with ``--help`` itself."""
_OTHERS: Final = "General"
_MANY: Final = 30
#: Set while ``--help`` shows what most runs need.
_COMMON: Final = "spirit_py.common_options"
EXAMPLE: Final = "--max-lag as SPIRIT_PY_MAX_LAG"
"""How an option is written in the environment."""


class SectionedOption(click.Option):
    """An option in a section of ``--help``; a common one is shown where there are many."""

    def __init__(self, *names: Any, section: str, common: bool = True, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.section, self.common = section, common


#: What decides what is changed or compared and where, what is run, or what protects the server: the
#: last of several would silently win.
_GIVEN_ONCE: Final = frozenset({
    "alter", "critical_load", "database", "fleet", "keep", "max_load", "on_event", "on_switch",
    "servers", "servers_from", "shard_by", "statement", "statements", "table", "target_database",
    "target_table", "throttle_http", "throttle_query",
})  # fmt: skip


_INSTEAD: Final = {
    "alter": "write the clauses into one, with commas",
    "critical_load": "write the limits into one, with commas",
    "max_load": "write the limits into one, with commas",
    "on_event": "write one script that does both: each reads the event from its standard input",
    "on_switch": "write one script that does both: each reads the event from its standard input",
    "servers": "write one list with all servers",
    "statement": "write the statements into one, with semicolons",
    "statements": "write one file with all statements, or use one command for each",
    "table": "a command works on one; migrate takes several with --tables or --statement",
}


class SectionedCommand(click.Command):
    """A command whose ``--help`` has sections; ``--help-all`` shows every option of a long list."""

    context_class = WholeNamesContext

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if self._has_many:
            self.params.append(_HELP_ALL)

    @property
    def _has_many(self) -> bool:
        return sum(isinstance(one, SectionedOption) for one in self.params) > _MANY

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Warn of a variable whose name only seems to be an option's."""
        if not ctx.resilient_parsing:
            self._refuse_twice(ctx, list(args))
        left = super().parse_args(ctx, args)
        if ctx.resilient_parsing:
            return left
        for name, meant in unread_variables(ctx):
            warn(ctx, f"no option reads {name} of the environment: did you mean {meant}?")
        for name, flag in variables_that_do_not_count(ctx):
            warn(ctx, f"{name} of the environment is not read: {flag} is for the command line only")
        return left

    def _refuse_twice(self, ctx: click.Context, args: list[str]) -> None:
        """Refuse a second ``--table`` and its like."""
        _, _, order = self.make_parser(ctx).parse_args(args)
        names = [one.name for one in order if one.name in _GIVEN_ONCE]
        if twice := next((name for name in names if names.count(name) > 1), None):
            flag = f"--{twice.replace('_', '-')}"
            raise click.UsageError(
                f"{flag} is given more than once: {_INSTEAD.get(twice, 'one of them counts')}.", ctx
            )

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return ``--help``, which shows what most runs need."""
        option = super().get_help_option(ctx)
        if option is not None and self._has_many:
            option.help = "Show what most runs need."
            option.callback = _show_help
        return option

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        for title, options in in_sections(self, ctx).items():
            shown = [
                record
                for one, record in options
                if not (ctx.meta.get(_COMMON) and isinstance(one, SectionedOption)) or one.common
            ]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what holds for all options, then the epilog."""
        formatter.write_paragraph()
        if ctx.meta.get(_COMMON):
            every = sum(len(one) for one in in_sections(self, ctx).values())
            formatter.write_text(f"--help-all shows all {every} options.")
        named = [f"{one.opts[0]} as {one.envvar[0]}" for one in self.params if one.envvar]
        # With a dash where there is one: it becomes an underscore.
        for shown in sorted(named, key=lambda one: (one != EXAMPLE, "-" not in one[2:]))[:1]:
            formatter.write_text(f"Options can also be set in the environment: {shown}.")
        super().format_epilog(ctx, formatter)


def _show_help(ctx: click.Context, asked: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_COMMON] = asked is not _HELP_ALL
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def in_sections(
    command: click.Command, context: click.Context
) -> dict[str, list[tuple[click.Option, tuple[str, str]]]]:
    """Return the options by their sections, each with how it is written and its text."""
    found: dict[str, list[tuple[click.Option, tuple[str, str]]]] = {}
    for one in command.get_params(context):
        if isinstance(one, click.Option) and (record := one.get_help_record(context)) is not None:
            others = OUTPUT if OUTPUT in found else _OTHERS
            title = one.section if isinstance(one, SectionedOption) else others
            found.setdefault(title, []).append((one, record))
    return found


_HELP_ALL: Final = SectionedOption(
    ["--help-all"],
    section=OUTPUT,
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_help,
    help="Show every option.",
)
Command = TypeVar("Command", bound=Callable[..., Any])


def warn_of_typed(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Warn of a password on the command line, where every process of the machine can read it."""
    name = str(parameter.name)
    if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
        dashed = name.replace("_", "-")
        prompt = getattr(parameter, "prompt", None)
        instead = "give the option without a value, or set" if prompt else "set"
        text = (
            f"a password given with --{dashed} can be read in the list of processes:"
            f" {instead} SPIRIT_PY_{name.upper()}"
        )
        warn(context, text)
    return value


def _warn_where(holds_secret: Callable[[Any], bool]) -> Callable[..., Any]:
    def warn_of(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        return warn_of_typed(context, parameter, value) if holds_secret(value) else value

    return warn_of


def _somebody_answers() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


class AskedOption(SectionedOption):
    """An option that is asked for when it is given without a value, on a terminal."""

    def prompt_for_value(self, ctx: click.Context) -> Any:
        """Ask; without a terminal, where no answer can come, raise UsageError."""
        if not _somebody_answers():
            raise click.UsageError(
                f"{self.opts[0]} without a value asks for it, and there is no terminal: set"
                f" SPIRIT_PY_{str(self.name).upper()}, or use an option file or a login path",
                ctx,
            )
        return super().prompt_for_value(ctx)


def _has_password(addresses: Iterable[str]) -> bool:
    return any(has_password(text) for text in addresses)


def _has_userinfo(url: str | None) -> bool:
    return bool(url) and has_password(str(url))


def _has_secret(settings: Iterable[str]) -> bool:
    return any(is_secret_of_spark(text.partition("=")[0]) for text in settings)


_TYPES: Final[dict[Form, click.ParamType[Any]]] = {
    Form.DURATION_OR_NEVER: values.Duration(never=True),
    Form.SIZE: values.SIZE,
    Form.LIMITS: values.LIMITS,
    Form.TABLE: values.TABLE,
    Form.WINDOWS: values.WINDOWS,
    Form.URL: values.URL,
    Form.ADDRESS: values.ADDRESS,
    Form.PATH: click.Path(path_type=str),
    Form.FILE_READ: click.Path(exists=True, dir_okay=False, path_type=Path),
    Form.FILE_WRITTEN: click.Path(dir_okay=False, path_type=Path),
}
_ASKED: Final = {
    "cls": AskedOption,
    "default": None,
    "prompt": True,
    "prompt_required": False,
    "hide_input": True,
    "callback": warn_of_typed,
}

Body: TypeAlias = Callable[[ErrorsShown, dict[str, Any]], int | None]
"""What a command does with its options; returns the exit code, None for 0."""


def command(
    arguments: type, exit_codes: str, *, document: str = ""
) -> Callable[[Body], click.Command]:
    """Declare a command with the options of a TypedDict; with ``document`` it answers in JSON."""

    def declare(body: Body) -> click.Command:
        @functools.wraps(body)
        def run(**options: Any) -> None:
            verbose, log_format = options["verbose"], options.get("log_format", "text")
            as_json = bool(document) and options[document] in {True, "json"}
            source = click.get_current_context().get_parameter_source
            line = click.core.ParameterSource.COMMANDLINE
            given = [name for name in options if source(name) is line]
            with ErrorsShown(verbose=verbose, log_format=log_format, document=as_json) as shown:
                require_needed(arguments, given, options)
                leave_with(body(shown, options) or 0)

        return click.command(cls=SectionedCommand, epilog=exit_codes)(options_of(arguments)(run))

    return declare


def options_of(arguments: type) -> Callable[[Command], Command]:
    """Declare the options of a TypedDict, in the order in which ``--help`` shows them."""

    def add(command: Command) -> Command:
        for one in reversed(declared(arguments)):
            command = _declare(one)(command)
        return command

    return add


def _declare(one: Option) -> Callable[[Command], Command]:
    variable = f"SPIRIT_PY_{one.flag[2:].upper().replace('-', '_')}"
    settings: dict[str, Any] = {
        "cls": SectionedOption,
        "section": one.section,
        "common": one.common,
        "help": one.help,
        "metavar": one.metavar,
        "multiple": one.repeated,
        "default": one.default,
        "show_default": one.default not in {None, ""},
        "envvar": [variable, *one.variables] if one.environment else None,
    }
    flag = "/".join(filter(None, (one.flag, one.off)))
    given = {name: value for name, value in settings.items() if value is not None}
    return click.option(flag, one.parameter or one.name, **given | _reading(one))


def _reading(one: Option) -> dict[str, Any]:
    if one.type is bool:
        return {"is_flag": True}
    if one.form is Form.PASSWORD:
        return _ASKED
    if one.name == "docs_url":
        return {"type": values.URL, "expose_value": False, "callback": keep_docs_url}
    if one.form is Form.DSN:
        return {"type": values.DSN, "callback": _warn_where(lambda given: given.get("password"))}
    if one.form is Form.SPARK_SETTING:
        return {"callback": _warn_where(_has_secret)}
    if one.name in {"target", "source"}:
        return {"callback": _warn_where(_has_password)}
    if one.name == "throttle_http":
        return {"type": values.URL, "callback": _warn_where(_has_userinfo)}
    return {"type": _type_of(one)}


def _type_of(one: Option) -> click.ParamType[Any] | None:
    if get_origin(one.type) is Literal:
        return click.Choice(get_args(one.type), case_sensitive=one.type != SslMode)
    if one.type is int:
        return values.WholeRange(one.least, one.most)
    if one.form is Form.DURATION and one.most is not None:
        return values.SecondsRange(one.least, one.most)
    if one.most is not None:
        return values.FiniteRange(one.least, one.most)
    if one.form is Form.DURATION:
        return values.Duration(least=one.least or 0.0)
    return _TYPES[one.form] if one.form else None
