"""The command line: options to a configuration, errors to a message, a hint, an exit code."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from spirit_py.cli.configfile import config_option
from spirit_py.cli.outcome import EXIT_CODES
from spirit_py.cli.wrong_lines import JsonAwareGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The commands, and what the help of each begins with: they are listed without their modules.
SUMMARIES: Final = {
    "migrate": "Change a table online.",
    "plan": "Show what migrate would do with the same options, and why; write nothing.",
    "ctl": "Control a migration while it runs, from any machine that reaches the server.",
    "move": "Move tables to another server while they are written.",
    "revert": "Bring back the definition that a table had before its migration, without losing a"
    " write.",
    "checksum": "Compare two tables row by row, on one server or on two.",
    "archive": "Write a table's rows to Parquet files with Spark, and prove them; the table stays"
    " as it is.",
    "watch": "Print every committed change as it happens, one event a line.",
    "status": "Show running and stopped migrations, and batches of them; change nothing.",
    "cleanup": "Drop the tables that an abandoned migration left, or the record of an abandoned"
    " batch.",
    "explain": "Explain an error: what it means, what is left on the server, what to do.",
    "completion": "Print the script that lets a shell complete commands and options.",
}
#: Python's textwrap breaks a line behind a dash, by version at other places; not behind this one.
_DASH: Final = "\N{NON-BREAKING HYPHEN}"
#: Those whose module has another name.
_ELSEWHERE: Final = {
    **dict.fromkeys(("cleanup", "ctl", "revert", "status"), "unfinished"),
    "completion": "explain",
    "plan": "migrate",
    "watch": "checksum",
}


def module_of(command: str) -> str:
    """Return the module that declares a command."""
    return f"{__name__}.{_ELSEWHERE.get(command, command)}"


class Commands(UserDict[str, click.Command]):
    """The commands by name, each imported when it is asked for."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(SUMMARIES, click.Command(None)))
        self._imported: set[str] = set()

    def __getitem__(self, name: str) -> click.Command:
        if name in self.data and name not in self._imported:
            self.data[name] = getattr(import_module(module_of(name)), name)
            self._imported.add(name)
        return super().__getitem__(name)


class WholeNames(click.HelpFormatter):
    """Breaks no line at a dash: names of options and files stay whole, so that they are copied."""

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        """Write a list of names and what they mean."""
        kept = [(name, text.replace("-", _DASH)) for name, text in rows]
        super().write_dl(kept, col_max, col_spacing)

    def write_text(self, text: str) -> None:
        """Write a paragraph."""
        super().write_text(text.replace("-", _DASH))

    def getvalue(self) -> str:
        """Return all that was written."""
        return super().getvalue().replace(_DASH, "-")


class WholeNamesContext(click.Context):
    """The context of a command whose help keeps names whole."""

    formatter_class = WholeNames


class Program(JsonAwareGroup):
    """The group of all commands; its help lists them without importing them."""

    context_class = WholeNamesContext

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, each with what its help begins with."""
        listed = [click.Command(name, help=text) for name, text in SUMMARIES.items()]
        click.Group(commands=listed).format_commands(ctx, formatter)


def _show_versions(context: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from spirit_py.migration.entry import runtime_versions

        for name, version in runtime_versions().items():
            click.echo(f"{name} {version}")
        context.exit()


@click.group(
    "spirit-py",
    cls=Program,
    commands=Commands(),
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="SPIRIT_PY_CONFIG",
    is_eager=True,
    expose_value=False,
    callback=config_option,
    help="TOML file of defaults for options; read after /etc/spirit-py/config.toml and"
    " ~/.config/spirit-py/config.toml.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_versions,
    help="Show the versions of this program, of Java and of the libraries, and exit.",
)
def main() -> None:
    """Change the schema of a busy MySQL table without blocking it, and prove it."""
