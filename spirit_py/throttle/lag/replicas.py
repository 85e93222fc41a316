"""The replicas of a server: those that were named, or else those that it knows.

Whoever may replicate (REPLICATION SLAVE) says under which address, or connects from one. So the
password goes to an
address that nobody named only where TLS proves that it is a server of the operator's: with an
authority that the operator gave, and a certificate that has the name (R26).
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from spirit_py.config import host_and_port
from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import access_denied
from spirit_py.mysql.replication import known_replicas
from spirit_py.mysql.tls.modes import proves_servers
from spirit_py.throttle.lag.replica import LOOK_SECONDS, ReplicaWatch, options_of_replica
from spirit_py.throttle.lag.source import MarkedSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock
    from spirit_py.mysql.session import Session

FIND_SECONDS: Final = 10.0
#: Addresses that are watched, or reported, without having been named.
_MOST_FOUND: Final = 32
_HOST: Final = re.compile(r"[0-9A-Za-z._:-]+")


class Unwatched(NamedTuple):
    """A replica that the server knows and that is not asked; without or with an address."""

    server_id: int
    uuid: str
    address: str = ""


def unnamed(connection: ConnectionOptions, host: str, port: int) -> ConnectionOptions | None:
    """Return the options for a replica that nobody named; None where it gets no password."""
    if not proves_servers(connection) or not _HOST.fullmatch(host):
        return None
    options = options_of_replica(connection, host, port)
    return replace(options, ssl_mode="VERIFY_IDENTITY")


class Replicas:
    """All replicas that are watched; :meth:`look` by one thread, again and again.

    Args:
        connection: the source.
        account: account and TLS with which replicas are reached; None for those of the source.
            Replicas that nobody named only where TLS proves them: see :func:`unnamed`.
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
        account: ConnectionOptions | None = None,
        also_known: bool = False,
        heartbeat: str = "",
        interval: float = LOOK_SECONDS,
        on_look: Callable[[ReplicaWatch], None] | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._on_look = on_look
        self._account = account or connection
        self._found = 0
        self._find = also_known or not named
        self._found_at = float("-inf")
        self._interval = interval
        self._clock = clock
        self._source = MarkedSource(connection, heartbeat=heartbeat, clock=clock)
        self._watches: dict[str, ReplicaWatch] = {}
        #: Those that cannot be reached, because they report no address.
        self.silent: tuple[Unwatched, ...] = ()
        #: Those that no verified TLS proves.
        self.unproved: tuple[Unwatched, ...] = ()
        #: Why the server's list of replicas cannot be read; empty when it can.
        self.unlisted = ""
        for text in named:
            host, port = host_and_port(text)
            port = port or connection.port
            self._add(address_of(host, port), options_of_replica(self._account, host, port))

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
        unproved = []
        for one in found:
            address = address_of(one.host, one.port)
            if not one.host or address in self._watches:
                continue
            options = unnamed(self._account, one.host, one.port)
            if options is None:
                unproved.append(Unwatched(one.server_id, one.uuid, address))
            elif self._found < _MOST_FOUND:
                self._found += 1
                self._add(address, options, named=False)
        self.unproved = tuple(unproved[:_MOST_FOUND])
        self.silent = tuple(Unwatched(one.server_id, one.uuid) for one in found if not one.host)

    def _add(self, address: str, options: ConnectionOptions, *, named: bool = True) -> None:
        """Watch a replica from now on."""
        self._watches[address] = ReplicaWatch(
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
        for watch in self._watches.values():
            watch.close()
        self._source.close()


def address_of(host: str, port: int) -> str:
    """Return an address as it is shown; what no host name may hold is escaped."""
    shown = host if _HOST.fullmatch(host) else ascii(host)
    return f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}"
