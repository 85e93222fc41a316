"""How many tasks pay on this server: the knee of its throughput, found while they work.

Tasks copy or compare; the sessions that apply changes have a :class:`Knee` of their own.

A *trial* is a move to more or fewer tasks. The larger number is worth its price when each of its
further tasks brings at least a stated share of what one brought before; otherwise the smaller one
stays. docs/gentleness.md has the rules.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass
from spirit_py.units import counted

if TYPE_CHECKING:
    from spirit_py.pace import ChunkDone, Work

_UP: Final = 1
_DOWN: Final = -1
PRICE: Final = 0.1
"""The share that a further task must bring where no one else uses the server."""
SPARING_PRICE: Final = 0.3
"""The same where others use it: what a task takes is taken from them."""
FIRST_WAIT: Final = {_UP: 4.0, _DOWN: 12.0}
"""Seconds until the first trial of more and of fewer tasks; they double with each that fails."""
LONGEST_WAIT: Final = 30.0
SPARING_WAIT: Final = 120.0
_FEWEST_CHUNKS: Final = 3
#: Chunks of each task until a trial is decided that is not clear.
_WAVES: Final = 4
_CLEAR_ERRORS: Final = 2.5
_LEAST_SPREAD: Final = 0.04
#: A change must be better by so much, or nothing would ever stay.
_MARGIN: Final = 0.02
_KEPT_SECONDS: Final = 8.0
#: Seconds of a trial at most, and twelve chunks.
_LONGEST_TRIAL: Final = 30.0
#: So far from what it was, a throughput comes from another load of the server.
_CHANGED: Final = 0.25
_SHRINK: Final = 0.7


_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TaskTrial:
    """A trial that was decided; ``gain`` is the throughput with ``tasks`` by that ``before``."""

    at: float
    before: int
    tasks: int
    gain: float
    stays: bool


class _Window:
    """The last chunks with one number of tasks, and their sums."""

    def __init__(self) -> None:
        self._chunks: deque[tuple[float, float, float]] = deque()
        self._rows = self._seconds = self._speeds = self._squares = 0.0

    def __len__(self) -> int:
        return len(self._chunks)

    def add(self, now: float, rows: int, seconds: float) -> None:
        self._count(rows, max(seconds, 1e-6), 1)
        self._chunks.append((now, rows, max(seconds, 1e-6)))

    def forget(self, before: float, fewest: int) -> None:
        """Drop what ended before a time, but for so many chunks."""
        while len(self._chunks) > fewest and self._chunks[0][0] < before:
            self._count(*self._chunks.popleft()[1:], -1)

    def _count(self, rows: float, seconds: float, sign: int) -> None:
        speed = rows / seconds
        self._rows += sign * rows
        self._seconds += sign * seconds
        self._speeds += sign * speed
        self._squares += sign * speed * speed

    def rate(self, tasks: int) -> float:
        """Return the rows a second of all tasks; their pauses between two chunks do not count."""
        return tasks * self._rows / self._seconds

    def error(self) -> float:
        """Return the standard error of the rate, as a share of it."""
        count = len(self._chunks)
        mean = self._speeds / count
        spread = math.sqrt(max(0.0, self._squares / count - mean * mean)) / mean
        return max(_LEAST_SPREAD, spread) / math.sqrt(count)


class Knee:
    """Decides how many tasks work. Thread-safe, no clock of its own."""

    def __init__(self, tasks: int = 1, *, least: int = 1, of: str = "task") -> None:
        #: There are never fewer, unless there cannot be so many.
        self._least = least
        self._of = of
        #: When the last chunk ended, and how many of them work now, where that is told.
        self.now = 0.0
        self.working = 0
        self._lock = threading.Lock()
        #: 0 until the first chunk.
        self._most = 0
        self._work: Work | None = None
        self._sparing = True
        #: Whether more tasks may be tried now.
        self.calm = False
        #: Whether tasks rest as the operator asked; more tasks would only make up for that.
        self.rests = False
        self.trials: deque[TaskTrial] = deque(maxlen=1000)
        self._start(0.0, tasks)

    @property
    def trying(self) -> bool:
        """Whether their number is on trial."""
        return self._before is not None

    @property
    def reason(self) -> str:
        """Return why there are not more tasks."""
        with self._lock:
            if self._before is not None:
                return f"on trial; {counted(self._before[0], self._of)} before"
            more = (one for one in reversed(self.trials) if one.tasks > one.before == self.tasks)
            last = next(more, None)
        if 0 < self._most <= self.tasks:
            return "the most that there can be"
        if self.rests:
            return "no more while they rest"
        if last is None or last.stays:
            return "more while they pay"
        return f"{last.tasks} {self._of}s: {last.gain - 1:+.0%} rows/s"

    def begin(self, now: float, tasks: int, *, sparing: bool) -> None:
        """Begin anew: other work, or other users of the server."""
        with self._lock:
            self._sparing, self.calm = sparing, not sparing
            self._start(now, tasks)

    def done(self, now: float, work: Work, chunk: ChunkDone, most: int) -> None:
        """Note a chunk of work for which there can be ``most`` tasks."""
        with self._lock:
            self._most, self.now = most, now
            if work is not self._work:
                self.trials.clear()
            if work is not self._work or self.tasks > most:
                self._work = work
                self._start(now, min(self.tasks, most))
            wave = max(_FEWEST_CHUNKS, self.tasks)
            if self._before is not None and now - self._tried_at > (
                _LONGEST_TRIAL + 3 * _WAVES * chunk.seconds
            ):
                # Held up, or there are no such tasks.
                way = _UP if self.tasks > self._before[0] else _DOWN
                self._move(self._before[0])
                self._fast = False
                self._fails(now, way)
            elif chunk.among == self.tasks and chunk.rows:
                self._window.add(now, chunk.rows, chunk.seconds)
                if self._before is not None:
                    self._judge(now, wave, *self._before)
                else:
                    self._window.forget(now - _KEPT_SECONDS, _WAVES * wave)
                    if len(self._window) >= wave:
                        self._consider(now)

    def forget(self) -> None:
        """Forget the chunks before now, but in a trial: the next ones are of another kind."""
        with self._lock:
            if self._before is None:
                self._window, self._settled = _Window(), 0.0

    def give_back(self, now: float) -> None:
        """Work with fewer tasks, because others are slowed down; a later trial may want more."""
        with self._lock:
            before = self.tasks if self._before is None else min(self.tasks, self._before[0])
            self._fast = False
            if now >= self._due[_UP]:
                self._fails(now, _UP)
            self._due[_UP] = now + self._wait[_UP]
            self._move(max(self._least, min(before, int(self.tasks * _SHRINK))))
            self._settled = 0.0

    @property
    def _price(self) -> float:
        return SPARING_PRICE if self._sparing else PRICE

    def _start(self, now: float, tasks: int) -> None:
        self._begin_trials(now, fast=True)
        self._move(max(self._least, tasks))

    def _begin_trials(self, now: float, *, fast: bool) -> None:
        self._wait = dict(FIRST_WAIT)
        self._due = {_UP: now, _DOWN: now + FIRST_WAIT[_DOWN]}
        #: Doubles, until a trial fails.
        self._fast = fast
        self._settled = 0.0

    def _move(self, tasks: int) -> None:
        #: How many tasks shall work now.
        self.tasks = tasks
        self._window = _Window()
        #: Tasks, rows a second and their error before the trial that goes on.
        self._before: tuple[int, float, float] | None = None
        self._tried_at = 0.0

    def _consider(self, now: float) -> None:
        tasks, rate, error = self.tasks, self._window.rate(self.tasks), self._window.error()
        if self._settled and abs(rate / self._settled - 1) > max(_CHANGED, 3 * error):
            self._begin_trials(now, fast=not self._sparing)
        self._settled = self._settled or rate
        if now >= self._due[_UP] and self.calm and not self.rests and tasks < self._most:
            further = tasks if self._fast else max(1, tasks // 2)
            self._try(now, min(self._most, tasks + further), rate, error)
        elif now >= self._due[_DOWN] and tasks > self._least:
            self._try(now, max(self._least, tasks - max(1, tasks // 3)), rate, error)

    def _try(self, now: float, tasks: int, rate: float, error: float) -> None:
        before = (self.tasks, rate, error)
        self._move(tasks)
        self._before, self._tried_at = before, now

    def _judge(self, now: float, wave: int, before: int, rate: float, error: float) -> None:
        tasks, found = self.tasks, self._window.rate(self.tasks)
        way = _UP if tasks > before else _DOWN
        small, large = sorted((before, tasks))
        low, high = (rate, found) if way == _UP else (found, rate)
        gain = high / (low * (1 + self._price * (large / small - 1))) - 1
        chunks, sure = len(self._window), _CLEAR_ERRORS * math.hypot(error, self._window.error())
        if chunks < wave or (abs(gain) < sure and chunks < _WAVES * wave):
            return
        stays = gain * way >= _MARGIN
        self.trials.append(
            TaskTrial(at=now, before=before, tasks=tasks, gain=found / rate, stays=stays)
        )
        _log.debug(
            "%d instead of %d %ss: %.2f times the rows a second",
            tasks,
            before,
            self._of,
            found / rate,
        )
        self._settled = found if stays else rate
        if stays:
            self._before = None
            self._wait[way] = max(FIRST_WAIT[way], self._wait[way] / 2)
            if way == _DOWN and found > rate * (1 + self._price):
                # Where it is not that fewer are faster, others have gone.
                self._wait[_UP] = FIRST_WAIT[_UP]
            self._due = {way: now, -way: now + self._wait[-way]}
            self._fast = self._fast and way == _UP
            return
        self._move(before)
        if way == _UP and self._fast and before > 1:
            # Half as many further ones, at once.
            self._fast = False
            return
        self._fast = False
        self._fails(now, way)
        if way == _DOWN and found < rate * tasks / before * (1 + self._price):
            # Each task brings all that it can: more may.
            self._due[_UP] = now

    def _fails(self, now: float, way: int) -> None:
        self._wait[way] = min(SPARING_WAIT if self._sparing else LONGEST_WAIT, 2 * self._wait[way])
        self._due[way] = now + self._wait[way]
        self._due[-way] = min(self._due[-way], now + self._wait[-way])
