"""How many sessions apply is found by trials while changes wait, on servers of every kind."""

from __future__ import annotations

import heapq
import math
import random
from functools import cache
from typing import Final

import pytest

from spirit_py.feed.apply import Appliers
from tests.kits.pace_server import PART_ROWS, PaceServer

MOST: Final = 16
BATCH: Final = 4000
SECONDS: Final = 60.0
FOUND: Final = 20.0
"""Seconds of work within which the number is found."""

SERVERS: Final = [
    PaceServer(name="near, 1 core", cores=1, contention=0.05),
    PaceServer(name="near, 2 cores"),
    PaceServer(name="near, 2 cores, some contention", contention=0.1),
    PaceServer(name="near, 4 cores", cores=4),
    PaceServer(name="near, 8 cores", cores=8),
    PaceServer(name="near, 32 cores", cores=32),
    PaceServer(name="2 cores, round trips of 5 ms", wait=0.005),
    PaceServer(name="4 cores, round trips of 50 ms", cores=4, wait=0.05),
    PaceServer(name="2 cores, commits of 20 ms", wait=0.02),
    PaceServer(name="8 cores, commits of 20 ms", cores=8, wait=0.02),
    PaceServer(name="2 cores, commits of 20 ms, round trips of 10 ms", wait=0.03),
    PaceServer(name="a lock of 3 ms", cores=16, serial=0.003),
    PaceServer(name="noise on 8 cores", cores=8, noise=0.25),
]


class Crowd:
    """Sessions that apply what waits, in simulated time."""

    def __init__(self, server: PaceServer, *, fixed: int = 0, most: int = MOST, seed: int = 1):
        """Begin with nothing applied; ``fixed`` sessions, or as many as the controller says."""
        self.server, self.fixed = server, fixed
        self.now = 0.0
        self.appliers = Appliers(most, lambda: self.now)
        self.chance = random.Random(seed)
        #: When the changes of each batch were applied, and with how many sessions.
        self.ended: list[tuple[float, int]] = []

    def apply(self, batches: float, *, until: float = math.inf) -> None:
        """Apply so many batches, which all wait now."""
        running: list[tuple[float, int, float]] = []
        number, left = 0, batches
        while self.now < until:
            tasks = self.fixed or self.appliers.tasks
            among = min(tasks, len(running) + left)
            while left > 0 and len(running) < tasks:
                left, number = left - 1, number + 1
                began = self.appliers.begin()
                seconds = BATCH * among / (self.server.rate(int(among), self.now) * PART_ROWS)
                took = seconds * max(0.3, self.chance.gauss(1.0, self.server.noise))
                heapq.heappush(running, (self.now + took, number, began))
            if not running:
                return
            self.appliers.rest()
            self.now, _, began = heapq.heappop(running)
            self.ended.append((self.now, len(running) + 1))
            self.appliers.end(BATCH, began, ready=int(min(left, 4 * MOST)))

    def rate(self, since: float, until: float) -> float:
        """Return the batches a second between two times."""
        return sum(since <= at < until for at, _ in self.ended) / (until - since)


def controlled(server: PaceServer, seed: int) -> float:
    """Return the batches a second once the number must have been found."""
    crowd = Crowd(server, seed=seed)
    crowd.apply(math.inf, until=SECONDS)
    return crowd.rate(FOUND, SECONDS)


@cache
def best(server: PaceServer) -> float:
    """Return the batches a second of the best number that stays as it is."""

    def fixed(number: int) -> float:
        crowd = Crowd(server, fixed=number)
        crowd.apply(math.inf, until=SECONDS)
        return crowd.rate(FOUND, SECONDS)

    numbers = range(1, MOST + 1)
    highest = max(server.rate(number, 0.0) for number in numbers)
    # Those whose mean is clearly not the highest need not be played.
    return max(fixed(each) for each in numbers if server.rate(each, 0.0) >= 0.98 * highest)


@pytest.mark.parametrize("server", SERVERS, ids=[server.name for server in SERVERS])
def test_after_twenty_seconds_of_work_it_is_within_a_tenth_of_the_best_number(server):
    """All later trials count."""
    rates = [controlled(server, seed) for seed in (1, 2)]
    assert sum(rates) / len(rates) >= 0.9 * best(server)


def test_two_full_cores_end_with_two():
    """As many as before there was a controller."""
    crowd = Crowd(PaceServer(name="near, 2 cores, each costs more", contention=0.2, noise=0.02))
    crowd.apply(math.inf, until=SECONDS)
    late = [tasks for at, tasks in crowd.ended if at > FOUND]
    assert sum(tasks == 2 for tasks in late) > 0.7 * len(late)
    assert min(late) == 2


@pytest.mark.parametrize("server", SERVERS, ids=[server.name for server in SERVERS])
def test_it_is_hardly_slower_than_two_from_the_first_second_on(server):
    """Trials cost little, also where two are best."""
    two, ours = Crowd(server, fixed=2), Crowd(server)
    two.apply(math.inf, until=FOUND)
    ours.apply(math.inf, until=FOUND)
    assert ours.rate(0, FOUND) >= 0.95 * two.rate(0, FOUND)


def test_a_number_that_was_found_is_kept_for_the_next_backlog():
    """Flushes are half a minute apart; a trial goes on in the next one."""
    crowd = Crowd(PaceServer(name="commits of 20 ms", cores=8, wait=0.02, noise=0.02))
    taken = []
    for _ in range(10):
        began = crowd.now
        crowd.apply(100)
        taken.append(crowd.now - began)
        crowd.now += 30.0
    assert crowd.appliers.tasks >= 8
    assert taken[-1] < 0.7 * taken[0]
    assert len(crowd.appliers.knee.trials) > 2


def test_a_trial_goes_on_in_the_next_flush():
    """One has too few batches to decide it, and the time between them says nothing."""
    crowd = Crowd(PaceServer(name="many cores, slow", cores=32, cpu=0.05, noise=0.02))
    for _ in range(20):
        crowd.apply(6)
        crowd.now += 60.0
    assert crowd.appliers.tasks >= 4
    assert crowd.appliers.knee.trials[0].stays


def test_without_a_backlog_no_more_are_tried():
    """A trial needs changes for every session."""
    crowd = Crowd(PaceServer(name="many cores", cores=32))
    for _ in range(100):
        crowd.apply(3)
        crowd.now += 1.0
    assert crowd.appliers.tasks <= 3


def test_there_are_never_more_than_can_be():
    """One where one is the most: a run of many tables has its share."""
    for most in (1, 2, 5):
        crowd = Crowd(PaceServer(name="many cores", cores=32), most=most)
        crowd.apply(500)
        assert max(tasks for _, tasks in crowd.ended) == most
