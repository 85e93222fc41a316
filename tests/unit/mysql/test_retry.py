"""Retries end on success, on a fault that stays, after enough tries, and at once on a stop."""

from __future__ import annotations

import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.errors import FeedFailure, Interrupted, SchemaChanged, ServerFault
from spirit_py.mysql import retry
from spirit_py.mysql.faults import takes_no_writes
from spirit_py.mysql.retry import RepeatingSession, patiently, retrying
from spirit_py.threads import StopSwitch


class Flaky:
    """Fails with the given error numbers in turn, then works."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.calls = 0

    def __call__(self) -> str:
        """Fail or work."""
        self.calls += 1
        if self.codes:
            raise ServerFault(self.codes.pop(0), "text", where="test")
        return "done"


def test_transient_faults_are_tried_again():
    """A deadlock and a lost connection are tried again until it works, and told about."""
    work, told = Flaky(1213, 2013), []

    result = retrying(
        StopSwitch(), first_pause=0.001, on_retry=lambda n, fault: told.append((n, str(fault)))
    )(work)

    assert result == "done"
    assert told == [(1, "text (error 1213, test)"), (2, "text (error 2013, test)")]


def test_fatal_faults_are_raised_at_once():
    """A fault that another try would meet again is raised by the first."""
    work = Flaky(1064)

    with pytest.raises(ServerFault, match="1064"):
        retrying(StopSwitch(), first_pause=0.001)(work)
    assert work.calls == 1


def test_a_read_only_server_is_tried_again_only_where_that_may_pass():
    """Elsewhere the copy ends at once; what is left to clear away may wait a few tries."""
    with pytest.raises(ServerFault, match="1290"):
        retrying(StopSwitch(), first_pause=0.001)(Flaky(1290))
    again = retrying(StopSwitch(), attempts=3, first_pause=0.001, passing=takes_no_writes)
    assert again(Flaky(1290, 1836)) == "done"
    again = retrying(StopSwitch(), attempts=3, first_pause=0.001, passing=takes_no_writes)
    with pytest.raises(ServerFault, match="1290"):
        again(Flaky(*[1290] * 3))


def test_the_last_fault_is_raised_after_the_last_try():
    """After the last try its fault is raised."""
    work = Flaky(*[1205] * 10)

    with pytest.raises(ServerFault, match="1205"):
        retrying(StopSwitch(), attempts=3, first_pause=0.001)(work)
    assert work.calls == 3


def test_a_lock_that_somebody_is_seen_to_have_is_waited_for_without_an_end():
    """Only a lock's time counts like that, and only while it is seen; other faults do not ask."""
    work, seen = Flaky(*[1205] * 9, 1213), iter([True] * 9)
    again = retrying(StopSwitch(), attempts=2, first_pause=1e-9, locked=lambda: next(seen))
    assert again(work) == "done"
    unseen = retrying(StopSwitch(), attempts=2, first_pause=1e-9, locked=lambda: False)
    with pytest.raises(ServerFault, match="1205"):
        unseen(Flaky(*[1205] * 2))


def test_who_has_the_lock_is_shown_while_it_is_waited_for():
    """Not that the server does not answer; another fault is shown as it is."""
    shown: list[str] = []
    stop: Any = SimpleNamespace(pause=lambda _: None, requested=False)
    server: Any = SimpleNamespace(address="db")
    seen = iter(["a lock of session 5"] * 6)
    tell, work = shown.append, Flaky(*[1205] * 6, 1213)
    assert patiently(work, server, stop, tell=tell, locked=lambda: next(seen)) == "done"
    assert shown[:6] == ["a lock of session 5"] * 6
    assert shown[6:] == ["the server at db to answer (text)", ""]


