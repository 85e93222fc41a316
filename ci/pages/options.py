"""The options of each command as Markdown, read from the command itself."""

from __future__ import annotations

import inspect
import re
from typing import Final

import click

from spirit_py.cli import main
from spirit_py.cli.groups import in_sections

COMMANDS: Final = dict(main.commands)
_PREFIX: Final = "SPIRIT_PY"


def commands() -> str:
    """Return the list of commands, each with a link to its page."""
    rows = [
        f"| [`{name}`]({name}.md) | {_text(_first_sentence(command))} |"
        for name, command in COMMANDS.items()
    ]
    return "\n".join(["| command | |", "|---|---|", *rows])


def described(name: str) -> str:
    """Return usage and options of a command, section by section, in the order of its ``--help``."""
    command = COMMANDS[name]
    context = click.Context(command, click.Context(main, **main.context_settings), info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = ["```", f"spirit-py {name} {usage}", "```", ""]
    for title, found in in_sections(command, context).items():
        lines += [f"### {title}", "", *_table(found), ""]
    lines.append(_verbatim(command.epilog))
    return "\n".join(lines)


def _table(found: list[tuple[click.Option, tuple[str, str]]]) -> list[str]:
    rows = ["| option | meaning |", "|---|---|"]
    for option, (names, meaning) in found:
        rows.append(f"| {_cell(names)} | {_text(meaning)}{_environment(option)} |")
    return rows


def _cell(names: str) -> str:
    """Return the first column: code, which breaks at the metavariable only."""
    return "`" + names.replace("|", "¦").replace("¦", "\\|") + "`"


def _environment(option: click.Option) -> str:
    return f" Environment: `{option.envvar}`." if isinstance(option.envvar, str) else ""


def _text(words: str) -> str:
    """Return help text as Markdown: options and assignments as code, nothing else changed."""
    words = " ".join(words.replace("\b", "").split())
    words = re.sub(r"[\[\]*_<>|~]", lambda found: f"\\{found[0]}", words)
    return re.sub(r"(?<![\w`])(--[a-z][a-z-]*)", r"`\1`", words)


def _first_sentence(command: click.Command) -> str:
    text = inspect.cleandoc(command.help or "")
    return text.partition("\n\n")[0].replace("\n", " ")


def _verbatim(epilog: str | None) -> str:
    """Return the lists that close a command's help as code blocks."""
    blocks = (epilog or "").split("\b\n")
    shown = [block.strip("\n") for block in blocks if block.strip()]
    return "\n\n".join(f"```text\n{inspect.cleandoc(block)}\n```" for block in shown)
