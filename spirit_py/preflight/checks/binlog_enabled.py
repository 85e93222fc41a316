"""The binary log carries the changes that are made during the copy."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse a server without a binary log."""
    if not context.facts.is_on("log_bin"):
        yield refuse(
            "the binary log is off (log_bin=OFF): changes during the copy could not be followed",
            "start the server with --log-bin",
        )
