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


def test_a_server_with_two_names_is_not_said_to_replicate_from_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That two targets are one server is a refusal of its own."""
    monkeypatch.setattr(checks, "channels", lambda _session: [])
    session: Any = SimpleNamespace(query=lambda _sql, given: [(given == ("uuid-1",),)])
    shards = [SimpleNamespace(name=name) for name in ("eu", "eu2", "us")]
    config: Any = SimpleNamespace(sources=(), shards=shards)
    home = SimpleNamespace(facts=SimpleNamespace(uuid="uuid-0"))
    opened: Any = [SimpleNamespace(contexts=[home], session=session)]
    facts: Any = [SimpleNamespace(uuid=uuid) for uuid in ("uuid-1", "uuid-1", "uuid-2")]
    (said,) = checks._between(config, opened, [session] * 3, facts)
    assert said.cause.startswith("the target us has executed transactions of the target eu2")
