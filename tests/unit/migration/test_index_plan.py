"""When indexes are deferred: at once, or in the middle of a copy that has become slow for good."""

from __future__ import annotations

import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

import spirit_py.migration.indexes.build as module
from spirit_py.errors import MigrationFailure, ServerFault
from spirit_py.migration.indexes.build import FALL, WINDOW, FallingRate, IndexBuild
from spirit_py.migration.indexes.plan import named_indexes
from spirit_py.migration.swap.swap import Stopwatch
from spirit_py.mysql.retry import retrying
from spirit_py.pace import Unhindered
from spirit_py.preflight import index_deferral as plan
from spirit_py.threads import Background, StopSwitch
from tests.kits.reporter import RecordingReporter

FAST = 3000.0
MB = 1 << 20


def observed(rates, waits=(), work=()):
    """Return in which window the rate counts as fallen, from 1; None for never."""
    rate, now, rows = FallingRate(), 0.0, 0.0
    pace = dict(enumerate(work, 1))
    rate.observe(now, 0, pace.get(1, (1,)), waits=False)
    for number, speed in enumerate(rates, 1):
        now, rows = now + WINDOW, rows + speed * WINDOW
        if rate.observe(now, int(rows), pace.get(number, (1,)), waits=number in waits):
            return number
    return None


def test_a_third_of_the_best_rate_twice_is_slow():
    """One slow window may be an accident."""
    assert observed([FAST, FAST, FAST / FALL, FAST / FALL]) == 4
    assert observed([FAST, FAST / FALL, FAST, FAST / FALL, FAST]) is None


def test_a_copy_that_was_never_faster_is_not_slow():
    """Nor is one that loses speed, and keeps more than a third."""
    assert observed([FAST / FALL] * 9) is None
    assert observed([FAST, *[FAST / (FALL - 0.5)] * 9]) is None


def test_a_wait_for_something_else_does_not_count():
    """The change feed, a throttler or a lost server are no reason to drop indexes."""
    assert observed([FAST, FAST, 0, 0, 0, FAST], waits={3, 4, 5}) is None


def test_less_work_at_a_time_is_no_fall():
    """Fewer tasks, a rest or smaller transactions are what was asked for; it may fall from there.

    More of it is no fall either, where it is faster than the least was.
    """
    many, few, little = (8, 0.0, 2 * MB), (1, 0.0, 2 * MB), (1, -3.0, MB)
    slow = FAST / FALL
    assert observed([FAST, *[slow] * 4], work=[many, few, few, few, few]) is None
    assert observed([FAST, *[slow / 2] * 4], work=[few, *[little] * 4]) is None
    assert observed([FAST, FAST, slow, slow], work=[many] * 4) == 4
    # The window of the change counts for neither.
    rates = [FAST, *[slow] * 3, *[slow / 4] * 2]
    assert observed(rates, work=[many, many, *[few] * 4]) == 6
    assert observed([slow, FAST, *[slow] * 4], work=[few, *[many] * 4]) == 4


def test_a_long_list_of_indexes_is_cut_short():
    """A message names six of them."""
    assert named_indexes([*"abc"]) == "a, b, c"
    assert named_indexes([*"abcdefgh"]) == "a, b, c, d, e, f and 2 more"


@pytest.mark.parametrize(
    ("indexes", "data", "pool", "outcome", "why"),
    [
        (15, 100, 64, (False, False), "are small"),
        (40, 5000, 64, (True, False), "large for the buffer pool"),
        (40, 400, 1024, (True, False), "the build is brief"),
        (40, 400, 65536, (True, False), "the build is brief"),
        (160, 5000, 65536, (True, False), "the build is brief"),
        (150, 5000, 65536, (False, False), "are small"),
        (260, 8192, 65536, (False, False), "are small"),
        (40, 5000, 1024, (False, True), "stay in memory"),
        (40, 5000, 65536, (False, False), "are small"),
    ],
)
def test_auto_defers_large_indexes_and_those_of_a_small_table(indexes, data, pool, outcome, why):
    """Sizes in MiB; a build that is neither brief nor needed is left to a copy that slows down."""
    *found, text = plan.automatic(
        indexes=indexes * MB, data=data * MB, pool=pool * MB, who_replicates=str
    )
    assert tuple(found) == outcome
    assert why in text


