"""How a command shows what it does: the one place where its reporters are put together."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from spirit_py.events.event import teller
from spirit_py.status.recorders import recorders
from spirit_py.status.reporters import Reporters

if TYPE_CHECKING:
    from spirit_py.contracts import Reporter
    from spirit_py.records import RecordOptions


def reporters_of(records: RecordOptions) -> Reporters:
    """Return everything that is asked for to show and record a run; none of it raises.

    Raises:
        UsageFault: metrics are asked for, and their address is in use.
    """
    shown = _terminal_or_lines(records)
    made = Reporters([shown, *recorders(records, shown.event)])
    if records.on_event:
        from spirit_py.hooks.hook import Hook

        hook = Hook(records.on_event, seconds=records.hook_timeout, tell=teller(made.event))
        made.add(hook)
        made.gate = hook.ask if records.hook_veto else None
    return made


def _terminal_or_lines(records: RecordOptions) -> Reporter:
    """Return the live display for a terminal, and log lines for everything else."""
    if records.log_format == "text" and sys.stderr.isatty():
        from spirit_py.status.display.screen import LiveDisplay, can_show

        if can_show(sys.stderr, os.environ):
            return LiveDisplay()
    from spirit_py.status.plain import PlainReporter

    return PlainReporter(clock=time.monotonic, as_json=records.log_format == "json")
