"""Where a command writes what it does: log lines, reports, and other records."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

LogFormat = Literal["text", "json"]


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """What ``spirit-py migrate``, ``revert`` and ``checksum`` are asked to record.

    Attributes:
        log_format: of the lines on standard error; ``json`` on a terminal too.
        report_json: file that gets the final report; None for none.
        report_html: file that gets the same as a page, with the history of the run; None for none.
        metrics_listen: host and port at which Prometheus finds the run's figures; None for none.
        metrics_file: file that gets them for node_exporter's textfile collector; None for none.
        on_event: command of the shell that is called with each event; empty for none.
        hook_veto: the command is also asked whether the tables may be swapped.
        hook_timeout: seconds that one call may take.
    """

    log_format: LogFormat = "text"
    report_json: Path | None = None
    report_html: Path | None = None
    metrics_listen: tuple[str, int] | None = None
    metrics_file: Path | None = None
    on_event: str = ""
    hook_veto: bool = False
    hook_timeout: float = 30.0


@functools.cache
def run_token() -> str:
    """Return the random token of this process, by which its records are told from others'."""
    return os.urandom(8).hex()
