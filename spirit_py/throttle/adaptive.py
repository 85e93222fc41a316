"""How much the work may take of a server that others use (pure): the default pace.

docs/gentleness.md has the rules. How many tasks work is found by the :class:`Knee`; where one is
too much, its *share* is how much of the time it works. Slow commits alone make it not rest: that
lengthens the copy by more than it helps others (measured). Each feed has a Knee of its own for the
sessions that apply changes, which obeys the same signs.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import median
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass
from spirit_py.knee import Knee
from spirit_py.pace import FIRST_TASKS, PART_BYTES
from spirit_py.units import human_bytes

if TYPE_CHECKING:
    from collections.abc import Collection

FACTOR: Final = 2.0
"""Commits may take this many times as long as without the work."""
LEAST_SHARE: Final = 0.5
LEAST_PART: Final = 128 << 10
"""Bytes of binlog that one transaction may always write."""
FIRST_PART: Final = 256 << 10
MIDDLE_PART: Final = 512 << 10
BUSY_WRITES: Final = 5.0
"""Writing statements of others a second from which on they are spared."""
BUSY_READS: Final = 50.0
"""The same for queries: some of ours are not known, and count as theirs."""
_UNUSED_SECONDS: Final = 5.0
_MORE_SHARE: Final = 0.1
_MORE_PART: Final = 128 << 10
_SHRINK: Final = 0.7
#: Commits slower by less than these seconds are no sign.
_SLACK: Final = 0.0003
#: Others' sessions beyond twice those before the work.
_MORE_RUNNING: Final = 8.0
_NEAR: Final = 0.8
#: From this part of their limit on, slower commits let nothing grow.
_NEARLY: Final = 0.9
#: A trial of more tasks may make commits of others slower by this factor.
_TRIAL_FACTOR: Final = 1.25
#: Commits before a trial that it is compared with.
_KNOWN_SAMPLES: Final = 32
#: So many may be slower than a limit of the p80.
_SLOWER_PART: Final = 0.2
#: By so many standard errors they must be more: to give tasks back, which takes long to make up
#: for, and to write smaller transactions.
_ERRORS: Final = 1.5
_ERRORS_OF_ONE: Final = 0.5
#: A commit that takes so long has met a stop of all commits.
_STOP_SECONDS: Final = 0.05
_STEP_SECONDS: Final = 0.5
#: Tasks that end no chunk for so long do not work, but for very long chunks.
_IDLE_SECONDS: Final = 10.0
_WINDOW_SECONDS: Final = 1.5
_FEWEST_SAMPLES: Final = 8
#: Of commits of seconds a measure has so few; they are better than no limit.
_FEWEST_MEASURED: Final = 3
_LASTING_SAMPLES: Final = 60
_MEASURE_SAMPLES: Final = 16
_LONGEST_MEASURE: Final = 2.0
#: The same where commits take so long that there are too few of them.
_SLOW_MEASURE: Final = 10.0
_SETTLE_SECONDS: Final = 0.6
#: A chunk may be meant to take a minute; one whose task was lost is not waited for.
_LONGEST_SETTLE: Final = 90.0
LONGEST_MEASURED: Final = _LONGEST_SETTLE + _SLOW_MEASURE
"""No measure takes longer, but one whose probes fail: that ends it only when one is made."""
_MEASURE_EVERY: Final = 600.0
_NOT_OURS_SECONDS: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Others:
    """What other sessions do, a second; ``running`` of them execute a statement now."""

    writes: float = 0.0
    reads: float = 0.0
    running: float = 0.0

    @property
    def busy(self) -> bool:
        """Whether there is somebody to be spared."""
        return self.writes >= BUSY_WRITES or self.reads >= BUSY_READS


class Adaptive:
    """Decides tasks and transaction size. One thread probes and steps it, any may read."""

    def __init__(self) -> None:
        self.knee = Knee()
        #: Of the sessions that apply changes, whose clocks are their own.
        self._appliers: list[Knee] = []
        self.begun = False
        #: Other migrations' work may go on when a measure begins.
        self.settles = False
        #: Nothing of copy and checksum may begin: what commits take then allows no growth.
        self.held = False
        #: No work goes on, or waits.
        self.idle = False
        #: Whether chunks run that were handed out before: no measure is one without the work then.
        self.in_flight = False
        self.share = 1.0
        self.part_bytes = FIRST_PART
        self.slowed_by = ""
        self._busy: bool | None = None
        self._last_busy = 0.0
        self._samples: deque[tuple[float, float]] = deque()
        #: Since the work shrank or was measured: what may be chance in few shows in many.
        self._lasting: deque[float] = deque(maxlen=_LASTING_SAMPLES)
        #: Sessions that execute, at the last two looks.
        self._running: deque[float] = deque([0.0], maxlen=2)
        #: When a measure has looked, and how many it saw.
        self._looks: list[tuple[float, float]] = []
        self._pressure: tuple[str, float] = ("", 0.0)
        #: The p80 of a small commit without the work; None before it was measured.
        self.commit_seconds_before: float | None = None
        self._base_running = 0.0
        self._measured_at = 0.0
        #: When a measure began; None while there is none.
        self.measuring_since: float | None = None
        self._ran_at = 0.0
        self._stepped_at = 0.0
        self._least_since: float | None = None
        #: How long small commits took before the trial of more tasks, and since it began.
        self._untried: deque[float] = deque(maxlen=_KNOWN_SAMPLES)
        self._tried: list[float] = []

    @property
    def spares(self) -> bool:
        """Whether there are others to be spared, as far as that is known."""
        return self._busy is not False

    @property
    def tasks(self) -> int:
        """How many tasks may work at a time."""
        return self.knee.tasks

    def govern(self, appliers: Knee) -> None:
        """Have the sessions of a feed obey what the tasks obey; those that copy shrink first."""
        self._appliers.append(appliers)
        appliers.begin(appliers.now, appliers.tasks, sparing=self.spares)

    def at_work(self, *, runs: bool) -> int:
        """Return how many sessions execute a statement for it, at most.

        ``runs``: whether chunks or counts of its own do; a count may for minutes, and asks nothing.
        """
        idle = self.measuring or (self.held and not runs)
        copying = 0 if idle else self.tasks
        return copying + self.applying

    @property
    def applying(self) -> int:
        """How many sessions apply changes that wait, at the same time."""
        return sum(each.working for each in self._appliers)

    @property
    def rest(self) -> float:
        """Seconds that a task rests for each second of work."""
        return 1.0 / self.share - 1.0 if self.spares else 0.0

    @property
    def part(self) -> int:
        """Bytes of binlog that a transaction should write."""
        return self.part_bytes if self.spares else PART_BYTES

    @property
    def measuring(self) -> bool:
        """Whether nothing may begin, because commits are measured without work."""
        return self.measuring_since is not None

    @property
    def commit_seconds(self) -> float | None:
        """How long a small commit takes now, at the p80; None before there are enough."""
        return _p80([took for _, took in self._samples])

    def described(self) -> str:
        """Return how much the work takes now, and why it is not more."""
        share, size = self.tasks / (1.0 + self.rest), human_bytes(self.part)
        tasks = "1 task" if share == 1 else f"{share:.2g} tasks"
        return f"{tasks}, {size} a transaction ({self.slowed_by or self.knee.reason})"

    def probed(self, now: float, seconds: float) -> None:
        """Note how long a small commit took."""
        self._samples.append((now, seconds))
        keep = now - (_LONGEST_MEASURE if self.measuring else _WINDOW_SECONDS)
        # Slow commits are few in the window: it is as long as those that can be judged.
        while len(self._samples) > _FEWEST_SAMPLES and self._samples[0][0] < keep:
            self._samples.popleft()
        self._lasting.append(seconds)
        if not self._on_trial:
            self._tried.clear()
            self._untried.append(seconds)
        else:
            self._tried.append(seconds)
        stopped = seconds > max(_STOP_SECONDS, 5 * (self.commit_seconds_before or 0.0))
        if stopped and self.spares:
            self._give_back(now)

    def saw(self, now: float, others: Others) -> None:
        """Note what the other sessions do."""
        self._running.append(others.running)
        if others.busy:
            self._last_busy = now
        was = self._busy
        self._busy = others.busy or (bool(was) and now - self._last_busy < _UNUSED_SECONDS)
        if self._busy and not was:
            self.share, self.part_bytes = 1.0, FIRST_PART
            self._begin_anew(now, 1, sparing=True)
            if self.commit_seconds_before is None:
                self.measuring_since = now
        elif not self._busy:
            self._busy = was
            self.spare_no_one(now)
        if self.measuring:
            self._looks.append((now, others.running))

    def spare_no_one(self, now: float) -> None:
        """Work as if no one else used the server, until others are seen."""
        self.measuring_since, self.slowed_by = None, ""
        self._looks.clear()
        if self.spares:
            self._busy = False
            self._begin_anew(now, max(FIRST_TASKS, self.tasks), sparing=False)

    def _begin_anew(self, now: float, tasks: int, *, sparing: bool) -> None:
        self.knee.begin(now, tasks, sparing=sparing)
        for each in self._appliers:
            each.begin(each.now, FIRST_TASKS if sparing else each.tasks, sparing=sparing)

    def _give_back(self, now: float) -> None:
        """Take sessions from a trial; else from the copy; where it has one task, from appliers."""
        before = self._sessions
        copying = self.tasks > 1 and not self.held
        if copying and not self._applying:
            self.knee.give_back(now)
        else:
            for each in self._appliers:
                if each.trying or not copying:
                    each.give_back(each.now)
        if self._sessions < before:
            self._lasting.clear()

    @property
    def _sessions(self) -> int:
        return self.tasks + sum(each.tasks for each in self._appliers)

    def press(self, name: str, pressure: float) -> None:
        """Note the throttler that is nearest to its limit: 1.0 is at it."""
        self._pressure = (name, pressure)

    def step(self, now: float) -> None:
        """Grow or shrink, twice a second."""
        if self.measuring:
            self._end_measure(now)
        elif self._busy and now - self._stepped_at >= _STEP_SECONDS:
            self._stepped_at = now
            self._move(now, *self._why_slower())
            least = self.slowed_by and self.tasks == 1 and self.part_bytes == LEAST_PART
            self._least_since = (self._least_since or now) if least else None
            stuck = self._least_since is not None and now - self._least_since > _NOT_OURS_SECONDS
            if not self.idle and (stuck or now - self._measured_at > _MEASURE_EVERY):
                self.measuring_since = now

    def _move(self, now: float, why: str, urgent: bool) -> None:
        self.slowed_by = why
        part = self.part_bytes
        calm = not why and not self._at_limit
        large = self.part_bytes >= MIDDLE_PART and self.share == 1.0
        self.knee.calm = calm and large and not self._applying
        for each in self._appliers:
            each.calm = calm and (self.held or self.share == 1.0) and not self._copying
        if why:
            least = self.part_bytes == LEAST_PART and self.tasks == 1
            self.part_bytes = max(LEAST_PART, self.part_bytes // 2)
            if self.part_bytes < part:
                self._lasting.clear()
            self._give_back(now)
            if urgent and least:
                self.share = max(LEAST_SHARE, self.share * _SHRINK)
        elif self.held:
            return
        elif self.share < 1.0:
            self.share = min(1.0, self.share + _MORE_SHARE)
        elif not self._on_trial and not self._at_limit:
            self.part_bytes = min(PART_BYTES, self.part_bytes + _MORE_PART)
        elif self._on_trial and self._slower_by_trial():
            self._give_back(now)
        if self.part_bytes != part:
            self.knee.forget()

    @property
    def _at_limit(self) -> bool:
        """Whether commits take nearly too long, or too few are known: nothing grows."""
        base, now = self.commit_seconds_before, self.commit_seconds
        return base is not None and (now is None or now > _NEARLY * (FACTOR * base + _SLACK))

    @property
    def _copying(self) -> bool:
        """Whether tasks are on trial, and work: the end of a copy leaves a trial undecided."""
        return self.knee.trying and self._stepped_at - self.knee.now < _IDLE_SECONDS

    @property
    def _applying(self) -> bool:
        """Whether sessions that apply are on trial, and work."""
        return any(each.trying and each.working for each in self._appliers)

    @property
    def _on_trial(self) -> bool:
        return self._copying or self._applying

    def _slower_by_trial(self) -> bool:
        """Return whether commits are slower than before it."""
        before = _p80(self._untried)
        return before is not None and _slower(self._tried, _TRIAL_FACTOR * before + _SLACK)

    def _why_slower(self) -> tuple[str, bool]:
        """Return why the work must shrink, or nothing; and whether the first task rests, too."""
        name, pressure = self._pressure
        if pressure >= _NEAR:
            return f"{name} is at {100 * pressure:.0f} % of its limit", True
        base, samples = self.commit_seconds_before, [took for _, took in self._samples]
        running = min(self._running)
        if base is not None and running > 2 * self._base_running + _MORE_RUNNING:
            return f"{running:.0f} sessions run instead of {self._base_running:.0f}", True
        errors = _ERRORS if self.tasks > 1 else _ERRORS_OF_ONE
        limit = FACTOR * (base or 0.0) + _SLACK
        lasting = len(self._lasting) == _LASTING_SAMPLES and _slower(self._lasting, limit)
        if base is not None and (lasting or _slower(samples, limit, errors)):
            now = _p80(samples) or 0.0
            return f"a commit takes {1000 * now:.1f} ms instead of {1000 * base:.1f}", False
        return "", False

    def _end_measure(self, now: float) -> None:
        began = self.measuring_since or now
        if self.in_flight and now - began < _LONGEST_SETTLE:
            self._ran_at = now
        settled = (
            max(began + _SETTLE_SECONDS, self._ran_at) if self.begun or self.settles else began
        )
        while self._samples and self._samples[0][0] < settled:
            self._samples.popleft()
        count, took = len(self._samples), now - settled
        longest = _LONGEST_MEASURE if count >= _FEWEST_SAMPLES else _SLOW_MEASURE
        if count < _MEASURE_SAMPLES and took < longest and self._busy:
            return
        self.measuring_since, self._measured_at = None, now
        self._least_since = None
        self._lasting.clear()
        found = _p80([seconds for _, seconds in self._samples], _FEWEST_MEASURED)
        if found is not None:
            looks = [running for at, running in self._looks if at >= settled]
            self.commit_seconds_before = found
            self._base_running = median(looks or self._running)
        self._looks.clear()
        self._samples.clear()


def _p80(seconds: Collection[float], fewest: int = _FEWEST_SAMPLES) -> float | None:
    if len(seconds) < fewest:
        return None
    return sorted(seconds)[int(len(seconds) * 0.8)]


def _slower(seconds: Collection[float], limit: float, errors: float = _ERRORS) -> bool:
    """Return whether their p80 is above a limit, and that hardly by chance."""
    count = len(seconds)
    if count < _FEWEST_SAMPLES:
        return False
    chance = math.sqrt(_SLOWER_PART * (1 - _SLOWER_PART) / count)
    return sum(took > limit for took in seconds) / count > _SLOWER_PART + errors * chance
