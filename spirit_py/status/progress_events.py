"""When figures become an event of the log, and which (pure): more rarely the longer a phase lasts.

The caller's clock gives the time, so nothing here reads one.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from spirit_py.events.run import ProgressMade
from spirit_py.phases import Phase
from spirit_py.status.snapshot import BatchStatus
from spirit_py.status.wording import in_one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.contracts import Clock
    from spirit_py.status.snapshot import MigrationStatus

PROGRESS_SECONDS: Final = 5.0
#: Lines of a phase that lasts come more rarely: each after this share of its time so far,
_RARER: Final = 0.1
#: up to once a minute; where only an operator can end it, up to once in half an hour.
_RARELY: Final = 60.0
_MOST_RARELY: Final = 1800.0
_HELD: Final = frozenset({Phase.SENTINEL, Phase.KEEP, Phase.GRACE})
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


class ProgressEvents:
    """Makes events of snapshots.

    A run that ends within the first seconds has none, unless each phase begins with one.

    Args:
        clock: monotonic seconds.
        at_once: each phase begins with one, the last one included.
    """

    def __init__(self, clock: Clock, *, at_once: bool = False) -> None:
        self._clock = clock
        self._at_once = at_once
        #: The last event of each table, while it is under way.
        self._last: dict[str, _Written] = {}

    def due(self, snapshot: MigrationStatus | BatchStatus) -> Iterator[ProgressMade]:
        """Yield what is due by now; of a batch, for each table that is under way."""
        under_way = snapshot.tables if isinstance(snapshot, BatchStatus) else (snapshot,)
        last = {one.table: self._last[one.table] for one in under_way if one.table in self._last}
        self._last = last
        for one in under_way:
            if self._is_due(one):
                yield progress_of(one)

    def _is_due(self, snapshot: MigrationStatus) -> bool:
        now = self._clock()
        last = self._last.get(snapshot.table)
        if last is None or last.phase is not snapshot.phase:
            written = float("-inf") if self._at_once else last.written if last else now
            last = _Written(snapshot.phase, since=now, written=written)
        due = now - last.written >= last.pause(now)
        if snapshot.phase is Phase.DONE and not self._at_once:
            # The summary follows.
            due = False
        self._last[snapshot.table] = replace(last, written=now) if due else last
        return due


def progress_of(snapshot: MigrationStatus) -> ProgressMade:
    """Return the figures as an event."""
    figures = {key: value for key, value in vars(snapshot).items() if key not in _NO_FIGURES}
    if snapshot.totals is not None:
        figures["totals"] = dataclasses.asdict(snapshot.totals)
    return ProgressMade(table=snapshot.table, figures=figures, said=in_one_line(snapshot))
