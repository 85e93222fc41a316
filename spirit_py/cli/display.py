"""How a command shows what it does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spirit_py.config import LogFormat
    from spirit_py.contracts import Reporter


def reporter_of(log_format: LogFormat) -> Reporter:
    """Pick the live display for a terminal and log lines for everything else."""
    import time

    if sys.stderr.isatty() and log_format == "text":
        from spirit_py.status.console import ConsoleReporter

        return ConsoleReporter()
    from spirit_py.status.plain import PlainReporter

    return PlainReporter(clock=time.monotonic, as_json=log_format == "json")
