"""Log lines for everything that is not a terminal: text, or one JSON object a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TextIO

from spirit_py.events.run import LogLost, Summary
from spirit_py.status.event_lines import json_line, text_line
from spirit_py.status.progress_events import ProgressEvents
from spirit_py.status.writer import STANDARD_ERROR, LineWriter

if TYPE_CHECKING:
    from spirit_py.contracts import Clock
    from spirit_py.events.event import Event
    from spirit_py.status.snapshot import BatchStatus, MigrationStatus

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
