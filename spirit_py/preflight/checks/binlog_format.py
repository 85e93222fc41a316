"""Only ROW format brings the rows themselves (R5)."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse any other default than ROW; a session's own setting shows in the feed (R13)."""
    value = context.facts.text("binlog_format").upper()
    if value not in {"ROW", ""}:
        yield refuse(
            f"binlog_format is {value}, so that changes are logged as statements",
            "SET PERSIST binlog_format = 'ROW', and let the application reconnect",
        )
