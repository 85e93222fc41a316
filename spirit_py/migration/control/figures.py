"""What a running process shows of itself, and for how long its binlog position is kept."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from spirit_py import __version__
from spirit_py.checkpoint.live import LiveFigures
from spirit_py.events.copy import BinlogExpires
from spirit_py.migration.control.settings import shown
from spirit_py.migration.facts import BinlogReaches
from spirit_py.mysql.endpoint import kept_seconds
from spirit_py.mysql.own_sessions import token_of
from spirit_py.phases import AFTER_SWAP
from spirit_py.progress import MigrationProgress

if TYPE_CHECKING:
    from spirit_py.contracts import Clock, SqlSession
    from spirit_py.migration.run import Run

_ASK_SECONDS: Final = 30.0
#: Part of the time for which the server keeps its binlog that is left when a warning is due.
_WARN_PART: Final = 0.5


class PositionReach:
    """For how long the server keeps what a resumed run would read first (R19).

    The position moves on in a pause, and stands still under backpressure or behind a prepared XA
    transaction: its age is the time since it last moved. On an idle server this run's figures
    move it. ``left`` is in seconds; None for ever, or where it is not known yet.
    """

    def __init__(self, run: Run, *, clock: Clock = time.monotonic) -> None:
        self._run = run
        self._clock = clock
        self._position = ""
        self._moved_at = clock()
        self._asked_at = float("-inf")
        self._kept = 0.0
        self._warned = False
        self.left: float | None = None

    def look(self, session: SqlSession) -> None:
        """Look at the position; warn once when half of its time is over. May raise ServerFault."""
        feed, now = self._run.figures.source, self._clock()
        position = feed.position() if feed is not None else ""
        if not position or self._run.state.phase in AFTER_SWAP:
            self.left = None
            return
        if position != self._position:
            self._position, self._moved_at, self._warned = position, now, False
        if now - self._asked_at >= _ASK_SECONDS:
            self._kept = kept_seconds(session)
            self._asked_at = now
        if not self._kept:
            self.left = None
            return
        self.left = max(0.0, self._kept - (now - self._moved_at))
        if self.left < _WARN_PART * self._kept and not self._warned:
            self._warned = True
            stood = round(now - self._moved_at, 1)
            self._run.tell(BinlogExpires(seconds_left=round(self.left, 1), seconds=stood))


class RunFigures:
    """The figures of a migration."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._reach = PositionReach(run)

    def key(self) -> object:
        """Return phase and settings."""
        return self._run.state.phase, self._run.settings.current

    def now(self, session: SqlSession) -> LiveFigures:
        """Return the current figures; warn and raise as :meth:`PositionReach.look`."""
        self._reach.look(session)
        self._run.note(BinlogReaches(self._reach.left))
        seen, settings = self._run.snapshots.take(), self._run.settings.current
        return live_figures(
            self._run.config.connection.label,
            seen,
            phase=seen.phase.value,
            paused=settings.paused,
            settings=shown(settings),
        )


def live_figures(
    label: str,
    seen: MigrationProgress,
    *,
    phase: str,
    paused: str,
    settings: dict[str, str] | None = None,
) -> LiveFigures:
    """Return figures as the checkpoint table holds them. No I/O."""
    progress = {one.name: getattr(seen, one.name) for one in fields(MigrationProgress)}
    for name, value in progress.items():
        if isinstance(value, float):
            progress[name] = round(value, 4 if name == "fraction" else 1)
    progress["run_eta_parts"] = {
        phase: None if value is None else round(value, 1)
        for phase, value in seen.run_eta_parts.items()
    }
    return LiveFigures(
        **progress,
        host=socket.gethostname(),
        pid=os.getpid(),
        run=token_of(label),
        program=__version__,
        phase=phase,
        paused=paused,
        settings=settings or {},
    )
