"""The server's load against its limits."""

from __future__ import annotations

import pytest

from spirit_py.config import ConnectionOptions
from spirit_py.errors import CriticalLoad, ServerFault
from spirit_py.mysql.retry import RenewedSession
from spirit_py.threads import StopSwitch
from spirit_py.throttle import server
from spirit_py.throttle.server import excess, load_throttler
from spirit_py.throttle.settings import LiveSettings, PaceSettings


@pytest.fixture
def looking(monkeypatch):
    """Return a function that makes the throttler, and the counters that its looks find."""
    counters: dict[str, float] = {}

    def make(**settings):
        stop = StopSwitch()
        live = LiveSettings(PaceSettings(threads=1, **settings))
        throttler = load_throttler(ConnectionOptions(), live, stop)
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
    throttler, _, stop = make(critical_load=(("Threads_running", 100.0),))
    for value in (150.0, 90.0, 150.0):
        counters["threads_running"] = value
        throttler.look()
        assert not stop.requested
    throttler.look()
    assert isinstance(stop.reason, CriticalLoad)
    assert "Threads_running is 150, above 100" in stop.reason.message
    assert (stop.reason.exit_code, stop.reason.resumable) == (1, True)


@pytest.mark.parametrize("gap", ["fault", "no limit"])
def test_two_peaks_with_something_else_between_them_are_no_succession(looking, gap, monkeypatch):
    """Hours may lie between them: a look that failed, or limits that were taken away."""
    make, counters = looking
    critical = (("Threads_running", 100.0),)
    throttler, live, stop = make(critical_load=critical)
    counters["threads_running"] = 150.0
    throttler.look()
    if gap == "fault":
        with monkeypatch.context() as broken:
            broken.setattr(server, "read_status", failing)
            with pytest.raises(ServerFault):
                throttler.look()
    else:
        live.change(critical_load=())
        throttler.look()
        live.change(critical_load=critical)
    throttler.look()
    assert not stop.requested
    throttler.look()
    assert stop.requested


def failing(*_: object, **__: object) -> None:
    """Be a server that does not answer."""
    raise ServerFault(2013, "Lost connection", where="load")
