"""Each breakage makes a test of its row fail, which passes without it (``make ci-rules``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.breakages.breakage import Breakage, asked_for, breakages, has_found, play

if TYPE_CHECKING:
    from pathlib import Path

#: All tests of a file take longer than those up to the first that fails.
SECONDS = 3000


@pytest.mark.parametrize("breakage", [pytest.param(one, id=one.name) for one in breakages()])
def test_a_broken_rule_fails_its_test(breakage: Breakage, tmp_path: Path) -> None:
    """In a copy of the repository, with one text of the package replaced."""
    done = play(breakage.tests, tmp_path, breakage)
    assert has_found(done), f"{breakage}\n{done.stdout[-5000:]}\n{done.stderr}"


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize(
    "tests",
    [
        pytest.param(tests, id=f"{', '.join(rows)} [{tests}]")
        for tests, rows in asked_for(breakages()).items()
    ],
)
def test_without_a_breakage_nothing_fails(tests: str, tmp_path: Path) -> None:
    """In such a copy as it is: else what failed there proves nothing about the rule."""
    done = play([tests], tmp_path, seconds=SECONDS)
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr}"
