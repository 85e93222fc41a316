"""Figures as people read them."""

from __future__ import annotations

import pytest

from spirit_py.units import human_seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "?"),
        (-5, "0.0s"),
        (5.64, "5.6s"),
        (184, "3m04s"),
        (3725, "1h02m"),
        (604_800, "7d00h"),
    ],
)
def test_durations_have_two_units_at_most(seconds, text):
    """A duration is exact enough to act on; a clock that was set back gives none below zero."""
    assert human_seconds(seconds) == text
