"""What ``--help`` shows, of every command."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from spirit_py.cli import SUMMARIES, main
from spirit_py.cli.groups import SectionedCommand

#: All but the one that prints scripts, and has no option.
_HINT = "--help-all shows"
COMMANDS = sorted(set(main.commands) - {"completion"})


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_section(command):
    """No option stands where nobody looks for it, and none is shown twice."""
    found = main.commands[command]
    assert isinstance(found, SectionedCommand)
    shown = _everything(command)
    assert "General:" not in shown, "declare it in spirit_py/options"
    for parameter in found.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            longest = max(parameter.opts, key=len)
            declared = re.findall(rf"^  (?:-\w, )?{longest}\b(?!-)", shown, re.MULTILINE)
            assert len(declared) == 1, longest


def _everything(command):
    """Return the help with all options."""
    shown = CliRunner().invoke(main, [command, "--help"]).output
    return CliRunner().invoke(main, [command, "--help-all"]).output if _HINT in shown else shown


def test_a_command_with_many_options_shows_what_most_runs_need():
    """The others are one option away, which the end of the text names."""
    shown = CliRunner().invoke(main, ["migrate", "--help"]).output
    assert f"{_HINT} all {shown_options(_everything('migrate'))} options" in shown
    assert shown_options(shown) < 40
    assert "Throttling:" in shown
    assert "--max-lag" in shown
    assert "--max-checkpoint-age" not in shown
    assert _HINT not in CliRunner().invoke(main, ["status", "--help"]).output.partition("Exit")[2]


def test_help_names_no_option_that_the_command_has_no_use_for():
    """``plan`` takes those that record a run, as in a command line of ``migrate``, and warns."""
    shown = _everything("plan")
    for unused in ("--report-json", "--metrics-listen", "--on-event", "--hook-veto"):
        assert unused in _everything("migrate")
        assert unused not in shown
    assert "--max-lag as SPIRIT_PY_MAX_LAG" in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_the_environment_is_an_option_of_the_command(command):
    """``explain`` and ``status`` watch no lag."""
    shown = " ".join(_everything(command).split())
    option, variable = re.findall(r"environment: (--\S+) as (\w+)\.", shown)[0]
    found = {one.opts[0]: one.envvar or () for one in main.commands[command].params}
    assert variable in found[option]


def shown_options(text):
    """Count the options in a help text."""
    return len(re.findall(r"^  (?:-\w, )?--[a-z]", text, re.MULTILINE))


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_holds_no_control_character(command):
    """Marks for the formatter are not shown."""
    shown = CliRunner().invoke(main, [command, "--help"] if command else ["--help"]).output
    assert shown.replace("\n", "").isprintable()


@pytest.mark.parametrize("command", sorted(SUMMARIES))
def test_a_command_is_listed_by_what_its_help_begins_with(command):
    """The list is shown without the commands' modules, so it has the words a second time."""
    begins = inspect.cleandoc(main.commands[command].help or "").split("\n\n")[0]
    assert " ".join(begins.split()) == SUMMARIES[command]


def test_the_list_of_commands_imports_none_of_them():
    """What is imported is what is needed."""
    script = (
        "import sys\n"
        "from spirit_py.cli import SUMMARIES, main, module_of\n"
        "main(['--help'], standalone_mode=False)\n"
        "named = [name for name in SUMMARIES if module_of(name) in sys.modules]\n"
        "sys.exit(', '.join(named) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_first_screen_of_migrate_is_enough_to_begin():
    """The first 24 lines have an example, the server, the account, the table and the change."""
    shown = CliRunner().invoke(main, ["migrate", "--help"]).output.splitlines()[:24]
    text = "\n".join(shown)
    for name in ("--host", "--user", "--password", "--database", "--table", "--alter", "--dry-run"):
        assert name in text
