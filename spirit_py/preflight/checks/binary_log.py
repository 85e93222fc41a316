"""Whether the binary log has every change, for as long as the change feed needs it."""

from __future__ import annotations

import math
from typing import Final

from spirit_py.binlog.xa import recoverable
from spirit_py.estimates import likely_sizes
from spirit_py.mysql.endpoint import (
    Service,
    amazon_retention,
    expires_after,
    how_to_set,
    service_of,
)
from spirit_py.mysql.replication import (
    LOGGING,
    NO_REPLICA_NOW,
    WITHOUT_FILTER,
    binlog_status,
    hides_changes,
    replica_status,
    unlogged_replica,
)
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn


def binlog_filters(context: PreflightContext) -> Findings:
    """Refuse ``--binlog-do-db`` and ``--binlog-ignore-db``, of whichever schemas."""
    log = binlog_status(context.session)
    if log and log.filtered:
        yield refuse(hides_changes(log.filtered), WITHOUT_FILTER)


_BYTES_A_SECOND: Final = 5 << 20
_SPARE: Final = 2
#: By their documentation.
_MOST_HOURS: Final = {Service.RDS: 168, Service.AURORA: 2160}
_AT_ONCE: Final = "purges its binary log as soon as it can"
_LEAST_SECONDS: Final = 3600
_LOST: Final = (
    "a stopped or paused run cannot resume once the binary log from its position is purged"
)


def binlog_retention(context: PreflightContext) -> Findings:
    """Warn where the binary log may be purged before a run has read it, or could be resumed."""
    service = service_of(context.session, context.facts)
    who = service.value or "the server"
    size = sum(likely_sizes(context.source))
    needed = max(_LEAST_SECONDS, _SPARE * (size // _BYTES_A_SECOND))
    known, seconds = True, expires_after(context.facts)
    if service.amazon:
        known, kept_hours = amazon_retention(context.session)
        seconds = 3600 * kept_hours
    elif not seconds and service is not Service.AZURE:
        return
    # The server refuses to set both.
    by_days = seconds and not context.facts.number("binlog_expire_logs_seconds")

    def keep_for(wanted: float) -> str:
        if service.amazon:
            most = _MOST_HOURS[service]
            if seconds >= 3600 * most:
                return f"{who} keeps it for no more than {most} h"
            hours = min(most, math.ceil(wanted / 3600))
            return f"CALL mysql.rds_set_configuration('binlog retention hours', {hours});"
        if by_days:
            return how_to_set(service, "expire_logs_days", str(math.ceil(wanted / 86_400)))
        return how_to_set(service, "binlog_expire_logs_seconds", str(int(wanted)))

    if not known:
        yield warn(
            f"how long {who} keeps its binary log is hidden: {_LOST}",
            keep_for(max(86_400, needed)),
        )
        return
    kept = f"keeps its binary log for {seconds} s" if seconds else _AT_ONCE
    grace = context.config.drop_old_after
    if seconds < grace < math.inf:
        yield warn(
            f"{who} {kept}: spirit-py revert is possible for that long, not for as long as the old"
            " table is kept",
            keep_for(grace),
        )
    if seconds < needed:
        yield warn(
            f"{who} {kept}, and the migration may take {needed} s with a pause: {_LOST}",
            keep_for(max(86_400, needed)),
        )


def prepared_xa(context: PreflightContext) -> Findings:
    """Warn of prepared and undecided XA transactions: the feed waits for them at its start."""
    if prepared := recoverable(context.session):
        yield warn(
            f"{len(prepared)} XA transactions are prepared and undecided: the change feed waits"
            " for them",
            "end them with XA COMMIT or XA ROLLBACK (see XA RECOVER CONVERT XID)",
        )


def replica(context: PreflightContext) -> Findings:
    """Refuse a replica whose replicated changes do not reach its own binary log."""
    rehearses = context.config.connection.unlogged
    if rehearses and not context.config.dry_run:
        yield refuse(
            "a change would be made past the binary log: the replica would not be as its source",
            "rehearse there with --dry-run, or make the change on the primary",
        )
        return
    if not replica_status(context.session):
        if rehearses:
            yield refuse(
                "the server of --on-replica is no replica",
                "name a replica, or rehearse on the server itself: --dry-run alone",
            )
        return
    if said := unlogged_replica(context.session, context.facts):
        yield refuse(
            said,
            f"migrate on the primary, or start the replica with {LOGGING}; if it is a replica no"
            f" more: {NO_REPLICA_NOW}",
        )
        return
    if rehearses:
        yield from _of_rehearsal(context)
        return
    yield warn(
        "the server is a replica: the change is not made on its source",
        "migrate on the primary, unless this is what you want",
    )


def _of_rehearsal(context: PreflightContext) -> Findings:
    if not context.facts.is_on("read_only"):
        yield warn(
            "read_only is OFF on the replica: what others write there is taken for writes of its"
            " source",
            "SET GLOBAL read_only = ON",
        )
    elif not context.grants.has_global("SUPER") and (
        missing := context.grants.missing(("CONNECTION_ADMIN",))
    ):
        yield refuse(
            f"account {context.grants.account} may not write to the replica, which is read_only",
            context.grants.grant(missing),
        )
