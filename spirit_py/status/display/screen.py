"""The live display on a terminal: the panel at the bottom, everything else above it."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, TextIO

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.text import Text

from spirit_py.events.run import AlgorithmChosen, PlanMade, Summary
from spirit_py.status.display.layout import ASCII, UNICODE, Room, render
from spirit_py.status.display.painter import HIDE_CURSOR, SHOW_CURSOR, Painter, led_to
from spirit_py.threads import Background
from spirit_py.units import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

    from rich.style import Style

    from spirit_py.events.event import Event
    from spirit_py.progress import BatchStatus, MigrationStatus

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.5
_JOIN_SECONDS: Final = 3.0
_MOST_WAITING: Final = 10_000
_SUMMARY: Final = 12
_REFRESH_SECONDS: Final = 1.0
_EVENT: Final = 9
_STYLES: Final = {"warning": "yellow", "error": "bold red"}
_REFLOWING: Final = ("VTE_VERSION", "KITTY_WINDOW_ID", "WT_SESSION", "TMUX", "KONSOLE_VERSION")
_REFLOWING_PROGRAMS: Final = frozenset(
    {"iTerm.app", "vscode", "WezTerm", "ghostty", "Apple_Terminal"}
)


def can_show(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Return whether a stream is a terminal on which the cursor can be moved."""
    return stream.isatty() and environment.get("TERM", "") not in {"", "dumb", "unknown"}


