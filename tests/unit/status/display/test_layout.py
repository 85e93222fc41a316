"""The screen of every phase, as text files; ``ci/screens`` renews them: look at what changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rich.cells import cell_len

from spirit_py.phases import Phase
from spirit_py.progress import BatchStatus
from spirit_py.status.display.layout import ASCII, Room, history, render, shortened
from spirit_py.units import one_line
from tests.kits.screens import COPY, FEED, SCREENS, status

FILES = Path(__file__).parent / "screens"
RENEW = "SPIRIT_PY_RENEW_SCREENS"


def drawn(name: str, width: int, height: int = 1000) -> list[str]:
    """Return the lines of a screen, without blanks at their ends."""
    return [line.plain.rstrip() for line in render(SCREENS[name], Room(width=width, height=height))]


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize("name", SCREENS)
def test_the_screen_of_each_phase_is_as_it_was_looked_at(name, columns):
    """Each in a file of its own; the last column of the terminal stays free."""
    text = "\n".join(drawn(name, columns - 1)) + "\n"
    file = FILES / f"{name}-{columns}.txt"
    if os.environ.get(RENEW):
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", SCREENS)
@pytest.mark.parametrize("columns", [40, 60, 79, 80, 100, 140, 200])
def test_no_line_is_wider_than_the_screen(name, columns):
    """Wide characters, names of 64 characters and long reasons too."""
    assert max(cell_len(line) for line in drawn(name, columns)) <= columns


@pytest.mark.parametrize("name", SCREENS)
def test_a_low_screen_keeps_what_matters_most(name):
    """Ten lines: the work, and what it waits for."""
    lines = drawn(name, 79, 10)
    assert len(lines) <= 10
    if "waiting " in "\n".join(drawn(name, 79)) and name != "batch":
        assert any(line.startswith("waiting") for line in lines)


def test_a_screen_of_24_rows_has_room_for_everything():
    """Nothing is left out at 80 columns."""
    assert max(len(drawn(name, 79)) for name in SCREENS) <= 23


def test_what_is_not_known_is_said_to_be_so():
    """No percentage, no end, no bar that is filled."""
    text = "\n".join(drawn("copy_unknown", 79))
    assert "ETA unknown" in text
    assert "their number is not known" in text
    assert "%" not in text.replace("11.6% deduplicated", "")
    assert "━" not in text


def test_nothing_reads_as_whole_before_its_end():
    """99.97 % of the rows are not all of them."""
    seen = status(Phase.COPY, **FEED, **{**COPY, "fraction": 0.9997})
    text = "\n".join(line.plain for line in render(seen, Room(width=79)))
    assert "99.9%" in text
    assert "100" not in text.split("%", maxsplit=1)[0]


def test_a_terminal_without_unicode_gets_other_glyphs():
    """All that the program draws itself is ASCII then."""
    for name in ("copy", "checksum", "cutover"):
        lines = render(SCREENS[name], Room(width=79, glyphs=ASCII))
        assert "".join(line.plain for line in lines).isascii()


def test_names_cannot_control_the_terminal():
    """Control characters and turned text are shown as escapes."""
    assert one_line("a\x1b[31mb\n\u202ec") == "a\\x1b[31mb\\n\\u202ec"
    assert "\x1b" not in "".join(drawn("odd_name", 79))


def test_a_long_name_loses_its_middle():
    """Its beginning and its end tell it from others."""
    assert shortened("abcdefghij", 7) == "abc…hij"
    assert cell_len(shortened("注文" * 20, 11)) <= 11
    assert shortened("short", 7) == "short"


def test_a_small_history_has_the_height_of_its_greatest():
    """Nothing is drawn of one value, or of none."""
    assert history((1.0, 0.0, 2.0), 10, "_-^") == "-_^"
    assert history((1.0,), 10, "_-^") == ""
    assert history((0.0, 0.0), 10, "_-^") == "__"


BLOCKED = (
    "session 4711 of reporting@10.0.0.7, idle in a transaction for 25 s, transaction open for 31 s,"
    " rows changed: 0, last statement: SELECT `customer` , SUM ( `amount` ) FROM `orders` JOIN"
    " `customers` USING ( `customer` ) WHERE `placed` > ? GROUP BY `customer` FOR SHARE, before the"
    " lock of the swap is requested; to end them: KILL 4711"
)


@pytest.mark.parametrize("columns", [60, 80])
def test_who_stands_in_front_of_a_lock_can_be_read_on_a_usual_terminal(columns):
    """Session, user, statement and remedy as a whole, broken between words."""
    seen = status(Phase.CUTOVER, **FEED, waiting_for=BLOCKED, waited=25.0)
    lines = [line.plain for line in render(seen, Room(width=columns - 1, height=30))]
    place = next(n for n, line in enumerate(lines) if line.startswith("waiting"))
    said = " ".join(line[11:].strip() for line in lines[place:])
    assert said == f"for {BLOCKED} (for 25s)"
    assert max(map(cell_len, lines)) < columns


def test_who_stands_in_front_of_a_lock_is_shown_once():
    """As what is waited for, with the remedy; the throttle's row need not repeat it."""
    held = BLOCKED.partition("; to end")[0]
    seen = status(Phase.CUTOVER, **FEED, waiting_for=BLOCKED, throttled=held)
    lines = [line.plain for line in render(seen, Room(width=79, height=30))]
    assert "throttle   work is held back: see waiting" in lines
    assert sum("session 4711" in line for line in lines) == 1


def test_what_a_table_of_a_batch_waits_for_has_lines_of_its_own():
    """Session and user with the statement's end; other tables have two lines at most."""
    blocked = status(Phase.CUTOVER, **FEED, waiting_for=BLOCKED)
    batch = BatchStatus(
        described="", elapsed=1.0, tables=(blocked, status(Phase.COPY, **FEED, **COPY))
    )
    _, *lines = [line.plain for line in render(batch, Room(width=79))]
    indented = [line.startswith(" ") for line in lines]
    assert indented == [False, True, True, True, True, False, True]
    assert "session 4711 of reporting@10.0.0.7" in " ".join(lines)
    assert lines[4].endswith("to end them: KILL 4711")
