"""Picks what records a run beside its display: the history for the page, and the metrics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spirit_py.contracts import Reporter
    from spirit_py.events.event import Event
    from spirit_py.records import RecordOptions


def recorders(records: RecordOptions, announce: Callable[[Event], None]) -> Iterator[Reporter]:
    """Return what is asked for; what is not asked for is not imported either.

    Args:
        announce: shows where the metrics are, once they are answered.

    Raises:
        UsageFault: metrics are asked for, and their address is in use.
    """
    if records.report_html is not None:
        from spirit_py.status.html.reporter import PageReporter

        yield PageReporter(records.report_html, clock=time.monotonic)
    if records.metrics_listen is not None or records.metrics_file is not None:
        from spirit_py.status.metrics.reporter import MetricsReporter

        yield MetricsReporter(
            listen=records.metrics_listen, file=records.metrics_file, announce=announce
        )
