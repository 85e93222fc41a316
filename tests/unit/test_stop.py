"""The stop switch: the first reason counts, and linked switches get it too."""

from __future__ import annotations

import threading
import weakref

import pytest

from spirit_py.errors import CriticalLoad, FeedFailure, Interrupted, LeftAfterChange
from spirit_py.migration.swap.old_tables import after_change
from spirit_py.threads import StopSwitch


def test_the_first_reason_counts():
    """A later request changes nothing."""
    stop, first = StopSwitch(), FeedFailure("first")
    assert stop.request(first)
    assert not stop.request(FeedFailure("second"))
    assert stop.reason is first


def test_a_request_reaches_linked_switches():
    """Also one that was linked after the request."""
    stop, reason = StopSwitch(), Interrupted(2)
    before = stop.linked()
    stop.request(reason)
    after = stop.linked()
    assert [str(one.reason) for one in (before, after)] == [str(reason)] * 2


def test_what_the_end_of_one_part_says_is_said_of_no_other():
    """Of a batch that is stopped, a table that is swapped is changed; the others are not."""
    stop = StopSwitch()
    changed, others = stop.linked(), stop.linked()
    cause = FeedFailure("the cause")
    reason = Interrupted(15, hint="intact")
    reason.__cause__ = cause
    stop.request(reason)
    with pytest.raises(Interrupted, match="SIGTERM") as raised, after_change(changed):
        changed.check()
    assert "the change is done" in raised.value.hint
    late = stop.linked()
    elsewhere = [one.reason for one in (others, late, stop)]
    assert [one and (one.hint, one.__cause__) for one in elsewhere] == [("intact", cause)] * 3


def test_a_request_to_a_linked_switch_stays_there():
    """What ends one part of the work does not end the process."""
    stop, fault = StopSwitch(), FeedFailure("the feed broke")
    linked = stop.linked()
    linked.request(fault)
    assert not stop.requested
    stop.request(Interrupted(15))
    assert linked.reason is fault


def test_a_linked_switch_is_kept_by_its_user_alone():
    """A run of days links a switch for each comparison, and must not keep them all."""
    stop = StopSwitch()
    linked = stop.linked()
    seen = weakref.ref(linked)
    del linked
    assert seen() is None


def test_a_failure_may_be_explained_by_its_cause():
    """An interrupt has no other cause; where nothing stops, nothing becomes a reason."""
    cause = FeedFailure("a table was dropped")
    stop, interrupted, quiet = StopSwitch(), StopSwitch(), StopSwitch()
    stop.request(FeedFailure("error 1146"))
    interrupted.request(Interrupted(2))
    for each in (stop, interrupted, quiet):
        each.explain(cause)
    assert stop.reason is cause
    assert isinstance(interrupted.reason, Interrupted)
    assert quiet.reason is None


def test_what_says_that_the_change_is_done_is_no_consequence_of_a_stop():
    """Who reads the stop's reason alone would take the table for unchanged."""
    stop, left = StopSwitch(), LeftAfterChange("the change is done")
    stop.request(CriticalLoad("the load is critical"))
    assert stop.cause_of(left) is left
    assert stop.cause_of(FeedFailure("lost")) is stop.reason


def test_a_wait_of_more_seconds_than_a_lock_can_wait_for(monkeypatch):
    """An operator's times may be as long as they like."""
    stop, waited = StopSwitch(), list[float]()
    monkeypatch.setattr(stop._asked, "wait", waited.append)
    assert not stop.wait(1e10)
    assert waited == [threading.TIMEOUT_MAX]
