"""Worlds of the simulation, each in a process whose program has the simulated clock and threads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.planted import PACKAGE, bugs

ROOT = Path(__file__).parents[2]
#: Worlds of each kind from seed 0: the same in each run, so that none can fail by chance.
PLAYED = {"": 100, "keeps": 60, "requests": 30, "reverts": 30, "uniques": 30}
#: So many from the seed that planted.toml has for a bug.
WORLDS = 100
FOUND = [bug for bug in bugs().values() if bug.seed is not None]
#: Of the small worlds, those of every so many places.
STRIDE = 140
#: There are more small worlds at these places.
WALKED = 80


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


def kind_of(kind: str) -> list[str]:
    """Return the option for worlds of one kind; the empty one has all."""
    return [f"--{kind}"] if kind else []


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("kind", "worlds"), PLAYED.items())
def test_no_schedule_goes_wrong(kind, worlds):
    """R1 to R7, R11, R15, R16, R18, R21, R27: `make simulate` plays as many others as wanted."""
    played = simulate(str(worlds), "0", *kind_of(kind))
    assert played.returncode == 0, played.stdout
    assert f"{worlds} worlds from seed 0" in played.stdout


@pytest.mark.parametrize("bug", FOUND, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug):
    """One of the worlds goes wrong, and shows that; without a bug none does."""
    planted = ("--plant", bug.name, "--plain", *kind_of(bug.among))
    played = simulate(str(WORLDS), str(bug.seed), *planted)
    assert played.returncode == 1, played.stdout
    assert re.match(rf"seed \d+: .*{re.escape(bug.seen)}", played.stdout), played.stdout


def test_a_world_that_goes_wrong_is_shown_as_steps():
    """The simplest schedule that goes wrong is printed with numbered steps."""
    played = simulate(str(WORLDS), "0", "--plant", "too-much-is-dropped")
    assert played.returncode == 1, played.stdout
    assert "simplest schedule" in played.stdout
    assert "\n   1 " in played.stdout


def test_every_planted_bug_can_be_planted():
    """Its texts are in the package, each once, and what is made of them is Python."""
    for bug in bugs().values():
        compile(bug.broken((PACKAGE / bug.file).read_text()), bug.file, "exec")


def test_small_worlds_are_walked():
    """One change, and a stall, a late packet or a kill, at some places of a run."""
    played = simulate("--exhaustive", str(STRIDE))
    assert played.returncode == 0, played.stdout
    found = re.search(r"(\d+) worlds .* 0 went wrong", played.stdout)
    assert found, played.stdout
    assert int(found[1]) > WALKED, played.stdout


def test_the_same_seed_is_the_same_world():
    """Everything that happens follows from the seed: steps, choices and the story."""
    first, second = (simulate("20", "7") for _ in range(2))
    assert first.stdout.rpartition(",")[0] == second.stdout.rpartition(",")[0] != ""
