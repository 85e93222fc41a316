"""How the tries of a swap are counted, and what comes between them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.cutover import tries as module
from spirit_py.cutover.plan import NotProven, SwapGate, TryFailed
from spirit_py.cutover.tries import Tries
from spirit_py.errors import CutoverFailure, HeldBack, ServerFault
from spirit_py.locks.turns import SomebodyInFront


class Gate(SwapGate):
    """Holds a swap back for as long as it says why, and notes what it is asked."""

    def __init__(self) -> None:
        self.why = ""
        self.asked: list[str] = []

    def held_back(self) -> str:
        """Return why."""
        self.asked.append("held back?")
        return self.why

    def try_ended(self) -> None:
        """Note it."""
        self.asked.append("try ended")


class Turns:
    """Turns without a lock, which note the pauses."""

    def __init__(self) -> None:
        self.over, self.free = False, True
        self.policy = SimpleNamespace(timeout=5.0)
        self.stop = SimpleNamespace(check=lambda: None)
        self.told: list[dict[str, Any]] = []
        self.pauses: list[tuple[int, float]] = []

    def tell(self, event: Any) -> None:
        """Note an event."""
        self.told.append(event.fields)

    def show(self, _text: str) -> None:
        """Show nothing."""

    def pause(self, tries: int, waited: float, _why: str) -> None:
        """Note a pause."""
        self.pauses.append((tries, waited))

    def await_free(self) -> bool:
        """Return what the test says."""
        return self.free

    def described(self) -> str:
        """Name nobody."""
        return "nobody"


@pytest.fixture
def turns() -> Turns:
    """Return turns of which a test asks for the pauses."""
    return Turns()


@pytest.fixture
def gate() -> Gate:
    """Return a gate that is open."""
    return Gate()


@pytest.fixture
def tries(turns: Any, gate: Gate, monkeypatch) -> Tries:
    """Return the loop of a switch between two servers, which answer."""
    monkeypatch.setattr(module, "await_server", lambda server, _: gate.asked.append(server))
    both: Any = ["here", "there"]
    source: Any = SimpleNamespace(block_wait=lambda: None, flush=lambda: None, pending=lambda: 0)
    intact = "the source's tables are intact"
    return Tries(
        turns=turns, gate=gate, sources=[source], servers=both, what="switch", intact=intact
    )


def test_a_try_that_failed_before_the_swap_was_held_back_counts(tries, turns, gate):
    """The next one has the next number, in log, report and metrics."""
    tried: list[int] = []

    def attempt() -> int:
        tried.append(tries.number)
        tries.waited_ms = 250.04
        if len(tried) == 1:
            raise TryFailed("lost")
        return tries.number

    gate.why = "a sentinel"
    with pytest.raises(HeldBack):
        tries.run(attempt)
    gate.why = ""
    assert tries.run(attempt) == 2
    assert tried == [1, 2]
    assert turns.told == [{"number": 1, "reason": "lost", "lock_wait_ms": 250.0}]
    assert turns.pauses == [(1, 0.25004)]


@pytest.mark.parametrize("code", [1180, 1205, 2013])
def test_a_fault_that_need_not_come_again_fails_one_try(tries, code):
    """Also a COMMIT with an unknown outcome, of changes that are applied under the lock."""
    tried: list[int] = []

    def attempt() -> str:
        tried.append(tries.number)
        if len(tried) == 1:
            raise ServerFault(code, "not now", where="cutover")
        return "made"

    assert tries.run(attempt) == "made"
    assert tried == [1, 2]


def test_after_a_pause_all_servers_must_answer_and_nothing_may_defer_the_swap(tries, gate):
    """The gate hears of the failure first: what it answers is about the next try."""
    failed = iter([True, False])

    def attempt() -> None:
        tries.await_turn()
        if next(failed):
            raise TryFailed("lost")

    tries.run(attempt)
    between = ["try ended", "here", "there", "held back?"]
    assert gate.asked == ["held back?", *between, "held back?"]


def test_tries_that_end_in_another_comparison_do_not_go_on_for_ever(tries, turns):
    """R23: the application gets pauses between some of them, and --cutover-timeout ends them."""
    tried: list[int] = []
    pauses: list[tuple[int, int]] = []
    turns.pause = lambda number, *_: pauses.append((number, len(tried)))

    def attempt() -> None:
        tried.append(tries.number)
        raise NotProven("rows must be compared")

    for _ in range(9):
        with pytest.raises(NotProven):
            tries.run(attempt)
    assert pauses == [(1, 4), (2, 8)]
    turns.over = True
    with pytest.raises(CutoverFailure, match="10 tries: rows must be compared") as ended:
        tries.run(attempt)
    assert not isinstance(ended.value, HeldBack)
    assert tried == list(range(1, 11))


@pytest.mark.parametrize("raised", [TryFailed("lost"), SomebodyInFront()])
def test_no_try_is_made_when_the_time_is_over(tries, turns, raised):
    """R23: --cutover-timeout ends failed tries, and those without a request, in plain words."""

    def attempt() -> None:
        assert not turns.over
        turns.over = True
        raise raised

    with pytest.raises(CutoverFailure, match=r"^the switch did not happen in 5") as ended:
        tries.run(attempt)
    assert str(ended.value.hint).startswith("the source's tables are intact and unlocked; run")


def test_a_lock_that_was_not_requested_is_explained(tries, turns):
    """Nobody need have tried."""
    turns.free = False
    with pytest.raises(CutoverFailure, match="0 tries: the lock was not requested, because of nob"):
        tries.run(tries.await_turn)
