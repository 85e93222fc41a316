"""What is painted is what is seen, with few bytes, whatever stood there before."""

from __future__ import annotations

import random

import pyte
import pytest
from rich.console import Console
from rich.text import Text

from spirit_py.phases import Phase
from spirit_py.status.display.layout import Room, render
from spirit_py.status.display.painter import Painter
from tests.kits.screens import COPY, FEED, REST, SCREENS, status

COLUMNS, ROWS = 80, 24


class Terminal:
    """A terminal of 80 columns that a painter paints on."""

    def __init__(self) -> None:
        console = Console(force_terminal=True, color_system="256")
        self.painter = Painter(
            styled=lambda text, style: style.render(text), resolve=console.get_style
        )
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.Stream(self._screen)
        self.write("before\r\n")

    def write(self, text: str) -> int:
        """Show a text; return its bytes."""
        self._stream.feed(text)
        return len(text.encode())

    def paint(self, lines: list[Text]) -> int:
        """Paint lines; return the bytes that it took."""
        return self.write(self.painter.paint(lines, COLUMNS - 1))

    @property
    def lines(self) -> list[str]:
        """What stands on the screen."""
        return [line.rstrip() for line in self._screen.display]


def laid_out(name: str) -> list[Text]:
    """Return the lines of a screen."""
    return render(SCREENS[name], Room(width=COLUMNS - 1, height=ROWS - 1))


def shown(lines: list[Text]) -> list[str]:
    """Return lines as a terminal shows them: pyte leaves out the second half of wide letters."""
    return [line.plain.rstrip() for line in lines]


def test_every_screen_can_follow_every_other():
    """Higher and lower ones, wide characters, in any order: nothing of the one before is left."""
    terminal = Terminal()
    order = [*SCREENS, *SCREENS, *SCREENS]
    random.shuffle(order)
    for name in order:
        lines = laid_out(name)
        terminal.paint(lines)
        end = max(place for place, line in enumerate(terminal.lines) if line) + 1
        seen = [line for line in terminal.lines[:end] if line != "before"]
        assert seen[-len(lines) :] == shown(lines), order


def test_what_does_not_change_costs_nothing():
    """No byte where nothing differs; a few where a second has passed."""
    terminal = Terminal()
    first = terminal.paint(laid_out("copy"))
    assert terminal.paint(laid_out("copy")) == 0
    later = status(
        Phase.COPY,
        **{**FEED, **COPY, **REST, "rows": 1_235_067, "fraction": 0.3365},
        elapsed=185.0,
        phase_elapsed=28.0,
    )
    cost = terminal.paint(render(later, Room(width=COLUMNS - 1)))
    assert 0 < cost < first / 5


def test_a_wiped_panel_leaves_what_was_above_it():
    """And the next one begins in its place."""
    terminal = Terminal()
    terminal.paint(laid_out("checksum"))
    terminal.write(terminal.painter.clear() + "an event\r\n")
    assert terminal.lines[:2] == ["before", "an event"]
    assert not any(terminal.lines[2:])
    terminal.paint(laid_out("cutover"))
    assert terminal.lines[2].startswith("── shop.orders")


@pytest.mark.parametrize("before", ["", "表", "a", "表表", "ab表"])
@pytest.mark.parametrize("after", ["", "文", "b", "文表", "abc", "a文"])
def test_wide_characters_are_replaced_as_a_whole(before, after):
    """The half of a wide character is never left on the screen."""
    terminal = Terminal()
    terminal.paint([Text(f"x{before}y")])
    terminal.paint([Text(f"x{after}y")])
    assert terminal.lines[1] == f"x{after}y"
