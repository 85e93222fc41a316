"""Log lines for everything that is not a terminal: text, or one JSON object a line."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, TextIO

from spirit_py.events.run import LogLost, ProgressMade, Summary
from spirit_py.status.event_lines import json_line, text_line
from spirit_py.status.snapshot import BatchStatus
from spirit_py.status.wording import in_one_line
from spirit_py.status.writer import STANDARD_ERROR, LineWriter

if TYPE_CHECKING:
    from spirit_py.contracts import Clock
    from spirit_py.events.event import Event
    from spirit_py.status.snapshot import MigrationStatus

PROGRESS_SECONDS = 5.0
_LAST_SECONDS: Final = 1.0
#: The table is a key of every line, and speeds of the past are in earlier lines.
_NO_FIGURES = frozenset({"table", "history"})


class PlainReporter:
    """Writes a line for each event, and a progress line every few seconds and phase change.

    Args:
        as_json: One JSON object a line instead of text.
        clock: Monotonic seconds, to space the progress lines.
    """

    def __init__(
        self, *, clock: Clock, as_json: bool = False, stream: TextIO | None = None
    ) -> None:
        self._writer = STANDARD_ERROR if stream is None else LineWriter(stream)
        self._json = as_json
        self._clock = clock
        #: Phase and time of the last progress line of each table, while it is under way.
        self._last: dict[str, tuple[str, float]] = {}

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Wait for a moment until the last lines are read, where nobody reads them."""
        self._writer.drain(_LAST_SECONDS)

    def event(self, event: Event) -> None:
        """Write one event."""
        if self._json and not isinstance(event, Summary):
            self._write(json_line(event))
        elif not self._json and event.has_line:
            self._write(text_line(event))

    def progress(self, snapshot: MigrationStatus | BatchStatus) -> None:
        """Write a progress line, unless one was written a moment ago in the same phase.

        Of a batch, a line for each table that is under way.
        """
        under_way = snapshot.tables if isinstance(snapshot, BatchStatus) else (snapshot,)
        last = {one.table: self._last[one.table] for one in under_way if one.table in self._last}
        self._last = last
        for one in under_way:
            self._progress(one)

    def _progress(self, snapshot: MigrationStatus) -> None:
        now = self._clock()
        phase, written = self._last.get(snapshot.table, ("", float("-inf")))
        if phase == snapshot.phase.value and now - written < PROGRESS_SECONDS:
            return
        self._last[snapshot.table] = (snapshot.phase.value, now)
        figures = {key: value for key, value in vars(snapshot).items() if key not in _NO_FIGURES}
        if snapshot.totals is not None:
            figures["totals"] = dataclasses.asdict(snapshot.totals)
        said = in_one_line(snapshot)
        self.event(ProgressMade(table=snapshot.table, figures=figures, said=said))

    def _write(self, line: str) -> None:
        self._writer.write(line, lost=self._lost)

    def _lost(self, lines: int) -> str:
        event = LogLost(lines=lines)
        return json_line(event) if self._json else text_line(event)