def test_a_stop_request_ends_a_pause():
    """A pause of hours ends when a stop is asked for, with its reason and without a try."""
    stop, work, began = StopSwitch(), Flaky(*[1205] * 10), threading.Event()
    retrier = retrying(
        stop, first_pause=3600.0, longest_pause=7200.0, on_retry=lambda *_: began.set()
    )

    def ask() -> None:
        began.wait(60)
        stop.request(Interrupted(15))

    asker = threading.Thread(target=ask)
    asker.start()
    with pytest.raises(Interrupted):
        retrier(work)
    asker.join()
    assert work.calls == 1


def test_no_pause_after_a_stop_request():
    """A fault met after a stop request is raised without a pause."""
    stop, work = StopSwitch(), Flaky(1205)
    stop.request(Interrupted(15))

    with pytest.raises(ServerFault, match="1205"):
        retrying(stop, first_pause=3600.0)(work)


class Clock:
    """Seconds that pass only when the work is tried."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.mark.parametrize("code", [2003, 2013, 1053, 1040, 1226])
def test_a_server_that_is_away_is_waited_for_however_often_it_is_tried(code):
    """One patience for refused, lost, shutting down and full: not tries count, but time does."""
    work = Flaky(*[code] * 30)

    assert retrying(StopSwitch(), attempts=2, first_pause=1e-9)(work) == "done"


def test_patience_with_a_server_that_is_away_has_an_end():
    """Behind the patience its fault is raised."""
    clock, tries = Clock(), []

    def work():
        tries.append(clock.now)
        clock.now += 250.0
        raise ServerFault(2003, "refused", where="test")

    with pytest.raises(ServerFault, match="2003"):
        retrying(StopSwitch(), first_pause=1e-9, clock=clock)(work)
    assert tries == [0.0, 250.0, 500.0, 750.0]


def test_patience_begins_anew_with_what_was_done():
    """Whoever comes on between two hiccups may take as long as it likes; others may not."""
    clock, done = Clock(), 0

    def work():
        nonlocal done
        if done == 20:
            return "done"
        done += 1
        clock.now += 500.0
        raise FeedFailure("hiccup")

    make = partial(retrying, StopSwitch(), first_pause=1e-9, clock=clock, hiccups=(FeedFailure,))
    assert make(progress=lambda: done)(work) == "done"
    done = 0
    with pytest.raises(FeedFailure):
        make()(work)


def test_a_hiccup_that_is_no_use_to_resume_is_raised():
    """Only what the same command would resume after is waited for."""
    calls = []

    def work():
        calls.append(1)
        raise SchemaChanged("gone")

    with pytest.raises(SchemaChanged):
        retrying(StopSwitch(), first_pause=1e-9, hiccups=(FeedFailure,))(work)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("seconds", "ratio", "rest"),
    [(0.5, 3.0, 1.5), (2.0, 10.0, 20.0), (60.0, 2.0, 10.0), (5.0, 100.0, 30.0)],
)
def test_a_task_rests_by_the_ratio_as_far_as_it_may_say_nothing(monkeypatch, seconds, ratio, rest):
    """Of a statement that others held up five seconds count; 45 s of silence would be a loss."""
    monkeypatch.setattr(retry, "time", SimpleNamespace(monotonic=lambda: 100.0))
    resting = retry.TaskRest()
    resting.owe(seconds, ratio)
    assert resting._until == 100.0 + rest


def test_a_statement_that_was_ended_is_sent_again_when_it_may_be():
    """Each waits for its turn first; other faults, and a stop, are raised."""
    work: Any = Flaky(1317, 1317, 1205)
    turns: list[int] = []
    server: Any = SimpleNamespace(
        id=1, address="db1", origin="", warnings=list, close=str, execute=lambda *_: work()
    )
    session = RepeatingSession(server, lambda: turns.append(work.calls))
    with pytest.raises(ServerFault, match="1205"):
        session.execute("SELECT 1")
    assert turns == [1, 2]
    assert session.execute("SELECT 1") == work()
    work.codes = [1317]

    def stopped() -> None:
        raise Interrupted(2)

    with pytest.raises(Interrupted):
        RepeatingSession(server, stopped).execute("SELECT 1")
