"""A configuration file for a team: defaults for options, in TOML.

A table is named after its command; ``all`` holds for each that has the option, and ``migrate`` for
``plan``, too. Files are read in the order of :data:`PLACES`, then ``--config``; later ones take
precedence, and the environment and the command line over all of them.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from spirit_py.classes import dataclass, field
from spirit_py.config import is_secret_of_spark
from spirit_py.errors import UsageFault
from spirit_py.records import everybody_may_write, of_another_user

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PLACES: Final = ("/etc/spirit-py/config.toml", "~/.config/spirit-py/config.toml")
_ALL: Final = "all"
_SPELLING: Final = "correct its name, or remove it; spirit-py COMMAND --help-all lists the options"
#: They have places where other users of the machine cannot read them.
_SECRETS: Final = ("password", "target_password", "replica_password", "dsn", "target")
#: They may have one in a URL.
_URLS: Final = ("throttle_http", "source")
#: A URL with a password.
_WITH_PASSWORD: Final = re.compile(r"://[^/@?#]*:[^/@?#]+@")

#: The other types refuse true and false themselves.
_OF_TEXT: Final = (click.types.StringParamType, click.Path, click.Choice)
_PREFIX: Final = "SPIRIT_PY_"
#: How much of two names of variables is the same, where one is a misspelling of the other.
_NEAR: Final = 0.92
_SETTINGS: Final = "spirit_py.settings"
_OF_FILE: Final = 1
_TYPED: Final = 3
#: A value that no source has may be of an entry in a list of servers.
_WEIGHTS: Final[dict[ParameterSource | None, int]] = {
    ParameterSource.DEFAULT_MAP: 1,
    ParameterSource.ENVIRONMENT: 2,
}
#: Commands that have the options of another one: its section holds for them, too.
_ALIKE: Final = {"migrate": ("plan",)}


class WrongFile(click.UsageError):
    """A configuration file that cannot be used; the remedy is in the file, not in the help."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class FileSetting:
    """Where a default is set; ``text`` is its line, without a value that may be a secret."""

    file: Path
    section: str
    name: str
    value: Any

    @property
    def text(self) -> str:
        """The file, the section and the key."""
        key = f"{self.file}, [{self.section}] {self.name}"
        if isinstance(self.value, bool):
            return f"{key} = {str(self.value).lower()}"
        return f"{key} = {self.value}" if isinstance(self.value, int | float) else key

    @property
    def hint(self) -> str:
        """What to do about it."""
        return f"correct this line of {self.file}, or remove it"


@dataclass(frozen=True)
class Defaults:
    """What files set, by command and parameter, and where."""

    values: dict[str, dict[str, Any]]
    settings: dict[tuple[str, str], FileSetting] = field(default_factory=dict)


def read_config(
    files: Iterable[Path], commands: Mapping[str, click.Command], named: Path | None = None
) -> Defaults:
    """Return the defaults that files set, by command and parameter; raises UsageFault."""
    found = Defaults({name: {} for name in commands})
    for file in files:
        tables = _tables(file, named=file == named)
        for section in tables:
            if section != _ALL and section not in commands:
                raise _unknown(file, f"[{section}] is not a command", (_ALL, *commands))
        # What holds for more commands comes first: the own section takes precedence.
        for section in sorted(tables, key=lambda name: (name != _ALL, name not in _ALIKE)):
            for name, value in tables[section].items():
                _enter(FileSetting(file, section, name, value), found, commands)
    return found


def usual_files() -> list[Path]:
    """Return the files that are read without being named."""
    places = (Path(os.path.expanduser(place)) for place in PLACES)  # noqa: PTH111 - raises no error
    # The home may be one of another account, as after setpriv, where Path.is_file() raises.
    return [place for place in places if os.path.isfile(place)]  # noqa: PTH113


