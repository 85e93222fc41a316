"""A short draw of the fault harness.

``make faults RUNS=200`` is the long one; ``make ci-faults`` draws more, and proves that it notices
planted bugs.
SPIRIT_PY_FAULTS_SEED chooses the first run, SPIRIT_PY_FAULTS_RUNS how many.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kits.draw import seed_of

REPOSITORY = Path(__file__).resolve().parents[2]
RUNS = os.environ.get("SPIRIT_PY_FAULTS_RUNS", "1")


def harness(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the harness as ``make faults`` does; what it prints goes into the test's output."""
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "ci" / "faults.py"), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    sys.stdout.write(done.stdout + done.stderr)
    return done


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_short_draw_of_faults_loses_nothing():
    """Seeded migrations under load meet a fault each and resume; every row is as promised."""
    seed = str(seed_of("SPIRIT_PY_FAULTS_SEED") % 10**6)
    done = harness("--seed", seed, "--runs", RUNS)
    assert done.returncode == 0, f"SPIRIT_PY_FAULTS_SEED={seed}"
