"""Where a command writes what it does: log lines, reports, and other records."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Literal

from spirit_py.classes import dataclass

if TYPE_CHECKING:
    from pathlib import Path

LogFormat = Literal["text", "json"]


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """What ``spirit-py migrate``, ``revert`` and ``checksum`` are asked to record.

    ``log_format`` is of the lines on standard error, also on a terminal; ``metrics_listen`` is host
    and port for Prometheus, ``metrics_file`` for node_exporter's textfile collector. ``on_event``
    is a shell command for each event, limited by ``hook_timeout`` seconds; ``hook_veto`` lets it
    hold the swap back.
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
