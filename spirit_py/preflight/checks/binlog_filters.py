"""``--binlog-do-db`` and ``--binlog-ignore-db`` keep whole schemas out of the binary log."""

from __future__ import annotations

from spirit_py.mysql.replication import binlog_status
from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse when changes of the table's schema are not logged."""
    log = binlog_status(context.session)
    if log and (context.schema in log.ignored or (log.only and context.schema not in log.only)):
        yield refuse(
            f"changes of schema {context.schema} are kept out of the binary log by"
            " binlog_do_db or binlog_ignore_db",
            "start the server without that filter",
        )
