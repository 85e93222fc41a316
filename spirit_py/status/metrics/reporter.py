"""Exposes a run's figures: over HTTP while it works, and in a file that stays."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest

from spirit_py.events.batch import TableEnded
from spirit_py.events.run import MetricsServed, RunEnded
from spirit_py.events.swap import CutoverTryFailed, SwapDone
from spirit_py.status.metrics.collector import StatusCollector
from spirit_py.status.metrics.server import MetricsServer
from spirit_py.status.report import installed, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spirit_py.contracts import Clock
    from spirit_py.events.event import Event
    from spirit_py.status.snapshot import BatchStatus, MigrationStatus

_log = logging.getLogger(__name__)

FILE_SECONDS: Final = 15.0
"""Seconds between two writes of the file."""


class MetricsReporter:
    """Passes snapshots and outcomes on to a collector.

    Args:
        listen: where to answer scrapes; None for nowhere.
        file: gets the same for node_exporter's textfile collector; None for none.
        announce: shows the operator where the metrics are.
        clock: monotonic seconds, to space the writes of the file.

    Raises:
        UsageFault: it cannot listen there.
    """

    def __init__(
        self,
        *,
        listen: tuple[str, int] | None,
        file: Path | None,
        announce: Callable[[Event], None],
        clock: Clock = time.monotonic,
    ) -> None:
        self._collector = StatusCollector(version=installed("spirit-py"))
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self._collector)
        self._listen = listen
        self._server = None if listen is None else MetricsServer(listen, self._collector)
        self._file = file
        self._announce = announce
        self._clock = clock
        self._written_at = float("-inf")
        self._file_failed = False
        self._answers = False

    def start(self) -> None:
        """Begin to answer, and show where; safe to call again, and after :meth:`stop`."""
        if self._answers or self._listen is None:
            return
        if self._server is None:
            self._server = MetricsServer(self._listen, self._collector)
        self._answers = True
        self._server.start()
        address = self._server.address
        self._announce(MetricsServed(address=address))

    def event(self, event: Event) -> None:
        """Note how the run, or a table of a batch, has ended."""
        if isinstance(event, TableEnded):
            self._collector.ended(event.table, event.outcome)
        elif isinstance(event, CutoverTryFailed):
            self._collector.tried(event.table, event.number, None)
        elif isinstance(event, SwapDone):
            self._collector.tried(event.table, event.tries, event.lock_held_ms / 1000)
        elif isinstance(event, RunEnded):
            self._collector.run_ended(event.outcome)
            self._write()

    def progress(self, snapshot: MigrationStatus | BatchStatus) -> None:
        """Hand the figures of now over."""
        self._collector.update(snapshot)
        if self._clock() - self._written_at >= FILE_SECONDS:
            self._write()

    def stop(self) -> None:
        """Close the port; safe to call again."""
        server, self._server, self._answers = self._server, None, False
        if server is not None:
            server.stop()

    def _write(self) -> None:
        """Replace the file; that it cannot be written is reported once, and tried again."""
        if self._file is None:
            return
        self._written_at = self._clock()
        try:
            write_whole(self._file, generate_latest(self._registry).decode())
        except OSError as error:
            if not self._file_failed:
                self._file_failed = True
                why = error.strerror or error
                _log.warning("the metrics could not be written to %s: %s", self._file, why)
