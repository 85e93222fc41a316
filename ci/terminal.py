r"""Runs a command in a terminal of a given size, and shows its screen as text or as a picture.

The command has a pseudo-terminal of its own, whose output a terminal emulator (pyte) reads. Tests
wait for what a person would see, press keys, resize; the documentation's captures are taken so::

    ci/terminal.py --size 80x24 --capture 'copy=copy.svg' --capture 'swapped=end.svg' \
        -- .venv/bin/spirit-py migrate ...

In a program::

    with Terminal([...], columns=80, rows=24) as terminal:
        terminal.wait_for("copy", seconds=30)
        terminal.resize(140, 40)
        print(terminal.text())
        assert terminal.wait(60) == 0
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import itertools
import operator
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import pyte
from rich._export_format import CONSOLE_SVG_FORMAT  # the only name it has
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_POLL: Final = 0.02
_READ_BYTES: Final = 65536
_HISTORY_LINES: Final = 5000
_END_SECONDS: Final = 10.0
#: Names of pyte that rich calls otherwise.
_COLOURS: Final = {"brown": "yellow", "default": ""}
_FONT_FACE: Final = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
SVG_FORMAT: Final = _FONT_FACE.sub("", CONSOLE_SVG_FORMAT).replace(
    "Fira Code, monospace", "Fira Code, DejaVu Sans Mono, Menlo, Consolas, monospace"
)
"""Rich's picture of a terminal, without the fonts that it would load from another site."""


# It knows no faint text, and nothing here is struck through.
pyte.graphics.TEXT[2] = "+strikethrough"


class ConditionNotMet(AssertionError):
    """What was waited for did not appear; the message has the screen."""


class Terminal:
    """A command in a terminal; as a context it is ended with it.

    Args:
        command: program and arguments.
        environment: variables beside those of this process; an empty value unsets one.
        output: a file that gets standard output, so that only standard error is the terminal.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        environment: Mapping[str, str] | None = None,
        output: Path | None = None,
    ) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=_HISTORY_LINES, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        #: Bytes that the command wrote, with the time since its start of each piece.
        self.written: list[tuple[float, bytes]] = []
        self._began = time.monotonic()
        self._master, slave = os.openpty()
        self._set_size(columns, rows)
        given = {"TERM": "xterm-256color", **(environment or {})}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            given.setdefault(name, "")
        merged = {**os.environ, **given}
        with contextlib.ExitStack() as stack:
            stdout: Any = stack.enter_context(output.open("wb")) if output else slave
            # The command leads a session whose terminal this is, as under a login.
            self._process = subprocess.Popen(
                ["setsid", "--ctty", *command],
                stdin=slave,
                stdout=stdout,
                stderr=slave,
                env={name: value for name, value in merged.items() if value},
            )
        os.close(slave)
        self._reader = Background("terminal", self._read)
        self._reader.start()

    # -- what the command does

    @property
    def pid(self) -> int:
        """The command's process."""
        return self._process.pid

    def send(self, keys: str) -> None:
        """Press keys, as control characters where they are no letters."""
        os.write(self._master, keys.encode())

    def signal(self, number: int) -> None:
        """Send the command a signal."""
        self._process.send_signal(number)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size; the command gets SIGWINCH. Lines are cut, as xterm does."""
        with self._lock:
            self._screen.resize(rows, columns)
        self._set_size(columns, rows)

    def wait(self, seconds: float) -> int:
        """Wait for the command's end and all of its output; return its exit code.

        Raises:
            ConditionNotMet: it did not end in time.
        """
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise ConditionNotMet(f"it goes on:\n{self.text()}") from error
        self._reader.wait(_END_SECONDS)
        return code

    def close(self) -> None:
        """End the command, and read no more."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(_END_SECONDS)
        with contextlib.suppress(OSError):
            os.close(self._master)

    def __enter__(self) -> Self:
        """Return the terminal."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the command."""
        self.close()

    # -- what is seen

    @property
    def attributes(self) -> list[Any]:
        """The terminal's settings, as of :func:`termios.tcgetattr`."""
        return termios.tcgetattr(self._master)

    def hides_cursor(self) -> bool:
        """Return whether the cursor is hidden."""
        with self._lock:
            return bool(self._screen.cursor.hidden)

    def lines(self) -> list[str]:
        """Return the lines of the screen, without trailing blanks."""
        with self._lock:
            return [line.rstrip() for line in self._screen.display]

    def text(self) -> str:
        """Return the screen, without empty lines at its end."""
        return "\n".join(self.lines()).rstrip("\n")

    def everything(self) -> str:
        """Return what has scrolled off the screen, and the screen."""
        with self._lock:
            above = [
                "".join(line[place].data for place in range(self._screen.columns)).rstrip()
                for line in self._screen.history.top
            ]
        return "\n".join([*above, self.text()])

    def wait_for(self, wanted: str | Callable[[str], object], seconds: float = 30.0) -> str:
        """Wait until a text is on the screen, or a condition of its text holds; return the screen.

        Raises:
            ConditionNotMet: not in time.
        """
        holds = (lambda text: wanted in text) if isinstance(wanted, str) else wanted
        until = time.monotonic() + seconds
        while True:
            text = self.text()
            if holds(text):
                return text
            if time.monotonic() > until:
                raise ConditionNotMet(f"{wanted!r} was not seen within {seconds} s:\n{text}")
            ended = not self._reader.running
            time.sleep(_POLL)
            if ended and not holds(self.text()):
                raise ConditionNotMet(f"it ended before {wanted!r} was seen:\n{self.text()}")

    def screen(self) -> list[Text]:
        """Return the lines of the screen with their styles, without empty ones at its end."""
        with self._lock:
            columns, rows = self._screen.columns, self._screen.lines
            lines = [
                _spans(self._screen.buffer[row].__getitem__(column) for column in range(columns))
                for row in range(rows)
            ]
        while lines and all(not data.strip() for data, _ in lines[-1]):
            lines.pop()
        return [Text.assemble(*line) for line in lines]

    def picture(self, title: str = "") -> str:
        """Return the screen with its colours as SVG."""
        return picture(self.screen(), self._screen.columns, title)

    # -- the other end

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self, stopping: threading.Event) -> None:
        """Give the emulator what the command writes, until it closes the terminal."""
        while not stopping.is_set():
            if not select.select([self._master], [], [], 0.2)[0]:
                continue
            try:
                piece = os.read(self._master, _READ_BYTES)
            except OSError:
                return
            if not piece:
                return
            with self._lock:
                self.written.append((time.monotonic() - self._began, piece))
                self._stream.feed(piece)


