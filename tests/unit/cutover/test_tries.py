"""How the tries of a swap are counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.cutover import cutover
from spirit_py.cutover.plan import TryFailed
from spirit_py.errors import HeldBack


def test_a_try_that_failed_before_the_swap_was_held_back_counts(monkeypatch):
    """The next one has the next number, in log, report and metrics."""
    monkeypatch.setattr(cutover, "LockTurns", lambda *_, **__: SimpleNamespace(over=False))
    monkeypatch.setattr(cutover, "Front", lambda *_, **__: None)
    monkeypatch.setattr(cutover.Cutover, "_request", lambda _: None)
    told: list[int] = []
    plan: Any = SimpleNamespace(
        connection=None,
        guard="auto",
        swaps=(),
        limits=SimpleNamespace(lock=SimpleNamespace(kills=None)),
        stop=SimpleNamespace(check=lambda: None),
        show=None,
        clock=None,
        try_ended=lambda: None,
        tell=lambda *_, number=0, **__: told.append(number),
    )
    swap = cutover.Cutover(plan)
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
