"""The options for what a command records, and the configuration that they make."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import click

from spirit_py.cli.groups import group, option
from spirit_py.cli.values import Duration, ListenAddress
from spirit_py.errors import UsageFault
from spirit_py.records import RecordOptions

report_options = group(
    option(
        "--report-json",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write the final report to this file.",
    ),
    option(
        "--report-html",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write the report to this file as one page, with plots of the run.",
    ),
    option(
        "--metrics-listen",
        type=ListenAddress(),
        help="Answer Prometheus' scrapes there; :9187 on this machine alone.",
    ),
    option(
        "--metrics-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write the same metrics to this file, for node_exporter's textfile collector.",
    ),
)
"""The options for what a run leaves, and what others may read of it meanwhile."""

log_options = group(
    option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Format of the log lines; text is for where there is no terminal, json is one object a"
        " line with stable names, on a terminal too.",
    ),
    option("--verbose", is_flag=True, help="Tracebacks; Spark's log in ./spirit-py-spark.log."),
)
"""The options of log and display."""


hook_options = group(
    option(
        "--on-event",
        default="",
        metavar="COMMAND",
        help="Run this with /bin/sh -c at each event, with the event as JSON on its standard input"
        " (docs/events.md). What it does never stops the run.",
    ),
    option(
        "--hook-timeout",
        type=Duration(least=0.1),
        default="30s",
        show_default=True,
        help="Time after which a call of it is ended.",
    ),
)
"""The options of the command that is called with each event."""

veto_option = option(
    "--hook-veto",
    is_flag=True,
    help="Ask the command of --on-event before the swap (event cutover.ready): unless it exits"
    " with 0 the swap is put off, and it is asked again later.",
)
"""The option that gives the command a say in the swap."""

_FILES = ("report_json", "report_html", "metrics_file")


def records_of(options: dict[str, Any]) -> RecordOptions:
    """Build the configuration of the records from the command line's values.

    Raises:
        UsageFault: when a file cannot be written.
    """
    names = {field.name for field in dataclasses.fields(RecordOptions)}
    values = {name: value for name, value in options.items() if name in names}
    for name in _FILES:
        if values.get(name) is not None:
            values[name] = _writable(values[name], f"--{name.replace('_', '-')}")
    if values.get("hook_veto") and not values["on_event"]:
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
