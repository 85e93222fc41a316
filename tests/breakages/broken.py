"""Each breakage makes a test of its row fail (``make ci-rules``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.breakages.breakage import TESTS_FAILED, Breakage, breakages, play

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("breakage", [pytest.param(one, id=one.name) for one in breakages()])
def test_a_broken_rule_fails_its_test(breakage: Breakage, tmp_path: Path) -> None:
    """In a copy of the repository, with one text of the package replaced."""
    done = play(breakage, tmp_path)
    assert done.returncode == TESTS_FAILED, f"{breakage}\n{done.stdout[-5000:]}\n{done.stderr}"
