"""Only ROW format brings the rows themselves (R5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.preflight.finding import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.preflight.context import PreflightContext
    from spirit_py.preflight.finding import Finding


def check(context: PreflightContext) -> Iterator[Finding]:
    """Refuse any other default than ROW; a session's own setting shows in the feed (R13)."""
    value = context.facts.text("binlog_format").upper()
    if value not in {"ROW", ""}:
        yield refuse(
            f"binlog_format is {value}, so that changes are logged as statements",
            "SET PERSIST binlog_format = 'ROW', and let the application reconnect",
        )
