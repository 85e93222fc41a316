"""One replica, looked at several times a second in a thread of its own, and its source's marks.

docs/replicas.md says how both are compared, and with which privileges.
"""

from __future__ import annotations

import contextlib
import enum
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from spirit_py.classes import KW_ONLY, dataclass, replace
from spirit_py.errors import ServerFault
from spirit_py.mysql import faults
from spirit_py.mysql.connect import connect
from spirit_py.mysql.replication import applier_lag, binlog_status, channels, executed_place
from spirit_py.mysql.retry import RenewedSession, pause_after_refusals
from spirit_py.threads import Background
from spirit_py.throttle.unapplied import Behind, Mark, Unapplied

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock
    from spirit_py.mysql.session import Session

_MARK_SECONDS: Final = 5


class MarkedSource:
    """Takes marks of the source, in a session of its own; used by one thread."""

    def __init__(
        self, connection: ConnectionOptions, *, heartbeat: str = "", clock: Clock = time.monotonic
    ) -> None:
        self._clock = clock
        self._session = RenewedSession(
            partial(connect, connection, role="lag", read_timeout=_MARK_SECONDS),
            prepare=self._read_server,
        )
        self._counts = True
        self._last: Mark | None = None
        self.heartbeat = heartbeat
        self.uuid, self.gtid = "", False
        self.first: Mark | None = None

    def mark(self) -> Mark:
        """Return where the source is now; after a fault the next call opens another session."""
        self._last = mark = self._session.ask(self._read)
        self.first = self.first or mark
        return mark

    def session(self) -> Session:
        """Return the session, opened at need."""
        return self._session.session()

    def _read_server(self, session: Session) -> None:
        ((self.uuid, mode),) = session.query("SELECT @@server_uuid, @@GLOBAL.gtid_mode")
        self.gtid = mode == "ON"

    def _read(self, session: Session) -> Mark:
        # Before the query: later commits may count as older than they are.
        now = self._clock()
        file, offset, gtids = self._place(session)
        beat = ""
        if self.heartbeat and not self.gtid:
            beat = heartbeat_read(session, self.heartbeat) or ""
        return Mark(now, self._written(file, offset), gtids, file, offset, beat)

    def _place(self, session: Session) -> tuple[str, int, str]:
        if self._counts:
            try:
                status = binlog_status(session)
            except ServerFault as fault:
                if not (self.gtid and faults.access_denied(fault)):
                    raise
                self._counts = False
            else:
                return (status.file, status.offset, status.executed) if status else ("", 0, "")
        return "", 0, str(session.value("SELECT @@GLOBAL.gtid_executed")).replace("\n", "")

    def _written(self, file: str, offset: int) -> int:
        """Return the bytes of binlog since the first mark, but for the last ones of a file."""
        last = self._last
        if last is None:
            return 0
        grown = offset - last.offset if file == last.file else offset
        return last.written + max(0, grown)

    def close(self) -> None:
        """Close the session; safe to call again."""
        self._session.close()


def heartbeat_read(session: Session, query: str) -> str | None:
    """Return the time of the newest heartbeat that a server has; None without any."""
    found = faults.excused(
        lambda: session.value(query),
        None,
        lambda fault: fault.code in faults.ABSENT_TABLE or faults.access_denied(fault),
    )
    return None if found is None else str(found)


LOOK_SECONDS: Final = 0.1
_HEALTH_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 0.5
#: The longest pause between two tries to reach a replica.
_LONGEST_SECONDS: Final = 5.0
_CONNECT_SECONDS: Final = 2
_READ_SECONDS: Final = 3
_JOIN_SECONDS: Final = 5.0
NO_REPLICA: Final = "it is no replica"
OF_ANOTHER: Final = "it replicates from another server, and has no transaction of this one"
NO_LAG: Final = frozenset({NO_REPLICA, OF_ANOTHER})
"""Troubles of what is never to catch up."""


class Way(enum.Enum):
    """How a replica is compared with the source's marks."""

    GTID = "GTIDs"
    PLACE = "the place in the binlog"
    HEARTBEAT = "the heartbeat"
    TIMES = "the times of what it applies"


