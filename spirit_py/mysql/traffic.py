"""What the other sessions of the server do, by its counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py.mysql.global_status import read_status
from spirit_py.mysql.own_queries import OWN_QUERIES

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession

#: What writes and is none of our statements: rows are copied, applied and repaired with REPLACE.
_WRITES: Final = (
    "Com_insert",
    "Com_insert_select",
    "Com_update",
    "Com_update_multi",
    "Com_delete_multi",
    "Com_load",
)
_READS: Final = "Com_select"
_RUNNING: Final = "Threads_running"


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Counters of the server at one moment, since its start.

    Attributes:
        writes: statements that write and cannot be ours.
        reads: queries of all sessions but those of this process.
        running: sessions that execute something now.
    """

    writes: float
    reads: float
    running: float


def read_traffic(session: SqlSession) -> Traffic:
    """Read the counters."""
    own = OWN_QUERIES.number
    found = read_status(session, (*_WRITES, _READS, _RUNNING))
    return Traffic(
        writes=sum(found.get(name.lower(), 0.0) for name in _WRITES),
        reads=found.get(_READS.lower(), 0.0) - own,
        running=found.get(_RUNNING.lower(), 0.0),
    )
