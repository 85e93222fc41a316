"""How the pace grows and shrinks: always within its bounds, at once downwards, step by step up."""

from __future__ import annotations

import random

import pytest

from spirit_py.knee import Knee
from spirit_py.pace import FIRST_TASKS, PART_BYTES, ChunkDone, Work
from spirit_py.throttle.adaptive import (
    LEAST_PART,
    LEAST_SHARE,
    Adaptive,
    Others,
)

BUSY = Others(writes=500.0, running=3.0)
UNUSED = Others(running=2.0)


class Server:
    """A server in simulated time, with a pace that is probed and stepped as in a run.

    Up to ``cores`` tasks copy 1000 rows a second each; more of them copy no more together.
    """

    def __init__(self, most: int = 4) -> None:
        """Begin with nothing known."""
        self.pace = Adaptive()
        self.most = most
        self.cores = most
        self.now = 1000.0
        self.commit = 0.001
        self.others = BUSY

    def run(self, seconds: float) -> None:
        """Probe twenty times a second, look at the others twice."""
        for tick in range(int(seconds * 20)):
            self.now += 0.05
            self.pace.probed(self.now, self.commit)
            if tick % 10 == 0:
                self.pace.saw(self.now, self.others)
            self.pace.step(self.now)
            if tick % 10 == 0 and not self.pace.measuring:
                self.copy()

    def copy(self) -> None:
        """End a chunk of each task."""
        tasks = self.pace.tasks
        rows = 500 * min(tasks, self.cores) // tasks
        for _ in range(tasks):
            self.pace.knee.done(self.now, Work.COPY, ChunkDone(tasks, rows, 0.5), self.most)

    def measured(self) -> Server:
        """Return it after the measure without work."""
        self.run(3)
        assert not self.pace.measuring
        self.pace.begun = True
        return self


def assert_bounded(pace: Adaptive, most: int) -> None:
    """The work makes progress, and is never more than what was asked for."""
    assert 1 <= pace.tasks <= max(most, FIRST_TASKS)
    assert LEAST_PART <= pace.part <= PART_BYTES
    assert pace.tasks / (1 + pace.rest) >= LEAST_SHARE - 1e-9


@pytest.mark.parametrize("most", [1, 2, 4, 16])
@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_the_pace_stays_within_its_bounds(most, seed):
    """Random latencies, loads and pressures; --threads is the most, and something always works."""
    chance = random.Random(seed)
    server = Server(most)
    for _ in range(100):
        server.commit = chance.choice([0.0001, 0.001, 0.01, 0.5])
        server.others = chance.choice([BUSY, UNUSED, Others(reads=1000.0, running=100.0)])
        server.pace.press("lag", chance.random())
        server.most = chance.randint(1, most)
        server.run(chance.choice([0.1, 1.0, 7.0]))
        assert_bounded(server.pace, most)


def test_commits_are_measured_before_the_work_where_others_use_the_server():
    """Nothing begins meanwhile, for about a second."""
    server = Server()
    server.run(0.2)
    assert server.pace.measuring
    server.measured()
    assert server.pace.commit_seconds_before == pytest.approx(0.001)


def test_a_measure_waits_for_the_chunks_that_run():
    """They may be meant to take a minute; a task that does not answer is not waited for."""
    server = Server()
    server.others = UNUSED
    server.run(5)
    server.pace.begun = server.pace.in_flight = True
    server.others, server.commit = BUSY, 0.01
    server.run(30)
    assert server.pace.measuring
    server.pace.in_flight, server.commit = False, 0.001
    server.measured()
    assert server.pace.commit_seconds_before == pytest.approx(0.001)
    server.pace.in_flight = True
    server.run(720)
    assert not server.pace.measuring


def test_slow_commits_shrink_the_pace_at_once():
    """At the first step after a second of slow commits tasks and transactions are fewer."""
    server = Server().measured()
    server.run(12)
    tasks, part = server.pace.tasks, server.pace.part
    server.commit = 0.004
    server.run(1.0)
    assert server.pace.tasks < tasks
    assert server.pace.part < part
    assert "4.0 ms instead of 1.0" in server.pace.slowed_by


