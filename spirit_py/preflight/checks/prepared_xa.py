"""XA transactions that were prepared before the change feed begins (R8)."""

from __future__ import annotations

from spirit_py.errors import ServerFault
from spirit_py.preflight.check import Findings, PreflightContext, warn

_NEEDS_PRIVILEGE = frozenset({1227, 1401})


def check(context: PreflightContext) -> Findings:
    """Warn of prepared and undecided XA transactions: the feed waits for them at its start."""
    try:
        prepared = context.session.query("XA RECOVER CONVERT XID")
    except ServerFault as error:
        if error.code in _NEEDS_PRIVILEGE:
            return  # The check of the privileges names the missing one.
        raise
    if prepared:
        yield warn(
            f"{len(prepared)} XA transactions are prepared and undecided: the change feed waits"
            " for them",
            "end them with XA COMMIT or XA ROLLBACK (see XA RECOVER CONVERT XID)",
        )
