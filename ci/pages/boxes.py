r"""Boxes on a grid with arrows between them.

From text such as

title: Who does what
columns: 3 x 190
group 0,0 1,2 soft: The driver
copier 0,1: Copier\hands out chunks
tasks 1,1 accent: Tasks
copier -> tasks: chunks
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from pages.svg import LINE, DrawingError, arrow, element, picture, texts, wrapped

_ROW: Final = 96
_GAP: Final = 66
_COLUMNS = re.compile(r"columns: (\d+) x (\d+)")
_GROUP = re.compile(r"group (\d+),(\d+) (\d+),(\d+): (.+)")
_ARROW = re.compile(r"(\w+) (<->|->) (\w+)(?:: (.+))?")
_BOX = re.compile(r"(\w+) (\d+),(\d+)( \w+)?: (.+)")


@dataclass
class _Box:
    """A box by its middle and its size."""

    x: float
    y: float
    wide: float
    high: float


@dataclass
class _Sheet:
    """What is drawn so far."""

    title: str = ""
    columns: int = 0
    column: float = 0
    rows: int = 0
    boxes: dict[str, _Box] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    def middle(self, column: int, row: int) -> tuple[float, float]:
        """Return the middle of a cell, after ensuring that the drawing has it."""
        if column >= self.columns:
            raise DrawingError(f"there is no column {column}")
        self.rows = max(self.rows, row + 1)
        return self.column * (column + 0.5), 26 + _ROW * (row + 0.5)


def drawn(source: str) -> str:
    """Return the SVG of boxes and arrows.

    Raises:
        DrawingError: a line cannot be read, or a text has no room.
    """
    sheet = _Sheet()
    for line in filter(None, map(str.strip, source.splitlines())):
        _step(sheet, line)
    body = "".join([*sheet.groups, *sheet.parts])
    return picture(body, sheet.column * sheet.columns, 34 + _ROW * sheet.rows, sheet.title)


def _step(sheet: _Sheet, line: str) -> None:
    if line.startswith("title: "):
        sheet.title = line.removeprefix("title: ")
    elif found := _COLUMNS.fullmatch(line):
        sheet.columns, sheet.column = int(found[1]), float(found[2])
    elif found := _GROUP.fullmatch(line):
        first, last = (int(found[1]), int(found[2])), (int(found[3]), int(found[4]))
        _group(sheet, first, last, found[5])
    elif found := _ARROW.fullmatch(line):
        _joined(sheet, *found.groups())
    elif found := _BOX.fullmatch(line):
        _box(sheet, found[1], (int(found[2]), int(found[3])), (found[4] or "").strip(), found[5])
    else:
        raise DrawingError(f"what is {line!r}?")


def _group(sheet: _Sheet, first: tuple[int, int], last: tuple[int, int], name: str) -> None:
    x1, y1 = sheet.middle(*first)
    x2, y2 = sheet.middle(*last)
    wide, high = x2 - x1 + sheet.column - 12, y2 - y1 + _ROW + 14
    x, y = x1 - sheet.column / 2 + 6, y1 - _ROW / 2 - 18
    sheet.groups += [
        element("rect", x=x, y=y, width=wide, height=high, rx=8, css="group"),
        texts([name], x + 12, y + 14, anchor="start", css="soft"),
    ]


def _box(sheet: _Sheet, name: str, cell: tuple[int, int], css: str, text: str) -> None:
    x, y = sheet.middle(*cell)
    wide = sheet.column - _GAP
    lines = wrapped(text, wide - 12)
    high = max(44, LINE * len(lines) + 16)
    if high > _ROW - 16:
        raise DrawingError(f"{name} has too many lines")
    sheet.boxes[name] = _Box(x, y, wide, high)
    sheet.parts += [
        element(
            "rect", x=x - wide / 2, y=y - high / 2, width=wide, height=high, rx=6,
            css=f"box {css}".strip(),
        ),
        texts(lines[:1], x, y - LINE * (len(lines) - 1) / 2, css="strong"),
        texts(lines[1:], x, y + LINE / 2) if lines[1:] else "",
    ]  # fmt: skip


def _joined(sheet: _Sheet, first: str, kind: str, second: str, text: str | None) -> None:
    """Draw an arrow between facing sides; a long text stands beside a vertical one."""
    try:
        a, b = sheet.boxes[first], sheet.boxes[second]
    except KeyError as name:
        raise DrawingError(f"there is no box {name}") from None
    if a.y == b.y:
        side = 1 if b.x > a.x else -1
        ends = (a.x + side * a.wide / 2, a.y, b.x - side * (b.wide / 2 + 2), b.y)
        label = texts(wrapped(text, 400), (ends[0] + ends[2]) / 2, a.y - 12) if text else ""
    elif a.x == b.x:
        side = 1 if b.y > a.y else -1
        ends = (a.x, a.y + side * a.high / 2, b.x, b.y - side * (b.high / 2 + 2))
        middle = (ends[1] + ends[3]) / 2
        label = texts(wrapped(text, 400), a.x + 8, middle, anchor="start") if text else ""
    else:
        side = 1 if b.x > a.x else -1
        down = 1 if b.y > a.y else -1
        bend = f"M{a.x + side * a.wide / 2:g} {a.y:g}H{b.x:g}V{b.y - down * (b.high / 2 + 2):g}"
        sheet.parts.append(element("path", d=bend, css="line headed"))
        if text:
            sheet.parts.append(texts(wrapped(text, 400), (a.x + b.x) / 2 + side * 50, a.y - 12))
        return
    css = "line both" if kind == "<->" else "line"
    sheet.parts += [arrow(*ends, css=css), label]
