"""All throttlers together: the pace that the work asks for. Each looks in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from spirit_py.classes import KW_ONLY, dataclass
from spirit_py.errors import SpiritError
from spirit_py.events.copy import ThrottleBegun, ThrottleEnded
from spirit_py.pace import PART_BYTES, Work
from spirit_py.threads import Background, every
from spirit_py.throttle.throttler import WINDOWS
from spirit_py.units import human_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spirit_py.contracts import Clock
    from spirit_py.events.event import Tell
    from spirit_py.knee import Knee
    from spirit_py.pace import ChunkDone
    from spirit_py.throttle.adaptive import Adaptive
    from spirit_py.throttle.settings import LiveSettings
    from spirit_py.throttle.throttler import Throttler


GRACE: Final = 5.0
"""Seconds for which a throttler may not answer before that is a reason to wait."""


@dataclass(eq=False)
class Watched:
    """Looks at a throttler again and again, and keeps what it found.

    It holds for ``grace`` seconds when a look fails. With ``first`` nothing begins before a look.
    """

    throttler: Throttler
    _: KW_ONLY
    grace: float = GRACE
    first: bool = False
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._looked = threading.Event()
        self._found = f"the first look at the {self.throttler.name}" if self.first else ""
        self._trouble = ""
        self._answered_at = self.clock()
        self._thread = Background(f"throttle-{self.throttler.name.replace(' ', '-')}", self._run)

    def start(self) -> None:
        """Begin to look, unless the throttler is asked whenever work is."""
        if self.throttler.every:
            self._answered_at = self.clock()
            self._thread.start()

    def await_first(self, seconds: float) -> None:
        """Wait for the first look, where nothing begins before it, for so many seconds at most."""
        if self.first and self.throttler.every:
            self._looked.wait(seconds)

    @property
    def reason(self) -> str:
        """What the work has to wait for now; empty when it need not. No I/O."""
        if not self.throttler.every:
            return self.throttler.look()
        silent = self.clock() - self._answered_at
        if silent <= self.grace + self.throttler.every:
            return self._found
        why = f": {self._trouble}" if self._trouble else ""
        return f"an answer to the check of the {self.throttler.name}, for {silent:.0f} s{why}"

    def _run(self, stopping: threading.Event) -> None:
        try:
            while not stopping.is_set():
                self._look()
                stopping.wait(self.throttler.every)
        finally:
            self.throttler.close()

    def _look(self) -> None:
        try:
            self._found = self.throttler.look()
        except Exception as error:
            self._trouble = error.message if isinstance(error, SpiritError) else str(error)
            _log.debug("the throttler %s failed: %s", self.throttler.name, self._trouble)
            if self.first and not self._looked.is_set():
                self._found = f"{self._found}, which failed: {self._trouble}"
        else:
            self._trouble = ""
            self._answered_at = self.clock()
        self._looked.set()

    def stop(self) -> None:
        """Ask the thread to end; return at once."""
        self._thread.stop()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended and the throttler is closed."""
        if self.throttler.every:
            self._thread.join(seconds)
        else:
            self.throttler.close()


_log = logging.getLogger(__name__)

_PAUSED: Final = "pause"
_LOOK_SECONDS: Final = 0.25
_ASKED_SECONDS: Final = 1.0
_TOLD_SECONDS: Final = 1.0
_SAME_WAIT_SECONDS: Final = 2.0
_JOIN_SECONDS: Final = 5.0
_FIRST_SECONDS: Final = 1.0
#: Where a replica is slower than the copy.
_SLOW_CHUNK_SECONDS: Final = 0.1
#: What the pace grows by: it asks all the time, and its transactions have the pace's size.
_PACED: Final = frozenset({Work.COPY, Work.CHECKSUM})


@dataclass
class _Wait:
    """The waiting for one throttler, ``since`` a time, or None; ``seconds`` are of all waits.

    ``began`` and ``ended``: a wait that goes on after a short break is the same wait.
    """

    since: float | None = None
    began: float = 0.0
    ended: float = float("-inf")
    told: bool = False
    seconds: float = 0.0


