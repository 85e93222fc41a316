"""Policies of lock requests for tests, and a clock that can be put forward."""

from __future__ import annotations

import time
from typing import Any

from spirit_py.cutover.plan import CutoverLimits
from spirit_py.events.event import untold
from spirit_py.locks.blockers import KillPolicy, LockPolicy
from spirit_py.locks.look import LockRequest
from spirit_py.locks.turns import Front, LockTurns
from spirit_py.table.names import lock_name
from spirit_py.threads import StopSwitch
from tests.kits.waiting import until

#: With this age as the limit nobody counts as old: the lock is requested whoever is in front.
BLIND = float("inf")


def policy(
    *, kill: Any = "never", kill_after: float = 30.0, longest_pause: float = 0.01, **more: Any
) -> LockPolicy:
    """Return a policy with short pauses."""
    return LockPolicy(
        kills=KillPolicy(mode=kill, after=kill_after), longest_pause=longest_pause, **more
    )


def blind(*, lock_hold: float = 60.0, look: float = 60.0, **more: Any) -> CutoverLimits:
    """Return limits of a cutover that requests its lock at once, whoever is in front.

    With ``timeout=0`` it makes one try.
    """
    return CutoverLimits(lock=policy(old=BLIND, **more), lock_hold=lock_hold, look=look)


def looking(*, lock_hold: float = 60.0, **more: Any) -> CutoverLimits:
    """Return limits of a cutover that looks before it requests its lock."""
    return CutoverLimits(lock=policy(**more), lock_hold=lock_hold)


def await_lock_freed(db: Any, table: str = "t") -> None:
    """Wait until the lock of a migration is free; the server frees it after its session's end."""
    name = lock_name("migration", db.name, table)
    until(lambda: db.query("SELECT IS_FREE_LOCK(%s)", (name,)) == [(1,)], f"the lock {name}")


class Clock:
    """Monotonic seconds that go on by themselves, and can be put forward."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def __call__(self) -> float:
        """Return the seconds."""
        return time.monotonic() + self._ahead

    def put_forward(self, seconds: float) -> None:
        """Let so many seconds have passed."""
        self._ahead += seconds


def turns_on(desk, stop=None, tell=untold, **settings) -> LockTurns:
    """Return what decides when the ALTER of table ``t`` is sent; by default whoever is in front."""
    given: dict[str, Any] = {"old": BLIND, "wait": 1.0} | settings
    chosen = policy(**given)
    front = Front(LockRequest(tables=[(desk.schema, "t")], defines=True), chosen.kills)
    return LockTurns(
        [(desk.options, front)],
        chosen,
        stop or StopSwitch(),
        what="the metadata lock",
        show=lambda _: None,
        tell=tell,
    )
