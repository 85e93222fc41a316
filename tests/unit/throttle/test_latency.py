"""The probe of commits: how often it is made, and what it tells the pace."""

from __future__ import annotations

from typing import Any

import pytest

from spirit_py.config import ConnectionOptions
from spirit_py.knee import Knee
from spirit_py.pace import FIRST_TASKS, Work
from spirit_py.throttle import latency
from spirit_py.throttle.adaptive import Adaptive
from spirit_py.throttle.latency import CommitLatency, Traffic
from spirit_py.throttle.settings import LiveSettings, PaceSettings


class Scene:
    """A probe without a server: beats take as long as the test says."""

    def __init__(self, monkeypatch) -> None:
        """Begin with a server that nobody else uses."""
        self.now = 100.0
        self.beats = 0
        self.took = 0.001
        self.writes = 0.0
        self.reads = 0.0
        self.works = True
        self.held = False
        self.ours = 0
        self.stands = False
        self.settings = LiveSettings(PaceSettings(threads=2))
        self.pace = Adaptive()
        self._monkeypatch = monkeypatch
        self.probe = self._probe()
        monkeypatch.setattr(latency, "read_traffic", self._traffic)

    def _probe(self, **more: Any) -> CommitLatency:
        probe = CommitLatency(
            ConnectionOptions(),
            self.settings,
            self.pace,
            beat=self._beat,
            working=lambda: self.works,
            held=lambda: self.held,
            at_work=lambda: self.ours,
            stands=lambda: self.stands,
            clock=lambda: self.now,
            **more,
        )
        self._monkeypatch.setattr(probe._session, "ask", lambda work: work(None))
        return probe

    def prepare(self, seconds: float) -> None:
        """Let so much time pass between the first reading of the counters and the probe."""
        self.probe = self._probe(seen=(self.now, self._traffic(None)))
        self.now += seconds

    def _beat(self, _session) -> None:
        self.beats += 1
        self.now += self.took

    def _traffic(self, _session) -> Traffic:
        return Traffic(writes=self.writes, reads=self.reads, running=1.0 + self.ours, own=(0, 0))

    def run(self, seconds: float, *, writes: float = 0.0) -> None:
        """Look as often as the probe wants, while others write so much a second."""
        until = self.now + seconds
        while self.now < until:
            self.probe.look()
            self.now += self.probe.every
            self.writes += writes * self.probe.every


@pytest.fixture
def scene(monkeypatch):
    """Return a probe without a server."""
    return Scene(monkeypatch)


def test_writers_are_noticed_within_a_second(scene):
    """Then commits are measured without the work, and the reason is that."""
    scene.run(0.5, writes=500)
    assert scene.pace.measuring
    assert "commit latency" in scene.probe.look()
    scene.run(2, writes=500)
    assert scene.probe.look() == ""
    assert scene.pace.commit_seconds_before == pytest.approx(0.001)


def test_writers_that_were_seen_before_are_known_at_the_first_look(scene):
    """Then nothing has begun: the measure takes as long as its probes, and waits for no end."""
    scene.prepare(0.2)
    scene.writes = 100.0
    assert "commit latency" in scene.probe.look()
    began = scene.now
    while scene.probe.look():
        scene.now += scene.probe.every
    assert scene.now - began < 1.0
    assert scene.pace.commit_seconds_before == pytest.approx(0.001)


def test_queries_of_the_preparation_are_no_applications(scene):
    """Not all of them are counted in this process."""
    scene.prepare(2.0)
    scene.reads = 20_000.0
    assert scene.probe.look() == ""
    assert not scene.pace.spares


def test_nobody_makes_nobody_wait(scene):
    """A few statements of a monitor are no application."""
    scene.run(5, writes=2)
    assert not scene.pace.spares
    assert scene.probe.look() == ""


def test_aggressive_only_beats(scene):
    """The heartbeat is written for replicas; the pace does not move, and nothing is measured."""
    scene.settings.change(aggressive=True)
    scene.run(5, writes=500)
    assert scene.beats > 3
    assert not scene.pace.measuring
    assert scene.pace.commit_seconds is None


def test_aggressive_ends_a_measure(scene):
    """Other migrations of the batch wait for its end."""
    scene.run(0.5, writes=500)
    assert scene.pace.measuring
    scene.settings.change(aggressive=True)
    assert scene.probe.look() == ""
    assert not scene.pace.measuring


def test_a_run_that_does_not_work_beats_seldom(scene):
    """A deferred swap may take days: the binlog is not filled with heartbeats.

    Sessions that apply a backlog meanwhile are watched.
    """
    scene.run(5, writes=500)
    assert not scene.pace.measuring
    often = scene.probe.every
    scene.pace.begun, scene.works = True, False
    assert scene.probe.every >= 10 * often
    feed = Knee(FIRST_TASKS)
    scene.pace.govern(feed)
    assert scene.probe.every >= 10 * often
    feed.working = 2
    assert scene.probe.every == often


def test_a_run_that_does_not_work_measures_nothing(scene):
    """In a batch all others would wait, for each such table in turn; it measures when it works."""
    scene.run(3, writes=500)
    scene.pace.begun, scene.works = True, False
    for _ in range(700):
        scene.run(1, writes=500)
        assert not scene.pace.measuring
    scene.works = True
    scene.run(0.5, writes=500)
    assert scene.pace.measuring


def test_a_measure_that_has_begun_is_short_where_the_work_ends(scene):
    """Others wait for its end: probes are not seldom meanwhile."""
    scene.run(0.5, writes=500)
    assert scene.pace.measuring
    scene.pace.begun, scene.works = True, False
    began = scene.now
    while scene.pace.measuring:
        scene.run(0.01, writes=500)
    assert scene.now - began < 3.0


def test_nothing_grows_while_the_work_is_held_back(scene):
    """Quick commits without the work allow none: after a pause it goes on as it was."""
    scene.run(3, writes=500)
    assert scene.pace.commit_seconds_before is not None
    scene.held, part = True, scene.pace.part
    scene.run(30, writes=500)
    assert scene.pace.part == part
    scene.held = False
    scene.run(30, writes=500)
    assert scene.pace.part > part


def test_many_sessions_of_ours_are_no_sign(scene):
    """A copy that gains by each task would end at eight of them otherwise."""
    scene.run(3, writes=500)
    scene.ours = 32
    scene.run(10, writes=500)
    assert scene.pace.slowed_by == ""


def test_a_run_that_stands_for_long_beats_seldom(scene):
    """A night outside of the window, or a pause; a measure that has begun ends as it would."""
    scene.run(0.5, writes=500)
    assert scene.pace.measuring
    scene.stands = True
    assert scene.probe.every < 0.1
    scene.run(2, writes=500)
    assert (scene.pace.measuring, scene.probe.every) == (False, 1.0)
    scene.stands = False
    assert scene.probe.every == 0.1


def test_the_measure_holds_all_work_but_the_swap(scene):
    """A swap is short, and no work that could be spared goes on beside it."""
    assert scene.probe.holds == set(Work) - {Work.SWAP}