class LiveDisplay:
    """Shows events above a panel of the figures; leaves the terminal as it was."""

    def __init__(self, stream: TextIO | None = None, *, verbose: bool = False) -> None:
        self._verbose = verbose
        self._stream: TextIO = stream if stream is not None else sys.stderr
        self._console = Console(file=self._stream, force_terminal=True)
        unicode = "utf" in (getattr(self._stream, "encoding", None) or "utf-8").lower()
        self._glyphs = UNICODE if unicode else ASCII
        self._painter = Painter(styled=self._styled, resolve=self._console.get_style)
        self._size = (0, 0)
        self._painted: tuple[object, ...] = ()
        self._painted_at = float("-inf")
        self._snapshot: MigrationStatus | BatchStatus | None = None
        self._planned: set[str] = set()
        self._above: deque[tuple[Text, int]] = deque(maxlen=_MOST_WAITING)
        self._writing = threading.RLock()
        self._wanted = threading.Event()
        self._open = contextlib.ExitStack()
        self._thread: Background | None = None

    def start(self) -> None:
        """Begin; from now on the panel is at the bottom of the terminal."""
        self._open.enter_context(led_to(lambda line: self._print_all(Text.from_ansi(line))))
        self._open.enter_context(self._suspended_in_order())
        self._write(HIDE_CURSOR)
        self._thread = Background("display", self._run, failed=self._give_up)
        self._thread.start()

    def stop(self) -> None:
        """End: the panel is wiped, what was printed above it stays."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.stop()
        self._wanted.set()
        ended = thread.wait(_JOIN_SECONDS)
        self._open.close()
        if not ended:
            return
        with self._writing:
            self._snapshot = None
            self._refresh()
            self._write(self._painter.clear() + SHOW_CURSOR)

    def event(self, event: Event) -> None:
        """Print one event above the panel, with its time."""
        if not event.is_shown(verbose=self._verbose):
            return
        if isinstance(event, PlanMade):
            self._planned = {one["method"]["algorithm"] for one in event.plan.get("tables", ())}
        if isinstance(event, AlgorithmChosen) and self._planned == {event.algorithm}:
            return
        for line, its_style in event.screen:
            self._print_all(Text(one_line(line), its_style))
        if event.screen:
            return
        style = _STYLES.get(event.level, "")
        moment = event.time.astimezone().strftime("%H:%M:%S ")
        if isinstance(event, Summary):
            self._print_all(Text(one_line(event.line), style))
            return
        self._print_all(Text.assemble((moment, "dim"), (one_line(event.line), style)), _EVENT)

    def progress(self, snapshot: MigrationStatus | BatchStatus) -> None:
        """Show these figures from now on."""
        self._snapshot = snapshot
        self._wanted.set()

    def _print_all(self, text: Text, hang: int = 0) -> None:
        self._above.append((text, hang))
        if self._thread is None:
            with self._writing:
                self._refresh()
        else:
            self._wanted.set()

    def _run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            self._wanted.wait(_LOOK_SECONDS)
            self._wanted.clear()
            if self._above or self._is_time():
                with self._writing:
                    self._refresh()

    def _is_time(self) -> bool:
        seen, size = self._snapshot, _size(self._stream)
        if seen is None:
            return False
        known = (size, getattr(seen, "phase", None))
        now = time.monotonic()
        if known == self._painted and now - self._painted_at < _REFRESH_SECONDS - 0.05:
            return False
        self._painted, self._painted_at = known, now
        return True

    def _give_up(self, error: BaseException) -> None:
        _log.debug("the display has ended", exc_info=error)
        self._above.clear()

    def _refresh(self) -> None:
        columns, rows = _size(self._stream)
        out = []
        if self._size != (columns, rows):
            narrower = columns if columns < self._size[0] and _reflows(os.environ) else 0
            out.append(self._painter.clear(narrower))
            self._size = (columns, rows)
        if self._above:
            out.append(self._painter.clear())
            while self._above:
                out += [self._as_printed(*self._above.popleft(), columns - 1), "\r\n"]
        elif not out and not self._takes_more():
            return
        snapshot = self._snapshot
        if snapshot is not None:
            page = Room(width=columns - 1, height=rows - 1, glyphs=self._glyphs)
            out.append(self._painter.paint(render(snapshot, page), columns - 1))
        self._write("".join(out))

    def _takes_more(self) -> bool:
        try:
            return bool(select.select([], [self._stream.fileno()], [], 0)[1])
        except (OSError, ValueError):
            return True

    def _as_printed(self, text: Text, hang: int, width: int) -> str:
        plain = text.plain
        if not hang:
            labelled = plain.startswith("  ") and plain[_SUMMARY - 1 : _SUMMARY] == " "
            hang = _SUMMARY if labelled else 4
        if cell_len(plain) <= width:
            return self._run_of(text)
        head, rest = text.divide([hang])
        broken = rest.wrap(self._console, max(20, width - hang), tab_size=8)
        lines = [Text.assemble(head, broken[0])] if broken else [text]
        lines += [Text(" " * hang).append_text(line) for line in broken[1:]]
        return "\r\n".join(self._run_of(line).rstrip() for line in lines)

    def _run_of(self, text: Text) -> str:
        whole = self._console.get_style(text.style) if text.style else None
        styled = [(one.text, one.style or whole) for one in text.render(self._console)]
        return "".join(self._styled(part, style) if style else part for part, style in styled)

    def _styled(self, text: str, style: Style) -> str:
        console = self._console
        if console.no_color:
            style = style.without_color
        system = COLOR_SYSTEMS.get(console.color_system or "", ColorSystem.STANDARD)
        return style.render(text, color_system=system)

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(text)
            self._stream.flush()

    @contextlib.contextmanager
    def _suspended_in_order(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            signal.SIGTSTP: signal.signal(signal.SIGTSTP, self._suspend),
            signal.SIGCONT: signal.signal(signal.SIGCONT, self._resume),
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _suspend(self, _number: int, _frame: FrameType | None) -> None:
        with self._held():
            self._write(self._painter.clear() + SHOW_CURSOR)
            os.kill(os.getpid(), signal.SIGSTOP)

    def _resume(self, _number: int, _frame: FrameType | None) -> None:
        with self._held():
            self._painter = Painter(styled=self._styled, resolve=self._console.get_style)
            self._write("\r" + HIDE_CURSOR)
            self._painted = ()
        self._wanted.set()

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        got = self._writing.acquire(timeout=1.0)
        try:
            yield
        finally:
            if got:
                self._writing.release()


def _size(stream: TextIO) -> tuple[int, int]:
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 80, 24
    return found.columns or 80, found.lines or 24


def _reflows(environment: Mapping[str, str]) -> bool:
    named = any(name in environment for name in _REFLOWING)
    return named or environment.get("TERM_PROGRAM", "") in _REFLOWING_PROGRAMS