def test_slow_commits_for_long_leave_the_least_that_makes_progress():
    """Half of one task, in the smallest transactions, where sessions pile up as well."""
    server = Server().measured()
    server.commit = 0.1
    server.others = Others(writes=500.0, running=90.0)
    server.run(15)
    assert (server.pace.tasks, server.pace.part) == (1, LEAST_PART)
    assert server.pace.rest == pytest.approx(1 / LEAST_SHARE - 1)


def test_the_pace_recovers_step_by_step():
    """When commits are quick again it grows to all tasks and the largest transactions."""
    server = Server().measured()
    server.pace.press("replica lag", 0.9)
    server.run(15)
    server.pace.press("", 0.0)
    server.run(1.5)
    soon = server.pace.share
    assert LEAST_SHARE < soon < 1.0
    server.run(150)
    assert (server.pace.tasks, server.pace.rest, server.pace.part) == (4, 0.0, PART_BYTES)


def test_commits_that_are_twice_as_slow_are_within_the_factor():
    """The stated factor is no reason to shrink."""
    server = Server().measured()
    server.commit = 0.0019
    server.run(40)
    assert server.pace.tasks == 4


@pytest.mark.parametrize("sign", ["lag", "running"])
def test_other_signs_shrink_the_pace_too(sign):
    """A throttler near its limit, and many more running sessions than before the work."""
    server = Server().measured()
    server.run(12)
    tasks = server.pace.tasks
    if sign == "lag":
        server.pace.press("replica lag", 0.9)
    else:
        server.others = Others(writes=500.0, running=60.0)
    server.run(1.5)
    assert server.pace.tasks < tasks


def test_a_server_that_nobody_else_uses_is_not_spared():
    """The largest transactions at once, and soon all tasks, whatever commits take; no measure."""
    server = Server()
    server.others, server.commit = UNUSED, 0.1
    server.run(0.2)
    assert not server.pace.measuring
    assert (server.pace.tasks, server.pace.rest) == (FIRST_TASKS, 0.0)
    assert server.pace.part == PART_BYTES
    server.run(3)
    assert server.pace.tasks == 4


def test_a_server_that_is_used_later_is_spared_from_then_on():
    """The pace steps back at once, and commits are measured without the work."""
    server = Server()
    server.others = UNUSED
    server.run(5)
    server.pace.begun = True
    server.others = BUSY
    server.run(0.7)
    assert (server.pace.measuring, server.pace.tasks) == (True, 1)
    server.measured()
    server.others = UNUSED
    server.run(10)
    # Now and then fewer are tried.
    assert server.pace.tasks >= 3
    assert not server.pace.slowed_by


def test_readers_are_spared_as_well():
    """Somebody who only reads uses the server, too."""
    server = Server()
    server.others = Others(reads=300.0)
    server.run(0.2)
    assert server.pace.spares
    assert server.pace.measuring


def test_slowness_that_is_not_ours_becomes_the_measure():
    """Commits stay slow at the least pace: they are measured without the work, and it grows."""
    server = Server().measured()
    server.commit = 0.01
    server.run(40)
    assert server.pace.part == LEAST_PART
    server.run(60)
    assert server.pace.commit_seconds_before == pytest.approx(0.01)
    assert server.pace.part > LEAST_PART


def test_the_measure_is_repeated_while_the_run_goes_on():
    """Load changes over hours; a measure stands for ten minutes."""
    server = Server().measured()
    server.commit = 0.0005
    server.run(620)
    assert server.pace.commit_seconds_before == pytest.approx(0.0005)


def test_commits_that_are_somewhat_slow_make_no_task_rest():
    """Small transactions of one task come first: they cost the copy little."""
    server = Server().measured()
    server.run(30)
    server.commit = 0.003
    server.run(15)
    assert (server.pace.tasks, server.pace.rest, server.pace.part) == (1, 0.0, LEAST_PART)


def trying(server: Server) -> Server:
    """Return it in a trial of two tasks."""
    for _ in range(1000):
        server.run(0.05)
        if server.pace.knee.trying:
            return server
    raise AssertionError(server.pace.tasks)


