"""Log lines for everything that is not a terminal: text, or one JSON object a line."""

from __future__ import annotations

import json
import logging
import math
import re
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

from spirit_py.events.run import LogLost, LogWritten, Summary
from spirit_py.records import run_token
from spirit_py.status.progress_events import ProgressEvents
from spirit_py.status.writer import STANDARD_ERROR, LineWriter

if TYPE_CHECKING:
    from spirit_py.contracts import Clock
    from spirit_py.events.event import Event, Level
    from spirit_py.status.snapshot import BatchStatus, MigrationStatus

#: What ends a line, controls a terminal, or turns the direction of text.
_CONTROL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def text_line(event: Event) -> str:
    """Return the time and the line for people."""
    return f"{event.time.isoformat(timespec='milliseconds')} {one_line(event.line)}"


def one_line(text: str) -> str:
    """Return text with escapes for characters that end lines or control terminals: in names."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def json_line(event: Event) -> str:
    """Return the event as one JSON object, with the token of the run.

    In ASCII, so that no locale can break it; a number that JSON does not know is null.
    """
    return json.dumps({"run": run_token(), **finite(event.to_dict())}, default=str)


def finite(value: Any) -> Any:
    """Return a value with None for each number in it that is infinite or no number."""
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


_LAST_SECONDS: Final = 1.0


class PlainReporter:
    """Writes a line for each event, and progress lines: after some seconds, then ever rarer.

    Args:
        as_json: One JSON object a line instead of text.
        verbose: details are written too.
        clock: Monotonic seconds, to space the progress lines.
    """

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
        # A program that reads JSON sees every phase at once.
        self._progress = ProgressEvents(clock, at_once=as_json)

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Wait for a moment until the last lines are read, where nobody reads them."""
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
