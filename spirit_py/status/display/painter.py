"""Paint lines at the bottom of a terminal, with streams and log handlers led above them."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rich.cells import get_character_cell_size

from spirit_py.classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.style import Style
    from rich.text import Text

_Cell: TypeAlias = "tuple[str, Style | None]"

CLEAR_BELOW: Final = "\x1b[J"
CLEAR_LINE: Final = "\x1b[K"
HIDE_CURSOR: Final = "\x1b[?25l"
SHOW_CURSOR: Final = "\x1b[?25h"


@dataclass
class Painter:
    """What is on the screen, and the sequences that change it."""

    styled: Callable[[str, Style], str]
    resolve: Callable[[str | Style], Style]

    def __post_init__(self) -> None:
        self._rows: list[list[_Cell]] = []

    def paint(self, lines: Sequence[Text], width: int) -> str:
        """Return what turns the painted lines into these, cut off at so many columns."""
        old, new = self._rows, [self._cells(line, width) for line in lines]
        out: list[str] = []
        place = max(0, len(old) - 1)
        for number, row in enumerate(new):
            if number < len(old):
                change = self._change(old[number], row)
                if change:
                    out += [_moved(place, number), change]
                    place = number
            else:
                end = len(old) - 1 if number == len(old) and old else place
                out += [_moved(place, end), "\r\n" if number else "\r", self._run(row)]
                place = number
        if len(new) < len(old):
            out += [_moved(place, len(new)), "\r", CLEAR_BELOW]
            place = len(new)
        if out:
            out += [_moved(place, max(0, len(new) - 1)), "\r"]
        self._rows = new
        return "".join(out)

    def clear(self, narrower: int = 0) -> str:
        """Return what removes the painted lines; ``narrower``: new columns, or 0."""
        if not self._rows:
            return ""
        height = len(self._rows)
        if narrower:
            height = sum(max(1, -(-len(row) // narrower)) for row in self._rows)
        self._rows = []
        return _moved(height - 1, 0) + "\r" + CLEAR_BELOW

    def _cells(self, line: Text, width: int) -> list[_Cell]:
        base = self.resolve(line.style) if line.style else None
        styles: list[Style | None] = [base] * len(line.plain)
        for span in line.spans:
            inner = self.resolve(span.style)
            for place in range(span.start, min(span.end, len(styles))):
                styles[place] = inner
        cells: list[_Cell] = []
        for character, style in zip(line.plain, styles, strict=True):
            size = get_character_cell_size(character)
            if len(cells) + size > width:
                break
            if size:
                cells += [(character, style), *[("", style)] * (size - 1)]
            elif cells:
                cells[-1] = (cells[-1][0] + character, cells[-1][1])
        while cells and cells[-1][0] == " ":
            cells.pop()
        return cells

    def _change(self, old: list[_Cell], new: list[_Cell]) -> str:
        if old == new:
            return ""
        pairs = enumerate(zip(old, new, strict=False))
        unlike = (place for place, (one, other) in pairs if one != other)
        first = next(unlike, min(len(old), len(new)))
        end = len(new)
        if len(old) == len(new):
            while end > first and old[end - 1] == new[end - 1]:
                end -= 1
        while first and (first < len(new) and not new[first][0]):
            first -= 1
        while first and first < len(old) and not old[first][0]:
            first -= 1
        while end < len(new) and not new[end][0]:
            end += 1
        column = "\r" if not first else f"\x1b[{first + 1}G"
        return column + self._run(new[first:end]) + (CLEAR_LINE if len(new) < len(old) else "")

    def _run(self, cells: Sequence[_Cell]) -> str:
        out = []
        for style, run in groupby(cells, key=lambda cell: cell[1]):
            text = "".join(character for character, _ in run)
            out.append(text if style is None else self.styled(text, style))
        return "".join(out)


def _moved(place: int, to: int) -> str:
    if place == to:
        return ""
    return f"\x1b[{place - to}A" if place > to else f"\x1b[{to - place}B"


class LinesOf(io.TextIOBase):
    """A stream in the place of another, that passes whole lines on without their ends."""

    def __init__(self, stream: Any, show: Callable[[str], None]) -> None:
        self._stream = stream
        self._show = show
        self._begun = ""

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def write(self, text: str) -> int:
        """Take a text."""
        *whole, self._begun = (self._begun + text).split("\n")
        for line in whole:
            self._show(line)
        return len(text)

    def rest(self) -> None:
        """Pass on what has no end."""
        if self._begun:
            self._show(self._begun)
            self._begun = ""

    def isatty(self) -> bool:
        """Return whether it ends on a terminal."""
        return bool(self._stream.isatty())

    def fileno(self) -> int:
        """Return the descriptor of the stream in whose place it stands."""
        return int(self._stream.fileno())


@contextlib.contextmanager
def led_to(show: Callable[[str], None]) -> Iterator[None]:
    """Lead standard error, its log handlers, and standard output on a terminal to a function."""
    names = [name for name in ("stderr", "stdout") if name == "stderr" or sys.stdout.isatty()]
    before = {name: getattr(sys, name) for name in names}
    lines = {name: LinesOf(stream, show) for name, stream in before.items()}
    handlers = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is before["stderr"]
    ]
    for name, stream in lines.items():
        setattr(sys, name, stream)
    for handler in handlers:
        handler.setStream(lines["stderr"])
    try:
        yield
    finally:
        for handler in handlers:
            handler.setStream(before["stderr"])
        for name, stream in lines.items():
            if getattr(sys, name) is stream:
                setattr(sys, name, before[name])
            stream.rest()
