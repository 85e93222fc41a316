"""The swap of a migration when something holds it back between two tries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.errors import HeldBack
from spirit_py.events.event import untold
from spirit_py.migration import migration
from spirit_py.migration.swap import swap
from spirit_py.migration.swap.same_tables import FORWARD
from spirit_py.migration.swap.swap import PairSwap
from spirit_py.phases import Phase


def test_time_in_which_it_is_held_back_counts_for_none_of_its_limits(monkeypatch):
    """R23: its clock runs while it tries, and goes on from there."""
    now, tried = 0.0, []

    class Trying:
        renaming = False

        def __init__(self, plan: Any) -> None:
            self._clock = plan.clock

        def run(self) -> None:
            nonlocal now
            now += 7.0
            tried.append(self._clock())
            raise HeldBack.by("a sentinel")

    monkeypatch.setattr(swap, "Cutover", Trying)
    monkeypatch.setattr(swap, "LockPolicy", SimpleNamespace(of=lambda _: None))
    monkeypatch.setattr(swap, "swaps_of", lambda *_: [])
    process: Any = SimpleNamespace(
        config=SimpleNamespace(connection=None, snapshot_guard="off"),
        tell=None,
        show=None,
        held_up=None,
    )
    pairs: Any = [SimpleNamespace(feed=None, stop=None)]
    swapping = PairSwap(job=process, pairs=pairs, direction=FORWARD, carried=lambda key: key)
    monkeypatch.setattr(swapping._tried, "_clock", lambda: now)
    for _ in range(3):
        with pytest.raises(HeldBack):
            swapping.run()
        now += 1000.0
    assert tried == [7.0, 14.0, 21.0]


def test_a_swap_that_was_held_back_is_the_same_one_that_goes_on(monkeypatch):
    """R23: a migration has one swap, whatever holds it back."""
    planned, tried = [], []

    def plan(*_: Any, **__: Any) -> object:
        planned.append(object())
        return planned[-1]

    def swap_in(_run: Any, one: object) -> str:
        tried.append(one)
        if len(tried) < 3:
            raise HeldBack.by("a sentinel")
        return "swapped"

    monkeypatch.setattr(migration, "plan_swap", plan)
    monkeypatch.setattr(migration, "swap_in_new_tables", swap_in)
    free = SimpleNamespace(pass_when_free=lambda: None)
    monkeypatch.setattr(migration, "Deferral", lambda *_: free)
    run: Any = SimpleNamespace(
        config=SimpleNamespace(defer_cutover=False),
        engines=SimpleNamespace(rest=lambda: None),
        state=SimpleNamespace(phase=Phase.CUTOVER, undeferred=False),
        tell=untold,
    )
    new: Any = SimpleNamespace(contexts=(), way=migration.OneServer())
    ended: Any = migration._swap(run, [], checkpoints=[], new=new)
    assert ended == "swapped"
    assert planned * 3 == tried


def test_nothing_is_altered_before_it_is_seen_that_writes_come_in_here(monkeypatch):
    """The counter of the new table on a replica is its source's."""
    sent: list[object] = []

    def prepare(_session: object) -> None:
        raise HeldBack.by("a switchover")

    monkeypatch.setattr(swap, "require_same", lambda *_: None)
    monkeypatch.setattr(swap, "align_auto_increment", lambda *_, **__: sent.append("ALTER"))
    swapping: Any = object.__new__(PairSwap)
    swapping.pairs = [SimpleNamespace(tables=None, source_name=("s", "t"), mapping=None)]
    swapping.counters, swapping.prepare = {}, prepare
    with pytest.raises(HeldBack):
        swapping._before_lock(None)
    assert sent == []
