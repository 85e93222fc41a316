"""Retries end on success, on a fault that stays, after enough tries, and at once on a stop."""

from __future__ import annotations

import threading

import pytest

from spirit_py.errors import Interrupted, ServerFault
from spirit_py.mysql.retry import retrying
from spirit_py.stop import StopSwitch


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


def test_enough_is_enough():
    """After the last try its fault is raised."""
    work = Flaky(*[1205] * 10)

    with pytest.raises(ServerFault, match="1205"):
        retrying(StopSwitch(), attempts=3, first_pause=0.001)(work)
    assert work.calls == 3


def test_lost_during_commit_is_not_tried_again():
    """When a commit may have happened, nothing is run twice."""
    work = Flaky(2013)

    with pytest.raises(ServerFault):
        retrying(StopSwitch(), committing=True, first_pause=0.001)(work)
    assert work.calls == 1


def test_a_stop_request_ends_a_pause():
    """A pause of hours ends when a stop is asked for, with its reason and without a try."""
    stop, work, began = StopSwitch(), Flaky(*[1205] * 10), threading.Event()
    retrier = retrying(
        stop, first_pause=3600.0, longest_pause=7200.0, on_retry=lambda *_: began.set()
    )

    def ask() -> None:
        began.wait(10)
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
