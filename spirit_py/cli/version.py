"""``spirit-py --version``: this program, and what it runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def version_option(command: Command) -> Command:
    """Add ``--version`` to a command."""
    return click.option(
        "--version",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show,
        help="Show the versions of this program, of Java and of the libraries, and exit.",
    )(command)


def _show(context: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from spirit_py.migration.versions import runtime_versions

        for name, version in runtime_versions().items():
            click.echo(f"{name} {version}")
        context.exit()
