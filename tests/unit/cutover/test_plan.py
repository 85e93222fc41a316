"""Growing waits and pauses, and when to kill."""

from __future__ import annotations

import pytest

from spirit_py.cutover.plan import CutoverLimits


@pytest.mark.parametrize(
    ("lock_wait", "attempts", "waits"),
    [
        (30.0, 5, [4, 8, 15, 30, 30]),
        (30.0, 3, [15, 30, 30]),
        (30.0, 1, [30]),
        (1.0, 3, [1, 1, 1]),
        (0.2, 2, [1, 1]),
    ],
)
def test_waits_double_up_to_the_limit(lock_wait, attempts, waits):
    """Waits double up to the limit, which the last two tries have; never below a second."""
    limits = CutoverLimits(lock_wait=lock_wait, attempts=attempts)

    assert [limits.wait_for(n) for n in range(1, attempts + 1)] == waits


def test_pauses_double_up_to_the_lock_wait():
    """Pauses between tries double and never exceed the lock wait."""
    limits = CutoverLimits(lock_wait=5.0, pause=1.0)

    assert [limits.pause_after(n) for n in range(1, 6)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_blockers_are_killed_at_ninety_percent_or_when_told():
    """Blockers are killed at 90 % of the lock wait, or when told, or never."""
    assert CutoverLimits(lock_wait=30.0).kills_after == 27.0
    assert CutoverLimits(lock_wait=30.0, kill_after=3.0).kills_after == 3.0
    assert CutoverLimits(kill=False, kill_after=3.0).kills_after is None


def test_early_tries_never_kill():
    """By default the tries that wait less than the limit end before the time to kill."""
    limits = CutoverLimits(lock_wait=30.0, attempts=5)

    assert [n for n in range(1, 6) if limits.wait_for(n) >= (limits.kills_after or 0)] == [4, 5]
