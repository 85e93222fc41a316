"""Several throttlers at once: what holds work back, for how long, and what is reported."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from spirit_py.errors import MigrationFailure, UsageFault
from spirit_py.knee import Knee
from spirit_py.pace import FIRST_TASKS, PART_BYTES, ChunkDone, Work
from spirit_py.throttle import throttles as module
from spirit_py.throttle.adaptive import Adaptive, Others
from spirit_py.throttle.settings import LiveSettings, PaceSettings
from spirit_py.throttle.throttler import ALL_WORK, WINDOWS, WRITES
from spirit_py.throttle.throttles import Throttles
from tests.kits.waiting import until

if TYPE_CHECKING:
    from spirit_py.events.event import Event


class Clock:
    """Seconds that the test sets."""

    def __init__(self) -> None:
        """Begin at some time."""
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Fake:
    """A throttler whose reason, fault or delay the test sets."""

    def __init__(self, name: str = "load", *, holds=ALL_WORK, every: float = 0.0) -> None:
        """Begin without a reason."""
        self.name = name
        self.holds = holds
        self.every = every
        self.why = ""
        self.fault: Exception | None = None
        self.free = threading.Event()
        self.free.set()
        self.looks = 0
        self.closed = 0

    def look(self) -> str:
        """Return the reason."""
        self.looks += 1
        self.free.wait(60)
        if self.fault is not None:
            raise self.fault
        return self.why

    def close(self) -> None:
        """Count the call."""
        self.closed += 1


class Told(list):
    """What was reported."""

    def __call__(self, event: Event) -> None:
        """Keep a line."""
        self.append((event.text, event.fields))


def throttles(*throttlers: Fake, clock: Clock | None = None, told: Told | None = None, **settings):
    """Return throttles over some throttlers; not started."""
    made = Throttles(
        LiveSettings(PaceSettings(**{"threads": 4, **settings})),
        tell=Told() if told is None else told,
        clock=clock or Clock(),
    )
    for one in throttlers:
        made.add(one)
    return made


@pytest.fixture
def started():
    """Return a function that starts throttles on the real clock, closed at the end."""
    made: list[Throttles] = []

    def start(*throttlers: Fake, grace: float = 60.0, first: bool = False) -> Throttles:
        one = Throttles(LiveSettings(PaceSettings(threads=4)), tell=Told())
        for throttler in throttlers:
            one.add(throttler, grace=grace, first=first)
        made.append(one)
        one.start()
        return one

    yield start
    for one in made:
        one.close()


def test_every_reason_is_shown_and_all_must_end():
    """Two throttlers have a reason: both stand in the text, and one alone still holds work back."""
    first, second = Fake("feed"), Fake("load")
    first.why, second.why = "the feed", "the load"
    pace = throttles(first, second)
    assert pace.reason(Work.COPY) == "the feed; the load"
    first.why = ""
    assert pace.reason(Work.COPY) == "the load"
    second.why = ""
    assert pace.reason(Work.COPY) == ""


def test_a_throttler_holds_back_its_work_alone():
    """What a checksum does not harm does not hold it back."""
    lag = Fake("lag", holds=WRITES)
    lag.why = "the replica"
    pace = throttles(lag)
    found = {work for work in Work if pace.reason(work) == "the replica"}
    assert found == {Work.COPY, Work.INDEX, Work.REPAIR}


def test_a_wait_has_not_ended_because_nobody_asks():
    """While the server is away no work asks; the log does not say that the pause is over."""
    clock, told = Clock(), Told()
    pace = throttles(clock=clock, told=told, paused="ana@db1")

    def after(seconds: float, *, asking: bool) -> None:
        clock.now += seconds
        if asking:
            assert pace.reason(Work.COPY)
        pace.count()

    after(0.0, asking=True)
    after(2.0, asking=True)
    after(60.0, asking=False)
    after(0.5, asking=True)
    after(0.5, asking=True)
    assert [text for text, _ in told] == ["waiting for the end of the pause (ana@db1)"]
    assert pace.seconds()["pause"] == pytest.approx(2.0 + 0.5 + 0.5)
    pace.settings.change(paused="")
    clock.now += 0.5
    pace.reason(Work.COPY)
    pace.count()
    assert told[-1][0] == "no longer waiting for: pause, after 1m04s"


def test_what_stands_for_long_is_paused_or_outside_of_its_window():
    """A load is over in seconds."""
    load, window = Fake(), Fake(WINDOWS)
    pace = throttles(load, window)
    load.why = "a load"
    assert not pace.stands()
    window.why = "the time of --allow"
    assert pace.stands()
    assert throttles(paused="ana@db1").stands()


def test_nothing_stands_while_changes_are_applied():
    """The night's changes are a load, and are replicated: the probe and the replicas are asked."""
    pace = throttles(paused="ana@db1")
    pace.adaptive = Adaptive()
    feed = Knee(FIRST_TASKS)
    pace.govern(feed)
    assert pace.stands()
    feed.working = 1
    assert not pace.stands()


