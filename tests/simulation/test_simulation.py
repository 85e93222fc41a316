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
#: The worlds are the same in each run, so that none can fail by chance.
FIRST = 100
#: Bugs of planted.toml, the first seed that is played, and what is seen of each within so many
#: worlds from there; README.md has all of them.
FOUND = {
    "too-much-is-dropped": (0, "StillDifferent"),
    "one-table-is-renamed": (0, "the table is gone"),
    "checkpoints-stay": (0, "tables are left: [('s', '_t_chkpnt'), ('s', 't')]"),
    "xa-rollback-is-applied": (0, "rows differ"),
    # The table in place is the wrong one; the next run will not drop what it does not know.
    "another-table-is-accepted": (180, "tables are left: [('s', '_t_old'), ('s', 't')]"),
    "the-first-image-of-a-key-stays": (0, "StillDifferent"),
    "the-application-loses-a-row": (60, "apply has written rows of t"),
    "tables-are-renamed-one-by-one": (60, "has met error (1146"),
    "the-comparison-has-no-snapshot": (80, "StillDifferent"),
    "a-copy-locks-what-it-reads": (10, "locked by chunk"),
}
WORLDS = 250
#: Of the worlds with kept rows.
FIRST_KEPT = 60
#: Of those of which an operator asks something.
FIRST_ASKED = 30
#: Of those whose old table follows the new one.
FIRST_REVERTED = 30
#: Of those that add a unique key.
FIRST_UNIQUE = 30
#: In these, and the first seed that is played: README.md has from which on each is found.
FOUND_AMONG_KEPT = {
    "a-row-that-is-kept-no-more-stays": 120,
    "null-is-taken-for-true": 0,
    "a-key-that-changes-leaves-its-row": 780,
}
#: In the worlds of a way back, likewise.
FOUND_AMONG_REVERTED = {"a-follower-begins-at-the-end": 0}
#: In the worlds of a new unique key, likewise.
FOUND_AMONG_UNIQUE = {"rows-never-meet": 0}
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


@pytest.mark.timeout(1200)
def test_no_schedule_goes_wrong():
    """R1 to R7, R15, R16, R18: the first worlds; `make simulate` plays as many others as wanted."""
    played = simulate(str(FIRST), "0")
    assert played.returncode == 0, played.stdout
    assert f"{FIRST} worlds from seed 0" in played.stdout


@pytest.mark.parametrize("bug", FOUND)
def test_a_planted_bug_is_found(bug):
    """One of the worlds goes wrong, and shows that; without a bug none does."""
    first, seen = FOUND[bug]
    played = simulate(str(WORLDS), str(first), "--plant", bug, "--plain")
    assert played.returncode == 1, played.stdout
    assert re.match(rf"seed \d+: .*{re.escape(seen)}", played.stdout), played.stdout


@pytest.mark.timeout(1200)
def test_no_schedule_with_kept_rows_goes_wrong():
    """R27: the new table has the rows that are kept, wherever changes move them."""
    played = simulate(str(FIRST_KEPT), "0", "--keeps")
    assert played.returncode == 0, played.stdout
    assert f"{FIRST_KEPT} worlds from seed 0" in played.stdout


@pytest.mark.timeout(1200)
def test_no_schedule_goes_wrong_of_which_an_operator_asks_something():
    """What `ctl` was answered holds, and the run ends well."""
    played = simulate(str(FIRST_ASKED), "0", "--requests")
    assert played.returncode == 0, played.stdout
    assert f"{FIRST_ASKED} worlds from seed 0" in played.stdout


@pytest.mark.timeout(1200)
def test_no_schedule_with_a_revert_goes_wrong():
    """The old table follows, and a revert swaps it back with what was written since."""
    played = simulate(str(FIRST_REVERTED), "0", "--reverts")
    assert played.returncode == 0, played.stdout
    assert f"{FIRST_REVERTED} worlds from seed 0" in played.stdout


@pytest.mark.timeout(1200)
def test_no_schedule_with_a_new_unique_key_goes_wrong():
    """R11, R21: values that move between rows stay; duplicates are named where there are any."""
    played = simulate(str(FIRST_UNIQUE), "0", "--uniques")
    assert played.returncode == 0, played.stdout
    assert f"{FIRST_UNIQUE} worlds from seed 0" in played.stdout


@pytest.mark.parametrize("bug", FOUND_AMONG_KEPT)
def test_a_bug_is_found_by_rows_that_are_left_out(bug):
    """Likewise for what only `--keep` does."""
    first = FOUND_AMONG_KEPT[bug]
    played = simulate(str(FIRST_KEPT), str(first), "--keeps", "--plant", bug, "--plain")
    assert played.returncode == 1, played.stdout
    assert "seed " in played.stdout


@pytest.mark.parametrize("bug", FOUND_AMONG_REVERTED)
def test_a_bug_of_the_way_back_is_found(bug):
    """Likewise for what only `--keep-old-current` and `revert` do."""
    first = FOUND_AMONG_REVERTED[bug]
    played = simulate(str(FIRST_REVERTED), str(first), "--reverts", "--plant", bug, "--plain")
    assert played.returncode == 1, played.stdout
    assert "seed " in played.stdout


@pytest.mark.parametrize("bug", FOUND_AMONG_UNIQUE)
def test_a_bug_of_a_new_unique_key_is_found(bug):
    """Likewise for what only a new unique key needs."""
    first = FOUND_AMONG_UNIQUE[bug]
    played = simulate(str(FIRST_UNIQUE), str(first), "--uniques", "--plant", bug, "--plain")
    assert played.returncode == 1, played.stdout
    assert "seed " in played.stdout


def test_a_world_that_goes_wrong_is_shown_as_steps():
    """The simplest schedule that goes wrong is printed with numbered steps."""
    played = simulate(str(WORLDS), "0", "--plant", next(iter(FOUND)))
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
