"""Writes lines to a file descriptor, complete transactions at a time."""

from __future__ import annotations

import fcntl
import os
import select
from collections import deque
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import SpiritError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.watch.records import Line

_FULL: Final = 1 << 16
_LOOK_SECONDS: Final = 0.2
_PATIENCE: Final = 2.0
"""Seconds that a slow reader is waited for after a stop request."""


class OutputClosed(Exception):
    """The reader of the output has gone (``| head``)."""


class OutputFault(SpiritError):
    """The lines cannot be written, for example for lack of room. The hint has the position."""

    error_code = ErrorCode.OUTPUT_FAILED


class OutputStuck(Exception):
    """The reader does not continue reading after a stop request; the last line is incomplete."""


class Lines:
    """Gathers lines and writes them; for one thread at a time, not through ``sys.stdout``.

    A thread that waits in a full pipe would hold its lock, which the interpreter needs at its exit.
    A run from ``position`` misses nothing.
    """

    def __init__(self, descriptor: int, ending: Callable[[], bool]) -> None:
        self.position = ""
        self._descriptor = descriptor
        self._ending = ending
        self._gathered = bytearray()
        self._ends: deque[tuple[int, str]] = deque()
        self._fault: OutputFault | None = None
        self._broken = select.poll()
        self._broken.register(descriptor, 0)
        mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        self._for_reading = mode == os.O_RDONLY

    def add(self, line: Line) -> None:
        """Add a line; written at once when the buffer is large. Raises as ``flush``."""
        self._gathered += line.text.encode("utf-8", "backslashreplace")
        self._gathered += b"\n"
        self._ends.append((len(self._gathered), line.position))
        self.position = self.position or line.position
        if len(self._gathered) >= _FULL:
            self.flush()

    def flush(self) -> None:
        """Write all, waiting for a slow reader; raises OutputClosed, OutputStuck, OutputFault."""
        if self._fault is not None:
            raise self._fault
        data, self._gathered = memoryview(self._gathered), bytearray()
        ends, self._ends = self._ends, deque()
        written, patience = 0, _PATIENCE
        while written < len(data):
            if count := self._write(data[written:]):
                written += count
                while ends and ends[0][0] <= written:
                    _, self.position = ends.popleft()
            elif self._ending():
                patience -= _LOOK_SECONDS
                if patience <= 0:
                    raise OutputStuck

    def _write(self, data: memoryview) -> int:
        try:
            # A descriptor open for reading only is never writable: let the write raise the error.
            if not self._for_reading:
                _, writable, _ = select.select([], [self._descriptor], [], _LOOK_SECONDS)
                if not writable:
                    return 0
            # A pipe that is writable takes at least so many bytes.
            return os.write(self._descriptor, data[: select.PIPE_BUF])
        except BlockingIOError:
            return 0
        except (BrokenPipeError, ConnectionResetError) as error:
            raise OutputClosed from error
        except OSError as error:
            self._fault = self._failed(error)
            raise self._fault from error

    def _failed(self, error: OSError) -> OutputFault:
        return OutputFault(
            f"cannot write to the standard output: {error.strerror or error}",
            hint="the last line may be incomplete; write the lines to another place, and go on with"
            f" --from '{self.position}'",
            details=(f"position: {self.position}",),
        )

    def closed(self) -> bool:
        """Return, without writing, whether the reader has gone."""
        return any(what & select.POLLERR for _, what in self._broken.poll(0))