@pytest.mark.parametrize("data", [400, 5000])
def test_auto_never_defers_where_another_server_replicates(data):
    """It would apply the build as one statement."""
    *found, text = plan.automatic(
        indexes=40 * MB, data=data * MB, pool=64 * MB, who_replicates=lambda: "1 replica"
    )
    assert tuple(found) == (False, False)
    assert "1 replica would apply" in text


def test_no_index_is_dropped_behind_the_copy(monkeypatch):
    """A DROP behind the build would undo it, however long it waits for the lock on the table."""
    dropping, copied, done = threading.Event(), threading.Event(), []

    def leave_out(*_args: Any, stop: StopSwitch | None = None) -> None:
        dropping.set()
        assert copied.wait(60)
        done.append(stop is not None and stop.wait(60))

    monkeypatch.setattr(module, "leave_out", leave_out)
    monkeypatch.setattr(module.FallingRate, "observe", lambda *_, waits: True)
    # As if it took longer than a thread is waited for.
    monkeypatch.setattr(Background, "join", lambda *_: False)
    deferred = SimpleNamespace(names=["i"])
    planned = SimpleNamespace(at_once=False, may_fall=True, deferred=deferred)
    pair: Any = SimpleNamespace(plan=planned, deferred=(), name="s.t", speed=lambda: (0, (), False))
    run: Any = SimpleNamespace(
        stop=StopSwitch(), tell=RecordingReporter().event, step=lambda *_, **__: ""
    )
    with module.dropping_when_slow(run, pair, None):
        assert dropping.wait(60)
        copied.set()
    assert done == [True]
    assert not run.stop.requested


@pytest.mark.parametrize("losses", [7, 40])
def test_a_build_may_be_cut_off_again_and_again_but_not_for_ever(monkeypatch, losses):
    """Each time after ten minutes of work; a server that every build ends is given up."""
    build: Any = IndexBuild.__new__(IndexBuild)
    build.tries = build._lost = build._held = 0
    config = SimpleNamespace(connection=SimpleNamespace(address="here"))
    build._run = SimpleNamespace(stop=StopSwitch(), show=str, config=config)
    monkeypatch.setattr(
        module,
        "retrying",
        partial(retrying, first_pause=1e-9, clock=lambda: 601.0 * build.tries),
    )

    def cut_off():
        build.tries += 1
        if build.tries <= losses:
            raise ServerFault(2013, "lost", where="test")

    build._try = cut_off
    if losses < module._ATTEMPTS:
        assert build._is_done()
    else:
        with pytest.raises(ServerFault):
            build._is_done()
    assert build.tries == min(losses + 1, module._ATTEMPTS + 1)


def test_a_build_that_ends_twice_without_its_connection_is_given_up(monkeypatch):
    """Nobody was told why: a full disk would be filled again by each try, for hours."""
    build: Any = IndexBuild.__new__(IndexBuild)
    connection = SimpleNamespace(address="here", label="here")
    config = SimpleNamespace(connection=connection)
    deferred = SimpleNamespace(target=("s", "_t_new"), table="s.t", are_built=lambda _: False)
    waits: list[str] = []
    vars(build).update(
        tries=0,
        _lost=0,
        _ended_unseen=0,
        _held=False,
        _sorts_in="/sorting",
        _run=SimpleNamespace(stop=StopSwitch(), show=str, config=config, pace=Unhindered()),
        _waiting=Stopwatch(),
        _deferred=deferred,
        _turns=SimpleNamespace(await_free=lambda: True, left=1.0),
        _session=SimpleNamespace(take=bool, close=bool),
    )

    def await_lost(lock: str) -> bool:
        waits.append(lock)
        return True

    build._await_lost = await_lost
    monkeypatch.setattr(module, "retrying", partial(retrying, first_pause=1e-9))
    monkeypatch.setattr(module, "connect", lambda *_, **__: None)
    monkeypatch.setattr(module, "take_from_lost_session", lambda *_: None)
    with pytest.raises(MigrationFailure, match="has ended without them") as failed:
        build._is_done()
    assert len(waits) == 2
    for where in ("error log", "/sorting", "timeouts", "--defer-indexes off"):
        assert where in failed.value.hint
