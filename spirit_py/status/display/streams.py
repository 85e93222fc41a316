"""Standard streams and log handlers, led to the display while it holds the bottom of the screen."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class LinesOf(io.TextIOBase):
    """A stream that passes whole lines on; the last one without an end when it is closed.

    Args:
        stream: the one in whose place it stands.
        show: takes a line without its end.
    """

    def __init__(self, stream: Any, show: Callable[[str], None]) -> None:
        self._stream = stream
        self._show = show
        self._begun = ""

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def write(self, text: str) -> int:
        """Take a text."""
        *whole, self._begun = (self._begun + text).split("\n")
        for line in whole:
            self._show(line)
        return len(text)

    def rest(self) -> None:
        """Pass on what has no end."""
        if self._begun:
            self._show(self._begun)
            self._begun = ""

    def isatty(self) -> bool:
        """Return whether it ends on a terminal."""
        return bool(self._stream.isatty())

    def fileno(self) -> int:
        """Return the descriptor of the stream in whose place it stands."""
        return int(self._stream.fileno())


@contextlib.contextmanager
def led_to(show: Callable[[str], None]) -> Iterator[None]:
    """Lead standard error, and standard output where it is a terminal, to a function.

    Log handlers that write to standard error are led there as well.
    """
    names = [name for name in ("stderr", "stdout") if name == "stderr" or sys.stdout.isatty()]
    before = {name: getattr(sys, name) for name in names}
    lines = {name: LinesOf(stream, show) for name, stream in before.items()}
    handlers = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is before["stderr"]
    ]
    for name, stream in lines.items():
        setattr(sys, name, stream)
    for handler in handlers:
        handler.setStream(lines["stderr"])
    try:
        yield
    finally:
        for handler in handlers:
            handler.setStream(before["stderr"])
        for name, stream in lines.items():
            if getattr(sys, name) is stream:
                setattr(sys, name, before[name])
            stream.rest()
