"""A simulated server for the pace: how fast so many tasks copy on it, and what others feel."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spirit_py.pace import AtWork

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.pace import ChunkDone

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
