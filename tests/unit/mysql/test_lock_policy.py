"""How long the application is left alone between two requests for a lock, and who counts as old."""

from __future__ import annotations

import pytest

from spirit_py.locks.blockers import LockPolicy


@pytest.mark.parametrize(
    ("waited", "pauses"),
    [
        (0.0, [1, 2, 4, 8, 16, 30, 30]),
        (2.5, [5, 10, 20, 30, 30, 30, 30]),
        (60.0, [30] * 7),
    ],
)
def test_pauses_double_up_to_half_a_minute(waited, pauses):
    """The first is twice as long as the application has waited, and a second at least."""
    policy = LockPolicy()
    assert [policy.pause_after(tries, waited) for tries in range(1, 8)] == pauses
    assert policy.pause_after(10**6, waited) == 30.0


def test_one_request_makes_nobody_wait_for_more_than_three_seconds():
    """R23: a lock is requested for two or three seconds."""
    assert 2 <= LockPolicy().wait <= 3


def test_a_second_is_old_until_the_look_has_lasted_for_long():
    """R23: then those count that would outlast a request."""
    policy = LockPolicy(wait=2.5)
    assert [policy.old_after(looked) for looked in (0, 29, 30, 3600)] == [1.0, 1.0, 2.5, 2.5]
    assert LockPolicy(wait=1.0, old=2.0).old_after(60) == 2.0
