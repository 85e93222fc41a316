"""Only full row images can be applied (R5)."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse MINIMAL and NOBLOB as the default."""
    value = context.facts.text("binlog_row_image").upper()
    if value not in {"FULL", ""}:
        yield refuse(
            f"binlog_row_image is {value}: unchanged columns are missing from the row images",
            "SET PERSIST binlog_row_image = 'FULL', and let the application reconnect",
        )