def test_a_pause_holds_back_everything():
    """Whoever paused the run is named."""
    pace = throttles(paused="ana@db1")
    assert all("ana@db1" in pace.reason(work) for work in Work)


def test_waits_are_counted_and_reported_when_they_begin_and_end():
    """The seconds are those for which work was held back; a short wait makes no line."""
    load, clock, told = Fake(), Clock(), Told()
    pace = throttles(load, clock=clock, told=told)

    def go_on(seconds: float) -> None:
        for _ in range(int(seconds / 0.25)):
            clock.now += 0.25
            pace.reason(Work.COPY)
            pace.count()

    load.why = "Threads_running"
    go_on(0.5)
    load.why = ""
    go_on(0.25)
    assert told == []
    load.why = "Threads_running"
    go_on(3.25)
    assert [text for text, _ in told] == ["waiting for Threads_running"]
    assert told[0][1] == {"throttler": "load", "reason": "Threads_running"}
    load.why = ""
    go_on(0.5)
    assert [text for text, _ in told[1:]] == ["no longer waiting for: load, after 3.2s"]
    assert told[1][1]["seconds"] == pytest.approx(3.25, abs=0.06)
    # Of either wait all but the stretch before it was first seen.
    assert pace.seconds()["load"] == pytest.approx(0.25 + 3.0)


def test_no_wait_is_counted_while_nothing_asks():
    """A reason that outlives the phase holds nothing back."""
    load, clock = Fake(), Clock()
    pace = throttles(load, clock=clock)
    load.why = "Threads_running"
    pace.reason(Work.COPY)
    assert pace.waiting_for()[0] == "Threads_running"
    clock.now += 5
    pace.count()
    assert pace.waiting_for() == ("", None)
    assert pace.seconds() == {}


def test_a_slow_look_delays_no_other_throttler(started):
    """One throttler hangs in its look; another one's reason is seen all the same."""
    slow, quick = Fake("replica", every=0.01), Fake("load", every=0.01)
    slow.free.clear()
    pace = started(slow, quick)
    until(lambda: slow.looks, "the slow look")
    quick.why = "the load"
    until(lambda: pace.reason(Work.COPY) == "the load")
    slow.free.set()


@pytest.mark.parametrize("how", ["hangs", "fails"])
def test_a_throttler_that_cannot_look_fails_closed(started, how):
    """No answer is a reason to wait, after a grace, and ends with the next answer."""
    load = Fake(every=0.01)
    if how == "hangs":
        load.free.clear()
    else:
        load.fault = MigrationFailure("the server is away")
    pace = started(load, grace=0.2)
    assert pace.reason(Work.COPY) == ""
    found = until(lambda: pace.reason(Work.COPY), "the grace to end")
    assert "load" in found
    assert ("the server is away" in found) is (how == "fails")
    load.fault = None
    load.free.set()
    until(lambda: not pace.reason(Work.COPY), "the next answer")


