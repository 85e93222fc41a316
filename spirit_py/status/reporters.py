"""Several reporters behind one: none disturbs another, and a failed one is switched off (R16)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from spirit_py.events.run import RunEnded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spirit_py.contracts import Reporter
    from spirit_py.events.event import Event, Gate
    from spirit_py.progress import BatchStatus, MigrationStatus
    from spirit_py.records import RecordOptions


class SafeReporter:
    """Passes everything on to a reporter until it first fails (R16)."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._silent = False

    def start(self) -> None:
        """Begin to show."""
        self._pass_on(self._reporter.start)

    def event(self, event: Event) -> None:
        """Show one thing that happened."""
        self._pass_on(self._reporter.event, event)

    def progress(self, snapshot: MigrationStatus | BatchStatus) -> None:
        """Show a snapshot."""
        self._pass_on(self._reporter.progress, snapshot)

    def stop(self) -> None:
        """End the display, also after a failure."""
        silent, self._silent = self._silent, False
        self._pass_on(self._reporter.stop)
        self._silent = self._silent or silent

    def _pass_on(self, show: Callable[..., None], *arguments: object) -> None:
        if not self._silent:
            try:
                show(*arguments)
            except Exception:
                self._silent = True


class Reporters:
    """Passes everything on to several reporters, in their order, each behind a SafeReporter."""

    def __init__(self, reporters: Iterable[Reporter]) -> None:
        self._all = [SafeReporter(one) for one in reporters]
        self.gate: Gate | None = None
        self.ended = False

    def add(self, reporter: Reporter) -> None:
        """Add one that comes last; before :meth:`start`."""
        self._all.append(SafeReporter(reporter))

    def start(self) -> None:
        """Begin to show."""
        for one in self._all:
            one.start()

    def event(self, event: Event) -> None:
        """Show one thing that happened."""
        self.ended = self.ended or isinstance(event, RunEnded)
        for one in self._all:
            one.event(event)

    def progress(self, snapshot: MigrationStatus | BatchStatus) -> None:
        """Show a snapshot."""
        for one in self._all:
            one.progress(snapshot)

    def stop(self) -> None:
        """End in the reverse order, so that what shows the end of the others comes last."""
        for one in reversed(self._all):
            one.stop()


def recorders(records: RecordOptions, announce: Callable[[Event], None]) -> Iterator[Reporter]:
    """Return what is asked for; raises UsageFault where the address of metrics is in use."""
    if records.report_html is not None:
        from spirit_py.status.html.page import PageReporter

        yield PageReporter(records.report_html, clock=time.monotonic)
    if records.metrics_listen is not None or records.metrics_file is not None:
        from spirit_py.status.metrics.server import MetricsReporter

        yield MetricsReporter(
            listen=records.metrics_listen, file=records.metrics_file, announce=announce
        )
