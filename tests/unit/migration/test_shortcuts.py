"""A change in place and an operator's pause: no request is lost between look and ALTER."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.events.event import untold
from spirit_py.migration import in_place, shortcuts
from spirit_py.migration.facts import AlterAnswered, PlainFact
from spirit_py.migration.shortcuts import _InPlace
from spirit_py.migration.swap.swap import Stopwatch
from spirit_py.pace import uncounted
from spirit_py.preflight import clauses
from spirit_py.threads import StopSwitch

CONFIG = MigrationConfig(connection=ConnectionOptions(), database="shop", table="t")


def change(run: Any, **context: Any) -> _InPlace:
    """Return a change of ``shop.t`` by a run, whose sessions are not used."""
    nothing: Any = None
    found: Any = SimpleNamespace(**({"schema": "shop", "table": "t"} | context))
    return _InPlace(run, nothing, nothing, found, lambda: None)


@pytest.fixture(autouse=True)
def in_place_alone(monkeypatch):
    """What no --native makes."""
    monkeypatch.setattr(clauses, "made_natively", lambda _: False)


class Run:
    """A run that is asked to pause, or to end, while the ALTER is noted as sent."""

    def __init__(self, asked: str) -> None:
        self.state = SimpleNamespace(postponements=0, unproven=False)
        self.veto = SimpleNamespace(asks=False, too_old=lambda: asked.partition("hook")[1])
        self.giving_up = False
        self.held = False
        self.pace = SimpleNamespace(reason=lambda _: "paused by ana" if self.held else "")
        self.asked = asked
        self.facts: list[Any] = []

    def note(self, fact: Any) -> None:
        """Keep a fact; the request comes with the first one."""
        self.facts.append(fact)
        if fact is PlainFact.ALTER_SENT:
            self.held = self.asked == "pause"
            self.giving_up = self.asked == "abort"
            self.state.postponements += self.asked == "postpone"


@pytest.mark.parametrize("asked", ["", "pause", "abort", "postpone", "hook", "earlier"])
def test_a_request_that_comes_with_the_alter_holds_it_back(asked):
    """It was answered as if nothing were under way, so nothing may be sent after it (R16)."""
    run = Run(asked)
    # Since the last look at its sentinel, as the table was looked at once more.
    run.state.postponements = int(asked == "earlier")
    with change(run).sending() as sending:
        assert sending.allowed is not bool(asked)
        sending.made = sending.allowed
    assert run.facts == [PlainFact.ALTER_SENT, AlterAnswered(not asked)]


@pytest.mark.parametrize("unproven", [False, True])
def test_a_sentinel_is_looked_for_before_each_request(unproven):
    """Nobody tells of one made by hand; a key that goes again is no change to wait for."""
    run = Run("")
    run.state.unproven = unproven
    steps: list[Any] = []

    def step(role: str, _work: Any) -> Any:
        steps.append(role)
        return SimpleNamespace(full_name="shop._t_snt") if role == "sentinel" else None

    run.step, run.config = step, CONFIG  # type: ignore[attr-defined]
    one = change(run, names=SimpleNamespace(sentinel="_t_snt"))
    if unproven:
        assert not one.await_turn("instant")
        assert steps == ["shortcut"]
        return
    with pytest.raises(shortcuts._Deferred, match=r"table shop\._t_snt defers the change"):
        one.await_turn("instant")


def test_what_holds_an_alter_back_takes_nothing_of_the_time_for_its_lock(monkeypatch):
    """Nor is a transaction of before the pause one that was in front for so long."""
    now: float = 0.0
    seen: list[Any] = []
    anything: Any = SimpleNamespace
    gate = SimpleNamespace(asks=False, try_ended=str)
    run = anything(config=CONFIG, stop=StopSwitch(), show=str, tell=untold, held_up=uncounted)
    run.veto, run.session = gate, lambda *_, **__: nullcontext()
    run.state = anything(postponements=0)

    class Tried:
        def __init__(self, *given: Any, await_turn: Any, **_: Any) -> None:
            self._turns, self._await_turn = given[4], await_turn

        def try_all(self) -> None:
            nonlocal now
            before = self._turns.left
            self._await_turn("instant")
            # Behind somebody in front, where the window may close, or an operator pause it.
            self._turns.attend()
            ((_, front),) = self._turns.fronts
            seen.append((self._turns.left - before, front.clock is self._turns.clock))
            now += 1.0
            seen.append((self._turns.left - before, True))

    def clock() -> float:
        return now

    def held_back(*_: Any) -> bool:
        nonlocal now
        now += 500.0
        return True

    held = [True, True, False]
    doubles: dict[str, Any] = {
        "shape_after": lambda *_: "",
        "throttled": lambda *_, **__: nullcontext(),
        "_proof_of": lambda *_: None,
        "Stopwatch": lambda: Stopwatch(clock),
    }
    for name, instead in doubles.items():
        monkeypatch.setattr(shortcuts, name, instead)
    monkeypatch.setattr(
        _InPlace, "_await_pace", lambda _: bool(held) and held.pop() and held_back()
    )
    monkeypatch.setattr(clauses, "made_by_server", lambda _: None)
    monkeypatch.setattr(in_place, "locked_tables", lambda *_: [])
    monkeypatch.setattr(in_place, "Shortcut", Tried)
    facts = anything(text=lambda _: "ROW")
    change(run, source=None, statement=None, facts=facts).change()
    assert seen == [(0.0, True), (-1.0, True)]
    assert not held
