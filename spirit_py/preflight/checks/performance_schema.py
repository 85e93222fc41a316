"""Locks, their holders and the program's own sessions are seen there."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse a server whose performance_schema is off."""
    if not context.facts.is_on("performance_schema"):
        yield refuse(
            "performance_schema is OFF: blockers of the cutover could not be found",
            "start the server with --performance-schema=ON",
        )
