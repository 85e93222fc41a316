"""Which servers of a move are said to replicate from each other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.move import checks
from spirit_py.preflight.check import Severity


@pytest.mark.parametrize(
    ("direct", "executed", "found"),
    [
        (["uuid-a"], 0, [Severity.REFUSAL]),
        ([], 1, [Severity.WARNING]),
        (["uuid-c"], 0, []),
    ],
)
def test_a_replica_through_another_server_is_warned_of(
    direct: list[str], executed: int, found: list[Severity], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A channel names its own source alone; what came through it shows in gtid_executed."""
    made = [SimpleNamespace(source_uuid=one) for one in direct]
    monkeypatch.setattr(checks, "channels", lambda _session: made)
    session: Any = SimpleNamespace(query=lambda _sql, _given: [(executed,)])
    said = [*checks._replicating("the target", session, {"uuid-a": "the source"})]
    assert [one.severity for one in said] == found
    assert all("the target" in one.cause and "the source" in one.cause for one in said)