@dataclass(eq=False)
class Throttles:
    """The pace of a migration, as its settings and its throttlers allow.

    ``tell``, called from a thread, reports waits; ``slow_part`` returns the bytes of a transaction
    for a replica slower than the copy, or None. One class because it counts the waits that its own
    answers make.
    """

    settings: LiveSettings
    _: KW_ONLY
    adaptive: Adaptive | None = None
    slow_part: Callable[[], float | None] = lambda: None
    tell: Tell
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._watched: list[Watched] = []
        self._asked: dict[Work, float] = {}
        self._waits: dict[str, _Wait] = {}
        #: How often each number of working tasks was seen: a run may take weeks.
        self._shares: Counter[float] = Counter()
        self._counted_at = self.clock()
        self._allowed_at = float("-inf")
        self._closed = False
        self._thread = Background("throttle", every(_LOOK_SECONDS, self.count))

    def add(self, throttler: Throttler, *, grace: float = GRACE, first: bool = False) -> None:
        """Add a throttler, before :meth:`start`. The first that was added is shown first."""
        self._watched.append(Watched(throttler, grace=grace, first=first, clock=self.clock))

    def start(self) -> None:
        """Begin to look; return when it is known what holds the work back, or after a second."""
        self._counted_at = self.clock()
        for one in self._watched:
            one.start()
        self._thread.start()
        until = time.monotonic() + _FIRST_SECONDS
        for one in self._watched:
            one.await_first(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """End the threads; the throttlers' sessions are closed. Safe to call again."""
        if self._closed:
            return
        self._closed = True
        for one in self._watched:
            one.stop()
        self._thread.join(_JOIN_SECONDS)
        for one in self._watched:
            one.join(_JOIN_SECONDS)
        self.count()

    # -- the pace

    def reason(self, work: Work) -> str:
        """Return what new work of this kind has to wait for; empty when it may begin."""
        self._asked[work] = self.clock()
        reason = "; ".join(text for _, text in self._reasons({work}))
        if not reason and work in _PACED:
            self._allowed_at = self._asked[work]
        if not reason and self.adaptive is not None:
            self.adaptive.begun = True
        return reason

    def tasks(self, most: int) -> int:
        """Return how many tasks may work at a time."""
        if self.slow_part() is not None:
            return 1
        limit = self.most_tasks(most)
        if self.adaptive is None:
            return limit
        if self.settings.current.aggressive:
            self.adaptive.spare_no_one(self.clock())
        return min(limit, self.adaptive.tasks)

    def done(self, work: Work, done: ChunkDone, most: int) -> None:
        """Note a chunk of work for which there can be ``most`` tasks."""
        if self.adaptive is not None:
            self.adaptive.knee.rests = self.settings.current.nice > 0
            self.adaptive.knee.done(self.clock(), work, done, self.most_tasks(most))

    def govern(self, appliers: Knee) -> None:
        """Have the sessions that apply a feed's changes obey what the tasks obey."""
        if self.adaptive is not None:
            self.adaptive.govern(appliers)

    def most_tasks(self, most: int) -> int:
        """Return how many of ``most`` tasks the settings allow."""
        return max(1, min(most, self.settings.current.threads))

    def part_bytes(self) -> int:
        """Return how many bytes of binlog one transaction of the copy should write."""
        usual = PART_BYTES if self._moving is None else self._moving.part
        slow = self.slow_part()
        return usual if slow is None else min(usual, int(slow))

    def chunk_seconds(self) -> float:
        """Return how long a chunk should take."""
        usual = self.settings.current.target_chunk_time
        return usual if self.slow_part() is None else min(usual, _SLOW_CHUNK_SECONDS)

    def rest_after(self, seconds: float) -> float:
        """Return for how many seconds a task rests after so many seconds of work."""
        adapted = 0.0 if self._moving is None else self._moving.rest
        return seconds * (self.settings.current.nice + adapted)

    @property
    def _moving(self) -> Adaptive | None:
        return None if self.settings.current.aggressive else self.adaptive

    # -- what is shown

    def waiting_for(self) -> tuple[str, float | None]:
        """Return what the work that asked last has to wait for; empty when it need not.

        And for how many seconds the oldest of these reasons has held it; None before a count.
        """
        reasons = self._reasons(self._working())
        waits = (self._waits.get(name) for name, _ in reasons)
        began = [wait.began for wait in waits if wait is not None and wait.since is not None]
        waited = self.clock() - min(began) if began else None
        return "; ".join(text for _, text in reasons), waited

    def seconds(self) -> dict[str, float]:
        """Return for how many seconds work has waited for each throttler that held it back."""
        return {name: wait.seconds for name, wait in list(self._waits.items()) if wait.seconds}

    def shares(self) -> tuple[float, float] | None:
        """Return the least and the median number of working tasks; None if not adaptive."""
        found = sorted(self._shares.items())
        counts = list(accumulate(count for _, count in found))
        return (found[0][0], found[bisect(counts, counts[-1] // 2)][0]) if found else None

    def described(self) -> str:
        """Return how much the work takes now, and why."""
        if not self._working():
            return ""
        parts = []
        if (part := self.slow_part()) is not None:
            parts.append(f"one task, {human_bytes(part)} a transaction (a replica lags)")
        elif self.adaptive is not None:
            parts.append(self.adaptive.described())
        if nice := self.settings.current.nice:
            parts.append(f"{nice:g} s of rest after each second of work (nice)")
        return "; ".join(parts)

    def count(self) -> None:
        """Count the waits up to now, and report those that began or ended."""
        now = self.clock()
        if self._moving is not None and not self.held():
            tasks = self._moving.tasks if self.slow_part() is None else 1
            self._shares[round(tasks / (1.0 + self._moving.rest), 2)] += 1
        passed, self._counted_at = now - self._counted_at, now
        working = self._working()
        found = dict(self._reasons(working))
        # Work that does not ask while its server is away may wait again: its wait has not ended.
        held = found if working else dict(self._reasons(Work))
        for name in found.keys() - self._waits.keys():
            self._waits[name] = _Wait()
        for name, wait in self._waits.items():
            if name in found:
                self._go_on(wait, name, found[name], now, passed)
            elif wait.since is not None and name not in held:
                self._end(wait, name, now)

    def _go_on(self, wait: _Wait, name: str, reason: str, now: float, passed: float) -> None:
        if wait.since is None:
            # First: the display reads both, in another thread, as soon as the wait has begun.
            wait.began = now if now - wait.ended > _SAME_WAIT_SECONDS else wait.began
            wait.since = now
        else:
            wait.seconds += passed
        if not wait.told and now - wait.since >= _TOLD_SECONDS:
            wait.told = True
            self.tell(ThrottleBegun(throttler=name, reason=reason))

    def _end(self, wait: _Wait, name: str, now: float) -> None:
        began, told = wait.since or now, wait.told
        wait.since, wait.told, wait.ended = None, False, now
        if told:
            self.tell(ThrottleEnded(throttler=name, seconds=round(now - began, 1)))

    def stands(self) -> bool:
        """Return whether a pause, or the time of the day, holds everything for minutes or hours.

        Not while changes are applied, which goes on: they are a load, and are replicated.
        """
        if self.adaptive is not None and self.adaptive.applying:
            return False
        windows = (one for one in self._watched if one.throttler.name == WINDOWS)
        return bool(self.settings.current.paused) or any(one.reason for one in windows)

    def working(self) -> bool:
        """Return whether there is work that goes on or waits."""
        return bool(self._working())

    def held(self) -> bool:
        """Return whether no chunk of copy or checksum has been allowed for a while."""
        return self.clock() - self._allowed_at > _ASKED_SECONDS

    def _working(self) -> set[Work]:
        after = self.clock() - _ASKED_SECONDS
        return {work for work, asked_at in list(self._asked.items()) if asked_at >= after}

    def _reasons(self, work: Iterable[Work]) -> list[tuple[str, str]]:
        wanted = set(work)
        found = []
        paused = self.settings.current.paused
        if paused and wanted:
            found.append((_PAUSED, f"the end of the pause ({paused})"))
        held = (one for one in self._watched if wanted & one.throttler.holds)
        found += [(one.throttler.name, text) for one in held if (text := one.reason)]
        return found
