"""Output never decides: a display that fails falls silent, and the migration goes on (R16)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spirit_py.contracts import Reporter
    from spirit_py.status.snapshot import MigrationStatus


class SafeReporter:
    """Passes everything on to a reporter until it first fails.

    A closed terminal, a full disk or a pipe whose reader left must not end a migration of days,
    and must not turn a finished swap into a failure.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._silent = False

    def start(self) -> None:
        """Begin to show."""
        if not self._silent:
            try:
                self._reporter.start()
            except Exception:
                self._silent = True

    def message(self, text: str, **fields: object) -> None:
        """Show one thing that happened."""
        if not self._silent:
            try:
                self._reporter.message(text, **fields)
            except Exception:
                self._silent = True

    def progress(self, snapshot: MigrationStatus) -> None:
        """Show a snapshot."""
        if not self._silent:
            try:
                self._reporter.progress(snapshot)
            except Exception:
                self._silent = True

    def stop(self) -> None:
        """End the display."""
        try:
            self._reporter.stop()
        except Exception:
            self._silent = True
