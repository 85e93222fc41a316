"""Lines to a file descriptor, whole transactions at a time."""

from __future__ import annotations

import os
import select
from typing import Final

_FULL: Final = 1 << 16


class OutputClosed(Exception):
    """Nobody reads any more (``| head``)."""


class Lines:
    """Gathers lines and writes them; not through ``sys.stdout``.

    A thread that waits in a write to a full pipe would keep the lock of ``sys.stdout``, which
    the interpreter wants at its end. One thread at a time.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._gathered = bytearray()
        self._poll = select.poll()
        self._poll.register(descriptor, 0)

    def add(self, line: str) -> None:
        """Add a line; it is written at once when much has gathered.

        Raises:
            OutputClosed: when nobody reads.
        """
        self._gathered += line.encode("utf-8", "backslashreplace")
        self._gathered += b"\n"
        if len(self._gathered) >= _FULL:
            self.flush()

    def flush(self) -> None:
        """Write everything; waits while the reader is slow.

        Raises:
            OutputClosed: when nobody reads.
        """
        data, self._gathered = memoryview(self._gathered), bytearray()
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [])
            except BrokenPipeError as error:
                raise OutputClosed from error

    def closed(self) -> bool:
        """Tell, without writing, whether nobody reads any more."""
        return any(what & select.POLLERR for _, what in self._poll.poll(0))
