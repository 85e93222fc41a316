"""Log lines for everything that is not a terminal: text, or one JSON object a line.

A slow or broken stream never blocks a thread that may hold the swap's lock: lines wait, or are
dropped.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import select
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, TextIO

from spirit_py.contracts import QuietReporter
from spirit_py.events.run import LogLost, LogWritten, Summary
from spirit_py.records import run_token
from spirit_py.status.wording import ProgressEvents
from spirit_py.threads import Background
from spirit_py.units import finite, in_lines, one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.contracts import Clock
    from spirit_py.events.event import Event, Level
    from spirit_py.progress import BatchStatus, MigrationStatus

_MOST_BYTES: Final = 8 << 20
#: A pipe that takes anything takes so much (PIPE_BUF) without blocking.
_PIECE_BYTES: Final = 4096
_LOOK_SECONDS: Final = 0.2
_TEMPORARY: Final = frozenset({errno.EAGAIN, errno.ENOSPC, errno.EDQUOT})


class LineWriter:
    """Writes whole lines in the order of the calls, from any thread; default: standard error."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._left: deque[bytes] = deque()
        self._left_bytes = 0
        self._lost = 0
        self._lost_line: Callable[[int], str] = "{} lines are missing here".format
        self._failure: OSError | None = None
        self._thread: Background | None = None

    def write(self, line: str, *, lost: Callable[[int], str] | None = None) -> None:
        """Write a line, or have it written as soon as the stream takes it.

        ``lost`` returns the line about dropped ones. Raises OSError where the stream has no reader
        or is broken, ValueError where it is closed.
        """
        stream = self._stream or sys.stderr
        descriptor = _descriptor(stream)
        with self._lock:
            if descriptor is None:
                stream.write(line + "\n")
                stream.flush()
                return
            if self._failure is not None:
                raise self._failure
            self._lost_line = lost or self._lost_line
            data = f"{line}\n".encode(stream.encoding or "utf-8", "backslashreplace")
            if self._left_bytes and self._left_bytes + len(data) > _MOST_BYTES:
                self._lost += 1
                return
            self._left.append(data)
            self._left_bytes += len(data)
            self._write_what_fits(descriptor)
            if self._left and (self._thread is None or not self._thread.running):
                self._thread = Background("log", self._work)
                self._thread.start()

    def drain(self, seconds: float) -> None:
        """Wait until everything is written, for so long at most."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with self._lock:
                thread = self._thread
                if not self._left:
                    return
            if thread is not None:
                thread.wait(_LOOK_SECONDS)

    def _write_what_fits(self, descriptor: int) -> bool:
        while self._left and _takes(descriptor, 0.0):
            data = self._left.popleft()
            try:
                written = os.write(descriptor, data[:_PIECE_BYTES])
            except OSError as error:
                self._left.appendleft(data)
                if error.errno in _TEMPORARY:
                    return False
                raise
            self._left_bytes -= written
            if written < len(data):
                self._left.appendleft(data[written:])
            if not self._left and self._lost:
                told = f"{self._lost_line(self._lost)}\n".encode("ascii", "backslashreplace")
                self._lost = 0
                self._left.append(told)
                self._left_bytes += len(told)
        return True

    def _work(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            descriptor = _descriptor(self._stream or sys.stderr)
            if descriptor is None:
                return
            if not _takes(descriptor, _LOOK_SECONDS):
                continue
            with self._lock:
                has_room = True
                try:
                    has_room = self._write_what_fits(descriptor)
                except OSError as error:
                    self._failure = error
                    self._left.clear()
                    self._left_bytes = 0
                if not self._left:
                    # Under the lock, so that the next line that must wait starts another one.
                    self._thread = None
                    return
            if not has_room:
                # A full disk seems to take everything.
                stopping.wait(_LOOK_SECONDS)


def _descriptor(stream: TextIO) -> int | None:
    if stream is sys.stderr and stream is not sys.__stderr__:
        return None
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None
    stream.flush()
    return descriptor


def _takes(descriptor: int, seconds: float) -> bool:
    """Whether a piece can be written without blocking; a broken stream fails when it is."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(seconds * 1000))


STANDARD_ERROR: Final = LineWriter()


def text_line(event: Event) -> str:
    """Return the time and the line for people."""
    return f"{event.time.isoformat(timespec='milliseconds')} {one_line(event.line)}"


def json_line(event: Event) -> str:
    """Return the event as JSON with the run's token: in ASCII, which no locale can break."""
    return json.dumps({"run": run_token(), **finite(event.to_dict())}, default=str)


_LAST_SECONDS: Final = 1.0


class PlainReporter(QuietReporter):
    """Writes a line for each event, and progress lines: after some seconds, then ever rarer."""

    def __init__(
        self,
        *,
        clock: Clock,
        as_json: bool = False,
        verbose: bool = False,
        stream: TextIO | None = None,
    ) -> None:
        self._verbose = verbose
        self._writer = STANDARD_ERROR if stream is None else LineWriter(stream)
        self._json = as_json
        self._progress = ProgressEvents(clock, at_once=as_json)

    def start(self) -> None:
        """Have log records begin with their time, as these lines do."""
        LineFormatter.timed = self._writer is STANDARD_ERROR

    def stop(self) -> None:
        """Wait for a moment until the last lines are read, where nobody reads them."""
        LineFormatter.timed = False
        self._writer.drain(_LAST_SECONDS)

    def event(self, event: Event) -> None:
        """Write one event."""
        if self._json and not isinstance(event, Summary):
            self._write(json_line(event))
        elif not self._json and event.is_shown(verbose=self._verbose):
            self._write(text_line(event))

    def progress(self, snapshot: MigrationStatus | BatchStatus) -> None:
        """Write progress lines, where they are due."""
        for event in self._progress.due(snapshot):
            self.event(event)

    def _write(self, line: str) -> None:
        self._writer.write(line, lost=self._lost)

    def _lost(self, lines: int) -> str:
        event = LogLost(lines=lines)
        return json_line(event) if self._json else text_line(event)


class LineFormatter(logging.Formatter):
    """Formats a record as a line, or as that of an event; with a traceback only if ``verbose``."""

    timed = False

    def __init__(self, *, verbose: bool, as_json: bool = False) -> None:
        super().__init__()
        self._verbose = verbose
        self._json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        text, trace = record.getMessage(), None
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({record.exc_info[1]})"
            trace = self.formatException(record.exc_info) if self._verbose else None
        if not self._json:
            line = f"{record.levelname.lower()}: {one_line(text)}"
            if self.timed:
                line = text_line(LogWritten(said=line, weight="info", logger="", trace=None))
            return line if trace is None else f"{line}\n{in_lines(trace)}"
        level: Level = "info"
        if record.levelno >= logging.WARNING:
            level = "error" if record.levelno >= logging.ERROR else "warning"
        return json_line(LogWritten(said=text, weight=level, logger=record.name, trace=trace))


class _Handler(logging.StreamHandler[TextIO]):
    def emit(self, record: logging.LogRecord) -> None:
        if self.stream is not sys.__stderr__:
            super().emit(record)
            return
        try:
            STANDARD_ERROR.write(self.format(record))
        except Exception:
            self.handleError(record)


def to_terminal(*, verbose: bool, as_json: bool = False) -> None:
    """Send warnings to standard error, and everything of the program with ``verbose``."""
    handler = _Handler()
    handler.setFormatter(LineFormatter(verbose=verbose, as_json=as_json))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("spirit_py").setLevel(logging.DEBUG if verbose else logging.WARNING)
    logging.getLogger("py4j").setLevel(logging.INFO if verbose else logging.CRITICAL)
