"""Worlds of the simulation, each in a process whose program has the simulated clock and threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: The worlds are the same in each run, so that none can fail by chance; 25 seconds of CPU.
FIRST = 600
#: A planted bug is found within so many worlds; docs/simulation.md has how many it took.
WORLDS = 400
BUGS = (
    "feed-begins-at-the-end",
    "position-is-what-was-received",
    "resume-drops-deletes",
    "chunk-does-not-wait",
    "nothing-is-held",
    "too-much-is-dropped",
    "swap-does-not-receive",
    "swap-does-not-flush",
)


def simulate(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the simulation as ``make simulate`` does."""
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(1200)
def test_no_schedule_goes_wrong():
    """R1 to R7, R15, R16, R18: the first worlds; `make simulate` plays as many others as wanted."""
    played = simulate(str(FIRST), "0")
    assert played.returncode == 0, played.stdout
    assert f"{FIRST} worlds from seed 0" in played.stdout


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found_and_shown_as_steps(bug):
    """The simplest schedule that goes wrong is printed with numbered steps."""
    played = simulate(str(WORLDS), "0", "--plant", bug)
    assert played.returncode == 1, played.stdout
    assert "simplest schedule" in played.stdout
    assert "\n   1 " in played.stdout


def test_the_same_seed_is_the_same_world():
    """Everything that happens follows from the seed: steps, choices and the story."""
    first, second = (simulate("20", "7") for _ in range(2))
    assert first.stdout.rpartition(",")[0] == second.stdout.rpartition(",")[0] != ""
