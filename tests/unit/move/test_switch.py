"""What a try of a switch leaves for the next one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.cutover.plan import SwapGate, TryFailed
from spirit_py.errors import AnotherServer, ServerFault
from spirit_py.events.event import untold
from spirit_py.migration.swap.same_tables import MOVED
from spirit_py.move.renames import _seen
from spirit_py.move.switch import Switch
from spirit_py.pace import uncounted
from spirit_py.threads import StopSwitch


def test_what_holds_a_switch_back_takes_nothing_of_the_time_for_its_locks():
    """Between two calls, that is; nor does a blocker of before count as one of so long."""
    run: Any = SimpleNamespace(
        config=MigrationConfig(connection=ConnectionOptions(), database="shop", table="t"),
        stop=StopSwitch(),
        show=str,
        tell=untold,
        held_up=uncounted,
        task="",
    )
    nothing: Any = None
    gate = SwapGate()
    switch = Switch(run, [], MOVED, gate, check=nothing, behind=nothing)
    running: list[bool] = []
    monitor: Any = switch._tries
    monitor.run = lambda _attempt: running.append(switch._tried._began is not None)
    assert switch._turns.clock is switch._tried
    assert switch._origin(run).front.clock is switch._tried
    switch.run()
    assert (running, switch._tried._began) == ([True], None)


def test_a_request_in_vain_counts_with_what_it_waited():
    """R23: the pause after it is as long as after a swap's, and the event says it."""

    def acquire() -> None:
        lock.waited_ms = 2500.0
        raise ServerFault(1205, "Lock wait timeout exceeded", where="cutover session")

    lock = SimpleNamespace(waited_ms=0.0, acquire=acquire)
    switch: Any = object.__new__(Switch)
    switch._policy = SimpleNamespace(wait=2.5)
    switch._run = SimpleNamespace(show=str, stop=SimpleNamespace(check=lambda: None))
    switch._tries = SimpleNamespace(number=1, waited_ms=0.0)
    origin: Any = SimpleNamespace(front=SimpleNamespace(described=lambda: "session 7"))
    watch: Any = SimpleNamespace(blockers=["session 7"], verdict="")
    side: Any = SimpleNamespace(lock=lock, watch=watch)
    sides: Any = SimpleNamespace(here=[side], ours=[(origin, side)])
    with pytest.raises(TryFailed, match="blocked by session 7"):
        switch._lock(sides)
    assert switch._tries.waited_ms == 2500.0


def test_another_server_does_not_show_whether_a_rename_was_made():
    """R14, R15: it ends the look at once, and nothing is taken back for it."""
    asked: list[str] = []

    def opened() -> Any:
        asked.append("look")
        raise AnotherServer("another server answers")

    nothing: Any = None
    assert _seen(opened, "fence", nothing, made="old", seconds=60.0) is None
    assert asked == ["look"]
