"""Values of options that a program gives: read by the types of the command line's options."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, get_type_hints

import click

from spirit_py.cli.values import LIMITS, NOT_EMPTY, TABLE, Duration
from spirit_py.errors import UsageFault
from spirit_py.options import require_needed
from spirit_py.sql import quote_identifier


def argument_name(option: click.Option) -> str:
    """Return the keyword of an option: its long name, with underscores."""
    return max(option.opts, key=len).lstrip("-").replace("-", "_")


def option_values(
    command: click.Command,
    arguments: type,
    given: Mapping[str, object],
    *,
    also: Collection[str] = (),
) -> dict[str, Any]:
    """Return the values of all options; None is not given. TypeError, UsageFault for wrong ones.

    Nor are an empty text and no limits: a program has no variable of a shell that is unset.
    ``also`` names options that count as given where others need them.
    """
    taken = (option for option in command.params if isinstance(option, click.Option))
    options = {argument_name(option): option for option in taken}
    if unknown := sorted(given.keys() - get_type_hints(arguments)):
        raise TypeError(f"{command.name}() got an unexpected keyword argument {unknown[0]!r}")
    asked = {
        name: value
        for name, value in given.items()
        if value is not None and not _is_nothing(options.get(name), value)
    }
    asked.setdefault("no_defaults", True)
    context = click.Context(command)
    values = {
        str(option.name): _value(context, option, name, asked) for name, option in options.items()
    }
    require_needed(arguments, {*asked, *also}, values)
    if values["no_defaults"] and "login_path" not in asked:
        values["login_path"] = None
    return values


def _is_nothing(option: click.Option | None, value: object) -> bool:
    """Return whether a program has no such value: protections are not left out by an empty text."""
    if option is None or value or not isinstance(value, str | Mapping):
        return False
    if option.type is LIMITS:
        return isinstance(value, Mapping)
    return option.name in NOT_EMPTY and ("socket" in option.name or "ssl" in option.name)


def flag_value(name: str, value: object) -> bool:
    """Return a setting that is on or off, read as an option is; raises UsageFault for others."""
    try:
        return bool(click.BOOL.convert(value, None, None))
    except (click.BadParameter, TypeError, AttributeError):
        raise UsageFault(
            f"{name} is {value!r}, which is neither on nor off", hint=f"set {name} to true or false"
        ) from None


def _value(
    context: click.Context, option: click.Option, name: str, asked: Mapping[str, object]
) -> Any:
    try:
        if name in asked:
            return _cast(context, option, asked[name])
        default = option.get_default(context)
        missing = option.value_is_missing(default)
        return option.type_cast_value(context, None if missing else default)
    except click.BadParameter as error:
        raise UsageFault(
            f"{name}: {error.message}",
            hint=f"spirit-py {context.command.name} --help describes --{name.replace('_', '-')}",
        ) from None


def _cast(context: click.Context, option: click.Option, value: Any) -> Any:
    """Return a given value as the option's type reads it; may raise BadParameter."""
    if option.hide_input:
        return option.type_cast_value(context, value() if callable(value) else value)
    try:
        words = [_word(option, part) for part in (_parts(value) if option.multiple else [value])]
        return option.type_cast_value(context, words if option.multiple else words[0])
    except (TypeError, ValueError, AttributeError, OverflowError):
        raise click.BadParameter(
            f"a value of type {type(value).__name__}, or an element in it, does not fit"
        ) from None


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [f"{key}={one}" for key, one in value.items()]
    if isinstance(value, str):
        return [value]
    return sorted(value) if isinstance(value, (set, frozenset)) else list(value)


def _word(option: click.Option, value: Any) -> Any:
    if value is None:
        raise TypeError("None means that an option is left out, and cannot be part of a value")
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(option.type, Duration) and isinstance(value, (int, float)):
        return "never" if value == math.inf else _number(value)
    if option.type is LIMITS and isinstance(value, Mapping):
        return ",".join(f"{name}={_number(limit)}" for name, limit in value.items())
    if option.type is TABLE and isinstance(value, tuple):
        return ".".join(quote_identifier(part) for part in value)
    return Path(value) if isinstance(option.type, click.Path) else value


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9f}"
