"""How a command shows what it does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spirit_py.config import LogFormat
    from spirit_py.contracts import Reporter


def reporter_of(log_format: LogFormat) -> Reporter:
    """Pick the live display for a terminal and log lines for everything else; neither raises."""
    import time

    from spirit_py.status.safe import SafeReporter

    if sys.stderr.isatty() and log_format == "text":
        from spirit_py.status.console import ConsoleReporter

        return SafeReporter(ConsoleReporter())
    from spirit_py.status.plain import PlainReporter

    return SafeReporter(PlainReporter(clock=time.monotonic, as_json=log_format == "json"))
