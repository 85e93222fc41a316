"""The proof that the fault harness notices what it is there for."""

from __future__ import annotations

import pytest

from tests.faults.test_short_draw import harness


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_planted_bugs_are_caught():
    """Lost events, a position saved too early and a resume that skips a chunk are all noticed."""
    assert harness("--prove").returncode == 0
