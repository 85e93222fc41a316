"""Several reporters behind one: each is shown everything, and none disturbs another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.events.run import RunEnded
from spirit_py.status.safe_reporter import SafeReporter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.contracts import Reporter
    from spirit_py.events.event import Event, Gate
    from spirit_py.status.snapshot import BatchStatus, MigrationStatus


class Reporters:
    """Passes everything on to several reporters, in their order.

    Each is behind a :class:`SafeReporter` of its own: one that fails is switched off, and the
    others go on.
    """

    def __init__(self, reporters: Iterable[Reporter]) -> None:
        self._all = [SafeReporter(one) for one in reporters]
        #: Asks before the tables are changed; None where nobody is to be asked.
        self.gate: Gate | None = None
        #: The end of the run was shown.
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
