"""Lines to a file descriptor, whole transactions at a time."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_FULL: Final = 1 << 16
_LOOK_SECONDS: Final = 0.2
_PATIENCE: Final = 2.0
"""Seconds that a reader has to go on reading in when the end was asked for."""


class OutputClosed(Exception):
    """Nobody reads any more (``| head``)."""


class OutputStuck(Exception):
    """The reader does not go on reading, and the end was asked for; a line is half written."""


class Lines:
    """Gathers lines and writes them; not through ``sys.stdout``.

    A thread that waits in a write to a full pipe could not be stopped, and would keep the lock
    of ``sys.stdout``, which the interpreter wants at its end. One thread at a time.

    Args:
        ending: tells whether the end was asked for.
    """

    def __init__(self, descriptor: int, ending: Callable[[], bool]) -> None:
        self._descriptor = descriptor
        self._ending = ending
        self._gathered = bytearray()
        self._broken = select.poll()
        self._broken.register(descriptor, 0)

    def add(self, line: str) -> None:
        """Add a line; it is written at once when much has gathered. Raises as ``flush``."""
        self._gathered += line.encode("utf-8", "backslashreplace")
        self._gathered += b"\n"
        if len(self._gathered) >= _FULL:
            self.flush()

    def flush(self) -> None:
        """Write everything; waits while the reader is slow.

        Raises:
            OutputClosed: when nobody reads.
            OutputStuck: when the reader does not go on though the end was asked for.
        """
        data, self._gathered = memoryview(self._gathered), bytearray()
        patience = _PATIENCE
        while data:
            _, writable, _ = select.select([], [self._descriptor], [], _LOOK_SECONDS)
            if writable:
                # So much fits into a pipe that is writable at all.
                data = data[self._write(data[: select.PIPE_BUF]) :]
            elif self._ending():
                patience -= _LOOK_SECONDS
                if patience <= 0:
                    raise OutputStuck

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._descriptor, data)
        except BrokenPipeError as error:
            raise OutputClosed from error

    def closed(self) -> bool:
        """Tell, without writing, whether nobody reads any more."""
        return any(what & select.POLLERR for _, what in self._broken.poll(0))
