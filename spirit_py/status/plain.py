"""Log lines for everything that is not a terminal: text, or one JSON object a line."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TextIO

from spirit_py.events.run import LogLost, ProgressMade, Summary
from spirit_py.phases import Phase
from spirit_py.status.event_lines import json_line, text_line
from spirit_py.status.snapshot import BatchStatus
from spirit_py.status.wording import in_one_line
from spirit_py.status.writer import STANDARD_ERROR, LineWriter

if TYPE_CHECKING:
    from spirit_py.contracts import Clock
    from spirit_py.events.event import Event
    from spirit_py.status.snapshot import MigrationStatus

PROGRESS_SECONDS: Final = 5.0
#: Lines of a phase that lasts come more rarely: each after this share of its time so far,
_RARER: Final = 0.1
#: up to once a minute; where only an operator can end it, up to once in half an hour.
_RARELY: Final = 60.0
_MOST_RARELY: Final = 1800.0
_HELD: Final = frozenset({Phase.SENTINEL, Phase.KEEP, Phase.GRACE})
_LAST_SECONDS: Final = 1.0
#: The table is a key of every line, and speeds of the past are in earlier lines.
_NO_FIGURES = frozenset({"table", "history"})


@dataclass(frozen=True)
class _Written:
    """A progress line: of which phase, when that began, and when the line was written."""

    phase: Phase
    since: float
    written: float

    def pause(self, now: float) -> float:
        """Return after how many seconds the next line of the phase follows."""
        most = _MOST_RARELY if self.phase in _HELD else _RARELY
        return min(most, max(PROGRESS_SECONDS, _RARER * (now - self.since)))


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
        self._clock = clock
        #: The last progress line of each table, while it is under way.
        self._last: dict[str, _Written] = {}

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Wait for a moment until the last lines are read, where nobody reads them."""
        self._writer.drain(_LAST_SECONDS)

    def event(self, event: Event) -> None:
        """Write one event."""
        if self._json and not isinstance(event, Summary):
            self._write(json_line(event))
        elif not self._json and event.has_line and (self._verbose or not event.detail):
            self._write(text_line(event))

    def progress(self, snapshot: MigrationStatus | BatchStatus) -> None:
        """Write a progress line, unless one was written a moment ago.

        As text, a run that ends within the first seconds has none; as JSON, each phase begins with
        one. Of a batch, each table that is under way has lines of its own.
        """
        under_way = snapshot.tables if isinstance(snapshot, BatchStatus) else (snapshot,)
        last = {one.table: self._last[one.table] for one in under_way if one.table in self._last}
        self._last = last
        for one in under_way:
            self._progress(one)

    def _progress(self, snapshot: MigrationStatus) -> None:
        now = self._clock()
        last = self._last.get(snapshot.table)
        if last is None or last.phase is not snapshot.phase:
            # A program that reads JSON sees every phase at once.
            written = float("-inf") if self._json else last.written if last else now
            last = _Written(snapshot.phase, since=now, written=written)
        due = now - last.written >= last.pause(now)
        if snapshot.phase is Phase.DONE and not self._json:
            # The summary follows.
            due = False
        self._last[snapshot.table] = replace(last, written=now) if due else last
        if not due:
            return
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
