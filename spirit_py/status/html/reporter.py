"""Writes the page when a run has ended, however it has."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from spirit_py.events.run import RunBegun, RunEnded
from spirit_py.status.history import History
from spirit_py.status.html.page import page
from spirit_py.status.report import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from spirit_py.contracts import Clock
    from spirit_py.events.event import Event
    from spirit_py.status.snapshot import BatchStatus, MigrationStatus

_log = logging.getLogger(__name__)


class PageReporter:
    """Keeps the history of a run, and writes the page of it at the end.

    Args:
        path: of the page; an earlier one stays until the new one is whole.
        clock: monotonic seconds.
    """

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._history = History(clock)

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing: the page is written with the event of the run's end."""

    def event(self, event: Event) -> None:
        """Keep what happened; at the end of the run write the page."""
        with self._lock:
            if isinstance(event, RunBegun):
                self._history = History(self._clock)
            self._history.event(event)
            if isinstance(event, RunEnded):
                self._write(event)

    def progress(self, snapshot: MigrationStatus | BatchStatus) -> None:
        """Keep the figures of now."""
        with self._lock:
            self._history.progress(snapshot)

    def _write(self, event: Event) -> None:
        """Write the page; a failure is reported, and changes nothing of the outcome."""
        try:
            write_whole(self._path, page(self._history, ended=event.time))
        except OSError as error:
            why = error.strerror or error
            _log.warning("the report could not be written to %s: %s", self._path, why)
        except Exception:
            _log.warning("the report %s could not be made", self._path, exc_info=True)
