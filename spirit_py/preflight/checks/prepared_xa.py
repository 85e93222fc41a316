"""XA transactions that were prepared before the change feed begins (R8)."""

from __future__ import annotations

from spirit_py.binlog.prepared_xa import recoverable
from spirit_py.preflight.check import Findings, PreflightContext, warn


def check(context: PreflightContext) -> Findings:
    """Warn of prepared and undecided XA transactions: the feed waits for them at its start."""
    if prepared := recoverable(context.session):
        yield warn(
            f"{len(prepared)} XA transactions are prepared and undecided: the change feed waits"
            " for them",
            "end them with XA COMMIT or XA ROLLBACK (see XA RECOVER CONVERT XID)",
        )
