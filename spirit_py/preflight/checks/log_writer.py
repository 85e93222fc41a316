"""The server's threads that write the redo log: without them a commit may wait 100 ms for nothing.

Off is the default from MySQL 8.4 on with fewer than 32 CPUs. Then each commit writes the redo log
itself. It first waits for what other sessions reserved before it in the log buffer. If one of them
was taken off its CPU, it waits for an event that nobody sets, 100 ms, and every other commit waits
behind it. Beside a copy that happens up to several times a second (docs/gentleness.md).
"""

from __future__ import annotations

from typing import Final

from spirit_py.mysql.endpoint import Service, how_to_set, service_of
from spirit_py.preflight.check import Findings, PreflightContext, warn

#: The copy of a smaller table is over within seconds.
_LARGE: Final = 256 << 20
_SETTING: Final = "innodb_log_writer_threads"


def check(context: PreflightContext) -> Findings:
    """Warn where they are off; Aurora has a storage of its own."""
    facts = context.facts
    if context.source.total_bytes < _LARGE or not facts.text(_SETTING) or facts.is_on(_SETTING):
        return
    service = service_of(context.session, facts)
    if service is Service.AURORA:
        return
    remedy = how_to_set(service, _SETTING, "ON")
    if service is Service.NONE:
        remedy = f"SET GLOBAL {_SETTING} = ON, at least while the table is copied"
    yield warn(
        f"{_SETTING} is OFF: beside the copy, commits of all clients may stop for 100 ms several"
        " times a second",
        remedy,
    )
