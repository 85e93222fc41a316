"""A failed display is switched off, and the migration continues (R16)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.contracts import Reporter
    from spirit_py.events.event import Event
    from spirit_py.status.snapshot import BatchStatus, MigrationStatus


class SafeReporter:
    """Passes everything on to a reporter until it first fails.

    A closed terminal, a full disk or a pipe without a reader must not end a migration of days, nor
    turn a finished swap into a failure.
    """

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
