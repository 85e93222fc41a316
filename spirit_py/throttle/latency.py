"""How long a small commit takes, and what the server's other users do: input of the pace.

The *probe* commits the checkpoint table's heartbeat row. While one migration of a batch measures
without its work, the others begin nothing, or they would count as load.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py.classes import KW_ONLY, InitVar, dataclass
from spirit_py.errors import ServerFault
from spirit_py.locks.look import global_read_lock
from spirit_py.mysql.facts import read_status
from spirit_py.mysql.faults import LOCK_WAIT_TIMEOUT
from spirit_py.mysql.session import OWN_QUERIES
from spirit_py.pace import Work
from spirit_py.throttle.adaptive import LONGEST_MEASURED, Adaptive, Others
from spirit_py.throttle.throttler import ALL_WORK, Looking, own_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock, SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.throttle.settings import LiveSettings

#: None of the tasks' statements: they write rows with REPLACE, as do the heartbeats of other runs.
_WRITES: Final = (
    *("Com_insert", "Com_insert_select", "Com_update", "Com_update_multi", "Com_load"),
    *("Com_delete", "Com_delete_multi"),
)


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Counters of the server since its start; ``writes`` and ``reads`` may be ours.

    ``own``, ``own_writes``: those of this run's processes before and after they were read.
    """

    writes: float
    reads: float
    running: float
    own: tuple[float, float]
    own_writes: tuple[int, int] = (0, 0)

    def others_since(self, before: Traffic) -> tuple[float, float]:
        """Return others' writes and reads since then, without any that may be ours."""
        own = self.own[1] - before.own[0]
        own_writes = self.own_writes[1] - before.own_writes[0]
        return (
            max(0.0, self.writes - before.writes - own_writes),
            max(0.0, self.reads - before.reads - own),
        )


def read_traffic(session: SqlSession) -> Traffic:
    """Read the counters."""
    before = OWN_QUERIES.reads(session.address), OWN_QUERIES.writes(session.address)
    found = read_status(session, (*_WRITES, "Com_select", "Threads_running"))
    return Traffic(
        writes=sum(found.get(name.lower(), 0.0) for name in _WRITES),
        reads=found.get("com_select", 0.0),
        running=found.get("threads_running", 0.0),
        own=(before[0], OWN_QUERIES.reads(session.address)),
        own_writes=(before[1], OWN_QUERIES.writes(session.address)),
    )


#: With others to be spared, and without.
_PROBE_SECONDS: Final = 0.1
_BEAT_SECONDS: Final = 0.25
_QUIET_SECONDS: Final = 1.0
_MEASURE_SECONDS: Final = 0.05
_TRAFFIC_SECONDS: Final = 0.5
_FIRST_TRAFFIC_SECONDS: Final = 0.1


