"""What the kinds of drawings share: text that fits, elements in the theme's colours.

Colours are classes of ``docs/stylesheets/extra.css``, so a drawing is right in light and dark.
"""

from __future__ import annotations

from html import escape
from typing import Final

#: Pixels: the widest usual letter of the theme's 13 px text, on average over a line.
LETTER: Final = 6.9
LINE: Final = 17


class DrawingError(ValueError):
    """The text of a drawing cannot be read, or what it says has no room."""


def element(tag: str, content: str = "", **attributes: object) -> str:
    """Return an element; ``_`` in a name stands for ``-``, and ``css`` for ``class``."""
    named = "".join(
        f' {"class" if name == "css" else name.replace("_", "-")}="{escape(_plain(value))}"'
        for name, value in attributes.items()
    )
    return f"<{tag}{named}>{content}</{tag}>" if content else f"<{tag}{named}/>"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def width(text: str) -> float:
    """Return about how many pixels a line takes."""
    return LETTER * len(text)


def wrapped(text: str, room: float) -> list[str]:
    r"""Return a text in lines of at most so many pixels; ``\`` stands for the end of a line."""
    lines = []
    for part in text.split("\\"):
        line = ""
        for word in part.split():
            if line and width(f"{line} {word}") > room:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}".strip()
        lines.append(line)
    if too_wide := [line for line in lines if width(line) > room + LETTER]:
        raise DrawingError(
            f"no room for {too_wide[0]!r}: {width(too_wide[0]):.0f} of {room:.0f} px"
        )
    return lines


def texts(lines: list[str], x: float, y: float, *, anchor: str = "middle", css: str = "") -> str:
    """Return lines around a height."""
    top = y - LINE * (len(lines) - 1) / 2 + 4.5
    return "".join(
        element("text", escape(line), x=x, y=top + LINE * row, text_anchor=anchor, css=css)
        for row, line in enumerate(lines)
        if line
    )


def arrow(x1: float, y1: float, x2: float, y2: float, *, css: str = "line") -> str:
    """Return a line with a head at its end."""
    return element("path", d=f"M{x1:g} {y1:g}L{x2:g} {y2:g}", css=f"{css} headed")


def picture(body: str, wide: float, high: float, title: str) -> str:
    """Return the whole drawing."""
    head = element(
        "marker",
        element("path", d="M0 0L8 4L0 8z", css="head"),
        id="drawing-head",
        viewBox="0 0 8 8",
        refX="7",
        refY="4",
        markerWidth="7",
        markerHeight="7",
        orient="auto",
    )
    return element(
        "svg",
        element("title", escape(title)) + element("defs", head) + body,
        viewBox=f"0 0 {wide:g} {high:g}",
        width=wide,
        height=high,
        role="img",
    )
