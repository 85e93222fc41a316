"""Several reporters behind one: none disturbs another, and a failed one is switched off (R16)."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from spirit_py.events.run import RunEnded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spirit_py.contracts import Reporter
    from spirit_py.events.event import Event, Gate
    from spirit_py.progress import BatchStatus, MigrationStatus
    from spirit_py.records import RecordOptions


class Reporters:
    """Passes everything on to several reporters, in order, to each until it first fails (R16)."""

    def __init__(self, reporters: Iterable[Reporter]) -> None:
        self._all = list(reporters)
        #: Those that have failed.
        self._silent: list[Reporter] = []
        self.gate: Gate | None = None
        self.ended = False
        #: How many were shown.
        self.warnings = 0

    def add(self, reporter: Reporter) -> None:
        """Add one that comes last; before :meth:`start`."""
        self._all.append(reporter)

    def start(self) -> None:
        """Begin to show."""
        self._pass_on(lambda one: one.start())

    def event(self, event: Event) -> None:
        """Show one thing that happened."""
        self.ended = self.ended or isinstance(event, RunEnded)
        if event.level == "warning":
            self.warnings += 1
        self._pass_on(lambda one: one.event(event))

    def progress(self, snapshot: MigrationStatus | BatchStatus) -> None:
        """Show a snapshot."""
        self._pass_on(lambda one: one.progress(snapshot))

    def stop(self) -> None:
        """End in the reverse order, also what failed: what shows the others' end comes last.

        An interrupt ends what one waits for, and no more: how the run has ended is told by then.
        """
        with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as ends:
            for one in self._all:
                ends.callback(self._show, one, lambda one: one.stop())

    def _pass_on(self, show: Callable[[Reporter], None]) -> None:
        for one in self._all:
            if one not in self._silent:
                self._show(one, show)

    def _show(self, one: Reporter, show: Callable[[Reporter], None]) -> None:
        try:
            show(one)
        except Exception:
            self._silent.append(one)


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
