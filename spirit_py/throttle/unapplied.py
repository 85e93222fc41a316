"""What one replica has not applied yet, in seconds and in bytes of the source's binlog (pure).

*Marks* are places of the source at times of the caller's monotonic clock: a replica is behind by
the age of the oldest mark that it has not reached. docs/replicas.md says why bytes count too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from spirit_py.units import human_bytes, human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_BYTES: Final = 1 << 20
"""Bytes by which the copy may be ahead of a replica whose speed is not known."""
LEAST_BYTES: Final = 128 << 10
SHARE: Final = 0.4
"""Part of the limit in which a replica should apply all that is sent."""
PART_SHARE: Final = 0.1
"""The same for one transaction: a replica shows nothing of it before it has applied it."""
#: The lower of the speeds of this while and of the last moments.
_SPEED_SECONDS: Final = 3.0
_MOMENT_SECONDS: Final = 1.0
_FEWEST_SECONDS: Final = 0.3
_MOST_MARKS: Final = 4096


class Mark(NamedTuple):
    """What the source had committed at monotonic seconds ``at``, ``written`` since the first mark.

    ``gtids`` may be empty, and ``beat``: the newest heartbeat's time as the server's text.
    """

    at: float
    written: int = 0
    gtids: str = ""
    file: str = ""
    offset: int = 0
    beat: str = ""

    @property
    def place(self) -> tuple[str, str, int, str]:
        """Where the source was; two marks of one place differ in their time alone."""
        return self.gtids, self.file, self.offset, self.beat


class Behind(NamedTuple):
    """How far a replica is behind: seconds, bytes of binlog, bytes a second (None: not known)."""

    lag: float = 0.0
    unapplied: int = 0
    speed: float | None = None


class Unapplied:
    """The marks that one replica has not reached yet, and how fast it reaches them."""

    def __init__(self) -> None:
        self._waiting: list[Mark] = []
        self._newest: Mark | None = None
        self._applied = 0
        #: (time, bytes applied, whether that was all).
        self._looks: deque[tuple[float, int, bool]] = deque()

    def add(self, mark: Mark) -> None:
        """Add a mark, unless the source is still where it was at the last one."""
        if self._newest is not None and mark.place == self._newest.place:
            return
        if self._newest is None:
            self._applied = mark.written
        self._newest = mark
        self._waiting.append(mark)
        if len(self._waiting) > _MOST_MARKS:
            # The oldest has the lag.
            del self._waiting[1::2]

    def look(self, now: float, reached: Callable[[Mark], bool], *, delay: float = 0.0) -> Behind:
        """Compare with the replica, which ``reached`` asks for the mark and all before it.

        Marks younger than ``delay`` seconds (SOURCE_DELAY) are not due.
        """
        count = bisect_left(self._waiting, 1, key=lambda mark: 0 if reached(mark) else 1)
        if count:
            self._applied = self._waiting[count - 1].written
            del self._waiting[:count]
        due = [mark for mark in self._waiting if mark.at + delay <= now]
        self._note(now, idle=not due)
        if not due:
            return Behind(speed=self._speed())
        return Behind(
            lag=now - delay - due[0].at,
            unapplied=max(0, due[-1].written - self._applied),
            speed=self._speed(),
        )

    def _note(self, now: float, *, idle: bool) -> None:
        self._looks.append((now, self._applied, idle))
        while len(self._looks) > 2 and self._looks[1][0] <= now - _SPEED_SECONDS:
            self._looks.popleft()

    def _speed(self) -> float | None:
        seconds, applied = self._work(float("-inf"))
        if not seconds:
            return None
        lately, little = self._work(self._looks[-1][0] - _MOMENT_SECONDS)
        speed = applied / seconds
        return min(speed, little / lately) if lately >= _FEWEST_SECONDS else speed

    def _work(self, since: float) -> tuple[float, float]:
        seconds = applied = 0.0
        for (began, before, idle), (ended, after, _) in pairwise(self._looks):
            if began >= since and (after > before or not idle):
                seconds += ended - began
                applied += after - before
        return seconds, applied


def room(behind: Behind, limit: float) -> float:
    """Return the bytes by which the copy may be ahead of a replica; ``limit`` in seconds."""
    return FIRST_BYTES if behind.speed is None else max(LEAST_BYTES, behind.speed * limit * SHARE)


def part_bytes(behind: Behind, limit: float) -> float:
    """Return the bytes that one transaction may write, for a replica slower than the copy."""
    return room(behind, limit) * PART_SHARE / SHARE


def pressure(behind: Behind, limit: float) -> float:
    """Return how near a replica is to its limit, 1.0; unapplied bytes count only with lag."""
    ahead = behind.unapplied / room(behind, limit)
    return max(behind.lag, min(ahead * limit, behind.lag / SHARE)) / limit


def why_behind(behind: Behind, limit: float) -> str:
    """Return why the copy has to wait for a replica, as the rest of a sentence; empty if not."""
    if behind.lag > limit:
        return f"is {human_seconds(behind.lag)} behind"
    if behind.unapplied > room(behind, limit):
        needs = ""
        if behind.speed:
            needs = f", for which it needs {human_seconds(behind.unapplied / behind.speed)}"
        return f"has {human_bytes(behind.unapplied)} to apply{needs}"
    return ""
