"""How many tasks work is found by trials, on servers of every kind."""

from __future__ import annotations

from functools import cache, partial
from typing import Final

import pytest

from spirit_py.knee import FIRST_WAIT, LONGEST_WAIT, Knee
from spirit_py.pace import ChunkDone, Work
from tests.kits.pace_server import PaceServer, play

MOST: Final = 32
SECONDS: Final = 120.0


def coming(cores: float, at: float):
    """Return others who begin to use so many cores."""
    return lambda now: cores if now >= at else 0.0


def going(cores: float, at: float):
    """Return others who stop to use so many cores."""
    return lambda now: cores if now < at else 0.0


def waves(cores: float, period: float):
    """Return others who come and go."""
    return lambda now: cores if int(now / period) % 2 else 0.0


SERVERS: Final = [
    PaceServer(name="1 core", cores=1),
    PaceServer(name="2 cores"),
    *(PaceServer(name=f"{cores} cores", cores=cores) for cores in (4, 8, 16, 32, 64)),
    PaceServer(name="2 cores, flushes of 5 ms", wait=0.005),
    PaceServer(name="2 cores, flushes of 20 ms", wait=0.02),
    PaceServer(name="2 cores, flushes of 20 ms, round trips of 10 ms", wait=0.03),
    PaceServer(name="16 cores, flushes of 10 ms", cores=16, wait=0.01),
    PaceServer(name="1 core, round trips of 10 ms", cores=1, wait=0.01),
    PaceServer(name="4 cores, round trips of 50 ms", cores=4, wait=0.05),
    PaceServer(name="8 cores, flushes of 5 ms", cores=8, wait=0.005),
    PaceServer(name="a lock of 1 ms", cores=32, serial=0.001),
    PaceServer(name="a lock of 3 ms", cores=32, serial=0.003),
    PaceServer(name="a lock of 3 ms, flushes of 10 ms", cores=32, serial=0.003, wait=0.01),
    PaceServer(name="a slow disk alone", cores=4, cpu=0.002, serial=0.01),
    PaceServer(name="2 cores, a lock of 2 ms, flushes of 5 ms", serial=0.002, wait=0.005),
    PaceServer(name="little contention", cores=16, contention=0.05),
    PaceServer(name="some contention", cores=16, contention=0.2),
    PaceServer(name="much contention", cores=8, contention=0.5),
    PaceServer(name="contention alone", contention=1.0),
    PaceServer(name="12 cores, contention, flushes", cores=12, contention=0.02, wait=0.002),
    PaceServer(name="short transactions, slow flushes", cores=4, cpu=0.001, wait=0.01),
    PaceServer(name="noise on 2 cores", noise=0.25),
    PaceServer(name="noise on 8 cores", cores=8, noise=0.25),
    PaceServer(name="others use 1 of 2 cores", others=coming(1, 0)),
    PaceServer(name="others use nearly all of 2 cores", others=coming(1.7, 0)),
    PaceServer(name="others use 12 of 16 cores", cores=16, others=coming(12, 0)),
    PaceServer(name="others come", cores=8, others=coming(6, 40)),
    PaceServer(name="others go", cores=8, others=going(6, 40)),
    PaceServer(name="others come and go", cores=8, others=waves(6, 15)),
    PaceServer(name="others come and go slowly", cores=16, others=waves(12, 40)),
]


@cache
def best(server: PaceServer) -> float:
    """Return the rows of the best number of tasks that stays as it is.

    Those whose mean rate is clearly not the highest need not be played.
    """
    numbers = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32)
    means = {n: sum(server.rate(n, float(at)) for at in range(int(SECONDS))) for n in numbers}
    highest = max(means.values())
    return max(
        play(server, partial(int, number), lambda *_: None, seconds=SECONDS, seed=1)
        for number, mean in means.items()
        if mean >= 0.97 * highest
    )


class Copy:
    """A copy whose tasks a knee decides; the numbers that it had, and since when."""

    def __init__(self, *, sparing: bool = False, most: int = MOST) -> None:
        """Begin as a run does."""
        self.knee = Knee()
        self.knee.begin(0.0, 1 if sparing else 2, sparing=sparing)
        self.most = most
        self.moves: list[tuple[float, int]] = []

    def done(self, now: float, chunk: ChunkDone) -> None:
        """Note a chunk."""
        self.knee.done(now, Work.COPY, chunk, self.most)
        if not self.moves or self.moves[-1][1] != self.knee.tasks:
            self.moves.append((now, self.knee.tasks))

    def on(self, server: PaceServer, *, seed: int = 1, seconds: float = SECONDS) -> float:
        """Copy for some time; return the rows."""
        return play(server, lambda: self.knee.tasks, self.done, seconds=seconds, seed=seed)


@pytest.mark.parametrize("server", SERVERS, ids=[server.name for server in SERVERS])
def test_a_copy_of_two_minutes_is_within_a_tenth_of_the_best_number(server):
    """All trials and the time to find it count."""
    rows = [Copy().on(server, seed=seed) for seed in range(1, 4)]
    assert sum(rows) / len(rows) >= 0.9 * best(server)


@pytest.mark.parametrize("server", SERVERS[:8], ids=[server.name for server in SERVERS[:8]])
def test_trials_become_rare(server):
    """Each that fails doubles the time to the next one in its direction."""
    copy = Copy()
    copy.on(server, seconds=600)
    late = [trial for trial in copy.knee.trials if trial.at >= 300]
    assert len(late) <= 2 * 300 / LONGEST_WAIT + 6


