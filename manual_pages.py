"""Manual pages, made from the commands when a wheel is built (``hatch_build.py``)."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Final

import click

from spirit_py.cli.groups import EXAMPLE, in_sections

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAME: Final = "spirit-py"
_FILES: Final = (
    ("/etc/my.cnf, /etc/mysql/my.cnf, ~/.my.cnf", "option files of MySQL: [client], [spirit-py]"),
    ("~/.mylogin.cnf", "login paths, as mysql_config_editor writes them"),
    (
        "/etc/spirit-py/config.toml, ~/.config/spirit-py/config.toml",
        "defaults for options: before MySQL's files, and behind the environment",
    ),
)
_ENVIRONMENT: Final = (
    ("SPIRIT_PY_OPTION", f"any option: {EXAMPLE}"),
    ("SPIRIT_PY_PASSWORD, MYSQL_PWD", "the password"),
    ("SPIRIT_PY_CONFIG", "one more file of defaults"),
    ("JAVA_HOME", "the Java that Spark runs on"),
    ("NO_COLOR, FORCE_COLOR, TERM", "whether the output has colours"),
)


def manual_pages(group: click.Group, version: str) -> dict[str, str]:
    """Return the pages by the names of their files."""
    whole = click.Context(group, info_name=_NAME, **group.context_settings)
    pages = {f"{_NAME}.1": _page(whole, _NAME, version, group.commands)}
    for name, command in group.commands.items():
        full = f"{_NAME}-{name}"
        context = click.Context(command, whole, info_name=f"{_NAME} {name}")
        pages[f"{full}.1"] = _page(context, full, version, {})
    return pages


def _page(
    context: click.Context, name: str, version: str, commands: Mapping[str, click.Command]
) -> str:
    command = context.command
    about, example = _help_of(command)
    lines = [
        f'.TH "{name.upper()}" "1" "" "spirit-py {version}" "Manual of spirit-py"',
        ".SH NAME",
        rf"{_text(name)} \- {_text(about.split('. ')[0].rstrip('.'))}",
        ".SH SYNOPSIS",
        rf".B {_text(str(context.info_name))}",
        _text(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        _text(about),
    ]
    if commands:
        lines.append(".SH COMMANDS")
        for each, one in commands.items():
            lines += _entry(rf"\fB{_text(_NAME)}\-{_text(each)}\fR(1)", _help_of(one)[0])
    lines += [".SH OPTIONS", *_options(command, context)]
    if example:
        lines += [".SH EXAMPLES", *_verbatim(example)]
    if command.epilog:
        title, _, rest = command.epilog.removeprefix("\b\n").partition("\n")
        lines += [f".SH {title.rstrip(':').upper()}", *_verbatim(rest)]
    lines += _listed("ENVIRONMENT", _ENVIRONMENT) + _listed("FILES", _FILES)
    others = "spirit-py-explain" if commands else "spirit-py"
    lines += [".SH SEE ALSO", rf"\fB{_text(others)}\fR(1), \fBmysql\fR(1)"]
    return "\n".join(lines) + "\n"


def _help_of(command: click.Command) -> tuple[str, list[str]]:
    plain, _, example = inspect.cleandoc(command.help or "").partition("\b\n")
    shown, _, rest = example.partition("\n\n")
    return " ".join(f"{plain} {rest.replace(chr(8), '')}".split()), shown.splitlines()


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for title, found in in_sections(command, context).items():
        yield f".SS {title}"
        for _, (option, meaning) in found:
            first, *rest = option.split(" ", 1)
            yield from _entry(" ".join([rf"\fB{_text(first)}\fR", *map(_text, rest)]), meaning)


def _listed(title: str, entries: tuple[tuple[str, str], ...]) -> list[str]:
    return [f".SH {title}", *(line for name, text in entries for line in _entry(_text(name), text))]


def _entry(name: str, meaning: str) -> list[str]:
    return [".TP", name, _text(" ".join(meaning.split()))]


def _verbatim(lines: str | list[str]) -> list[str]:
    rows = lines.splitlines() if isinstance(lines, str) else lines
    return [".PP", ".nf", *(_text(row) for row in rows), ".fi"]


def _text(text: str) -> str:
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq")
    return re.sub(r"^([.'])", r"\\&\1", escaped)
