"""Log records as single lines; tracebacks only with ``--verbose``."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, TextIO

from spirit_py.events.run import LogWritten
from spirit_py.status.event_lines import json_line
from spirit_py.status.writer import STANDARD_ERROR

if TYPE_CHECKING:
    from spirit_py.events.event import Level


class LineFormatter(logging.Formatter):
    """Formats a record as one line, with its traceback only when ``verbose``."""

    def __init__(self, *, verbose: bool) -> None:
        super().__init__()
        self._verbose = verbose

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = f"{record.levelname.lower()}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            line += f" ({record.exc_info[1]})"
            if self._verbose:
                line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """Formats a record as the JSON line of an event, with its traceback only when ``verbose``."""

    def __init__(self, *, verbose: bool) -> None:
        super().__init__()
        self._verbose = verbose

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        text, trace = record.getMessage(), None
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({record.exc_info[1]})"
            trace = self.formatException(record.exc_info) if self._verbose else None
        level: Level = "info"
        if record.levelno >= logging.WARNING:
            level = "error" if record.levelno >= logging.ERROR else "warning"
        return json_line(LogWritten(said=text, weight=level, logger=record.name, trace=trace))


class _Handler(logging.StreamHandler[TextIO]):
    """Writes to standard error, between the lines of events, and waits for no reader.

    A display leads it elsewhere while it holds the screen.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; one that cannot be written is lost."""
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
    kind = JsonFormatter if as_json else LineFormatter
    handler.setFormatter(kind(verbose=verbose))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("spirit_py").setLevel(logging.DEBUG if verbose else logging.WARNING)
    # Py4J logs exceptions that its callers handle.
    logging.getLogger("py4j").setLevel(logging.INFO if verbose else logging.CRITICAL)