def test_a_trial_that_makes_commits_slower_ends():
    """Also below the factor that one task may reach: a further one is a choice."""
    server = trying(Server().measured())
    assert server.pace.tasks == 2
    server.commit = 0.0017
    server.cores = 32
    server.run(1.6)
    assert server.pace.tasks == 1
    assert not server.pace.slowed_by


def test_a_stop_of_all_commits_gives_tasks_back():
    """One probe has met it; the next trial comes later."""
    server = Server(16).measured()
    server.run(60)
    tasks = server.pace.tasks
    assert tasks > 1
    server.pace.probed(server.now, 0.1)
    assert server.pace.tasks < tasks


def test_larger_transactions_are_no_trial():
    """Chunks before and after a change of their size are not compared."""
    server = Server(16).measured()
    while server.pace.part < PART_BYTES:
        server.run(0.5)
        assert server.pace.tasks == 1


class Feed:
    """Sessions that apply what waits, each batch a second."""

    def __init__(self, server: Server) -> None:
        """Begin with two."""
        self.server = server
        self.knee = Knee(FIRST_TASKS, least=FIRST_TASKS, of="apply session")
        self.time = 0.0
        server.pace.govern(self.knee)

    def run(self, seconds: int, *, pays: bool = True) -> None:
        """Apply, twice as much with twice the sessions if that pays."""
        for _ in range(seconds):
            tasks = self.knee.tasks
            for _ in range(tasks):
                self.time += 1 / tasks
                rows = 4000 if pays else 8000 // tasks
                self.knee.done(self.time, Work.APPLY, ChunkDone(tasks, rows, 1.0), 16)
            self.server.run(1)


def test_more_sessions_apply_while_others_are_not_slowed_down():
    """As with tasks; a further one that brings nothing is given back."""
    server = Server().measured()
    feed = Feed(server)
    feed.run(60)
    assert feed.knee.tasks == 16
    feed.run(120, pays=False)
    assert feed.knee.tasks < 16


def test_the_copy_shrinks_before_what_applies_does():
    """What the application has changed must be applied, and never by fewer than two."""
    server = Server().measured()
    feed = Feed(server)
    feed.run(60)
    server.commit = 0.004
    server.run(1.0)
    assert (server.pace.tasks < 4, feed.knee.tasks) == (True, 16)
    server.run(30)
    assert (server.pace.tasks, feed.knee.tasks) == (1, 2)
    feed.run(30)
    assert feed.knee.tasks == 2


def test_what_applies_shrinks_at_once_where_no_copy_works():
    """In an index build the copy's tasks are a number that nobody uses; nor does its rest count."""
    server = Server(16).measured()
    server.run(60)
    feed = Feed(server)
    feed.run(60)
    assert (server.pace.tasks > 4, feed.knee.tasks) == (True, 16)
    server.pace.held, tasks = True, server.pace.tasks
    server.commit = 0.004
    server.run(1.0)
    assert (server.pace.tasks, feed.knee.tasks < 16) == (tasks, True)
    server.run(30)
    assert feed.knee.tasks == 2
    server.commit, server.pace.share = 0.001, LEAST_SHARE
    feed.run(200)
    assert feed.knee.tasks == 16


def test_a_trial_of_more_that_apply_ends_where_it_makes_commits_slower():
    """Also within the factor; the copy goes on with its tasks."""
    server = Server().measured()
    server.run(60)
    feed = Feed(server)
    while not feed.knee.trying:
        feed.run(1)
    server.commit, tasks = 0.0017, server.pace.tasks
    # Batches that are long: none ends.
    feed.knee.working = 4
    server.run(1.6)
    assert (feed.knee.tasks, server.pace.tasks) == (2, tasks)


