"""The binary log carries the changes that are made during the copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.preflight.finding import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.preflight.context import PreflightContext
    from spirit_py.preflight.finding import Finding


def check(context: PreflightContext) -> Iterator[Finding]:
    """Refuse a server without a binary log."""
    if not context.facts.is_on("log_bin"):
        yield refuse(
            "the binary log is off (log_bin=OFF): changes during the copy could not be followed",
            "start the server with --log-bin",
        )
