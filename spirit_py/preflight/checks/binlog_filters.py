"""``--binlog-do-db`` and ``--binlog-ignore-db`` keep whole schemas out of the binary log."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse when changes of the table's schema are not logged."""
    if not context.facts.is_on("log_bin"):
        return
    newer = context.facts.version_number >= (8, 2, 0)
    rows = context.session.query("SHOW BINARY LOG STATUS" if newer else "SHOW MASTER STATUS")
    for row in rows[:1]:
        only, ignored = (_schemas(value) for value in row[2:4])
        if context.schema in ignored or (only and context.schema not in only):
            yield refuse(
                f"changes of schema {context.schema} are kept out of the binary log by"
                " binlog_do_db or binlog_ignore_db",
                "start the server without that filter",
            )


def _schemas(value: object) -> set[str]:
    return {name.strip() for name in str(value or "").split(",") if name.strip()}
