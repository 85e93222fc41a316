"""The live display in a real terminal: nothing is torn, and the terminal is left as it was."""

from __future__ import annotations

import signal
import sys
import textwrap

import pytest

from terminal import Terminal
from tests.kits.waiting import until

#: Each starts a program in a terminal of its own.
pytestmark = pytest.mark.draws(6)

BEGIN = """
import logging, os, sys, threading, time
from spirit_py.phases import Phase
from spirit_py.events.run import LogWritten, Summary
from spirit_py.signals import run_command, stop_on_signals
from spirit_py.status.display.screen import LiveDisplay
from spirit_py.status.plain import to_terminal
from spirit_py.threads import StopSwitch
from spirit_py.errors import Interrupted, MigrationFailure
from tests.kits.screens import COPY, FEED, SCREENS, status

to_terminal(verbose=False)
stop, display, began = StopSwitch(), LiveDisplay(), time.monotonic()
def now():
    return status(Phase.COPY, **{**FEED, **COPY, "rows": int(1000 * (time.monotonic() - began))})
def tell(text, level="info"):
    display.event(LogWritten(said=text, weight=level, logger="x", trace=None))
def work():
    WORK
    stop.wait(60)
    stop.check()
try:
    display.start()
    try:
        with stop_on_signals(stop):
            run_command(work, stop=stop, reporter=display, status=now,
                        left_at_once=lambda: Interrupted(2))
    finally:
        display.stop()
except BaseException as error:
    print(f"ended by {type(error).__name__}", file=sys.stderr)
    sys.exit(7)
"""


def program(work: str, **more) -> Terminal:
    """Run a command whose work is this, in a terminal."""
    indented = textwrap.indent(textwrap.dedent(work).strip(), "    ").lstrip()
    command = [sys.executable, "-c", BEGIN.replace("WORK", indented)]
    return Terminal(command, **{"columns": 80, "rows": 24, **more})


def settled(terminal: Terminal) -> None:
    """Wait until the panel is there."""
    terminal.wait_for("copying rows")


def has_panel(text: str) -> bool:
    """Whether any part of a panel is in a text."""
    return any(part in text for part in ("── shop.orders", "checkpoint", "copying rows", "▸"))


@pytest.mark.parametrize(
    ("number", "ended"), [(signal.SIGINT, "Interrupted"), (signal.SIGTERM, "Interrupted")]
)
def test_a_signal_leaves_the_terminal_as_it_was(number, ended):
    """The cursor is there, the settings are those of before, the panel is gone, events stay."""
    with program("tell('it has begun')") as terminal:
        before = terminal.attributes
        settled(terminal)
        assert terminal.hides_cursor()
        terminal.signal(number)
        assert terminal.wait(30) == 7
        assert not terminal.hides_cursor()
        assert terminal.attributes == before
        assert not has_panel(terminal.everything())
        assert "it has begun" in terminal.text()
        assert f"ended by {ended}" in terminal.text()


def test_an_error_leaves_the_terminal_as_it_was():
    """What ended the work is printed below what happened, on a line of its own."""
    with program("time.sleep(1.2)\nraise MigrationFailure('no')") as terminal:
        assert terminal.wait(30) == 7
        assert not terminal.hides_cursor()
        assert terminal.text() == "ended by MigrationFailure"


def test_what_others_print_goes_above_the_panel():
    """Log warnings, prints without an end, threads, both streams: none of them is torn."""
    work = """
    for number in range(30):
        logging.getLogger("py4j").warning("chatter %d" % number)
        logging.getLogger("spirit_py").warning("warned %d" % number)
        sys.stderr.write("half %d, " % number)
        print("printed %d" % number)
        sys.stderr.write("other half\\n")
        tell("event %d" % number)
        time.sleep(0.03)
    tell("all is said")
    """
    with program(work) as terminal:
        terminal.wait_for("all is said")
        settled(terminal)
        lines = terminal.everything().splitlines()
        for number in range(30):
            assert f"warning: warned {number}" in lines
            assert f"half {number}, other half" in lines
            assert f"printed {number}" in lines
            assert sum(line.endswith(f" event {number}") for line in lines) == 1
        heads = [place for place, line in enumerate(lines) if line.startswith("── shop.orders")]
        assert len(heads) == 1
        assert not any("event" in line for line in lines[heads[0] :])


