"""The configuration of what a command records."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

from spirit_py.errors import UsageFault
from spirit_py.records import RecordOptions

if TYPE_CHECKING:
    from pathlib import Path

_FILES = ("report_json", "report_html", "metrics_file")


def records_of(options: dict[str, Any]) -> RecordOptions:
    """Build the configuration of the records from the command line's values.

    Raises:
        UsageFault: when a file cannot be written.
    """
    names = {field.name for field in dataclasses.fields(RecordOptions)}
    values = {name: options[name] for name in names if options.get(name) is not None}
    for name in _FILES:
        if values.get(name) is not None:
            values[name] = _writable(values[name], f"--{name.replace('_', '-')}")
    if values.get("hook_veto") and not values.get("on_event"):
        raise UsageFault(
            "--hook-veto asks the command of --on-event, and there is none",
            hint="add --on-event COMMAND",
        )
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
    elif not os.access(target if target.exists() else folder, os.W_OK):
        problem = f"{target} may not be written"
    if problem:
        raise UsageFault(
            f"{option_name} cannot be written: {problem}",
            hint=f"name another file with {option_name}",
        )
    return target
