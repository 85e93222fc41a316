"""The terminal that tests and captures look through."""

from __future__ import annotations

import re

import pytest

from terminal import ConditionNotMet, Terminal

SCRIPT = """
printf '\\033[1mbold\\033[0m \\033[31mred\\033[0m \\033[?25l\\n'
stty size
read -r line
stty size
echo "got $line, NO_COLOR=$NO_COLOR"
printf '\\033[?25h'
exit 3
"""


def test_a_command_sees_the_terminal_and_is_seen_in_it():
    """Size, resize, keys, hidden cursor, exit code, and a picture that loads nothing."""
    with Terminal(["sh", "-c", SCRIPT], columns=60, rows=10) as terminal:
        terminal.wait_for("10 60")
        terminal.wait_for(lambda _: terminal.hides_cursor())
        terminal.resize(100, 20)
        terminal.send("keys\n")
        assert terminal.wait(30) == 3
        assert "20 100" in terminal.lines()
        assert "got keys, NO_COLOR=" in terminal.lines()
        assert not terminal.hides_cursor()
        picture = terminal.picture("a title")
    assert "bold" in picture
    assert not re.findall(r"url\(.?http", picture)


def test_what_scrolled_off_is_kept():
    """A screen of five lines is not all that was printed."""
    with Terminal(["seq", "20"], columns=20, rows=5) as terminal:
        assert terminal.wait(30) == 0
        assert terminal.everything().split() == [str(number) for number in range(1, 21)]


def test_what_is_not_seen_is_said_with_the_screen():
    """At once, where the command has ended."""
    with (
        Terminal(["echo", "something else"]) as terminal,
        pytest.raises(ConditionNotMet, match="something else"),
    ):
        terminal.wait_for("the wanted", seconds=60)
