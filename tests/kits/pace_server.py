"""A simulated server for the pace: how fast so many tasks copy on it, and what others feel."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from spirit_py.pace import AtWork, Work
from spirit_py.throttle.adaptive import Others

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.pace import ChunkDone
    from spirit_py.throttle.adaptive import Adaptive

PART_ROWS: Final = 500
_ROUNDS: Final = 60


def no_one(_now: float) -> float:
    """Return that the others need no core."""
    return 0.0


@dataclass(frozen=True, kw_only=True)
class PaceServer:
    """A closed queueing network: cores, one lock, and what is waited for without either.

    Mean value analysis (Schweitzer's approximation, Seidmann's split of a station of many servers).

    Attributes:
        cpu: seconds of a core that one transaction of the copy needs.
        wait: seconds of a commit's flush and of round trips, for each transaction.
        serial: seconds in which a transaction keeps all others from going on.
        contention: by what share each further task makes the CPU time longer.
        noise: relative standard deviation of a chunk's seconds.
        others: how many cores others use at a time.
        chunk: seconds of a chunk.
    """

    name: str
    cores: float = 2
    cpu: float = 0.005
    wait: float = 0.0
    serial: float = 0.0
    contention: float = 0.0
    noise: float = 0.1
    others: Callable[[float], float] = no_one
    chunk: float = 0.5
    _known: dict[tuple[int, float], float] = field(default_factory=dict, compare=False)

    def rate(self, tasks: int, now: float) -> float:
        """Return the transactions a second of so many tasks."""
        key = (tasks, self.others(now))
        if key not in self._known:
            self._known[key] = self._rate(*key)
        return self._known[key]

    def load(self, tasks: int, now: float) -> float:
        """Return the part of the cores that is in use."""
        cpu = self.cpu * (1 + self.contention * (tasks - 1))
        return min(1.0, (self.rate(tasks, now) * cpu + self.others(now)) / self.cores)

    def _rate(self, tasks: int, others: float) -> float:
        cores = max(0.3, self.cores - others)
        cpu = self.cpu * (1 + self.contention * (tasks - 1))
        waiting = running = tasks / 3
        rate = 0.0
        for _ in range(_ROUNDS):
            at_cpu = cpu / cores * (1 + running * (tasks - 1) / tasks)
            at_lock = self.serial * (1 + waiting * (tasks - 1) / tasks)
            elsewhere = max(0.0, cpu * (cores - 1) / cores) + self.wait
            rate = tasks / (at_cpu + at_lock + elsewhere)
            running, waiting = rate * at_cpu, rate * at_lock
        return rate


def play(
    server: PaceServer,
    tasks: Callable[[], int],
    done: Callable[[float, ChunkDone], None],
    *,
    seconds: float,
    seed: int,
) -> float:
    """Copy for some seconds with as many tasks as it is told to; return the rows."""
    chance, at_work = random.Random(seed), AtWork()
    #: When each chunk ends; its task, rows, seconds and beginning.
    running: list[tuple[float, int, int, float, float]] = []
    now, whole = 0.0, 0
    while True:
        busy = {chunk[1] for chunk in running}
        begin = [task for task in range(tasks()) if task not in busy]
        at_work.count(len(running) + len(begin), now)
        among = len(running) + len(begin)
        for task in begin:
            speed = server.rate(among, now) * PART_ROWS / among
            took = server.chunk * max(0.3, chance.gauss(1.0, server.noise))
            rows = max(1, int(speed * server.chunk))
            heapq.heappush(running, (now + took, task, rows, took, now))
        now, _, copied, took, began = heapq.heappop(running)
        if now >= seconds:
            return whole
        whole += copied
        done(now, at_work.done(copied, took, began))


_USUAL_PART: Final = 512 << 10
#: Seconds of a core that a small transaction of others needs.
_SMALL: Final = 0.0003
_LOOK: Final = 0.1
_SLOWEST: Final = 0.97


@dataclass(frozen=True, kw_only=True)
class SharedServer:
    """A server that others use: what so many tasks copy in transactions of a size, and their price.

    A small commit needs a core for a moment, which it shares with all that want one. It waits for
    a flush, and before that, with all others, while a large transaction writes its binlog.

    Attributes:
        server: what it is for transactions of 512 KiB; of ``wait``, nothing grows with their size.
        flush: seconds of a commit's flush.
        spread: relative spread of a flush, log-normal.
        log_rate: bytes a second that a commit writes to the binlog.
        busy: how many sessions of others execute a statement.
    """

    server: PaceServer
    flush: float = 0.001
    spread: float = 0.2
    log_rate: float = 1e9
    busy: float = 3.0
    _sized: dict[int, PaceServer] = field(default_factory=dict, compare=False)

    def sized(self, part: int) -> PaceServer:
        """Return what the server is for transactions of so many bytes."""
        if part not in self._sized:
            usual, scale = self.server, part / _USUAL_PART
            serial = usual.serial * scale + part / self.log_rate
            wait = usual.wait + self.flush
            self._sized[part] = replace(
                usual, cpu=usual.cpu * scale, serial=serial, wait=wait, _known={}
            )
        return self._sized[part]

    def rows(self, tasks: int, part: int, now: float = 0.0) -> float:
        """Return the rows a second of so many tasks, none of which rests."""
        return self.sized(part).rate(tasks, now) * PART_ROWS * part / _USUAL_PART

    def commit(
        self, chance: random.Random, tasks: int, part: int, *, share: float = 1.0, now: float = 0.0
    ) -> float:
        """Return the seconds of a small commit of others; its distribution is the model's."""
        sized = self.sized(part)
        others, cores = sized.others(now), sized.cores
        rate = sized.rate(tasks, now) if tasks else 0.0
        at_cores = max(0.0, tasks - rate * (sized.wait + sized.serial)) * share
        core = _SMALL * max(1.0, (at_cores + others) / cores) * chance.expovariate(1.0)
        flush = self.flush * chance.lognormvariate(0.0, self.spread)
        held = sized.serial
        used = min(_SLOWEST, rate * held * share)
        before = sum(chance.random() < used / max(1, tasks) for _ in range(tasks - 1))
        behind = held * (chance.random() + before) if chance.random() < used else 0.0
        return core + flush + behind

    def quantile(self, part_of_all: float, tasks: int, part: int, *, now: float = 0.0) -> float:
        """Return a quantile of the seconds of a small commit of others."""
        chance = random.Random(1)
        took = sorted(self.commit(chance, tasks, part, now=now) for _ in range(2000))
        return took[int(part_of_all * len(took))]


