"""``--binlog-do-db`` and ``--binlog-ignore-db`` hide changes of every table from the binary log."""

from __future__ import annotations

from spirit_py.mysql.replication import WITHOUT_FILTER, binlog_status, hides_changes
from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse a server with either list, of whichever schemas."""
    log = binlog_status(context.session)
    if log and log.filtered:
        yield refuse(hides_changes(log.filtered), WITHOUT_FILTER)
