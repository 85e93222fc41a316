"""A configuration file for a team: defaults for options, in TOML.

A table is named after its command; ``all`` holds for each that has the option. Files are read in
the order of :data:`PLACES`, then ``--config``; later ones take precedence, and the environment and
the command line over all of them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from spirit_py.errors import UsageFault
from spirit_py.mysql.option_files import everybody_may_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PLACES: Final = ("/etc/spirit-py/config.toml", "~/.config/spirit-py/config.toml")
_ALL: Final = "all"
#: They have places where other users of the machine cannot read them.
_SECRETS: Final = ("password", "target_password", "replica_password", "dsn")


def read_config(
    files: Iterable[Path], commands: Mapping[str, click.Command]
) -> dict[str, dict[str, Any]]:
    """Return the defaults that files set, by command and parameter; raises UsageFault."""
    found: dict[str, dict[str, Any]] = {name: {} for name in commands}
    for file in files:
        for section, settings in _tables(file).items():
            if section != _ALL and section not in commands:
                raise _unknown(file, f"[{section}] is not a command", (_ALL, *commands))
            chosen = commands if section == _ALL else {section: commands[section]}
            for name, value in settings.items():
                _enter(file, found, chosen, name, value)
    return found


def usual_files() -> list[Path]:
    """Return the files that are read without being named."""
    places = (Path(os.path.expanduser(place)) for place in PLACES)  # noqa: PTH111 - raises no error
    return [place for place in places if place.is_file()]


def _tables(file: Path) -> dict[str, dict[str, Any]]:
    import tomllib

    if everybody_may_write(file):
        raise UsageFault(
            f"the configuration {file} is world-writable, and it decides what is run",
            hint=f"chmod o-w {file}",
        )
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageFault(
            f"cannot read the configuration {file}: {reason}", hint="it has to be TOML"
        ) from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UsageFault(
                f"{file}: {name} is outside of any table", hint=f"put it below [{_ALL}]"
            )
    return tables


def _enter(
    file: Path,
    found: dict[str, dict[str, Any]],
    commands: Mapping[str, click.Command],
    name: str,
    value: Any,
) -> None:
    holders = {
        command: option
        for command, each in commands.items()
        for option in each.params
        if isinstance(option, click.Option) and f"--{name.replace('_', '-')}" in option.opts
    }
    if not holders:
        raise _unknown(file, f"there is no option --{name}", ())
    for command, option in holders.items():
        if option.name in _SECRETS:
            raise UsageFault(
                f"{file}: {name} may hold a password, and is not allowed there",
                hint="write it to ~/.my.cnf, or with mysql_config_editor",
            )
        if not option.envvar:
            raise UsageFault(
                f"{file}: --{name} is for the command line only", hint="remove it from the file"
            )
        single = not isinstance(value, list)
        found[command][str(option.name)] = [value] if option.multiple and single else value


def _unknown(file: Path, what: str, known: Iterable[str]) -> UsageFault:
    names = ", ".join(known)
    return UsageFault(f"{file}: {what}", hint=f"one of {names}" if names else "see --help")


def config_option(context: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
    """Read the files, before any command reads its options."""
    if context.resilient_parsing:
        return
    group = context.command
    if isinstance(group, click.Group):
        files = [*usual_files(), *([value] if value is not None else [])]
        try:
            context.default_map = read_config(files, group.commands)
        except UsageFault as fault:
            raise click.UsageError(f"{fault.message}: {fault.hint}") from None
