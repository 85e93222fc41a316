"""The privileges on parents and children, which only a swap needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.preflight.checks.privileges import missing_for_keys, refuse_all

if TYPE_CHECKING:
    from spirit_py.preflight.check import Findings, PreflightContext


def check(context: PreflightContext) -> Findings:
    """Refuse an account that may not carry the foreign keys along."""
    if any(privileges for _, privileges in missing_for_keys(context)):
        yield refuse_all(context)
