"""Lines on standard error, or another stream, whose reader keeps nobody waiting.

A pipe that is not read any more, a stopped terminal or a full disk would block, or end, whoever
reports something: the thread that holds the lock of the swap as well. So a line is written at once
only where the stream takes it; otherwise it waits, up to a limit, for a thread to write it later.
What finds no room is passed over, and counted in a line of its own once there is room again.
"""

from __future__ import annotations

import errno
import os
import select
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, TextIO

from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_BYTES: Final = 8 << 20
#: A pipe that takes anything takes so much (PIPE_BUF) without blocking.
_PIECE_BYTES: Final = 4096
_LOOK_SECONDS: Final = 0.2
_TEMPORARY: Final = frozenset({errno.EAGAIN, errno.ENOSPC, errno.EDQUOT})


class LineWriter:
    """Writes whole lines, in the order of the calls; any thread may call it.

    Args:
        stream: None for what is standard error at the time of each line.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        #: What waits to be written, and its bytes.
        self._left: deque[bytes] = deque()
        self._left_bytes = 0
        self._lost = 0
        self._lost_line: Callable[[int], str] = "{} lines are missing here".format
        self._failure: OSError | None = None
        self._thread: Background | None = None

    def write(self, line: str, *, lost: Callable[[int], str] | None = None) -> None:
        """Write a line, or have it written as soon as the stream takes it.

        Args:
            lost: returns the line that says how many were passed over, if any are, from now on.

        Raises:
            OSError: nobody reads the stream any more, or it is broken.
            ValueError: it is closed.
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
            if self._left:
                self._write_later()

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
        """Write until the stream takes no more; return whether that is what it did."""
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

    def _write_later(self) -> None:
        if self._thread is None or not self._thread.running:
            self._thread = Background("log", self._work)
            self._thread.start()

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
    """Return the descriptor of a stream, with nothing left in its own buffer; None without one.

    What stands in the place of standard error, such as a display, gets the lines itself.
    """
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
"""The one through which log lines go to standard error, so that no two of them are mixed."""
