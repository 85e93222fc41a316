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
        reads: queries of all sessions.
        running: sessions that execute something now.
        own: queries of this process, before and after the counters were read.
    """

    writes: float
    reads: float
    running: float
    own: tuple[int, int]

    def others_since(self, before: Traffic) -> tuple[float, float]:
        """Return the writes and the reads that were others' since an earlier moment.

        A query of this process that is counted at one end alone is taken for one of its own.
        """
        own = self.own[1] - before.own[0]
        return self.writes - before.writes, max(0.0, self.reads - before.reads - own)


def read_traffic(session: SqlSession) -> Traffic:
    """Read the counters."""
    own_before = OWN_QUERIES.number
    found = read_status(session, (*_WRITES, _READS, _RUNNING))
    return Traffic(
        writes=sum(found.get(name.lower(), 0.0) for name in _WRITES),
        reads=found.get(_READS.lower(), 0.0),
        running=found.get(_RUNNING.lower(), 0.0),
        own=(own_before, OWN_QUERIES.number),
    )