@dataclass
class Seen:
    """What happened at a time: the setting, the seconds of a commit, and the rows so far."""

    at: float
    tasks: int
    part: int
    share: float
    commit: float
    rows: float


def share(
    server: SharedServer, pace: Adaptive, *, seconds: float, most: int, seed: int
) -> list[Seen]:
    """Copy beside others for some seconds with the pace; return what was seen at each probe."""
    chance, at_work, seen = random.Random(seed), AtWork(), []
    running: list[tuple[float, int, int, float, float]] = []
    resting: dict[int, float] = {}
    now, whole, probes, look = 0.0, 0.0, 0, _LOOK
    while now < seconds:
        tasks = 0 if pace.measuring or not pace.begun else min(most, pace.tasks)
        busy = {chunk[1] for chunk in running}
        begin = [t for t in range(tasks) if t not in busy and resting.get(t, 0.0) <= now]
        among = len(running) + len(begin)
        at_work.count(among, now)
        for task in begin:
            speed = server.rows(among, pace.part, now) / among
            took = server.server.chunk * max(0.3, chance.gauss(1.0, server.server.noise))
            rows = max(1, int(speed * server.server.chunk))
            heapq.heappush(running, (now + took, task, rows, took, now))
        if running and running[0][0] < look:
            now, task, copied, took, began = heapq.heappop(running)
            whole += copied
            pace.knee.done(now, Work.COPY, at_work.done(copied, took, began), most)
            resting[task] = now + pace.rest * took
            continue
        probes += 1
        now = look
        took = server.commit(chance, len(running), pace.part, now=now)
        # The next one begins when this one has ended.
        look += _LOOK + took
        pace.probed(now, took)
        if probes % 5 == 1:
            pace.saw(now, Others(writes=500.0, running=server.busy))
        pace.step(now)
        pace.begun = pace.begun or not pace.measuring
        seen.append(Seen(now, len(running), pace.part, pace.share, took, whole))
    return seen
