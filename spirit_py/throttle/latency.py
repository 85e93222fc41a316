"""How long a small commit takes, and what the server's other users do: the input of the pace.

The *probe* is a commit of one row of our own, the heartbeat of the checkpoint table. It waits for
the same lock of the binlog, the same disk and the same CPUs as the application's commits. Replicas
receive it, too, with the server's time in it.

Each migration of a batch times small commits before its copy and again every ten minutes
(:mod:`spirit_py.throttle.adaptive`). Another copy beside it would count as the application's load,
and everything measured later would look fast. So the others begin nothing for this second or two.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py.mysql.facts import read_status
from spirit_py.mysql.session import OWN_QUERIES
from spirit_py.pace import Work
from spirit_py.throttle.adaptive import Adaptive, Others
from spirit_py.throttle.throttler import ALL_WORK, Looking, own_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock, SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.throttle.settings import LiveSettings

#: What writes and is none of our statements: rows are copied, applied and repaired with REPLACE.
_WRITES: Final = (
    "Com_insert",
    "Com_insert_select",
    "Com_update",
    "Com_update_multi",
    "Com_delete_multi",
    "Com_load",
)


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
    found = read_status(session, (*_WRITES, "Com_select", "Threads_running"))
    return Traffic(
        writes=sum(found.get(name.lower(), 0.0) for name in _WRITES),
        reads=found.get("com_select", 0.0),
        running=found.get("threads_running", 0.0),
        own=(own_before, OWN_QUERIES.number),
    )


#: Probes while somebody is to be spared, and otherwise: as a heartbeat for replicas.
_PROBE_SECONDS: Final = 0.1
_BEAT_SECONDS: Final = 0.25
#: The same while nothing works, as in the days of a deferred swap.
_QUIET_SECONDS: Final = 1.0
#: Probes while commits are measured without the work.
_MEASURE_SECONDS: Final = 0.05
_TRAFFIC_SECONDS: Final = 0.5
#: Until it is known whether anybody uses the server.
_FIRST_TRAFFIC_SECONDS: Final = 0.1


class CommitLatency:
    """Probes the server and steps the adaptive pace.

    Its reason is the measure of commits before the work; otherwise it holds nothing back. The swap
    does not wait for it: it is short, and no work that could be spared goes on beside it.

    Args:
        beat: commits the row.
        working: returns whether there is work that goes on or waits.
        unknown_reads: returns how many queries a second of ours are not counted in this process.
        pressure: returns the throttler that is nearest to its limit, and how near: 1.0 is at it.
        seen: what the others had done at an earlier moment of ``clock``. A tenth of a second later
            the first look knows whether anybody uses the server, so that the measure begins before
            any work, and does not wait for the end of what was begun.
    """

    name: Final = "latency"
    holds: Final = ALL_WORK - {Work.SWAP}

    def __init__(
        self,
        connection: ConnectionOptions,
        settings: LiveSettings,
        adaptive: Adaptive,
        *,
        beat: Callable[[Session], None],
        working: Callable[[], bool] = lambda: True,
        unknown_reads: Callable[[], float] = lambda: 0.0,
        pressure: Callable[[], tuple[str, float]] = lambda: ("", 0.0),
        seen: tuple[float, Traffic] | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._session = own_session(connection, "probe")
        self._settings = settings
        self._adaptive = adaptive
        self._beat = beat
        self._working = working
        self._unknown_reads = unknown_reads
        self._pressure = pressure
        self._clock = clock
        self._seen = seen
        self._known = False

    @property
    def every(self) -> float:
        """Seconds between two probes."""
        if self._adaptive.begun and not self._working():
            return _QUIET_SECONDS
        if self._settings.current.aggressive or not self._adaptive.spares:
            return _BEAT_SECONDS
        return _MEASURE_SECONDS if self._adaptive.measuring else _PROBE_SECONDS

    def look(self) -> str:
        """Probe, and step the pace; return what is waited for while commits are measured."""
        if self._settings.current.aggressive:
            self._session.ask(self._beat)
            return ""
        self._session.ask(self._probe)
        self._adaptive.press(*self._pressure())
        self._adaptive.step(self._clock())
        if self._adaptive.measuring:
            return "the measure of how long commits take without the copy"
        return ""

    def _probe(self, session: Session) -> None:
        began = self._clock()
        self._beat(session)
        ended = self._clock()
        self._adaptive.probed(ended, ended - began)
        self._look_at_others(session, ended)

    def _look_at_others(self, session: Session, now: float) -> None:
        """Read what the other sessions did since the last time, now and then."""
        if self._seen is None:
            self._seen = (now, read_traffic(session))
            return
        since, before = self._seen
        passed = now - since
        if passed < (_TRAFFIC_SECONDS if self._known else _FIRST_TRAFFIC_SECONDS):
            return
        found = read_traffic(session)
        writes, reads = found.others_since(before)
        # A short span shows who writes; single queries would count for too much in it. The first
        # one holds those of the preparation too, not all of which this process counts.
        sure = self._known and passed >= _TRAFFIC_SECONDS
        self._seen, self._known = (now, found), True
        self._adaptive.saw(
            now,
            Others(
                writes=writes / passed,
                reads=max(0.0, reads / passed - self._unknown_reads()) if sure else 0.0,
                running=found.running,
            ),
        )

    def close(self) -> None:
        """Close the session."""
        self._session.close()


class Measures:
    """The paces of all migrations that run side by side. Any thread may call it."""

    def __init__(self) -> None:
        self._paces: tuple[Adaptive, ...] = ()

    def join(self, pace: Adaptive) -> Looking:
        """Add the pace of a migration; return what holds it back while another one measures.

        Its end removes the pace: the other migrations are no longer held back.
        """
        self._paces = (*self._paces, pace)
        # What the others have begun ends before the commits count.
        pace.settles = True
        waits = "the measure of commits for another table of the batch"
        return Looking(
            name="other measure",
            look=lambda: waits if self.measuring(pace) else "",
            close=lambda: self.leave(pace),
        )

    def leave(self, pace: Adaptive) -> None:
        """Remove the pace of a migration that has ended; safe to call again."""
        self._paces = tuple(one for one in self._paces if one is not pace)

    def measuring(self, but: Adaptive) -> bool:
        """Return whether another one than this measures now."""
        return any(one.measuring for one in self._paces if one is not but)
