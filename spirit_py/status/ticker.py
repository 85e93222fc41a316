"""The thread that takes a snapshot twice a second and shows it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spirit_py.threads import Background, every

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from spirit_py.contracts import Reporter
    from spirit_py.status.snapshot import MigrationStatus

_log = logging.getLogger(__name__)
PERIOD = 0.5
_JOIN = 5.0


class Ticker:
    """Shows ``snapshot()`` through ``reporter`` until the context ends.

    A snapshot that cannot be taken is logged and skipped: the display never stops a migration.
    """

    def __init__(self, snapshot: Callable[[], MigrationStatus], reporter: Reporter) -> None:
        self._snapshot = snapshot
        self._reporter = reporter
        self._thread = Background("status", every(PERIOD, self.show), join_seconds=_JOIN)

    def __enter__(self) -> Self:
        """Start the display and the thread."""
        self._reporter.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the thread, then the display."""
        self._thread.join()
        self._reporter.stop()

    def show(self) -> None:
        """Take and show one snapshot now."""
        try:
            self._reporter.progress(self._snapshot())
        except Exception:
            _log.debug("no snapshot", exc_info=True)
