"""The throttler for replica lag, and the replicas that it watches (R26; docs/replicas.md)."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from spirit_py.classes import KW_ONLY, dataclass, field, replace
from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import access_denied, fatal
from spirit_py.mysql.replication import known_replicas
from spirit_py.mysql.tls.modes import proves_servers
from spirit_py.pace import Work
from spirit_py.throttle import replica
from spirit_py.throttle.throttler import WRITES
from spirit_py.throttle.unapplied import part_bytes, pressure, why_behind
from spirit_py.units import host_and_port, human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock
    from spirit_py.mysql.replication import KnownReplica
    from spirit_py.mysql.session import Session
    from spirit_py.throttle.replica import ReplicaState
    from spirit_py.throttle.settings import LiveSettings
    from spirit_py.throttle.unapplied import Behind

GRACE: Final = 2.0
"""Seconds for which a replica may not answer, or not replicate, before that counts."""
#: A replica is near its limit from this part on.
_NEAR: Final = 0.8
_SLOW_SECONDS: Final = 10.0
#: Less than :data:`GRACE`.
_STANDING_SECONDS: Final = 1.0
_INSTEAD: Final = (
    "spirit-py ctl set max-lag=off goes on without it, --replica for each of the others leaves it"
    " out"
)


@dataclass(eq=False)
class LagThrottler:
    """Holds back what is replicated while a replica is behind, or not known if ``strict``."""

    name = "replica lag"
    # A replica deletes the old table's file as well, and applies nothing else meanwhile.
    holds = WRITES | {Work.DROP}
    replicas: Replicas
    settings: LiveSettings
    _: KW_ONLY
    strict: bool
    warn: Callable[[str], None]
    #: What was warned of: the throttlers of a run, one after another, say it once.
    told: set[str] = field(default_factory=set)
    #: Whether the work stands for long, so that a lag matters when it goes on.
    stands: Callable[[], bool] = lambda: False
    clock: Clock = time.monotonic

    @property
    def every(self) -> float:
        """Seconds between two looks."""
        return _STANDING_SECONDS if self.stands() else replica.LOOK_SECONDS

    def __post_init__(self) -> None:
        self._slow_until = float("-inf")
        #: Addresses of replicas that were well once: their trouble has a grace.
        self._known: set[str] = set()

    def look(self) -> str:
        """Return the replicas that are waited for, and why."""
        limit = self.settings.current.max_lag
        if limit is None:
            return ""
        try:
            self.replicas.look()
        except ServerFault as fault:
            if self.strict or not access_denied(fault):
                raise
            self._tell("source", f"replica lag is not watched: {fault.message}")
            return ""
        for about, text in self._unwatched():
            self._tell(about, text)
        if self.pressure() >= _NEAR:
            self._slow_until = self.clock() + _SLOW_SECONDS
        found = ((one, self._why(one, limit)) for one in self.replicas.watched())
        return "; ".join(f"replica {one.address}, which {why}" for one, why in found if why)

    def lag(self) -> float | None:
        """Return how far the last of the replicas is behind, seconds; None when none is known."""
        return max((behind.lag for behind in self._behind()), default=None)

    def part_bytes(self) -> float | None:
        """Return how much one transaction may write; None where every replica keeps up."""
        limit = self.settings.current.max_lag
        if limit is None or self.clock() >= self._slow_until:
            return None
        return min((part_bytes(behind, limit) for behind in self._behind()), default=None)

    def pressure(self) -> float:
        """Return how near the last of the replicas is to its limit: 1.0 is at it."""
        limit = self.settings.current.max_lag
        if limit is None:
            return 0.0
        return max((pressure(behind, limit) for behind in self._behind()), default=0.0)

    def _behind(self) -> list[Behind]:
        watched = (one for one in self.replicas.watched() if not self._left_out(one))
        return [one.state.behind for one in watched if one.state.behind is not None]

    def _left_out(self, one: replica.ReplicaWatch) -> bool:
        """Return whether a replica has gone without being waited for: it may have lagged then."""
        state = one.state
        _, lasted = self._trouble(state)
        return not self.strict and lasted >= GRACE and self._lost(state)

    def _why(self, one: replica.ReplicaWatch, limit: float) -> str:
        state = one.state
        trouble, lasted = self._trouble(state)
        if trouble and (lasted >= GRACE or one.address not in self._known):
            if self.strict or not self._lost(state):
                return f"cannot be relied on: {trouble} ({_INSTEAD})"
            self._tell(one.address, f"the lag of replica {one.address} is not watched: {trouble}")
            return ""
        if state.behind is None:
            return "was not reached yet" if self.strict else ""
        self.told.discard(one.address)
        self._known.add(one.address)
        why = why_behind(state.behind, limit)
        return f"{why} (--max-lag {human_seconds(limit)})" if why else ""

    def _trouble(self, state: ReplicaState) -> tuple[str, float]:
        now = self.clock()
        if state.trouble:
            return state.trouble, now - state.since
        silent = now - (state.looked_at if state.behind is not None else state.since)
        return ("it does not answer", silent) if silent >= GRACE else ("", 0.0)

    def _lost(self, state: ReplicaState) -> bool:
        silent = self.clock() - state.looked_at >= GRACE
        return state.lost or silent or state.behind is None or state.trouble in replica.NO_LAG

    def _unwatched(self) -> Iterator[tuple[str, str]]:
        """Yield what is to be known of replicas that are not watched, with what that is about."""
        replicas = self.replicas
        if replicas.unlisted:
            yield "list", f"replicas cannot be listed: {replicas.unlisted}; {NAME}"
        known = {one.uuid for one in replicas.watched()}
        for silent in replicas.silent:
            if silent.uuid not in known:
                which = f"replica server_id {silent.server_id}"
                yield silent.uuid, f"the lag of {which} is not watched: {NO_ADDRESS}: {NAME}"
        for one in replicas.unproved:
            where = address_of(one.host, one.port)
            if one.uuid not in known:
                why = f"{UNPROVED}: {NAME_OR_PROVE}"
                yield where, f"the lag of replica {where} is not watched: {why}"
        for where in sorted(replicas.forgotten):
            gone = "the server does not list it now, and its lag is not known"
            yield where, f"replica {where} is watched no more: {gone}: {NAME}"
        for watch in replicas.watched():
            if watch.was:
                other = f"is another server than before ({watch.uuid}, not {watch.was})"
                each = (
                    "one server is watched there at a time; name each one with --replica HOST:PORT"
                )
                yield f"{watch.address} {watch.uuid}", f"replica {watch.address} {other}: {each}"
        if replicas.beyond:
            which = f"the lag of replica {replicas.beyond}, and of others perhaps,"
            yield "beyond", f"{which} is not watched: more than {_MOST_FOUND} were found; {NAME}"
        if self.strict and not (replicas.watched() or replicas.silent or replicas.unproved):
            yield "none", f"--max-lag: the server knows no replica; {NAME}"

    def _tell(self, about: str, text: str) -> None:
        if about not in self.told:
            self.told.add(about)
            self.warn(text)

    def close(self) -> None:
        """End the threads and sessions."""
        self.replicas.close()


NAME: Final = "name it with --replica HOST:PORT"
NO_ADDRESS: Final = "it reports no address, and where it is connected from cannot be seen"
UNPROVED: Final = "no verified TLS proves that it is one of yours, so no password is sent to it"
NAME_OR_PROVE: Final = (
    "name it with --replica HOST:PORT, or pass --ssl-ca for certificates that have the host's name"
)


FIND_SECONDS: Final = 10.0
#: Addresses watched or reported without having been named, at a time.
_MOST_FOUND: Final = 32
_HOST: Final = re.compile(r"[0-9A-Za-z._:-]+")


def unnamed(connection: ConnectionOptions, host: str, port: int) -> ConnectionOptions | None:
    """Return the options for a replica that nobody named; None where it gets no password."""
    if not proves_servers(connection) or not _HOST.fullmatch(host):
        return None
    return replace(replica.options_of_replica(connection, host, port), ssl_mode="VERIFY_IDENTITY")


class Replicas:
    """All replicas that are watched; one thread calls :meth:`look` again and again.

    ``account`` reaches them; None: the source's; see :func:`unnamed`. With ``named`` no other is
    watched without ``also_known``. ``on_look`` is called in a replica's thread.
    """

    def __init__(
        self,
        connection: ConnectionOptions,
        named: Sequence[str] = (),
        *,
        account: ConnectionOptions | None = None,
        also_known: bool = False,
        heartbeat: str = "",
        interval: float = replica.LOOK_SECONDS,
        on_look: Callable[[replica.ReplicaWatch], None] | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._on_look = on_look
        self._account = account or connection
        #: That are watched no more.
        self._gone: list[replica.ReplicaWatch] = []
        #: One of those that are too many to be watched.
        self.beyond = ""
        self._find = also_known or not named
        self._found_at = float("-inf")
        self._interval = interval
        self._clock = clock
        self._source = replica.MarkedSource(connection, heartbeat=heartbeat, clock=clock)
        self._watches: dict[str, replica.ReplicaWatch] = {}
        #: Replicas that report no usable address.
        self.silent: tuple[KnownReplica, ...] = ()
        #: Replicas that no verified TLS proves.
        self.unproved: tuple[KnownReplica, ...] = ()
        #: Addresses that went before they were well, or gave their places to others.
        self.forgotten: set[str] = set()
        #: Why the server's list cannot be read; empty when it can.
        self.unlisted = ""
        for text in named:
            host, port = host_and_port(text)
            port = port or connection.port
            self._add(address_of(host, port), replica.options_of_replica(self._account, host, port))

    def look(self) -> None:
        """Take a mark of the source, and find new replicas; may raise `ServerFault`."""
        due = self._find and self._clock() >= self._found_at + FIND_SECONDS
        if not (due or self._watches):
            return
        mark = self._source.mark()
        if due:
            self._discover(self._source.session())
            self._found_at = self._clock()
        for watch in self._watches.values():
            watch.compare(mark)

    def settle(self, seconds: float) -> None:
        """Wait until every replica was compared with the last mark, at most so long."""
        until = self._clock() + seconds
        for watch in self._watches.values():
            watch.looked.wait(max(0.0, until - self._clock()))

    def watched(self) -> list[replica.ReplicaWatch]:
        """Return the replicas that are watched, each server once. Any thread may ask."""
        servers: dict[str, replica.ReplicaWatch] = {}
        for watch in list(self._watches.values()):
            known = servers.setdefault(watch.uuid or watch.address, watch)
            if known.state.lost and not watch.state.lost:
                # It has come back at another address.
                servers[watch.uuid] = watch
        return list(servers.values())

    def _discover(self, session: Session) -> None:
        try:
            found = known_replicas(session)
        except ServerFault as fault:
            if not fatal(fault):
                raise
            self.unlisted = fault.message
            return
        unproved = []
        listed = {address_of(one.host, one.port) for one in found if one.host}
        for watch in list(self._watches.values()):
            # Anyone with REPLICATION SLAVE may have named it: a replica that was well is relied on.
            if not (watch.named or watch.well or watch.address in listed):
                self._forget(watch)
        for one in found:
            address = address_of(one.host, one.port)
            if not one.host or address in self._watches:
                continue
            options = unnamed(self._account, one.host, one.port)
            if options is None:
                unproved.append(one)
            elif self._has_room(listed):
                self._watch(address, options)
            else:
                self.beyond = address
        self.unproved = tuple(unproved[:_MOST_FOUND])
        self.silent = tuple(one for one in found if not one.host)

    def _has_room(self, listed: set[str]) -> bool:
        """Return whether one more may be watched; one that is away, and unlisted, may go for it."""
        found = [one for one in self._watches.values() if not one.named]
        if len(found) < _MOST_FOUND:
            return True
        gone = next((one for one in found if one.state.lost and one.address not in listed), None)
        if gone is None:
            return False
        self._forget(gone)
        return True

    def _watch(self, address: str, options: ConnectionOptions) -> None:
        """Watch one that was found; one that has refused the login before gets no other."""
        self.forgotten.discard(address)
        gone = (one for one in self._gone if one.address == address and one.refused)
        if (refused := next(gone, None)) is None:
            self._add(address, options, named=False)
        else:
            self._gone.remove(refused)
            self._watches[address] = refused

    def _forget(self, watch: replica.ReplicaWatch) -> None:
        watch.stop()
        self.forgotten.add(watch.address)
        self._gone.append(self._watches.pop(watch.address))

    def _add(self, address: str, options: ConnectionOptions, *, named: bool = True) -> None:
        self._watches[address] = replica.ReplicaWatch(
            options,
            address=address,
            source=self._source,
            named=named,
            interval=self._interval,
            on_look=self._on_look,
            clock=self._clock,
        )

    def close(self) -> None:
        """End all threads and sessions."""
        for watch in self._watches.values():
            watch.stop()
        for watch in (*self._gone, *self._watches.values()):
            watch.close()
        self._source.close()


def address_of(host: str, port: int) -> str:
    """Return an address as it is shown; what no host name may hold is escaped."""
    shown = host if _HOST.fullmatch(host) else ascii(host)
    return f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}"
