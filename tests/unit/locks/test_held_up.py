"""For how long others hold up a lock, counted while it is so."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.classes import replace
from spirit_py.events.event import untold
from spirit_py.locks.blockers import Blocker, KillPolicy, LockPolicy
from spirit_py.locks.look import LockRequest
from spirit_py.locks.turns import Front, LockTurns

if TYPE_CHECKING:
    from spirit_py.events.event import Event


class Waiting:
    """Turns on a clock that only their rests move, with a front that is free at a time."""

    def __init__(self, *, free_at: float) -> None:
        self.time, self._free_at = 0.0, free_at
        self.counted: list[tuple[str, float]] = []
        self.shown: list[str] = []
        stop: Any = SimpleNamespace(wait=self._pass, check=lambda: None)
        front: Any = self
        self.spared, self.unseen = ["session 7"], ""
        self.turns = LockTurns(
            [(front, front)],
            LockPolicy(),
            stop,
            what="the lock",
            show=self.shown.append,
            tell=untold,
            held_up=lambda what, seconds: self.counted.append((what, seconds)),
            clock=lambda: self.time,
        )

    def _pass(self, seconds: float) -> None:
        self.time += seconds

    @property
    def now(self) -> list[Blocker]:
        """Who was in front at the last look."""
        blocker: Any = SimpleNamespace(
            key=(7, 7), session=7, certain=True, user="app", host="web", own=False
        )
        return [blocker] if self.time < self._free_at else []

    def ask_again(self) -> None:
        """Ask nothing: the front is seen."""

    def look(self, _session: object) -> None:
        """Look: the front is as the clock says."""

    def kill(self, _session: object) -> None:
        """Kill nobody."""

    def remedy(self, _found: list[Blocker]) -> str:
        """Offer the operator's own kill."""
        return "; to end them: KILL 7"

    def older_than(self, _seconds: float) -> list[Blocker]:
        """Everybody is old."""
        return self.now


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let looks have no session."""
    monkeypatch.setattr(
        "spirit_py.locks.turns.connect", lambda *_, **__: contextlib.nullcontext(None)
    )


def test_the_wait_for_old_sessions_is_counted_while_it_lasts() -> None:
    """Each look adds what has passed since the one before, with what is shown; then it ends."""
    waiting = Waiting(free_at=2.0)
    assert waiting.turns.await_free()
    *during, end = waiting.counted
    assert {what for what, _ in during} == {"session 7, before the lock is requested"}
    assert len(during) == 5
    with_remedy = "session 7, before the lock is requested; to end them: KILL 7"
    assert waiting.shown == [*[with_remedy] * 5, ""]
    assert sum(seconds for _, seconds in waiting.counted) == pytest.approx(2.0)
    assert (end[0], round(end[1], 3)) == ("", 0.4)


def test_a_free_lock_counts_nothing() -> None:
    """Nobody is in front at the first look."""
    waiting = Waiting(free_at=0.0)
    assert waiting.turns.await_free()
    assert sum(seconds for _, seconds in waiting.counted) == 0.0


def test_a_request_that_was_given_up_counts_with_its_pause() -> None:
    """2.5 s of request and 5 s of pause, by what is shown."""
    waiting = Waiting(free_at=100.0)
    waiting.turns.pause(1, 2.5, "not granted")
    assert sum(seconds for _, seconds in waiting.counted) == pytest.approx(7.5)
    assert [what for what, _ in waiting.counted] == waiting.shown


@pytest.mark.parametrize(("in_vain", "counted"), [(False, 0.0), (True, 7.5)])
def test_a_pause_for_another_reason_does_not_count(in_vain: bool, counted: float) -> None:
    """A try may fail under its lock; where nobody looks, the caller knows that it did not."""
    waiting = Waiting(free_at=0.0)
    waiting.turns.pause(1, 2.5, "", in_vain=in_vain)
    assert sum(seconds for _, seconds in waiting.counted) == pytest.approx(counted)


def test_a_kill_is_told_once_as_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """So its line has a time, and the summary counts it."""
    monkeypatch.setattr("spirit_py.locks.turns.kill_blocker", lambda *_: "")
    nothing: Any = None
    front = Front(LockRequest(tables=[("shop", "t")]), KillPolicy(mode="all", after=0.0))
    told: list[Event] = []
    shown: list[str] = []
    LockTurns(
        [(nothing, front)], LockPolicy(), nothing, what="", show=shown.append, tell=told.append
    )
    blocker = Blocker(key=(40, 1), session=7, user="app", host="web1", idle=True, seconds=60)
    front.now = [blocker]
    front.kill(nothing)
    front.kill(nothing)
    assert [each.line for each in told] == [f"warning: killed for the table lock: {blocker}"]


@pytest.mark.parametrize(("tables", "told_of"), [([("shop", "t")], 1), ([], 0)])
def test_locks_that_are_unseen_are_told_of_where_tables_are_locked(
    monkeypatch: pytest.MonkeyPatch, tables: list[tuple[str, str]], told_of: int
) -> None:
    """The other servers of a move may show all that matters: there only a backup is looked for."""
    monkeypatch.setattr("spirit_py.locks.turns.why_locks_are_unseen", lambda *_: "hidden")
    monkeypatch.setattr("spirit_py.locks.turns.find_possible", lambda *_: [])
    nothing: Any = None
    told: list[Event] = []
    shown: list[str] = []
    fronts = [(nothing, Front(LockRequest(tables=tables, defines=True)))]
    turns = LockTurns(fronts, LockPolicy(), nothing, what="", show=shown.append, tell=told.append)
    assert turns.in_front([nothing]) == []
    assert len(told) == told_of


@pytest.mark.parametrize(("table_locks", "old"), [(True, 1), (False, 0)])
def test_a_lock_of_lock_tables_grows_old_over_many_transactions(
    monkeypatch: pytest.MonkeyPatch, table_locks: bool, old: int
) -> None:
    """A busy session begins another transaction with each statement, under one lock."""
    now = 0.0
    blocker = Blocker(key=(40, 1), session=7, table_locks=table_locks)
    monkeypatch.setattr("spirit_py.locks.turns.why_locks_are_unseen", lambda *_: "")
    monkeypatch.setattr(
        "spirit_py.locks.turns.find_in_front", lambda *_: [replace(blocker, began=str(now))]
    )
    front = Front(LockRequest(tables=[("shop", "t")]), clock=lambda: now)
    nothing: Any = None
    for now in (0.0, 0.4, 0.8, 1.2):  # noqa: B007
        front.look(nothing)
    assert len(front.older_than(1.0)) == old


def test_a_transaction_that_the_first_look_did_not_see_may_be_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server's list of transactions is of up to 0.1 s before, or older where others read it."""
    now = 0.0
    shown = {0.0: "", 100.0: "10:00:01", 200.0: "", 300.0: "10:00:01"}
    monkeypatch.setattr("spirit_py.locks.turns.why_locks_are_unseen", lambda *_: "")
    monkeypatch.setattr(
        "spirit_py.locks.turns.find_in_front",
        lambda *_: [Blocker(key=(40, 1), session=7, began=shown[now])],
    )
    front = Front(LockRequest(tables=[("shop", "t")]), clock=lambda: now)
    nothing: Any = None
    old = []
    for now in shown:  # noqa: B007
        front.look(nothing)
        old.append(len(front.older_than(50.0)))
    assert old == [0, 0, 1, 1]