def test_what_was_found_last_holds_for_the_grace(started):
    """A look that fails neither adds a reason at once nor takes one away."""
    load = Fake(every=0.01)
    load.why = "Threads_running"
    pace = started(load)
    until(lambda: pace.reason(Work.COPY))
    load.fault = MigrationFailure("the server is away")
    looked = load.looks
    until(lambda: load.looks > looked + 2)
    assert pace.reason(Work.COPY) == "Threads_running"


def test_every_throttler_is_closed_once(started):
    """Its sessions end with the run, whether it was looked at in a thread or not."""
    some = Fake("a", every=0.01), Fake("b")
    pace = started(*some)
    until(lambda: some[0].looks)
    pace.close()
    assert [one.closed for one in some] == [1, 1]


def test_a_copy_that_asks_in_vain_is_held():
    """As is one that does not ask; other work says nothing of its transactions."""
    clock = Clock()
    load = Fake()
    pace = throttles(load, clock=clock)
    assert pace.held()
    pace.reason(Work.SWAP)
    assert pace.held()
    pace.reason(Work.COPY)
    clock.now += 0.5
    assert not pace.held()
    load.why = "load"
    pace.reason(Work.COPY)
    clock.now += 1.0
    assert pace.held()


def test_settings_take_effect_at_once():
    """Threads, chunk time and nice are read when work asks."""
    settings = LiveSettings(PaceSettings(threads=4))
    pace = Throttles(settings, tell=Told())
    assert (pace.tasks(8), pace.tasks(2), pace.rest_after(1.0)) == (4, 2, 0.0)
    settings.change(threads=1, target_chunk_time=0.2, nice=0.5)
    assert (pace.tasks(8), pace.chunk_seconds(), pace.rest_after(2.0)) == (1, 0.2, 1.0)


def test_the_knee_learns_whether_tasks_rest():
    """From the setting that is in force when a chunk ends."""
    settings, adaptive = LiveSettings(PaceSettings(threads=4)), Adaptive()
    pace = Throttles(settings, adaptive=adaptive, tell=Told())
    rests = []
    for nice in (0.0, 4.0, 0.0):
        settings.change(nice=nice)
        pace.done(Work.COPY, ChunkDone(1, 1000, 0.5), 4)
        rests.append(adaptive.knee.rests)
    assert rests == [False, True, False]


@pytest.mark.parametrize(
    "wrong", [{"threads": 0}, {"target_chunk_time": 0}, {"nice": -1}, {"max_lag": 0}]
)
def test_a_setting_that_cannot_be_changes_nothing(wrong):
    """It is refused, and what held before holds."""
    settings = LiveSettings(PaceSettings(threads=4))
    with pytest.raises(UsageFault):
        settings.change(**wrong)
    assert settings.current == PaceSettings(threads=4)


def test_a_slow_replica_gets_little_at_a_time():
    """One task, short chunks and small transactions: what has begun when it is held is sent."""
    slow: list[float | None] = [None]
    settings = LiveSettings(PaceSettings(threads=4, target_chunk_time=0.5))
    pace = Throttles(settings, slow_part=lambda: slow[0], tell=Told(), clock=Clock())
    usual = (pace.tasks(8), pace.part_bytes(), pace.chunk_seconds())
    assert usual == (4, PART_BYTES, 0.5)
    slow[0] = 100_000.7
    assert (pace.tasks(8), pace.part_bytes(), pace.chunk_seconds()) == (1, 100_000, 0.1)
    slow[0] = None
    assert (pace.tasks(8), pace.part_bytes(), pace.chunk_seconds()) == usual


