"""The thread that takes a snapshot twice a second and shows it."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

from spirit_py.threads import Background, every

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.contracts import Reporter
    from spirit_py.status.snapshot import MigrationStatus

_log = logging.getLogger(__name__)
_PERIOD: Final = 0.5
_JOIN_SECONDS: Final = 5.0


@contextlib.contextmanager
def shown(snapshot: Callable[[], MigrationStatus], reporter: Reporter) -> Iterator[None]:
    """Show ``snapshot()`` through ``reporter`` while the context is open.

    A snapshot that cannot be taken is logged and skipped: the display never stops a migration.
    """

    def show() -> None:
        try:
            reporter.progress(snapshot())
        except Exception:
            _log.debug("no snapshot", exc_info=True)

    reporter.start()
    try:
        with Background("status", every(_PERIOD, show), join_seconds=_JOIN_SECONDS):
            yield
    finally:
        reporter.stop()