def _tables(file: Path, *, named: bool) -> dict[str, dict[str, Any]]:
    import tomllib

    if everybody_may_write(file):
        raise UsageFault(
            f"the configuration {file} is world-writable, and it decides what is run",
            hint=f"chmod o-w {file}",
        )
    # A checkout that root reads in a container is another user's, too: whoever names it has chosen.
    if of_another_user(file) and (not named or everybody_may_write(file.parent)):
        raise UsageFault(
            f"the configuration {file} belongs to another user, and it decides what is run",
            hint="give it to root, or to the user who runs spirit-py (chown), or name it: spirit-py"
            " --config FILE, in a folder where not everybody may write",
        )
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason, hint = str(error), "it has to be TOML"
        if isinstance(error, OSError):
            reason, hint = str(error.strerror), "make it readable"
        raise UsageFault(f"cannot read the configuration {file}: {reason}", hint=hint) from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UsageFault(
                f"{file}: {name} is outside of any table", hint=f"put it below [{_ALL}]"
            )
    return tables


def _enter(setting: FileSetting, found: Defaults, commands: Mapping[str, click.Command]) -> None:
    section, name, value = setting.section, setting.name, setting.value
    holders = _holders(name, tuple(commands) if section == _ALL else (section,), commands)
    where = f"{setting.file}, [{section}]"
    if not holders:
        raise _unknown(where, f"there is no option --{name}", ())
    for command, option in (holders | _holders(name, _ALIKE.get(section, ()), commands)).items():
        in_url = option.name in _URLS and has_password(str(value))
        if in_url or option.name in _SECRETS:
            raise UsageFault(
                f"{where}: {name} may hold a password, and is not allowed there",
                hint="set SPIRIT_PY_THROTTLE_HTTP"
                if option.name == "throttle_http"
                else "write it to ~/.my.cnf, or with mysql_config_editor",
            )
        if option.name == "spark_conf" and _shows_secret(setting):
            raise UsageFault(
                f"{where}: {name} holds a secret, and every user of this machine may read it",
                hint=f"chmod o-r {setting.file}",
            )
        if not option.envvar:
            raise UsageFault(
                f"{where}: --{name} is for the command line only", hint="remove it from the file"
            )
        values = value if option.multiple and isinstance(value, list) else [value]
        if wrong := next(filter(None, (_misfit(option, one) for one in values)), ""):
            raise UsageFault(f"{setting.text}: {wrong}", hint=setting.hint)
        found.values[command][str(option.name)] = values if option.multiple else value
        found.settings[command, str(option.name)] = setting


def has_password(url: str) -> bool:
    """Return whether a text has a URL with a password in it."""
    return _WITH_PASSWORD.search(url) is not None


def _shows_secret(setting: FileSetting) -> bool:
    """Return whether one of Spark's settings is a secret, in a file that everybody may read."""
    given = setting.value if isinstance(setting.value, list) else [setting.value]
    secret = any(is_secret_of_spark(str(one).partition("=")[0]) for one in given)
    return secret and bool(setting.file.stat().st_mode & stat.S_IROTH)


def _holders(
    name: str, names: Iterable[str], commands: Mapping[str, click.Command]
) -> dict[str, click.Option]:
    return {
        command: option
        for command in names
        if command in commands
        for option in commands[command].params
        if isinstance(option, click.Option) and f"--{name.replace('_', '-')}" in option.opts
    }


def _misfit(option: click.Option, value: Any) -> str:
    """Return what is wrong with the kind of a value: TOML has some that no option is."""
    if option.is_flag:
        return "" if isinstance(value, bool) else "the value is true or false, without quotes"
    if isinstance(value, bool) and isinstance(option.type, _OF_TEXT):
        return f"{str(value).lower()} is not a text"
    if isinstance(option.type, click.Path) and (not isinstance(value, str) or "\0" in value):
        return "the value is a path, in quotes"
    if isinstance(value, str | int | float):
        return ""
    return "the value is a text or a number" + (", or a list of them" if option.multiple else "")


def _unknown(where: Path | str, what: str, known: Iterable[str]) -> UsageFault:
    names = ", ".join(known)
    return UsageFault(f"{where}: {what}", hint=f"one of {names}" if names else _SPELLING)


