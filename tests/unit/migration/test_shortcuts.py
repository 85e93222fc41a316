"""A change in place and an operator's pause: no request is lost between look and ALTER."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from spirit_py.migration.facts import AlterAnswered, PlainFact
from spirit_py.migration.shortcuts import _sending


class Run:
    """A run that is asked to pause, or to end, while the ALTER is noted as sent."""

    def __init__(self, asked: str) -> None:
        self.state = SimpleNamespace(postponements=0)
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


@pytest.mark.parametrize("asked", ["", "pause", "abort", "postpone"])
def test_a_request_that_comes_with_the_alter_holds_it_back(asked):
    """It was answered as if nothing were under way, so nothing may be sent after it (R16)."""
    run = Run(asked)
    with _sending(cast("Any", run)) as sending:
        assert sending.allowed is not bool(asked)
        sending.made = sending.allowed
    assert run.facts == [PlainFact.ALTER_SENT, AlterAnswered(not asked)]
