"""How a command shows and records what it does: from its options to the reporters."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from spirit_py.cli import outcome
from spirit_py.cli.configfile import is_typed
from spirit_py.errors import UsageFault
from spirit_py.events.event import teller
from spirit_py.events.run import Summary
from spirit_py.records import RecordOptions
from spirit_py.status.reporters import Reporters, recorders

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from spirit_py.contracts import Reporter
    from spirit_py.records import LogFormat
    from spirit_py.status.report import OutcomeReport

_FILES = ("report_json", "report_html", "metrics_file")
OF_A_RUN = (*_FILES, "metrics_listen", "on_event", "hook_veto")
"""Options that record one run, or have a say in it."""


def records_of(options: dict[str, Any]) -> RecordOptions:
    """Build the configuration of the records; raises UsageFault for what cannot be written."""
    names = {field.name for field in dataclasses.fields(RecordOptions)}
    values = {name: options[name] for name in names if options.get(name) is not None}
    for name in _FILES:
        if values.get(name) is not None:
            values[name] = _writable(values[name], f"--{name.replace('_', '-')}")
    if values.get("hook_veto") and not values.get("on_event"):
        if is_typed("hook_veto"):
            raise UsageFault(
                "--hook-veto needs --on-event, the command that it asks",
                hint="add --on-event COMMAND",
            )
        del values["hook_veto"]
    metrics = values.get("metrics_file")
    if metrics is not None and metrics.suffix != ".prom":
        raise UsageFault(
            f"--metrics-file {metrics.name}: the textfile collector reads only files that end with"
            " .prom",
            hint=f"name it {metrics.name}.prom",
        )
    return RecordOptions(**values)


def _writable(path: Path, option_name: str) -> Path:
    """Check, before anything is done, that a file can be written; return its absolute path."""
    target = path.absolute()
    folder = target.resolve().parent
    problem = ""
    if not path.name or target.is_dir():
        problem = f"{str(path)!r} names no file"
    elif not folder.is_dir():
        problem = f"{folder} is not a directory"
    elif target.is_socket():
        problem = f"{target} is a socket"
    elif not os.access(target if target.exists() else folder, os.W_OK):
        problem = f"{target} may not be written"
    if problem:
        raise UsageFault(
            f"{option_name} cannot be written: {problem}",
            hint=f"name another file with {option_name}",
        )
    return target


def reporters_of(records: RecordOptions, *, verbose: bool = False) -> Reporters:
    """Return what shows and records a run; raises UsageFault for an address in use."""
    shown = _terminal_or_lines(records, verbose)
    made = Reporters([shown, *recorders(records, shown.event)])
    if records.on_event:
        from spirit_py.hooks import Hook

        hook = Hook(records.on_event, seconds=records.hook_timeout, tell=teller(made.event))
        made.add(hook)
        made.gate = hook.ask if records.hook_veto else None
    return made


def tell_summary(lines: Iterable[str], reporter: Reporters) -> None:
    """Show the lines that end a run."""
    tell = teller(reporter.event)
    for line in lines:
        tell(Summary(said=line))


def tell_end(
    report: OutcomeReport, summary: Iterable[str], reporter: Reporters, log_format: LogFormat
) -> int:
    """Show how a run of many parts has ended, and return its exit code."""
    tell_summary(summary, reporter)
    if report.error and log_format == "text":
        outcome.say_error(report.error)
        if report.hint:
            outcome.say_hint(report.hint)
        outcome.say_more([report.error_code])
    return report.exit_code


def _terminal_or_lines(records: RecordOptions, verbose: bool) -> Reporter:
    if records.log_format == "text" and sys.stderr.isatty():
        from spirit_py.status.display.screen import LiveDisplay, can_show

        if can_show(sys.stderr, os.environ):
            return LiveDisplay(verbose=verbose)
    from spirit_py.status.plain import PlainReporter

    as_json = records.log_format == "json"
    return PlainReporter(clock=time.monotonic, as_json=as_json, verbose=verbose)
