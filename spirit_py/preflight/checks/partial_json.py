"""PARTIAL_JSON logs the difference of a JSON value, not the value."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse PARTIAL_JSON as the default."""
    if "PARTIAL_JSON" in context.facts.text("binlog_row_value_options").upper():
        yield refuse(
            "binlog_row_value_options is PARTIAL_JSON: updates of JSON do not log the document",
            "SET PERSIST binlog_row_value_options = '', and let the application reconnect",
        )
