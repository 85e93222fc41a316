"""The throttler for replica lag: ``--max-lag``.

Whoever names replicas, or a limit, relies on it: then a replica that cannot be looked at, or does
not replicate, holds the work back after :data:`GRACE` seconds (*strict*). Without either the
replicas that the server knows are watched as far as they can be: one that cannot be reached is
reported once and left out.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import access_denied
from spirit_py.pace import Work
from spirit_py.throttle.lag.replica import LOOK_SECONDS, NO_REPLICA
from spirit_py.throttle.lag.unapplied import part_bytes, pressure, why_behind
from spirit_py.throttle.throttler import WRITES
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.contracts import Clock
    from spirit_py.throttle.lag.replica import ReplicaState, ReplicaWatch
    from spirit_py.throttle.lag.replicas import Replicas
    from spirit_py.throttle.settings import LiveSettings

GRACE: Final = 2.0
"""Seconds for which a replica may not answer, or not replicate, before that counts."""
#: A replica is near its limit from this part of it on, and slow for so long after that.
_NEAR: Final = 0.8
_SLOW_SECONDS: Final = 10.0
_INSTEAD: Final = (
    "spirit-py ctl set max-lag=off goes on without it, --replica for each of the others leaves it"
    " out"
)


class LagThrottler:
    """Holds back what is replicated while a replica is behind.

    Args:
        strict: a replica that cannot be looked at holds the work back.
        warn: reports what is not watched, once.
    """

    name: Final = "replica lag"
    #: The replicas delete the old table's file as well, and apply nothing else meanwhile.
    holds: Final = WRITES | {Work.DROP}
    every: Final = LOOK_SECONDS

    def __init__(
        self,
        replicas: Replicas,
        settings: LiveSettings,
        *,
        strict: bool,
        warn: Callable[[str], None],
        clock: Clock = time.monotonic,
    ) -> None:
        self._replicas = replicas
        self._settings = settings
        self._strict = strict
        self._warn = warn
        self._clock = clock
        self._told: set[str] = set()
        #: Until when a replica counts as slower than the copy.
        self._slow_until = float("-inf")
        #: Addresses of the replicas that were well at some time: trouble has a grace for these.
        self._known: set[str] = set()

    def look(self) -> str:
        """Return the replicas that are waited for, and why.

        Raises:
            ServerFault: the source did not answer.
        """
        limit = self._settings.current.max_lag
        if limit is None:
            return ""
        try:
            self._replicas.look()
        except ServerFault as fault:
            if self._strict or not access_denied(fault):
                raise
            self._tell("source", f"replica lag is not watched: {fault.message}")
            return ""
        self._tell_unwatched()
        if self.pressure() >= _NEAR:
            self._slow_until = self._clock() + _SLOW_SECONDS
        found = ((one, self._why(one, limit)) for one in self._replicas.watched())
        return "; ".join(f"replica {one.address}, which {why}" for one, why in found if why)

    def lag(self) -> float | None:
        """Return how far the last of the replicas is behind, seconds; None when none is known."""
        states = (one.state for one in self._replicas.watched())
        known = [state.behind.lag for state in states if state.behind is not None]
        return max(known, default=None)

    def part_bytes(self) -> float | None:
        """Return how much one transaction may write; None where every replica keeps up."""
        limit = self._settings.current.max_lag
        if limit is None or self._clock() >= self._slow_until:
            return None
        states = (one.state for one in self._replicas.watched())
        return min((part_bytes(s.behind, limit) for s in states if s.behind), default=None)

    def pressure(self) -> float:
        """Return how near the last of the replicas is to its limit: 1.0 is at it."""
        limit = self._settings.current.max_lag
        if limit is None:
            return 0.0
        states = (one.state for one in self._replicas.watched())
        return max((pressure(s.behind, limit) for s in states if s.behind), default=0.0)

    def _why(self, one: ReplicaWatch, limit: float) -> str:
        """Return why a replica is waited for, or an empty text; report one that is left out."""
        state = one.state
        trouble, lasted = self._trouble(state)
        if trouble and (lasted >= GRACE or one.address not in self._known):
            if self._strict or not self._lost(state):
                return f"cannot be relied on: {trouble} ({_INSTEAD})"
            self._tell(
                one.address,
                f"the lag of replica {one.address} is not watched: {trouble}",
            )
            return ""
        if state.behind is None:
            return "was not reached yet" if self._strict else ""
        self._told.discard(one.address)
        self._known.add(one.address)
        why = why_behind(state.behind, limit)
        return f"{why} (--max-lag {human_seconds(limit)})" if why else ""

    def _trouble(self, state: ReplicaState) -> tuple[str, float]:
        """Return what is wrong with a replica, and for how long."""
        now = self._clock()
        if state.trouble:
            return state.trouble, now - state.since
        silent = now - (state.looked_at if state.behind is not None else state.since)
        return ("it does not answer", silent) if silent >= GRACE else ("", 0.0)

    def _lost(self, state: ReplicaState) -> bool:
        """Return whether the lag of a replica cannot be known."""
        silent = self._clock() - state.looked_at >= GRACE
        return state.lost or silent or state.behind is None or state.trouble == NO_REPLICA

    def _tell_unwatched(self) -> None:
        """Report replicas without an address, and that there is none."""
        replicas = self._replicas
        if replicas.unlisted:
            self._tell("list", f"replicas cannot be listed: {replicas.unlisted}; {NAME}")
        known = {one.uuid for one in replicas.watched()}
        for silent in replicas.silent:
            if silent.uuid not in known:
                self._tell(
                    silent.uuid,
                    f"the lag of replica server_id {silent.server_id} is not watched: {NO_ADDRESS}:"
                    f" {NAME}",
                )
        for one in replicas.unproved:
            if one.uuid not in known:
                self._tell(
                    one.address,
                    f"the lag of replica {one.address} is not watched: {UNPROVED}: {NAME_OR_PROVE}",
                )
        reported = replicas.watched() or replicas.silent or replicas.unproved
        if self._strict and not reported:
            self._tell("none", f"--max-lag: the server knows no replica; {NAME}")

    def _tell(self, about: str, text: str) -> None:
        if about not in self._told:
            self._told.add(about)
            self._warn(text)

    def close(self) -> None:
        """End the threads and sessions."""
        self._replicas.close()


NAME: Final = "name it with --replica HOST:PORT"
NO_ADDRESS: Final = "it reports no address, and where it is connected from cannot be seen"
UNPROVED: Final = "no verified TLS proves that it is one of yours, so it gets no password"
NAME_OR_PROVE: Final = (
    "name it with --replica HOST:PORT, or pass --ssl-ca for certificates that have the host's name"
)
