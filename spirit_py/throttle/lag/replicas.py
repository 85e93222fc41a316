"""The replicas of a server: those that were named, or else those that it knows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from spirit_py.config import host_and_port
from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import access_denied
from spirit_py.mysql.replication import known_replicas
from spirit_py.throttle.lag.replica import LOOK_SECONDS, ReplicaWatch, options_of_replica
from spirit_py.throttle.lag.source import MarkedSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock
    from spirit_py.mysql.session import Session

FIND_SECONDS: Final = 10.0


class Silent(NamedTuple):
    """A replica that the server knows without an address."""

    server_id: int
    uuid: str


class Replicas:
    """All replicas that are watched; :meth:`look` by one thread, again and again.

    Args:
        connection: the source; replicas are reached with its account and TLS.
        named: ``host`` or ``host:port`` of replicas. With any, and without ``also_known``, no other
            is watched.
        also_known: those that the server knows are watched, too.
        heartbeat: see :class:`MarkedSource`.
        interval: seconds between two looks at one replica.
        on_look: called after each look at a replica, in that one's thread.
    """

    def __init__(
        self,
        connection: ConnectionOptions,
        named: Sequence[str] = (),
        *,
        also_known: bool = False,
        heartbeat: str = "",
        interval: float = LOOK_SECONDS,
        on_look: Callable[[ReplicaWatch], None] | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._on_look = on_look
        self._connection = connection
        self._find = also_known or not named
        self._found_at = float("-inf")
        self._interval = interval
        self._clock = clock
        self._source = MarkedSource(connection, heartbeat=heartbeat, clock=clock)
        self._watches: dict[str, ReplicaWatch] = {}
        #: Those that cannot be reached, because they report no address.
        self.silent: tuple[Silent, ...] = ()
        #: Why the server's list of replicas cannot be read; empty when it can.
        self.unlisted = ""
        for text in named:
            host, port = host_and_port(text)
            self._add(host, port or connection.port)

    def look(self) -> None:
        """Take a mark of the source, and find replicas that are new.

        Raises:
            ServerFault: the source did not answer.
        """
        mark = self._source.mark()
        if self._find and self._clock() >= self._found_at + FIND_SECONDS:
            self._found_at = self._clock()
            self._discover(self._source.session())
        for watch in self._watches.values():
            watch.note(mark)
            watch.start_once()

    def settle(self, seconds: float) -> None:
        """Wait until every replica was compared with the last mark, at most so long."""
        until = self._clock() + seconds
        for watch in self._watches.values():
            watch.looked.wait(max(0.0, until - self._clock()))

    def watched(self) -> list[ReplicaWatch]:
        """Return the replicas that are watched, each server once. Any thread may ask."""
        servers: dict[str, ReplicaWatch] = {}
        for watch in list(self._watches.values()):
            servers.setdefault(watch.uuid or watch.address, watch)
        return list(servers.values())

    def _discover(self, session: Session) -> None:
        """Add the replicas that are connected now and were not known."""
        try:
            found = known_replicas(session)
        except ServerFault as fault:
            if not access_denied(fault):
                raise
            self.unlisted = fault.message
            return
        for one in found:
            if one.host:
                self._add(one.host, one.port)
        self.silent = tuple(Silent(one.server_id, one.uuid) for one in found if not one.host)

    def _add(self, host: str, port: int) -> None:
        """Watch a replica from now on, unless it is watched already."""
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if address in self._watches:
            return
        self._watches[address] = ReplicaWatch(
            options_of_replica(self._connection, host, port),
            address=address,
            source=self._source,
            interval=self._interval,
            on_look=self._on_look,
            clock=self._clock,
        )

    def close(self) -> None:
        """End all threads and sessions."""
        for watch in self._watches.values():
            watch.stop()
        for watch in self._watches.values():
            watch.close()
        self._source.close()
