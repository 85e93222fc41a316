"""A server that is itself a replica must log what it replicates."""

from __future__ import annotations

from spirit_py.mysql.replication import replica_status
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn


def check(context: PreflightContext) -> Findings:
    """Refuse a replica whose replicated changes do not reach its own binary log."""
    if not replica_status(context.session):
        return
    logs = ("log_replica_updates", "log_slave_updates")
    if not any(context.facts.is_on(name) for name in logs):
        yield refuse(
            "the server is a replica and does not log replicated changes (log_replica_updates=OFF)",
            "migrate on the primary, or start the replica with --log-replica-updates",
        )
        return
    yield warn(
        "the server is a replica of another: the change stays on this side of the replication",
        "migrate on the primary, unless this is what you want",
    )