def picture(lines: Iterable[Text], columns: int, title: str = "") -> str:
    """Return lines as SVG."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(
            record=True,
            width=columns,
            file=nowhere,
            force_terminal=True,
            color_system="truecolor",
        )
        for line in lines:
            console.print(line, no_wrap=True, overflow="crop", crop=True)
        return console.export_svg(title=title, code_format=SVG_FORMAT)


def _spans(cells: Iterable[Any]) -> list[tuple[str, Style]]:
    """Return cells as texts of one style each, so that a picture has few elements."""
    spans = itertools.groupby(((cell.data, _style(cell)) for cell in cells), operator.itemgetter(1))
    return [("".join(data for data, _ in alike), style) for style, alike in spans]


def _style(cell: Any) -> Style:
    """Return a cell's attributes as rich calls them."""
    return Style(
        dim=cell.strikethrough,
        color=_colour(cell.fg),
        bgcolor=_colour(cell.bg),
        bold=cell.bold,
        italic=cell.italics,
        underline=cell.underscore,
        reverse=cell.reverse,
    )


def _colour(name: str) -> Color | None:
    """Return a colour of pyte, a name or six hexadecimal digits; None for the default."""
    name = _COLOURS.get(name, name)
    if not name:
        return None
    if re.fullmatch(r"[0-9a-f]{6}", name):
        return Color.parse(f"#{name}")
    bright = name.startswith("bright")
    plain = name.removeprefix("bright")
    plain = _COLOURS.get(plain, plain)
    return Color.parse(f"bright_{plain}" if bright else plain)


def main() -> int:
    """Run a command; write what was asked for; return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", default="80x24", help="columns x rows")
    parser.add_argument(
        "--capture",
        action="append",
        default=[],
        metavar="TEXT=FILE",
        help="when TEXT is on the screen, write it: FILE.svg with colours, anything else as text",
    )
    parser.add_argument("--last", type=Path, help="the same at the end")
    parser.add_argument("--title", default="")
    parser.add_argument("--timeout", type=float, default=300.0)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="after --")
    given = parser.parse_args()
    columns, rows = map(int, given.size.split("x"))
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    with Terminal(command, columns=columns, rows=rows) as terminal:
        for capture in given.capture:
            text, _, path = capture.rpartition("=")
            terminal.wait_for(text, given.timeout)
            _write(terminal, Path(path), given.title)
        code = terminal.wait(given.timeout)
        if given.last:
            _write(terminal, given.last, given.title)
    return code


def _write(terminal: Terminal, path: Path, title: str) -> None:
    """Write the screen into a file."""
    shown = terminal.picture(title) if path.suffix == ".svg" else terminal.text() + "\n"
    path.write_text(shown, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