class ReplicaState(NamedTuple):
    """What is known of a replica; times in monotonic seconds.

    ``behind`` is None before the first look; ``trouble``: why it cannot be looked at or does not
    replicate, ``since`` when; ``lost``: it does not answer.
    """

    behind: Behind | None = None
    looked_at: float = 0.0
    trouble: str = ""
    since: float = 0.0
    lost: bool = False


def options_of_replica(options: ConnectionOptions, host: str, port: int) -> ConnectionOptions:
    """Return the options for a replica: account and TLS of the source, and no run of ours there."""
    reached = replace(options, host=host, port=port, socket="", connect_timeout=_CONNECT_SECONDS)
    return replace(reached, label="", server_uuid="", settings=())


@dataclass(eq=False)
class ReplicaWatch:
    """Looks at one replica until it is closed. No fault of the replica reaches the caller.

    A ``named`` one that refuses the login is tried again, with growing pauses. ``on_look`` is
    called in its thread.
    """

    options: ConnectionOptions
    _: KW_ONLY
    address: str
    source: MarkedSource
    named: bool
    interval: float = LOOK_SECONDS
    on_look: Callable[[ReplicaWatch], None] | None = None
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        #: Seconds behind at the first look, by the times of what it applied then.
        self.behind_before = 0.0
        #: Set after a look since the last mark, or a failure.
        self.looked = threading.Event()
        self.uuid = ""
        #: The server that answered before, where another one does.
        self.was = ""
        self.way: Way | None = None
        #: Whether its lag was known once.
        self.well = False
        self._over = False
        self._lock = threading.Lock()
        self._new: list[Mark] = []
        self._state = ReplicaState(since=self.clock())
        self._unapplied = Unapplied()
        self._session: Session | None = None
        self._delay = 0.0
        self._health_at = float("-inf")
        self._started = False
        self._thread = Background(f"lag-{self.address}", self._run, join_seconds=_JOIN_SECONDS)

    def compare(self, mark: Mark) -> None:
        """Have the next look compare with a mark of the source; the first one begins to look."""
        with self._lock:
            if not self._over:
                self._new.append(mark)
                self.looked.clear()
        if not self._started:
            self._started = True
            self._thread.start()

    @property
    def state(self) -> ReplicaState:
        """What is known now."""
        with self._lock:
            return self._state

    @property
    def refused(self) -> bool:
        """Whether it has refused the login, and gets no other one, as nobody has named it."""
        return self._over

    def stop(self) -> None:
        """Ask the thread to end; return at once."""
        self._thread.stop()

    def close(self) -> None:
        """End the thread; its session is closed."""
        self._thread.join()

    def _run(self, stopping: threading.Event) -> None:
        failed = 0
        try:
            while not stopping.is_set():
                pause = self.interval
                try:
                    self._look()
                    failed = 0
                except Exception as error:
                    # Whatever answers there, it is asked again.
                    failed += 1
                    fault = error
                    if not isinstance(fault, ServerFault):
                        fault = ServerFault(0, repr(error), where=self.address)
                    self._failed(fault)
                    if faults.login_refused(fault) and not self.named:
                        return
                    pause = max(pause, pause_after(fault, failed))
                stopping.wait(pause)
        finally:
            self._close_session()

    def _look(self) -> None:
        session = self._session or self._open()
        now = self.clock()
        trouble = self.state.trouble
        if now >= self._health_at + _HEALTH_SECONDS:
            self._health_at = now
            trouble = self._health(session)
        with self._lock:
            new, self._new = self._new, []
            fresh = bool(new)
        for mark in new:
            self._unapplied.add(mark)
        behind = None if trouble in NO_LAG else self._behind(session, now)
        with self._lock:
            since = self._state.since if self._state.trouble else now
            self.well = self.well or behind is not None
            self._state = ReplicaState(behind=behind, looked_at=now, trouble=trouble, since=since)
        self._ended(fresh=fresh)

    def _open(self) -> Session:
        session = connect(
            self.options, role="replica-lag", read_timeout=_READ_SECONDS, lock_wait_timeout=3
        )
        self._session, self.way = session, None
        self._health_at = float("-inf")
        found = str(session.value("SELECT @@server_uuid"))
        if self.uuid not in {"", found}:
            self.was = self.uuid
        self.uuid = found
        if self.state.behind is None:
            with contextlib.suppress(ServerFault):
                self.behind_before = applier_lag(session, recent=0.0)
        return session

    def _health(self, session: Session) -> str:
        if self.way in {None, Way.TIMES}:
            self.way = self._choose(session)
        found = faults.excused(lambda: channels(session), None, faults.access_denied)
        if found is None:
            return ""
        if not found:
            return NO_REPLICA
        ours = [one for one in found if one.source_uuid == self.source.uuid]
        if not ours and all(one.source_uuid for one in found) and self._is_strange(session):
            return OF_ANOTHER
        ours = ours or found
        self._delay = max(one.delay for one in ours)
        return "; ".join(dict.fromkeys(one.trouble for one in ours if one.trouble))

    def _is_strange(self, session: Session) -> bool:
        """Whether it lacks all that the source had executed when the run began; with GTIDs."""
        first, uuid = self.source.first, self.source.uuid
        if first is None or uuid not in first.gtids:
            return False
        return not session.value("SELECT LOCATE(%s, @@GLOBAL.gtid_executed)", (uuid,))

    def _choose(self, session: Session) -> Way:
        if self.source.gtid and session.value("SELECT @@GLOBAL.gtid_mode") != "OFF":
            return Way.GTID
        with contextlib.suppress(ServerFault):
            if executed_place(session, self.source.uuid) is not None:
                return Way.PLACE
        if self.source.heartbeat and heartbeat_read(session, self.source.heartbeat):
            return Way.HEARTBEAT
        return Way.TIMES

    def _behind(self, session: Session, now: float) -> Behind:
        if self.way is Way.TIMES:
            return Behind(lag=max(0.0, applier_lag(session, recent=1.0) - self._delay))
        place = executed_place(session, self.source.uuid) if self.way is Way.PLACE else None
        beat = heartbeat_read(session, self.source.heartbeat) if self.way is Way.HEARTBEAT else None

        def reached(mark: Mark) -> bool:
            if self.way is Way.GTID:
                return self._executed(session, mark)
            if self.way is Way.PLACE:
                return place is not None and _beyond(place, (mark.file, mark.offset))
            return (beat or "") >= mark.beat

        return self._unapplied.look(now, reached, delay=self._delay)

    def _executed(self, session: Session, mark: Mark) -> bool:
        before = self.source.first.gtids if self.source.first else ""
        sql = "SELECT GTID_SUBSET(GTID_SUBTRACT(%s, %s), @@GLOBAL.gtid_executed)"
        return bool(session.value(sql, (mark.gtids, before)))

    def _failed(self, fault: ServerFault) -> None:
        self._close_session()
        with self._lock:
            self._over = faults.login_refused(fault) and not self.named
            for mark in self._new:
                self._unapplied.add(mark)
            self._new.clear()
            since = self._state.since if self._state.trouble else self.clock()
            self._state = self._state._replace(trouble=fault.message, since=since, lost=True)
        self._ended(fresh=True)

    def _ended(self, *, fresh: bool) -> None:
        if self.on_look is not None:
            self.on_look(self)
        with self._lock:
            if fresh and not self._new:
                self.looked.set()

    def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def pause_after(fault: ServerFault, count: int) -> float:
    """Return the seconds until a replica is tried again, after so many failures in a row (pure)."""
    if faults.login_counted(fault):
        return pause_after_refusals(count)
    return min(_LONGEST_SECONDS, _AGAIN_SECONDS * 2.0 ** min(count - 1, 10))


def _beyond(executed: tuple[str, int], place: tuple[str, int]) -> bool:
    """Return whether a place is not before another one; file numbers grow after 999999."""
    return (len(executed[0]), *executed) >= (len(place[0]), *place)
