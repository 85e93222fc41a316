"""How the tries of a swap are counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.cutover import cutover
from spirit_py.cutover.plan import NotProven, SwapGate, TryFailed
from spirit_py.errors import CutoverFailure, HeldBack


def made(monkeypatch: pytest.MonkeyPatch, turns: Any, told: list[int]) -> cutover.Cutover:
    """Return a swap of no tables."""
    monkeypatch.setattr(cutover, "LockTurns", lambda *_, **__: turns)
    monkeypatch.setattr(
        cutover, "Front", lambda *_, **__: SimpleNamespace(described=lambda: "nobody")
    )
    monkeypatch.setattr(cutover.Cutover, "_request", lambda _: None)
    plan: Any = SimpleNamespace(
        connection=None,
        guard="auto",
        swaps=(),
        limits=SimpleNamespace(lock=SimpleNamespace(kills=None, timeout=5.0)),
        stop=SimpleNamespace(check=lambda: None),
        show=None,
        held_up=None,
        clock=None,
        gate=SwapGate(),
        tell=lambda event: told.append(event.fields["number"]),
    )
    return cutover.Cutover(plan)


def test_a_try_that_failed_before_the_swap_was_held_back_counts(monkeypatch):
    """The next one has the next number, in log, report and metrics."""
    told: list[int] = []
    swap = made(monkeypatch, SimpleNamespace(over=False), told)
    tried: list[int] = []

    def attempt(number: int) -> int:
        tried.append(number)
        if len(tried) == 1:
            raise TryFailed("lost")
        return number

    def held_back(_number: int) -> None:
        raise HeldBack.by("a sentinel")

    monkeypatch.setattr(swap, "_try", attempt)
    monkeypatch.setattr(swap, "_pause", held_back)
    with pytest.raises(HeldBack):
        swap.run()
    swap.run()
    assert tried == [1, 2]
    assert told == [1]


def test_tries_that_end_in_another_comparison_do_not_go_on_for_ever(monkeypatch):
    """R23: the application gets pauses between some of them, and --cutover-timeout ends them."""
    turns = SimpleNamespace(over=False)
    swap = made(monkeypatch, turns, [])
    tried: list[int] = []
    pauses: list[tuple[int, int]] = []

    def attempt(number: int) -> None:
        tried.append(number)
        raise NotProven("rows must be compared")

    monkeypatch.setattr(swap, "_try", attempt)
    monkeypatch.setattr(swap, "_pause", lambda number: pauses.append((number, len(tried))))
    for _ in range(9):
        with pytest.raises(NotProven):
            swap.run()
    assert pauses == [(1, 4), (2, 8)]
    turns.over = True
    with pytest.raises(CutoverFailure, match="10 tries: rows must be compared") as ended:
        swap.run()
    assert not isinstance(ended.value, HeldBack)
    assert tried == list(range(1, 11))
