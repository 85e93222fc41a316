"""A sequence of steps between parties.

From text such as

title: The swap
app: Application
db: MySQL
app -> db: UPDATE orders
db --> app: a reply, or an event
db: a note at one party
app waits: for the lock
app goes on
== a heading over all parties
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from pages.svg import LINE, DrawingError, arrow, element, picture, texts, width, wrapped

_PARTY: Final = 190
_TOP: Final = 52
_MESSAGE = re.compile(r"(\w+) (-->|->) (\w+): (.+)")
_WAITS = re.compile(r"(\w+) waits(?:: (.+))?")
_GOES_ON = re.compile(r"(\w+) goes on")
_NAMED = re.compile(r"(\w+): (.+)")


@dataclass
class _Sheet:
    """Where the parties stand, and how far down the drawing is."""

    title: str = ""
    places: dict[str, float] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    y: float = _TOP + 14
    parts: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    waiting: dict[str, tuple[float, str]] = field(default_factory=dict)

    @property
    def wide(self) -> float:
        return _PARTY * len(self.places)

    def at(self, name: str) -> float:
        if name not in self.places:
            raise DrawingError(f"nobody is called {name!r}")
        return self.places[name]


def drawn(source: str) -> str:
    """Return the SVG of a sequence.

    Raises:
        DrawingError: a line cannot be read, or a text has no room.
    """
    sheet = _Sheet()
    for line in filter(None, map(str.strip, source.splitlines())):
        _step(sheet, line)
    if sheet.waiting:
        raise DrawingError(f"{', '.join(sheet.waiting)} never goes on")
    return _whole(sheet)


def _step(sheet: _Sheet, line: str) -> None:
    if line.startswith("title: "):
        sheet.title = line.removeprefix("title: ")
    elif line.startswith("== "):
        _heading(sheet, line.removeprefix("== "))
    elif found := _MESSAGE.fullmatch(line):
        _message(sheet, *found.groups())
    elif found := _WAITS.fullmatch(line):
        sheet.at(found[1])
        sheet.waiting[found[1]] = (sheet.y - 8, found[2] or "")
    elif found := _GOES_ON.fullmatch(line):
        _goes_on(sheet, found[1])
    elif found := _NAMED.fullmatch(line):
        if found[1] in sheet.places:
            _note(sheet, *found.groups())
        else:
            sheet.places[found[1]] = _PARTY * (len(sheet.places) + 0.5)
            sheet.names[found[1]] = found[2]
    else:
        raise DrawingError(f"what is {line!r}?")


def _heading(sheet: _Sheet, text: str) -> None:
    sheet.y += 14
    (line,) = wrapped(text, sheet.wide - 20)
    right, room = sheet.wide - 8, 1.1 * width(line) + 18
    sheet.parts += [
        element("path", d=f"M4 {sheet.y}H{sheet.wide - 4}", css="rule"),
        element("rect", x=right - room, y=sheet.y - 11, width=room, height=22, rx=4, css="tag"),
        texts([line], right - room / 2, sheet.y, css="strong"),
    ]
    sheet.y += 26


def _message(sheet: _Sheet, sender: str, kind: str, receiver: str, text: str) -> None:
    start, end = sheet.at(sender), sheet.at(receiver)
    room = abs(end - start) - 22
    lines = wrapped(text, room)
    sheet.y += LINE * len(lines) / 2
    sheet.parts.append(texts(lines, (start + end) / 2, sheet.y - 4))
    sheet.y += LINE * len(lines) / 2 + 3
    side = 5 if end > start else -5
    css = "line" if kind == "->" else "line dashed"
    sheet.parts.append(arrow(start + side, sheet.y, end - side, sheet.y, css=css))
    sheet.y += 18


def _note(sheet: _Sheet, name: str, text: str) -> None:
    lines = wrapped(text, _PARTY - 26)
    high = LINE * len(lines) + 10
    left = sheet.at(name) - _PARTY / 2 + 6
    sheet.parts += [
        element("rect", x=left, y=sheet.y - 6, width=_PARTY - 12, height=high, rx=4, css="note"),
        texts(lines, sheet.at(name), sheet.y - 6 + high / 2),
    ]
    sheet.y += high + 10


def _goes_on(sheet: _Sheet, name: str) -> None:
    if name not in sheet.waiting:
        raise DrawingError(f"{name} does not wait")
    start, text = sheet.waiting.pop(name)
    x, end = sheet.at(name), sheet.y - 8
    sheet.behind.append(
        element("rect", x=x - 7, y=start, width=14, height=end - start, rx=3, css="wait")
    )
    if text:
        lines = wrapped(text, _PARTY / 2 - 20)
        sheet.parts.append(texts(lines, x - 13, (start + end) / 2, anchor="end", css="soft"))


def _whole(sheet: _Sheet) -> str:
    """Put the parties, their lines and what is drawn upon them together."""
    base = []
    for name, x in sheet.places.items():
        base += [
            element("path", d=f"M{x} {_TOP - 8}V{sheet.y}", css="life"),
            element("rect", x=x - 84, y=6, width=168, height=40, rx=6, css="party"),
            texts(wrapped(sheet.names[name], 160), x, 26, css="strong"),
        ]
    body = "".join([*base, *sheet.behind, *sheet.parts])
    return picture(body, sheet.wide, sheet.y + 6, sheet.title)
