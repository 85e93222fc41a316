"""What is known of the sessions in front of one lock, over all looks and requests of a run.

A session is seen again by the key of its lock. So it is known for how long it has been in front,
whether the lock was requested meanwhile or not, and the operator's choice whom to kill, and after
how long, holds for both.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spirit_py.errors import ServerFault
from spirit_py.locks.blockers import OLD_SECONDS, KillPolicy, kill_blocker, reason_to_spare
from spirit_py.locks.look import (
    find_blockers,
    find_in_front,
    find_possible,
    why_locks_are_unseen,
)
from spirit_py.mysql.faults import access_denied

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.contracts import Clock, SqlSession
    from spirit_py.locks.blockers import Blocker
    from spirit_py.locks.look import LockRequest

_LOG = logging.getLogger(__name__)


@dataclass(eq=False)
class Front:
    """The sessions in front of one lock. Used by one thread at a time.

    Args:
        request: what is going to be locked.

    Attributes:
        now: the blockers as of the last look.
        last: those of the last look that found some.
        killed: the sessions that were killed, with what they were doing.
        spared: the blockers that were not killed when it was time, and why.
        unseen: why metadata locks cannot be seen; empty while they can.
    """

    request: LockRequest
    kills: KillPolicy = field(default_factory=KillPolicy)
    clock: Clock = time.monotonic
    now: list[Blocker] = field(default_factory=list)
    last: list[Blocker] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    spared: list[str] = field(default_factory=list)
    unseen: str = ""
    _asked: bool = False
    _first_seen: dict[tuple[int, int], float] = field(default_factory=dict)
    _killed_keys: set[tuple[int, int]] = field(default_factory=set)

    def look(self, session: SqlSession, waiter: int | None = None) -> list[Blocker]:
        """Note who is in front now.

        Args:
            waiter: the id of the session whose request waits; None before there is one.

        Raises:
            ServerFault: the session is lost.
        """
        self.now = self._find(session, waiter)
        seen = self.clock()
        self._first_seen = {b.key: self._first_seen.get(b.key, seen) for b in self.now}
        if self.now:
            self.last = self.now
        return self.now

    def _find(self, session: SqlSession, waiter: int | None) -> list[Blocker]:
        if not self._asked:
            self.unseen = why_locks_are_unseen(session)
            self._asked = True
        try:
            if self.unseen:
                found = find_possible(session, self.request)
                return [each for each in found if each.session != waiter]
            if waiter is None:
                return find_in_front(session, self.request)
            return find_blockers(session, waiter)
        except ServerFault as fault:
            if self.unseen or not access_denied(fault):
                raise
            self.unseen = f"this account may not read them ({fault.text})"
            return self._find(session, waiter)

    def seconds_of(self, blocker: Blocker) -> float:
        """Return for how long a blocker has been in front; a lower bound."""
        return max(blocker.age, self._seen_for(blocker))

    def older_than(self, seconds: float) -> list[Blocker]:
        """Return the blockers that have been in front for as long, as of the last look.

        Sessions of this program, whose batches are short, and those that may not use the table at
        all count from a second on at the earliest.
        """

        def needed(blocker: Blocker) -> float:
            known = blocker.certain and not blocker.own
            return seconds if known else max(seconds, OLD_SECONDS)

        return [each for each in self.now if self.seconds_of(each) >= needed(each)]

    def _seen_for(self, blocker: Blocker) -> float:
        now = self.clock()
        return now - self._first_seen.get(blocker.key, now)

    def kill(self, session: SqlSession, permitted: Callable[[], bool] = lambda: True) -> None:
        """Kill those of the last look that may be killed by now.

        Args:
            permitted: whether the lock is still waited for; asked right before each kill.
        """
        self.spared = []
        if self.kills.mode == "never":
            return
        for blocker in self.now:
            if blocker.key in self._killed_keys:
                continue
            seen_for = self._seen_for(blocker)
            reason = reason_to_spare(blocker, self.kills, in_front_for=seen_for)
            if not reason:
                if not permitted():
                    return
                reason = kill_blocker(session, blocker)
            if not reason:
                self._killed_keys.add(blocker.key)
                self.killed.append(str(blocker))
                _LOG.warning("killed for the table lock: %s", blocker)
            elif seen_for >= self.kills.after:
                self.spared.append(f"{blocker}: not killed, {reason}")

    def described(self) -> str:
        """Return who was last seen in front, and why they live; empty when nobody was."""
        return "; ".join(self.spared or map(str, self.last))


def named(blockers: list[Blocker]) -> str:
    """Return a text that names the first of some blockers, and how many more there are."""
    more = f" and {len(blockers) - 1} more" if len(blockers) > 1 else ""
    return f"{blockers[0]}{more}"