def _is_same(one: Path, other: Path) -> bool:
    """Return whether two paths lead to one file, by links or from another folder, too."""
    with contextlib.suppress(OSError):
        return one == other or one.samefile(other)
    return False


def config_option(context: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
    """Read the files, before any command reads its options."""
    if context.resilient_parsing:
        return
    group = context.command
    if isinstance(group, click.Group):
        files = [one for one in usual_files() if value is None or not _is_same(one, value)]
        files += [value] if value is not None else []
        try:
            defaults = read_config(files, group.commands, named=value)
        except UsageFault as fault:
            raise WrongFile(fault.message, fault.hint) from None
        context.default_map = defaults.values
        context.meta[_SETTINGS] = defaults.settings


def place_of(error: click.ClickException) -> tuple[str, str] | None:
    """Return what sets a refused value, and what to do there; None for the command line's own."""
    if not isinstance(error, click.BadParameter) or error.ctx is None or error.param is None:
        return None
    context, name = error.ctx, str(error.param.name)
    source = context.get_parameter_source(name)
    if source is ParameterSource.ENVIRONMENT:
        return _variable_of(error.param), "correct this variable of the environment, or unset it"
    settings: Mapping[tuple[str, str], FileSetting] = context.meta.get(_SETTINGS, {})
    setting = settings.get((str(context.info_name), name))
    return (
        (setting.text, setting.hint) if setting and source is ParameterSource.DEFAULT_MAP else None
    )


def is_set_by(name: str, variable: str) -> bool:
    """Return whether an option's value is of this variable of the environment."""
    context = click.get_current_context(silent=True)
    if context is None or weight_of(name) != _WEIGHTS[ParameterSource.ENVIRONMENT]:
        return False
    return any(_variable_of(one) == variable for one in context.command.params if one.name == name)


def _variable_of(parameter: click.Parameter) -> str:
    return next(one for one in variables_of(parameter) if os.environ.get(one))


def is_of_file(name: str) -> bool:
    """Return whether an option's value is a default of a configuration file."""
    return weight_of(name) == _OF_FILE


def is_typed(name: str) -> bool:
    """Return whether an option's value is of this run, as all are in a program, or a default."""
    return weight_of(name) == _TYPED


def weight_of(name: str) -> int:
    """Return how much the source of an option's value counts: a file least, the command most."""
    context = click.get_current_context(silent=True)
    # A program may be a command of its own, whose options are others.
    if context is None or _SETTINGS not in context.meta:
        return _TYPED
    return _WEIGHTS.get(context.get_parameter_source(name), _TYPED)


def variables_of(parameter: click.Parameter) -> tuple[str, ...]:
    """Return the variables of the environment that an option reads, in their order."""
    named = parameter.envvar or ()
    return (named,) if isinstance(named, str) else tuple(named)


def variables_that_do_not_count(context: click.Context) -> Iterator[tuple[str, str]]:
    """Return variables named like options that are for the command line alone, with these."""
    for option in context.command.params:
        flag = max(option.opts, key=len)
        name = f"{_PREFIX}{flag.lstrip('-').upper().replace('-', '_')}"
        if name in os.environ and not option.envvar:
            yield name, flag


def unread_variables(context: click.Context) -> Iterator[tuple[str, str]]:
    """Return variables that only nearly have the name of an option's, each with that one."""
    import difflib

    read = [one for option in context.command.params for one in variables_of(option)]
    near = {
        name: found[0]
        for name in sorted(os.environ)
        if name.startswith(_PREFIX) and name not in read
        if (found := difflib.get_close_matches(name, read, n=1, cutoff=_NEAR))
    }
    root = context.find_root().command
    if not near or not isinstance(root, click.Group):
        return
    others = {
        one
        for command in (root, *root.commands.values())
        for option in command.params
        for one in variables_of(option)
    }
    yield from ((name, meant) for name, meant in near.items() if name not in others)