def test_a_trial_of_tasks_that_have_ended_holds_no_appliers_back():
    """The end of a copy leaves it undecided, and the swap may be postponed for days."""
    server = trying(Server().measured())
    feed, left = Feed(server), server.pace.knee
    for _ in range(60):
        server.now += 1.0
        server.pace.saw(server.now, Others(writes=100))
        for probe in range(10):
            server.pace.probed(server.now - 1 + probe / 10, 0.001)
        server.pace.step(server.now)
        for _ in range(feed.knee.tasks):
            feed.time += 1 / feed.knee.tasks
            done = ChunkDone(feed.knee.tasks, 4000, 1.0)
            feed.knee.done(feed.time, Work.APPLY, done, 16)
    assert left.trying
    assert feed.knee.tasks == 16


def test_a_trial_of_a_feed_without_changes_holds_no_tasks_back():
    """A move of two sources has two feeds."""
    server = Server(16).measured()
    feed, other = Feed(server), Feed(server)
    while not feed.knee.trying:
        feed.run(1)
    feed.knee.working = 0
    server.pace.part_bytes = LEAST_PART
    for _ in range(120):
        # One batch at least in each step.
        other.time += 0.5
        other.knee.done(other.time, Work.APPLY, ChunkDone(other.knee.tasks, 4000, 1.0), 2)
        server.run(0.5)
    assert feed.knee.trying
    assert server.pace.tasks > 2
    assert server.pace.part == PART_BYTES


def test_slowness_that_lasts_is_seen_in_many_commits():
    """Three of ten are no more than chance in fifteen, and far more in sixty."""
    server = Server().measured()
    server.run(60)
    assert server.pace.tasks == 4
    for probe in range(200):
        server.now += 0.1
        server.pace.probed(server.now, 0.004 if probe % 10 in {0, 3, 7} else 0.001)
        server.pace.step(server.now)
    assert server.pace.tasks == 1


def test_no_more_that_apply_are_tried_where_commits_take_nearly_too_long():
    """There is no reason to shrink, either."""
    server = Server().measured()
    server.run(60)
    server.commit = 0.0022
    server.run(3)
    feed = Feed(server)
    feed.run(30)
    assert (feed.knee.tasks, server.pace.slowed_by) == (2, "")


def test_a_commit_that_is_slow_by_chance_is_no_reason_to_shrink():
    """Two of fifteen are far below the p80 of all."""
    server = Server().measured()
    server.run(60)
    assert server.pace.tasks == 4
    for probe in range(400):
        server.now += 0.1
        server.pace.probed(server.now, 0.004 if probe % 7 == 0 else 0.001)
        server.pace.step(server.now)
        assert not server.pace.slowed_by


def test_commits_that_are_few_because_they_are_slow_count():
    """Of 120 ms seven fit into a second and a half: the p80 is of those before, too."""
    server = Server().measured()
    for _ in range(20):
        server.now += 0.22
        server.pace.probed(server.now, 0.12)
        server.pace.step(server.now)
    assert "120.0 ms instead of 1.0" in server.pace.slowed_by
    assert server.pace.part == LEAST_PART


@pytest.mark.parametrize("seconds", [0.4, 3.0])
def test_the_measure_goes_on_until_there_are_enough_slow_commits(seconds):
    """Of 0.4 s eight take more than two seconds; after ten the few that there are must do."""
    server = Server()
    server.pace.saw(server.now, BUSY)
    while server.pace.measuring:
        server.now += seconds + 0.05
        server.pace.probed(server.now, seconds)
        server.pace.step(server.now)
    assert server.pace.commit_seconds_before == pytest.approx(seconds)


def test_one_look_at_the_sessions_is_no_sign():
    """A moment with many is followed by one with few; a measure takes the median of its looks."""
    server = Server()
    for tick in range(30):
        server.now += 0.05
        server.pace.probed(server.now, 0.001)
        if tick % 2 == 0:
            running = 40.0 if tick == 14 else 3.0
            server.pace.saw(server.now, Others(writes=500.0, running=running))
        server.pace.step(server.now)
    server.measured().run(12)
    tasks = server.pace.tasks
    server.pace.saw(server.now, Others(writes=500.0, running=60.0))
    server.run(0.5)
    assert (server.pace.tasks, server.pace.slowed_by) == (tasks, "")
    server.others = Others(writes=500.0, running=60.0)
    server.run(1.5)
    assert "60 sessions run instead of 3" in server.pace.slowed_by
