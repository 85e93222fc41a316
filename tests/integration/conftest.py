"""What holds for every migration that an integration test runs in its own process."""

from __future__ import annotations

import pytest

from spirit_py.migration.reverse import keeper
from spirit_py.migration.swap import deferral, same_tables
from spirit_py.throttle import adaptive


@pytest.fixture(autouse=True)
def short_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time commits for a tenth of a second before a copy: hundreds of copies wait for it."""
    monkeypatch.setattr(adaptive, "_LONGEST_MEASURE", 0.1)


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look ten times a second for what a test does to a run that waits for its operator."""
    for module in (deferral, keeper):
        monkeypatch.setattr(module, "_LOOK_SECONDS", 0.1)


@pytest.fixture
def never_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a moment for the binlog to have a change of a table that it never has."""
    monkeypatch.setattr(same_tables, "_LOGGED_WITHIN", 0.2)
