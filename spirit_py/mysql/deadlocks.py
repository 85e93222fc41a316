"""How many deadlocks InnoDB has ended, also those that no client was told of.

``events_errors_summary_global_by_error`` does not count a deadlock that a cascade of foreign keys
swallows; InnoDB's own counter does (measured on 9.7.4). To read it takes PROCESS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import connection_lost

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession

_COUNT: Final = (
    "SELECT COUNT, TIME_ENABLED, TIME_DISABLED FROM information_schema.INNODB_METRICS"
    " WHERE NAME = 'lock_deadlocks' AND STATUS = 'enabled'"
)

Deadlocks: TypeAlias = tuple[Any, ...]
"""A count, with when the server began it: equal to another one only if there was none between."""


def count_deadlocks(session: SqlSession) -> Deadlocks | None:
    """Return the count; None where the account may not read it, or the server does not count.

    Raises:
        ServerFault: the connection is lost.
    """
    try:
        rows = session.query(_COUNT)
    except ServerFault as fault:
        if connection_lost(fault):
            raise
        return None
    return tuple(map(str, rows[0])) if rows else None
