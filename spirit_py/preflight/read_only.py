"""The new table is written to on this server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.preflight.finding import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.preflight.context import PreflightContext
    from spirit_py.preflight.finding import Finding


def check(context: PreflightContext) -> Iterator[Finding]:
    """Refuse a server that takes no writes."""
    for name in ("super_read_only", "read_only", "innodb_read_only"):
        if context.facts.is_on(name):
            yield refuse(
                f"the server takes no writes ({name}=ON): it is probably a replica",
                "give the address of the primary",
            )
            return
