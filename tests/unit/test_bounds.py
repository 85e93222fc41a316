"""Every bound of a number holds, whichever way the value comes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, get_type_hints

import click
import pytest

from spirit_py.api.values import option_values
from spirit_py.cli import configfile, main
from spirit_py.errors import UsageFault
from spirit_py.options import Form, declared
from spirit_py.options import commands as options

if TYPE_CHECKING:
    from pathlib import Path

    from spirit_py.options import Option

#: A command's options on the command line, and in the library.
COMMANDS: dict[str, tuple[type, type]] = {
    "migrate": (options.MigrateCommand, options.MigrationArguments),
    "checksum": (options.ChecksumCommand, options.ChecksumArguments),
    "revert": (options.RevertCommand, options.RevertArguments),
}
_NUMBERS = {Form.DURATION, Form.DURATION_OR_NEVER, Form.SIZE}


def wrong_numbers(one: Option) -> set[int | float]:
    """Return numbers that an option does not take; none where it takes no number."""
    if one.type not in {int, float} and one.form not in _NUMBERS and one.least is None:
        return set()
    wrong: set[int | float] = {-5, -5.5, math.inf, math.nan, True}
    if one.form is Form.DURATION_OR_NEVER:
        wrong.discard(math.inf)
    if one.least is not None:
        wrong |= {one.least - 0.005, one.least - 1}
    if one.most is not None:
        wrong |= {one.most + 0.5, one.most + 1}
    if one.type is int:
        wrong |= {(one.least or 1) + 0.5}
    return wrong


CASES = [
    pytest.param(command, one, id=f"{command}-{one.name}")
    for command, (line, _) in COMMANDS.items()
    for one in declared(line)
    if wrong_numbers(one)
]


def read(command: str, words: list[str], **more: Any) -> Any:
    """Read a command line; return its value of the option that is about to fail."""
    return main.commands[command].make_context(command, words, **more)


@pytest.mark.parametrize(("command", "one"), CASES)
def test_a_number_out_of_bounds_is_refused_from_the_command_line_and_the_environment(
    command, one, monkeypatch
):
    """As texts; both are read alike."""
    for wrong in wrong_numbers(one):
        with pytest.raises(click.BadParameter) as refused:
            read(command, [f"{one.flag}={wrong}"])
        assert _named(refused.value) == one.flag
    if one.environment:
        monkeypatch.setenv(f"SPIRIT_PY_{one.name.upper()}", "-5")
        with pytest.raises(click.BadParameter) as refused:
            read(command, [])
        assert _named(refused.value) == one.flag


@pytest.mark.parametrize(("command", "one"), CASES)
def test_a_number_out_of_bounds_is_refused_from_a_configuration_file(command, one, tmp_path):
    """TOML has whole numbers, floats, infinity, nan and truth: none passes by the bound."""
    if not one.environment:
        return
    file: Path = tmp_path / "config.toml"
    for wrong in wrong_numbers(one):
        written = str(wrong).lower() if isinstance(wrong, bool) else repr(wrong)
        file.write_text(f"[{command}]\n{one.flag.removeprefix('--')} = {written}\n")
        found = configfile.read_config([file], main.commands).values
        with pytest.raises(click.BadParameter) as refused:
            read(command, [], default_map=found[command])
        assert _named(refused.value) == one.flag


@pytest.mark.parametrize(("command", "one"), CASES)
def test_a_number_out_of_bounds_is_refused_from_the_library(command, one):
    """Which is how Alembic and Django hand over their settings; the refusal names the argument."""
    arguments = COMMANDS[command][1]
    if one.name not in get_type_hints(arguments):
        return
    for wrong in wrong_numbers(one):
        for value in (wrong, str(wrong)):
            with pytest.raises(UsageFault, match=one.name):
                option_values(main.commands[command], arguments, {one.name: value})


def _named(error: click.BadParameter) -> str:
    assert isinstance(error.param, click.Option)
    return max(error.param.opts, key=len)
