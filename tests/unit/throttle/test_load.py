"""The server's load against its limits."""

from __future__ import annotations

import time

import pytest

from spirit_py.config import ConnectionOptions
from spirit_py.errors import CriticalLoad, ServerFault
from spirit_py.mysql.retry import RenewedSession
from spirit_py.threads import StopSwitch
from spirit_py.throttle import server
from spirit_py.throttle.server import excess, load_throttler
from spirit_py.throttle.settings import LiveSettings, PaceSettings

CRITICAL = (("Threads_running", 100.0),)


@pytest.fixture
def looking(monkeypatch):
    """Return a function that makes the throttler, and the counters that its looks find."""
    counters: dict[str, float] = {}

    def make(*, clock=time.monotonic, **settings):
        stop = StopSwitch()
        live = LiveSettings(PaceSettings(threads=1, **settings))
        throttler = load_throttler(ConnectionOptions(), live, stop, clock=clock)
        return throttler, live, stop

    monkeypatch.setattr(RenewedSession, "ask", lambda _session, work: work(None))
    monkeypatch.setattr(
        "spirit_py.throttle.server.read_status", lambda _session, names: dict(counters)
    )
    return make, counters


def test_a_counter_above_its_limit_is_named_with_both_values():
    """The name is compared without regard to case, and a value at the limit is not above it."""
    limits = (("Threads_running", 25.0), ("Threads_connected", 10.0))
    found = {"threads_running": 31.0, "threads_connected": 10.0}
    assert excess(found, limits) == ["Threads_running is 31, above 25"]


def test_work_waits_while_the_load_is_above_the_limit(looking):
    """It ends with the load, and the limit may be changed meanwhile."""
    make, counters = looking
    throttler, live, _ = make(max_load=(("Threads_running", 25.0),))
    counters["threads_running"] = 26.0
    assert "Threads_running is 26" in throttler.look()
    live.change(max_load=(("Threads_running", 30.0),))
    assert throttler.look() == ""
    live.change(max_load=())
    assert throttler.look() == ""


def test_a_critical_load_ends_the_run_when_it_is_seen_twice(looking):
    """One peak ends nothing; two looks in succession do, and the run can be resumed."""
    make, counters = looking
    throttler, _, stop = make(critical_load=CRITICAL)
    for value in (150.0, 90.0, 150.0):
        counters["threads_running"] = value
        throttler.look()
        assert not stop.requested
    throttler.look()
    assert isinstance(stop.reason, CriticalLoad)
    assert "Threads_running is 150, above 100" in stop.reason.message
    assert (stop.reason.exit_code, stop.reason.resumable) == (1, True)


def test_a_look_that_fails_between_two_peaks_does_not_hide_the_load(looking, monkeypatch):
    """A server under such a load often does not answer; what was seen an hour before is no sign."""
    make, counters = looking
    now = [0.0]
    throttler, stop = make(critical_load=CRITICAL, clock=lambda: now[0])[::2]
    counters["threads_running"] = 150.0
    for passed in (3600.0, 4.0):
        throttler.look()
        assert not stop.requested
        with monkeypatch.context() as broken:
            broken.setattr(server, "read_status", failing)
            with pytest.raises(ServerFault):
                throttler.look()
        now[0] += passed
    throttler.look()
    assert stop.requested


def test_two_peaks_with_another_limit_between_them_are_no_succession(looking):
    """Limits may be taken away, and be given again."""
    make, counters = looking
    throttler, live, stop = make(critical_load=CRITICAL)
    counters["threads_running"] = 150.0
    throttler.look()
    live.change(critical_load=())
    throttler.look()
    live.change(critical_load=CRITICAL)
    throttler.look()
    assert not stop.requested
    throttler.look()
    assert stop.requested


def failing(*_: object, **__: object) -> None:
    """Be a server that does not answer."""
    raise ServerFault(2013, "Lost connection", where="load")
