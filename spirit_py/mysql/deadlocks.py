"""How many waits for rows InnoDB has ended by an error, also those that no client was told of.

``events_errors_summary_global_by_error`` does not count a deadlock that a cascade of foreign keys
swallows; InnoDB's own counter does (measured on 9.7.4). Timeouts are counted with them, because
with ``innodb_rollback_on_timeout=ON`` they roll back as much. To read the counters takes PROCESS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import connection_lost

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession

_NAMES: Final = ("lock_deadlocks", "lock_timeouts")
_COUNTS: Final = (
    "SELECT NAME, COUNT, TIME_ENABLED, TIME_DISABLED FROM information_schema.INNODB_METRICS"
    " WHERE NAME IN (%s, %s) AND STATUS = 'enabled'"
)

Deadlocks: TypeAlias = frozenset[tuple[str, ...]]
"""The counts, with when the server began each: equal to others only if nothing was between."""


def count_deadlocks(session: SqlSession) -> Deadlocks | None:
    """Return the counts; None where the account may not read them, or one is switched off.

    Raises:
        ServerFault: the connection is lost.
    """
    try:
        rows = session.query(_COUNTS, _NAMES)
    except ServerFault as fault:
        if connection_lost(fault):
            raise
        return None
    return frozenset(tuple(map(str, row)) for row in rows) if len(rows) == len(_NAMES) else None