def test_only_the_stream_that_is_a_terminal_is_drawn_on(tmp_path):
    """Standard output goes where it was sent to, without a sequence of the terminal."""
    with program("print('for the pipe')\ntell('seen')", output=tmp_path / "out") as terminal:
        settled(terminal)
        terminal.signal(signal.SIGTERM)
        terminal.wait(30)
        assert "seen" in terminal.text()
        assert "for the pipe" not in terminal.text()
    assert (tmp_path / "out").read_text() == "for the pipe\n"


def test_a_resize_is_followed_at_once():
    """Wide, narrow, low and back: one panel, never a line wider than the terminal."""
    with program("pass") as terminal:
        settled(terminal)
        for columns, rows in [(140, 40), (60, 16), (80, 10), (80, 24), (200, 50)]:
            terminal.resize(columns, rows)
            rule = columns - 1

            def fits(text: str, rule: int = rule) -> bool:
                heads = [line for line in text.splitlines() if line.startswith("── shop.orders")]
                return bool(heads) and len(heads[-1]) == rule

            terminal.wait_for(fits)
            assert max(map(len, terminal.lines())) < columns
        assert terminal.text().count("copying rows") == 1


def test_ctrl_z_leaves_the_terminal_to_the_shell():
    """No panel and a cursor while the process is stopped; both are back when it goes on."""
    with program("tell('before')") as terminal:
        settled(terminal)
        terminal.signal(signal.SIGTSTP)
        terminal.wait_for(lambda text: not terminal.hides_cursor() and not has_panel(text))
        assert "before" in terminal.text()
        terminal.signal(signal.SIGCONT)
        terminal.wait_for(lambda text: terminal.hides_cursor() and has_panel(text))
        assert terminal.text().count("copying rows") == 1


def test_a_slow_link_gets_few_bytes():
    """Less than a modem carries, and much less than a whole screen a second."""
    with program("pass") as terminal:
        settled(terminal)
        # A part of the first panel may still be on its way; the next one is a second later.
        first = terminal.written[-1][0]
        terminal.wait_for(lambda _: terminal.written[-1][0] > first + 0.5)
        written = len(terminal.written)
        began = terminal.written[-1][0]
        terminal.wait_for(lambda _: terminal.written[-1][0] > began + 2.0)
        spent = terminal.written[-1][0] - began
        sent = sum(len(piece) for _, piece in terminal.written[written:])
        assert 0 < sent / spent < 400


def test_without_colour_nothing_is_coloured():
    """NO_COLOR: bold and faint stay."""
    with program("tell('warned', level='warning')", environment={"NO_COLOR": "1"}) as terminal:
        settled(terminal)
        sent = b"".join(piece for _, piece in terminal.written)
        assert b"\x1b[1m" in sent
        assert b"\x1b[3" not in sent
        assert b"\x1b[38" not in sent


def test_a_terminal_that_takes_nothing_delays_nobody(tmp_path):
    """Ctrl-S: all events of the work are reported before Ctrl-Q, and shown after it."""
    held, reported = tmp_path / "held", tmp_path / "reported"
    work = f"""
    while not os.path.exists({str(held)!r}):
        time.sleep(0.01)
    for number in range(1000):
        tell("event %d %s" % (number, "x" * 60))
    logging.getLogger("spirit_py").warning("all was reported")
    open({str(reported)!r}, "w").close()
    """
    with program(work) as terminal:
        settled(terminal)
        terminal.send("\x13")
        held.touch()
        until(reported.exists, "the last event")
        assert "all was reported" not in terminal.text()
        terminal.send("\x11")
        terminal.wait_for("all was reported")


def test_an_event_is_broken_between_its_words():
    """Its further lines stand below its text, behind the time."""
    with program("tell('a replica that nobody can read ' * 6)") as terminal:
        settled(terminal)
        terminal.wait_for("a replica that")
        lines = [line.rstrip() for line in terminal.everything().splitlines()]
        said = [line for line in lines if "replica" in line]
        assert len(said) >= 3
        assert all(line.startswith(" " * 9) for line in said[1:])
        words = {word for line in said for word in line[9:].split()}
        assert words == {"a", "replica", "that", "nobody", "can", "read"}


def test_a_line_of_the_summary_is_broken_between_its_words():
    """It has no time, and no label: its further lines stand four columns in."""
    text = "2 tables: 1 changed, a lock was held " * 3
    with program(f"display.event(Summary(said={text!r}))") as terminal:
        settled(terminal)
        terminal.wait_for("2 tables")
        lines = [line.rstrip() for line in terminal.everything().splitlines()]
        said = [line for line in lines if "tables" in line or "held" in line]
        assert len(said) == 2
        assert said[1].startswith("    ")
        assert " ".join(said).split() == text.split()
