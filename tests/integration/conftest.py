"""What holds for every migration that an integration test runs in its own process."""

from __future__ import annotations

import pytest

from spirit_py.throttle import adaptive


@pytest.fixture(autouse=True)
def short_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time commits for a tenth of a second before a copy: hundreds of copies wait for it."""
    monkeypatch.setattr(adaptive, "_LONGEST_MEASURE", 0.1)