def test_the_tasks_of_the_report_are_those_that_work():
    """One where a replica is slow, whatever would pay; none counts while the work is held."""
    clock = Clock()
    slow: list[float | None] = [None]
    pace = throttles(load := Fake(), clock=clock)
    pace.adaptive, pace.slow_part = Adaptive(), lambda: slow[0]
    pace.adaptive.saw(clock.now, Others())
    pace.adaptive.knee.begin(clock.now, 4, sparing=False)
    pace.reason(Work.COPY)
    pace.count()
    assert pace.shares() == (4.0, 4.0)
    slow[0] = 1e6
    pace.count()
    assert pace.shares() == (1.0, 4.0)
    load.why, slow[0] = "load", None
    clock.now += 2.0
    pace.reason(Work.COPY)
    for _ in range(10):
        pace.adaptive.knee.begin(clock.now, 8, sparing=False)
        pace.count()
    assert pace.shares() == (1.0, 4.0)


def test_the_least_tasks_of_a_run_of_days_are_known():
    """What was at its beginning is not forgotten, and the memory for it does not grow."""
    clock = Clock()
    pace = throttles(clock=clock)
    pace.adaptive = Adaptive()
    pace.adaptive.saw(clock.now, Others())
    pace.reason(Work.COPY)
    for tasks, times in ((1, 1), (8, 100_000)):
        pace.adaptive.knee.begin(clock.now, tasks, sparing=False)
        for _ in range(times):
            pace.count()
    assert pace.shares() == (1.0, 8.0)
    assert len(pace._shares) == 2


def test_what_holds_the_work_back_at_the_start_is_shown_with_its_reason(started, monkeypatch):
    """An endpoint that refuses is shown as such, and not as one that was not asked yet."""
    monkeypatch.setattr(module, "_FIRST_SECONDS", 60.0)
    refusing, failing = Fake("endpoint", every=60.0), Fake("query", every=60.0)
    refusing.why, failing.fault = "http://x, which answered 429", MigrationFailure("no such table")
    for slow in (refusing, failing):
        slow.free.clear()
        threading.Timer(0.1, slow.free.set).start()
    pace = started(refusing, failing, first=True)
    assert pace.reason(Work.COPY) == (
        "http://x, which answered 429; the first look at the query, which failed: no such table"
    )


def test_seconds_of_a_pause_do_not_count():
    """The clock of --defer-timeout stands still for each pause, and goes on from there."""
    clock = Clock()
    settings = LiveSettings(PaceSettings(threads=1), clock=clock)
    began = settings.unpaused()
    for _ in range(2):
        clock.now += 5.0
        settings.change(paused="ana@db1")
        clock.now += 600.0
        settings.change(paused="ben@db2", nice=1.0)
        clock.now += 600.0
        assert settings.unpaused() - began in {5.0, 10.0}
        settings.change(paused="")
    assert settings.unpaused() - began == 10.0


def test_a_wait_counts_from_when_its_own_reason_began():
    """Not from the first of several reasons in a row; a short break is none."""
    load, lag, clock = Fake("load"), Fake("lag"), Clock()
    pace = throttles(load, lag, clock=clock)

    def at(seconds: float, *, loaded: bool, lags: bool) -> float | None:
        clock.now = 100.0 + seconds
        load.why, lag.why = "the load" * loaded, "the lag" * lags
        pace.reason(Work.COPY)
        pace.count()
        return pace.waiting_for()[1]

    assert at(0, loaded=False, lags=False) is None
    assert at(1, loaded=True, lags=False) == 0.0
    assert at(61, loaded=True, lags=True) == 60.0
    assert at(64, loaded=False, lags=True) == 3.0
    assert at(65, loaded=False, lags=False) is None
    assert at(66, loaded=False, lags=True) == 5.0
    assert at(67, loaded=True, lags=False) == 0.0
    assert pace.seconds()["lag"] == pytest.approx(3.0)
    assert pace.seconds()["load"] == pytest.approx(60.0)
