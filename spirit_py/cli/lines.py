"""Lines on standard output: whole in a pipe, wrapped at words on a terminal."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Final

from spirit_py.cli.outcome import OutputFailed, ReaderGone, say, say_out
from spirit_py.status.event_lines import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Columns below which wrapping at words helps nobody.
_NARROWEST: Final = 30
_LABEL: Final = re.compile(r" *\S+(?: \S+)* {2,}")
_INDENT: Final = 4


def show_lines(lines: Iterable[str]) -> None:
    """Write lines to standard output; what could control the terminal is shown as an escape.

    Raises:
        OutputFailed: standard output takes no more.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in lines:
        for part in wrapped(one_line(line), width):
            say_out(part)


def tell_out(text: str) -> None:
    """Write a line about work to standard output; where that takes no more, to standard error.

    The work goes on, and its outcome is that of the work (R16).
    """
    try:
        show_lines([text])
    except ReaderGone:
        return
    except OutputFailed as failed:
        say(f"{failed.message}: {text}")


def wrapped(line: str, width: int) -> list[str]:
    """Return a line in parts that are not wider than the terminal.

    Parts after the first are indented as the text behind the line's label is, as in
    ``  statement  ADD COLUMN ...``. A word that is wider than a line is left whole.
    """
    if width < _NARROWEST or len(line) <= width:
        return [line]
    label = _LABEL.match(line)
    hanging = len(label[0]) if label else 0
    if not 0 < hanging <= width // 2:
        hanging = len(line) - len(line.lstrip()) + _INDENT
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * hanging,
        drop_whitespace=True,
        break_long_words=False,
        break_on_hyphens=False,
    )
