"""For how long the hook of --hook-veto is asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.errors import MigrationFailure
from spirit_py.events.event import untold
from spirit_py.migration.swap import veto
from spirit_py.migration.swap.veto import Veto
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from spirit_py.events.event import Event

DAY = 86_400.0


class Asked:
    """A hook that answers so, by a clock of its own."""

    def __init__(self, answer: str, *, takes: float = 0.0, timeout: float = 20.0) -> None:
        self.now, self.times, self.answer = 0.0, 0, answer
        self._takes = takes
        job: Any = SimpleNamespace(
            stop=StopSwitch(),
            config=SimpleNamespace(cutover_timeout=timeout),
            table="t",
            tell=untold,
            show=lambda _: None,
        )
        self.veto = Veto(job, self._gate, tables=list, clock=lambda: self.now)

    def _gate(self, _ready: Event, _check: object) -> str:
        self.times += 1
        self.now += self._takes
        return self.answer


def test_what_else_holds_the_swap_back_counts_against_nothing() -> None:
    """A window, a sentinel: the hook is asked after it, and may agree."""
    hook = Asked("not now")
    assert hook.veto.held_back() == "not now"
    hook.now += DAY
    hook.answer = ""
    assert hook.veto.held_back() == ""
    assert hook.times == 2


def test_a_wait_that_something_else_ends_is_no_consent(monkeypatch) -> None:
    """Between two questions, too: the change in place goes on only where nothing was waited for."""
    monkeypatch.setattr(veto, "_LOOK_SECONDS", 0.0)
    hook = Asked("not now")
    for _ in range(2):
        assert hook.veto.wait(lambda: True)
    assert hook.times == 1
    hook.answer, hook.now = "", 6.0
    assert hook.veto.wait()
    assert not hook.veto.wait()


def test_a_hook_that_never_agrees_is_asked_once_more_at_the_end() -> None:
    """Its own time counts, also that of its answers; each refusal is a question."""
    hook = Asked("not now", takes=1.0)

    def wait() -> None:
        while hook.veto.held_back():
            hook.now += 0.5

    with pytest.raises(MigrationFailure, match=r"has not agreed to the swap for 20\.0s: not now"):
        wait()
    # The first question, those after 5 s and 10 s, and one when the time is over.
    assert hook.times == 4
    assert 20.0 <= hook.now - 1.0 < 23.0
    # A look beside a comparison passes over what it raises, and comes again.
    with pytest.raises(MigrationFailure, match=r"has not agreed to the swap for 20\.0s: not now"):
        wait()
    assert hook.times == 4
    hook.veto.overrule()
    wait()


def test_the_time_begins_again_once_it_has_agreed() -> None:
    """As before a try that failed."""
    hook = Asked("not now", timeout=5.0)
    for answer in ("", "not now") * 3:
        hook.answer = answer
        hook.veto.try_ended()
        hook.now += 6.0
        assert hook.veto.held_back() == answer
