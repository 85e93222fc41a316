"""The key of a table as bars that are cut into pieces, with marks on them.

From text such as

title: Watermarks
bar Lane 1: done 3 copied | flight 2 in flight | open 5 not handed out yet
mark 1: a change here is applied
"""

from __future__ import annotations

import itertools
import re
from typing import Final

from pages.svg import LINE, DrawingError, arrow, element, picture, texts, wrapped

_WIDE: Final = 760
_LEFT: Final = 70
_BAR = re.compile(r"bar ([^:]+): (.+)")
_PIECE = re.compile(r"(\w+) (\d+) (.+)")
_MARK = re.compile(r"mark (\d+(?:\.\d+)?): (.+)")


def drawn(source: str) -> str:
    """Return the SVG of bars with marks under the last one.

    Raises:
        DrawingError: a line cannot be read, or a text has no room.
    """
    title, parts, y, scale = "", [], 10.0, 0.0
    marks: list[tuple[float, str]] = []
    for line in filter(None, map(str.strip, source.splitlines())):
        if line.startswith("title: "):
            title = line.removeprefix("title: ")
        elif found := _BAR.fullmatch(line):
            drawing, scale = _bar(found[1], found[2], y)
            parts.append(drawing)
            y += 46
        elif found := _MARK.fullmatch(line):
            marks.append((_LEFT + scale * float(found[1]), found[2]))
        else:
            raise DrawingError(f"what is {line!r}?")
    parts.append(_marks(marks, y))
    return picture("".join(parts), _WIDE, y + (92 if marks else 0), title)


def _bar(name: str, text: str, y: float) -> tuple[str, float]:
    """Return a bar, and how many pixels a unit of it has."""
    pieces = [_PIECE.fullmatch(piece.strip()) for piece in text.split("|")]
    if not all(pieces):
        raise DrawingError(f"what is {text!r}?")
    cut = [(piece[1], int(piece[2]), piece[3]) for piece in pieces if piece]
    scale = (_WIDE - _LEFT - 6) / sum(size for _, size, _ in cut)
    parts = [texts([name], _LEFT - 8, y + 17, anchor="end", css="soft")]
    x = float(_LEFT)
    for kind, size, label in cut:
        wide = scale * size
        parts += [
            element("rect", x=x, y=y, width=wide - 2, height=34, rx=3, css=f"piece {kind}"),
            texts(wrapped(label, wide - 6), x + wide / 2 - 1, y + 17) if label != "-" else "",
        ]
        x += wide
    return "".join(parts), scale


def _marks(marks: list[tuple[float, str]], y: float) -> str:
    """Return arrows that point up to the last bar, with a text under each."""
    room = min([_WIDE / max(len(marks), 1), *_distances(marks)]) - 8
    parts = []
    for x, text in marks:
        lines = wrapped(text, room)
        middle = min(max(x, room / 2 + 2), _WIDE - room / 2 - 2)
        parts += [
            arrow(x, y + 18, x, y - 8),
            texts(lines, middle, y + 26 + LINE * (len(lines) - 1) / 2),
        ]
    return "".join(parts)


def _distances(marks: list[tuple[float, str]]) -> list[float]:
    places = [x for x, _ in marks]
    return [after - before for before, after in itertools.pairwise(places)]
