"""Commits are timed while none of the migrations side by side works."""

from __future__ import annotations

from spirit_py.knee import Knee
from spirit_py.pace import FIRST_TASKS, Work
from spirit_py.throttle.adaptive import Adaptive, Others
from spirit_py.throttle.latency import Measures

BUSY = Others(writes=1000.0)


def test_one_that_measures_holds_the_others_back():
    """But not itself: its own throttler does that."""
    measures = Measures(clock=lambda: 1.0)
    first, second = Adaptive(), Adaptive()
    of_first, of_second = measures.join(first), measures.join(second)
    assert of_first.look() == of_second.look() == ""
    second.saw(1.0, BUSY)
    assert "another table" in of_first.look()
    assert of_second.look() == ""
    assert Work.SWAP not in of_first.holds


def test_one_whose_probes_fail_holds_nobody_back_for_ever():
    """Its measure ends with a probe: a lock of others in front of its table may last for hours."""
    now = 1.0
    measures = Measures(clock=lambda: now)
    broken = Adaptive()
    other = measures.join(Adaptive())
    measures.join(broken)
    broken.saw(now, BUSY)
    now += 60.0
    assert other.look()
    now += 60.0
    assert not other.look()


def test_one_that_has_ended_holds_nobody_back():
    """Also where it has ended in the middle of a measure."""
    measures = Measures()
    first, second = Adaptive(), Adaptive()
    of_first, of_second = measures.join(first), measures.join(second)
    second.saw(1.0, BUSY)
    of_second.close()
    of_second.close()
    assert of_first.look() == ""


def test_what_the_others_have_begun_ends_before_commits_count():
    """Slow commits from the moment before are no measure of a server without the work."""
    alone, beside = Adaptive(), Adaptive()
    Measures().join(beside)
    for pace in (alone, beside):
        pace.saw(1.0, BUSY)
        for number in range(1, 40):
            now = 1.0 + number / 20
            pace.probed(now, 0.010 if number < 10 else 0.001)
            pace.step(now)
    assert alone.commit_seconds_before == 0.010
    assert beside.commit_seconds_before == 0.001


def test_what_works_for_all_of_them_is_not_others():
    """Tasks that are allowed, and sessions that apply a batch now."""
    measures, first, second, runs = Measures(), Adaptive(), Adaptive(), [False]
    measures.join(first)
    measures.join(second, lambda: runs[0])
    for pace in (first, second):
        pace.knee.begin(1.0, 8, sparing=False)
    second.held = True
    feed = Knee(FIRST_TASKS)
    second.govern(feed)
    feed.working = 3
    assert measures.at_work() == 8 + 3
    # A comparison that counts asks for nothing, and every task executes a statement.
    runs[0] = True
    assert measures.at_work() == 8 + 8 + 3


def test_chunks_of_any_of_them_are_waited_for():
    """Until it has ended."""
    measures, runs = Measures(), [True]
    measures.join(Adaptive())
    other = measures.join(Adaptive(), lambda: runs[0])
    assert measures.in_flight()
    runs[0] = False
    assert not measures.in_flight()
    runs[0] = True
    other.close()
    assert not measures.in_flight()