@pytest.mark.parametrize("chunk", [1.0, 5.0, 20.0, 60.0])
def test_chunks_of_any_length_decide_trials(chunk):
    """--target-chunk-time may be a minute; a trial takes twelve chunks at most."""
    copy = Copy()
    copy.on(PaceServer(name="8 cores", cores=8, chunk=chunk), seconds=120 * chunk)
    assert copy.knee.tasks >= 6
    assert len(copy.knee.trials) > 3


def test_a_trial_whose_tasks_do_not_come_ends():
    """Held up, or refused by the server: the number before it is taken again."""
    knee = Knee()
    knee.begin(0.0, 2, sparing=False)
    numbers = []
    for step in range(200):
        knee.done(step / 2, Work.COPY, ChunkDone(2, 1000, 0.5), MOST)
        numbers.append(knee.tasks)
    assert 2 in numbers[numbers.index(4) :]


def test_of_two_numbers_that_are_equal_the_smaller_one_stays():
    """A session that brings nothing takes from others."""
    copy = Copy()
    copy.on(PaceServer(name="one core, little noise", cores=1, noise=0.02), seconds=60)
    ended = [trial for trial in copy.knee.trials if trial.stays][-1]
    assert (ended.tasks, ended.before) == (1, 2)
    assert ended.gain == pytest.approx(1.0, abs=0.02)


def test_on_a_server_that_others_use_a_session_must_bring_more():
    """It takes from them what it brings."""
    server = PaceServer(name="each brings a fifth less", cores=32, serial=0.003, noise=0.02)
    numbers = []
    for sparing in (False, True):
        copy = Copy(sparing=sparing)
        copy.knee.calm = True
        copy.on(server)
        numbers.append(max(trial.tasks for trial in copy.knee.trials if trial.stays))
    assert numbers[0] > numbers[1] > 1


def test_no_more_tasks_are_tried_while_the_server_is_not_calm():
    """Commits that are slow, or transactions that still grow, come first."""
    copy = Copy(sparing=True)
    copy.on(PaceServer(name="many cores", cores=32))
    assert [tasks for _, tasks in copy.moves] == [1]
    copy.knee.calm = True
    copy.on(PaceServer(name="many cores", cores=32))
    assert copy.knee.tasks > 8


def test_no_more_tasks_are_tried_while_they_rest():
    """The server has room only because of the rests, for which more tasks would make up."""
    copy = Copy()
    copy.knee.rests = True
    copy.on(PaceServer(name="many cores", cores=32))
    assert max(tasks for _, tasks in copy.moves) == 2
    assert copy.knee.reason == "no more while they rest"
    copy.knee.rests = False
    copy.on(PaceServer(name="many cores", cores=32))
    assert copy.knee.tasks > 8


def test_what_is_given_back_is_not_tried_again_at_once():
    """The time to the next trial doubles, as after one that failed."""
    copy = Copy()
    server = PaceServer(name="many cores", cores=32, noise=0.02)
    copy.on(server, seconds=3.0)
    tasks = copy.knee.tasks
    assert tasks > 4
    copy.knee.give_back(3.0)
    assert copy.knee.tasks <= 0.7 * tasks
    given_back = copy.knee.tasks
    copy.moves.clear()
    play(
        server,
        lambda: copy.knee.tasks,
        lambda now, chunk: copy.done(3.0 + now, chunk),
        seconds=2 * FIRST_WAIT[1] - 2.0,
        seed=1,
    )
    assert max(tasks for _, tasks in copy.moves) <= given_back


def test_a_chunk_among_another_number_of_tasks_decides_nothing():
    """Its speed says nothing of the present number."""
    knee = Knee()
    knee.begin(0.0, 2, sparing=False)
    for step in range(100):
        knee.done(step / 10, Work.COPY, ChunkDone(0, 1000, 0.5), MOST)
        knee.done(step / 10, Work.COPY, ChunkDone(3, 1000, 0.5), MOST)
    assert (knee.tasks, len(knee.trials)) == (2, 0)


def test_there_are_never_more_tasks_than_can_be():
    """Also when their number falls: with a smaller --threads, or a server that refuses sessions."""
    copy = Copy(most=4)
    server = PaceServer(name="many cores", cores=32)
    copy.on(server, seconds=20)
    assert max(tasks for _, tasks in copy.moves) == 4
    copy.most = 3
    copy.on(server, seconds=20)
    assert copy.knee.tasks <= 3


def test_other_work_begins_with_the_same_number_and_its_own_trials():
    """The rows a second of a comparison say nothing about those of a copy."""
    copy = Copy()
    copy.on(PaceServer(name="many cores", cores=32, noise=0.02), seconds=30)
    tasks = copy.knee.tasks
    copy.knee.done(30.0, Work.CHECKSUM, ChunkDone(tasks, 10, 0.5), tasks)
    assert (copy.knee.tasks, len(copy.knee.trials)) == (tasks, 0)
    assert not copy.knee.trying


def test_the_reason_names_what_ended_the_growth():
    """Here the limit."""
    knee = Knee()
    assert knee.reason == "more while they pay"
    knee.done(0.0, Work.COPY, ChunkDone(1, 1000, 0.5), 1)
    assert knee.reason == "the most that there can be"
