"""Texts and glyphs of the live display."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size

from spirit_py.status.event_lines import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class Glyphs:
    """What the screen is drawn with.

    Attributes:
        levels: of a small history, from the lowest; empty for none.
    """

    done: str = "✓"
    now: str = "▸"
    full: str = "━"
    empty: str = "─"
    more: str = "…"
    between: str = " · "
    levels: str = "▁▂▃▄▅▆▇█"


UNICODE: Final = Glyphs()
ASCII: Final = Glyphs(done="+", now=">", full="#", empty="-", more="~", between=", ", levels="")


def printable(text: str) -> str:
    """Return a text of one line; characters that would change the screen are shown as escapes."""
    return one_line(text)


def shortened(text: str, width: int, more: str = UNICODE.more) -> str:
    """Return a text that is at most so many cells wide: its middle is left out where it is not."""
    if cell_len(text) <= width:
        return text
    room = max(0, width - cell_len(more))
    head = set_cell_size(text, room - room // 2)
    tail = set_cell_size(text[::-1], room // 2)[::-1]
    return f"{head.rstrip()}{more}{tail.lstrip()}"


def history(values: Sequence[float], width: int, levels: str) -> str:
    """Draw the last values as columns; the highest of them is the full height."""
    shown = values[-width:]
    if len(shown) < 2 or not levels:
        return ""
    most = max(shown) or 1.0
    top = len(levels) - 1
    return "".join(levels[round(max(0.0, value) / most * top)] for value in shown)


def bar(fraction: float | None, width: int, glyphs: Glyphs) -> tuple[str, str]:
    """Return the full and the empty part of a bar; all empty where nothing is known."""
    full = int(width * min(1.0, fraction or 0.0))
    return glyphs.full * full, glyphs.empty * (width - full)
