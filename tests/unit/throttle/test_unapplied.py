"""What a replica has not applied, and when the copy waits for it."""

from __future__ import annotations

from collections import deque

import pytest

from spirit_py.throttle.unapplied import (
    FIRST_BYTES,
    Behind,
    Mark,
    Unapplied,
    pressure,
    why_behind,
)

MIB = 1 << 20


def marks(*pairs):
    """Return marks at (seconds, bytes)."""
    return [Mark(at=at, written=written, offset=written + 1) for at, written in pairs]


def upto(written):
    """Return a replica that has applied so many bytes."""
    return lambda mark: mark.written <= written


def test_a_replica_is_behind_by_the_age_of_the_oldest_mark_that_it_has_not_reached():
    """Marks that it has reached count no more, whatever their age."""
    backlog = Unapplied()
    for mark in marks((0.0, 0), (1.0, 10), (2.0, 30)):
        backlog.add(mark)
    assert backlog.look(5.0, upto(0))[:2] == (4.0, 30)
    assert backlog.look(5.5, upto(10))[:2] == (3.5, 20)
    assert backlog.look(6.0, upto(30))[:2] == (0.0, 0)


def test_an_idle_source_has_no_lag():
    """Marks of one place are one: nothing was written that a replica could be missing."""
    backlog = Unapplied()
    for at in range(100):
        backlog.add(Mark(at=float(at), written=7, offset=7))
        assert backlog.look(at + 0.5, upto(7)).lag == 0.0
    backlog.add(Mark(at=200.0, written=8, offset=8))
    assert backlog.look(201.0, upto(7)).lag == 1.0


def test_a_delay_that_is_configured_is_no_lag():
    """What is younger than SOURCE_DELAY is not due, neither in seconds nor in bytes."""
    backlog = Unapplied()
    for mark in marks((0.0, 0), (1.0, 10), (2.0, 30), (9.0, 50)):
        backlog.add(mark)
    assert backlog.look(10.0, upto(0), delay=7.5)[:2] == (1.5, 30)
    assert backlog.look(10.0, upto(30), delay=7.5)[:2] == (0.0, 0)


def test_the_speed_is_that_of_the_times_with_work():
    """An hour without anything to apply does not make a replica look slow."""
    backlog = Unapplied()
    backlog.add(Mark(at=0.0))
    backlog.look(0.0, upto(0))
    assert backlog.look(1.0, upto(0)).speed is None
    backlog.add(Mark(at=1.0, written=40, offset=40))
    backlog.look(1.5, upto(0))
    assert backlog.look(2.0, upto(40)).speed == pytest.approx(80.0)


def test_marks_of_days_take_bounded_room():
    """A replica that is stopped for days costs no memory, and its lag stays known."""
    backlog = Unapplied()
    for at in range(20_000):
        backlog.add(Mark(at=float(at), written=at, offset=at + 1))
    assert len(backlog._waiting) <= 4096
    assert backlog.look(20_000.0, lambda _: False)[:2] == (20_000.0, 19_999)


@pytest.mark.parametrize(
    ("behind", "why"),
    [
        (Behind(lag=1.5), ""),
        (Behind(lag=1.6), "is 1.6s behind"),
        (Behind(lag=0.1, unapplied=FIRST_BYTES), ""),
        (Behind(lag=0.1, unapplied=3 * MIB), "has 3.0 MiB to apply"),
        (Behind(lag=0.1, unapplied=6 * MIB, speed=10.0 * MIB), ""),
        (
            Behind(lag=0.1, unapplied=MIB, speed=1.0 * MIB),
            "has 1.0 MiB to apply, for which it needs 1.0s",
        ),
        (
            Behind(lag=0.1, unapplied=8 * MIB, speed=10.0 * MIB),
            "has 8.0 MiB to apply, for which it needs 0.8s",
        ),
    ],
)
def test_the_copy_waits_for_lag_and_for_what_will_be_lag(behind, why):
    """Beyond the limit, or further ahead than the replica applies in half of the limit."""
    assert why_behind(behind, 1.5) == why


@pytest.mark.parametrize(
    ("behind", "near"),
    [
        (Behind(), 0.0),
        (Behind(lag=1.5), 1.0),
        (Behind(lag=0.06, unapplied=100 * MIB), 0.1),
        (Behind(lag=0.6, unapplied=FIRST_BYTES), 1.0),
        (Behind(lag=0.9, unapplied=FIRST_BYTES // 2), 0.6),
        (Behind(lag=0.6, unapplied=3 * MIB, speed=10.0 * MIB), 0.5),
    ],
)
def test_the_pace_slows_down_before_the_limit(behind, near):
    """By what is sent and not applied, as far as the replica was behind long enough to tell."""
    assert pressure(behind, 1.5) == pytest.approx(near)


def run(*, copies, applies, limit=1.5, in_flight=0.3, seconds=40.0, stalls=0.0):
    """Simulate a copy and a replica, in bytes a second; return the worst lag and what was copied.

    Args:
        in_flight: seconds for which chunks that have begun go on.
        stalls: seconds in every five for which the replica applies nothing.
    """
    step, written, applied, worst = 0.01, 0.0, 0.0, 0.0
    commits: deque[tuple[float, float]] = deque()
    backlog, why, free_until, look_at = Unapplied(), "", 0.0, 0.0
    backlog.add(Mark(at=0.0))
    now = 0.0
    while now < seconds:
        now += step
        if not why:
            free_until = now + in_flight
        if now < free_until:
            written += copies * step
            commits.append((now, written))
        if now % 5.0 >= stalls:
            applied = min(written, applied + applies * step)
        while commits and commits[0][1] <= applied:
            commits.popleft()
        worst = max(worst, now - commits[0][0] if commits else 0.0)
        if now >= look_at:
            look_at = now + 0.1
            backlog.add(Mark(at=now, written=int(written), offset=int(written) + 1))
            why = why_behind(backlog.look(now, upto(applied)), limit)
    return worst, written / seconds


@pytest.mark.parametrize("applies", [MIB // 2, 4 * MIB, 10 * MIB, 50 * MIB])
@pytest.mark.parametrize("times", [1.2, 2.0, 3.0])
def test_a_replica_that_is_slower_than_the_copy_stays_near_the_limit(applies, times):
    """Within the limit and a second, and the replica always has something to do."""
    worst, speed = run(copies=times * applies, applies=applies)
    assert worst < 2.5
    assert speed > 0.7 * applies


@pytest.mark.parametrize("applies", [MIB // 2, 4 * MIB, 50 * MIB])
def test_a_replica_that_stalls_now_and_then_catches_up(applies):
    """What was sent before a stall of a second is little: the lag is the stall's, and not twice."""
    worst, speed = run(copies=2 * applies, applies=applies, in_flight=0.1, stalls=1.0)
    assert worst < 2.5
    assert speed > 0.5 * applies


def test_a_replica_that_keeps_up_does_not_slow_the_copy():
    """After the first moments the room is as large as what the replica can do."""
    worst, speed = run(copies=40 * MIB, applies=50 * MIB)
    assert worst < 0.3
    assert speed > 0.98 * 40 * MIB
