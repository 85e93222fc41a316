"""Whether the server keeps its binary log for as long as the migration may need it."""

from __future__ import annotations

from typing import Final

from spirit_py.mysql.endpoint import Service, amazon_retention, how_to_set, service_of
from spirit_py.preflight.check import Findings, PreflightContext, warn

#: A cautious estimate of the copy's speed, and of how often as long a resume may come.
_BYTES_A_SECOND: Final = 5 << 20
_SPARE: Final = 2
_LEAST_SECONDS: Final = 3600
_LOST: Final = (
    "a reader that is connected keeps what it reads, but a stopped or paused run cannot carry on"
    " once the binary log from its position is purged"
)


def check(context: PreflightContext) -> Findings:
    """Warn where the binary log may be purged before a run has read it, or could be resumed."""
    service = service_of(context.session, context.facts)
    needed = _needed_seconds(context)
    hours = -(-needed // 3600)
    if service.amazon:
        known, kept = amazon_retention(context.session)
        call = f"CALL mysql.rds_set_configuration('binlog retention hours', {max(24, hours)});"
        if not known:
            yield warn(f"how long {service.value} keeps its binary log is hidden: {_LOST}", call)
        elif not kept:
            yield warn(f"{service.value} purges its binary log as soon as it can: {_LOST}", call)
        elif kept < hours:
            yield warn(f"{service.value} keeps its binary log for {kept} h: {_LOST}", call)
        return
    seconds = context.facts.number("binlog_expire_logs_seconds")
    if not seconds and service is not Service.AZURE:
        return
    if seconds < needed:
        kept_for = f"for {seconds} s" if seconds else "no longer than it is read"
        yield warn(
            f"the server keeps its binary log {kept_for}, and the migration may take {needed} s"
            f" with a pause: {_LOST}",
            how_to_set(service, "binlog_expire_logs_seconds", str(max(86_400, needed))),
        )


def _needed_seconds(context: PreflightContext) -> int:
    source = context.source
    copying = (source.data_bytes + source.index_bytes) // _BYTES_A_SECOND
    return max(_LEAST_SECONDS, _SPARE * copying)
