"""Locks, their holders and the program's own sessions are seen there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.preflight.finding import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.preflight.context import PreflightContext
    from spirit_py.preflight.finding import Finding


def check(context: PreflightContext) -> Iterator[Finding]:
    """Refuse a server whose performance_schema is off."""
    if not context.facts.is_on("performance_schema"):
        yield refuse(
            "performance_schema is OFF: blockers of the cutover could not be found",
            "start the server with --performance-schema=ON",
        )
