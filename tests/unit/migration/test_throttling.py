"""Which servers of a run are spared, and by what."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.config import ConnectionOptions, MigrationConfig, MoveConfig, Shard
from spirit_py.migration import throttling
from spirit_py.pace import Work
from spirit_py.throttle import server


def options(host: str) -> ConnectionOptions:
    """Return the way to a server."""
    return ConnectionOptions(host=host)


class Lag:
    """Watches nothing."""

    name = "lag"

    def __init__(self, *_: object, **__: object) -> None:
        self.close = str


@pytest.fixture
def watched(monkeypatch):
    """What is watched, by kind and host."""
    found: set[tuple[str, str]] = set()

    def watch(kind: str) -> Any:
        def made(connection: ConnectionOptions, *_: object, **__: object) -> Any:
            found.add((kind, connection.host))
            return SimpleNamespace(name=kind, close=str)

        return made

    monkeypatch.setattr(server, "load_throttler", watch("load"))
    monkeypatch.setattr(server, "global_lock_throttler", watch("global"))
    monkeypatch.setattr(throttling, "LagThrottler", Lag)
    monkeypatch.setattr(throttling, "Replicas", watch("lag"))
    monkeypatch.setattr(throttling, "surroundings", lambda *_, **__: [])
    monkeypatch.setattr(throttling, "watches_replicas", lambda _config: True)
    monkeypatch.setattr(throttling, "CommitLatency", lambda *_, **__: None)
    monkeypatch.setattr(
        throttling, "Throttles", lambda *_, **__: SimpleNamespace(
            add=lambda *_, **__: None, start=str, close=str, working=str, held=str, stands=str
        )
    )  # fmt: skip
    return found


@pytest.fixture
def run() -> Any:
    """A move from two sources to one target."""
    sources = tuple(Shard(name=one, connection=options(one)) for one in ("db1", "db2"))
    config = MoveConfig(
        connection=options("db1"), target=options("db9"), sources=sources, database="s", alter=""
    )
    limits = SimpleNamespace(max_load=(), critical_load=(), target_chunk_time=1.0)
    figures = SimpleNamespace(throttles=None, sparing=str, in_flight=int, received=str)
    made = {"settings": SimpleNamespace(current=limits), "figures": figures, "stop": None}
    return SimpleNamespace(
        config=config, tell=None, warn=None, lag_warnings=None, measures=None,
        work_at=str, closing=lambda *_: None, **made,
    )  # fmt: skip


def test_old_tables_are_dropped_with_an_eye_on_each_source(watched, run):
    """The target has none; the load and the lag of another source are no less than the first's."""
    with throttling.throttled(run, Work.DROP):
        pass
    assert ("load", "db1") in watched
    assert {("load", "db2"), ("lag", "db2")} <= watched
    assert not {one for one in watched if one[1] == "db9"}


def test_a_rebuild_by_the_server_looks_for_a_global_lock_and_for_room(watched, run):
    """All writes would wait behind the lock; nothing else that is changed in place fills a disk."""
    with throttling.throttled(run, Work.SWAP):
        assert not {one for one in watched if one[0] == "global"}
    with throttling.throttled(run, Work.SWAP, Work.REBUILD):
        assert ("global", "db1") in watched


@pytest.mark.parametrize(("more", "held"), [((), []), ((Work.REBUILD,), [(False, True)])])
def test_room_is_looked_for_where_the_work_fills_disks(more, held):
    """The swap of a copy does not: it may be what frees the disk; nor does INSTANT."""
    config = MigrationConfig(connection=options("db1"), database="s", table="t", max_lag=None)
    run: Any = SimpleNamespace(config=config, step=lambda *_: (Path("/data"),))
    found = [one for one, _ in throttling.surroundings(run, None, {Work.SWAP, *more})]
    disks = [one.holds for one in found if one.name == server.FREE_DISK]
    assert [(Work.SWAP in one, Work.REBUILD in one) for one in disks] == held


def test_a_global_lock_is_looked_for_on_every_server(watched, run):
    """It waits for statements of a copy on any of them, and all writes there wait behind it."""
    checkpoint: Any = SimpleNamespace(beat=str)
    throttling.begin_throttling(run, checkpoint, (0.0, None))  # type: ignore[arg-type]
    assert {host for kind, host in watched if kind == "global"} == {"db1", "db2", "db9"}
    assert {host for kind, host in watched if kind == "load"} == {"db1", "db2", "db9"}


@pytest.mark.parametrize("work", [Work.SEARCH, Work.ARCHIVE])
def test_a_global_lock_is_looked_for_while_rows_are_only_read(watched, run, work):
    """All writes wait behind it just as well."""
    with throttling.throttled(run, work):
        pass
    assert ("global", "db1") in watched