@dataclass(eq=False)
class CommitLatency:
    """Probes the server and steps the adaptive pace; the swap does not wait for it.

    ``working``: whether there is work; ``held``: whether none may begin, ``stands``: for minutes or
    hours; ``pressure``: the throttler nearest to its limit, 1.0 being at it; ``at_work``: our
    sessions that execute a statement; ``in_flight``: whether chunks run; ``seen``: the others'
    traffic at an earlier ``clock``, for a measure at once.
    """

    name = "latency"
    holds = ALL_WORK - {Work.SWAP}

    connection: InitVar[ConnectionOptions]
    settings: LiveSettings
    adaptive: Adaptive
    _: KW_ONLY
    beat: Callable[[Session], None]
    working: Callable[[], bool] = lambda: True
    held: Callable[[], bool] = lambda: False
    stands: Callable[[], bool] = lambda: False
    pressure: Callable[[], tuple[str, float]] = lambda: ("", 0.0)
    at_work: Callable[[], int] = lambda: 0
    in_flight: Callable[[], bool] = lambda: False
    seen: tuple[float, Traffic] | None = None
    clock: Clock = time.monotonic

    def __post_init__(self, connection: ConnectionOptions) -> None:
        self._session = own_session(connection, "probe")
        self._known = False

    @property
    def every(self) -> float:
        """Seconds between two probes."""
        if self.adaptive.measuring:
            return _MEASURE_SECONDS
        if self._idle or self.stands():
            return _QUIET_SECONDS
        if self.settings.current.aggressive or not self.adaptive.spares:
            return _BEAT_SECONDS
        return _PROBE_SECONDS

    @property
    def _idle(self) -> bool:
        return self.adaptive.begun and not (self.working() or self.adaptive.applying)

    def look(self) -> str:
        """Probe, and step the pace; return what is waited for: a measure, or a lock of others."""
        if aggressive := self.settings.current.aggressive:
            # Work that asks for no tasks does not end a measure.
            self.adaptive.spare_no_one(self.clock())
        held = self._session.ask(self._beat if aggressive else self._probe)
        if aggressive or held:
            return held
        self.adaptive.press(*self.pressure())
        self.adaptive.held, self.adaptive.in_flight = self.held(), self.in_flight()
        self.adaptive.idle = self._idle
        self.adaptive.step(self.clock())
        if self.adaptive.measuring:
            return "the measurement of the commit latency without the copy"
        return ""

    def _beat(self, session: Session) -> str:
        try:
            self.beat(session)
        except ServerFault as fault:
            if fault.code == LOCK_WAIT_TIMEOUT and (held := global_read_lock(session)):
                return held
            raise
        return ""

    def _probe(self, session: Session) -> str:
        began = self.clock()
        if held := self._beat(session):
            return held
        ended = self.clock()
        self.adaptive.probed(ended, ended - began)
        self._look_at_others(session, ended)
        return ""

    def _look_at_others(self, session: Session, now: float) -> None:
        if self.seen is None:
            self.seen = (now, read_traffic(session))
            return
        since, before = self.seen
        passed = now - since
        # A measure wants more than one or two numbers of sessions.
        seldom = self._known and not self.adaptive.measuring
        if passed < (_TRAFFIC_SECONDS if seldom else _FIRST_TRAFFIC_SECONDS):
            return
        found = read_traffic(session)
        writes, reads = found.others_since(before)
        # A short span shows writes; the first one has the preparation's queries, too.
        sure = self._known and passed >= _TRAFFIC_SECONDS
        self.seen, self._known = (now, found), True
        self.adaptive.saw(
            now,
            Others(
                writes=writes / passed,
                reads=reads / passed if sure else 0.0,
                running=max(0.0, found.running - self.at_work()),
            ),
        )

    def close(self) -> None:
        """Close the session."""
        self._session.close()


class Measures:
    """The paces of all migrations that run side by side. Any thread may call it."""

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        #: Held while one of them drops its old table: each DROP is felt by the whole server.
        self.dropping = threading.Lock()
        #: Each with what tells whether chunks of it run.
        self._paces: dict[Adaptive, Callable[[], bool]] = {}

    def join(self, pace: Adaptive, in_flight: Callable[[], bool] = lambda: False) -> Looking:
        """Add a pace until it is closed; return what holds it back while another measures."""
        self._paces = {**self._paces, pace: in_flight}
        # What others began ends first.
        pace.settles = True
        waits = "the measurement of the commit latency for another table of the batch"
        return Looking(
            name="other measure",
            look=lambda: waits if self.measuring(pace) else "",
            holds=CommitLatency.holds,
            close=lambda: self.leave(pace),
        )

    def leave(self, pace: Adaptive) -> None:
        """Remove the pace of a migration that has ended; safe to call again."""
        self._paces = {one: runs for one, runs in self._paces.items() if one is not pace}

    def at_work(self) -> int:
        """Return how many sessions of all of them execute a statement, at most."""
        return sum(one.at_work(runs=runs()) for one, runs in self._paces.items())

    def in_flight(self) -> bool:
        """Return whether chunks of any of them run."""
        return any(runs() for runs in self._paces.values())

    def measuring(self, but: Adaptive) -> bool:
        """Return whether another one than this measures now."""
        oldest = self._clock() - LONGEST_MEASURED
        begun = (one.measuring_since for one in self._paces if one is not but)
        return any(since is not None and since > oldest for since in begun)
