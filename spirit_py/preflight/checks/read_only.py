"""The new table is written to on this server."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse a server that takes no writes."""
    for name in ("super_read_only", "read_only", "innodb_read_only"):
        if context.facts.is_on(name):
            yield refuse(
                f"the server takes no writes ({name}=ON): it is probably a replica",
                "give the address of the primary",
            )
            return
