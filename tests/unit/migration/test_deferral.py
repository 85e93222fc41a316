"""The look for a sentinel while the server is away."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.config import ConnectionOptions
from spirit_py.errors import Interrupted, MigrationFailure, ServerFault
from spirit_py.events.event import Event, untold
from spirit_py.events.swap import CutoverDeferred, CutoverReleased
from spirit_py.migration.swap import deferral
from spirit_py.migration.swap.deferral import Deferral
from spirit_py.mysql.retry import retrying
from spirit_py.pace import Unhindered, Work
from spirit_py.phases import Phase
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Callable

CANNOT_CONNECT, ACCESS_DENIED = 2003, 1045


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once."""
    monkeypatch.setattr(deferral, "_LOOK_SECONDS", 0.0)


def deferral_of(
    answers: list[Callable[[], Any]],
    stop: StopSwitch | None = None,
    pace: Unhindered | None = None,
) -> Deferral:
    """Return the deferral of table ``t`` on a server that answers each look in turn."""

    class Session:
        def query(self, _sql: str, _values: Any) -> Any:
            return answers.pop(0)()

        def close(self) -> None:
            """Do nothing."""

    opened: list[Session] = []

    def session(_role: str, **_: Any) -> Session:
        opened.append(Session())
        return opened[-1]

    source = SimpleNamespace(schema="shop", name="t")
    work = SimpleNamespace(mapping=SimpleNamespace(source=source))
    run = SimpleNamespace(session=session, stop=stop or StopSwitch(), pace=pace or Unhindered())
    run.show, run.opened = (lambda _: None), opened
    run.config = SimpleNamespace(connection=ConnectionOptions())
    run.veto, run.giving_up = SimpleNamespace(held_back=lambda: "", asks=False), ""
    run.settings = SimpleNamespace(current=SimpleNamespace(paused=""))
    run.state = SimpleNamespace(postponements=0, undeferred=False, phase=Phase.CHECKSUM)
    return Deferral(run, [work])  # type: ignore[arg-type,list-item]


def config(timeout: float, interval: float) -> Any:
    """Return what the wait reads of a configuration."""
    return SimpleNamespace(
        connection=ConnectionOptions(), defer_timeout=timeout, recheck_interval=interval
    )


def failing(code: int) -> Callable[[], Any]:
    """Return an answer that is a fault."""

    def answer() -> Any:
        raise ServerFault(code, "no", where="test")

    return answer


def test_what_holds_the_work_back_holds_the_swap_back() -> None:
    """A pause, a closed window of the day, a load: no lock is asked for until it is over."""
    reasons = ["the time of --allow 22:00-06:00, in 3h00m"] * 3

    class Closed(Unhindered):
        def reason(self, work: Work) -> str:
            assert work is Work.SWAP
            return reasons.pop() if reasons else ""

    found = deferral_of([list, list], pace=Closed())
    assert found.held_back() == "the time of --allow 22:00-06:00, in 3h00m"
    found.pass_when_free()
    assert reasons == []


def test_a_server_that_is_away_for_a_while_is_waited_for() -> None:
    """Between two tries of the swap a lost network is no reason to give up."""
    found = deferral_of([failing(CANNOT_CONNECT), failing(CANNOT_CONNECT), lambda: [(1,)]])
    assert found.present() == "shop._t_snt"
    assert deferral_of([failing(CANNOT_CONNECT), list]).present() == ""


def test_a_fault_that_does_not_pass_is_raised() -> None:
    """What another look would meet again is told."""
    with pytest.raises(ServerFault):
        deferral_of([failing(ACCESS_DENIED)]).present()


def test_a_server_that_stays_away_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a time the fault is told."""
    monkeypatch.setattr(deferral, "retrying", partial(retrying, patience=-1.0))
    with pytest.raises(ServerFault):
        deferral_of([failing(CANNOT_CONNECT)]).present()


def test_a_stop_request_ends_the_wait() -> None:
    """A signal is followed while the server is away."""
    stop = StopSwitch()

    def answer() -> Any:
        stop.request(Interrupted(2))
        raise ServerFault(CANNOT_CONNECT, "no", where="test")

    with pytest.raises(Interrupted):
        deferral_of([answer], stop).present()


def test_an_operator_has_the_last_word() -> None:
    """Who postpones or pauses after the last look is heard right before the RENAME."""
    found = deferral_of([list, list])
    run = found._run
    assert found.present() == found.last_word() == ""
    run.state.postponements += 1  # type: ignore[misc]
    assert "postponement" in found.last_word()
    # The look comes after the count: it has seen the sentinel, which was dropped since.
    assert found.present() == found.last_word() == ""
    run.settings.current.paused = "paused by me"  # type: ignore[misc]
    assert found.last_word() == "paused by me"


def test_a_postponement_during_the_look_is_not_taken_for_seen() -> None:
    """Its sentinel may have been created after the server was asked."""

    def answer() -> Any:
        run.state.postponements += 1  # type: ignore[misc]
        return []

    found = deferral_of([answer])
    run = found._run
    assert found.present() == ""
    assert found.last_word()


@pytest.mark.parametrize("early", [True, False])
def test_a_cutover_that_is_asked_for_meanwhile_leaves_no_sentinel(early: bool) -> None:
    """Who asks before the sentinel is there has nothing to drop; the run drops it then."""
    found = deferral_of([])
    run: Any = found._run
    sent: list[str] = []

    class Session:
        def execute(self, sql: str) -> None:
            sent.append(sql.split(maxsplit=1)[0])
            run.state.undeferred = early

        def query(self, sql: str, _values: Any = ()) -> Any:
            computed = "GENERATION_EXPRESSION" in sql
            return [] if computed else [("BASE TABLE", "drop this table to let spirit-py swap")]

    run.tell = untold
    run.step = lambda _role, work: work(Session())
    found.create()
    assert sent == (["CREATE", "DROP"] if early else ["CREATE"])


def test_a_sentinel_that_was_there_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that resumes finds the one of the run before: who reads events learns of it."""
    there: list[Callable[[], Any]] = [lambda: [(1,)]] * 5
    found = deferral_of([*there, *[list] * 3, *there, *[list] * 3])
    run: Any = found._run
    told: list[tuple[type[Event], Any]] = []
    run.tell = lambda event: told.append((type(event), event.fields.get("statement")))
    run.config = SimpleNamespace(
        connection=ConnectionOptions(), defer_timeout=1.0, recheck_interval=3600.0
    )
    run.settings.unpaused = lambda: 0.0
    run.stop = SimpleNamespace(pause=lambda _: None, check=lambda: None, requested=False)
    drop = "DROP TABLE `shop`.`_t_snt`"
    once = [(CutoverDeferred, drop), (CutoverReleased, None)]
    found.wait()
    assert told == once
    # One that is created again is another one.
    assert found.present() == ""
    found.wait()
    assert told == once * 2
    # A session for each wait, however often it looks.
    assert len(run.opened) == 3


def test_a_pause_uses_up_nothing_of_the_time_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """--defer-timeout counts while the operator may drop the sentinel, not while all is paused."""
    looks, paused_for = 0, 400
    there: Callable[[], Any] = lambda: [(1,)]  # noqa: E731 - an answer like the others
    found = deferral_of([there] * 1000)
    monkeypatch.setattr(found, "_require_still_here", lambda: None)
    monkeypatch.setattr(found, "_recheck", lambda: None)
    run: Any = found._run

    def unpaused() -> float:
        nonlocal looks
        looks += 1
        return 0.0 if looks < paused_for else 10.0

    run.tell = untold
    run.config = SimpleNamespace(
        connection=ConnectionOptions(), defer_timeout=5.0, recheck_interval=0.0
    )
    run.settings.unpaused = unpaused
    with pytest.raises(MigrationFailure, match="was deferred for"):
        found.wait()
    assert looks >= paused_for


def test_a_comparison_that_is_held_back_ends_when_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may wait for --allow for hours; what it has found is compared again by the next run."""
    there: Callable[[], Any] = lambda: [(1,)]  # noqa: E731 - an answer like the others
    found = deferral_of([there] * 100_000)
    monkeypatch.setattr(found, "_require_still_here", lambda: None)
    run: Any = found._run
    now = [0.0]

    def check(stop: StopSwitch) -> None:
        now[0] = 10.0
        assert stop.wait(60.0)
        stop.check()

    found._pairs[0].check = check  # type: ignore[method-assign,assignment]
    run.tell, run.config = untold, config(timeout=5.0, interval=0.0)
    run.settings.unpaused = lambda: now[0]
    run.engines = SimpleNamespace(rest=lambda: None)
    with pytest.raises(MigrationFailure, match="was deferred for"):
        found.wait()


def test_a_sentinel_after_a_long_wait_for_the_hook_has_its_whole_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``ctl postpone``: --defer-timeout begins when there is one, and anew with the next one."""
    now = 0.0
    there: Callable[[], Any] = lambda: [(1,)]  # noqa: E731 - an answer like the others
    found = deferral_of([list] * 8 + [there] * 3 + [list] * 8 + [there] * 100)
    monkeypatch.setattr(found, "_require_still_here", lambda: None)
    monkeypatch.setattr(found, "_recheck", lambda: None)
    run: Any = found._run
    run.veto.held_back = lambda: "not now"
    seen: list[float] = []

    def told(event: Event) -> None:
        if isinstance(event, CutoverDeferred):
            seen.append(now)

    def unpaused() -> float:
        nonlocal now
        now += 1.0
        return now

    run.tell, run.config = told, config(timeout=4.0, interval=0.0)
    run.settings.unpaused = unpaused
    with pytest.raises(MigrationFailure, match="still exists"):
        found.wait()
    assert len(seen) == 2
    assert now - seen[-1] >= 4.0


def test_a_sentinel_that_appears_while_another_reason_is_waited_for_is_reported() -> None:
    """Not when the tables are compared next, which may be in an hour."""
    looks: list[Callable[[], Any]] = [list, list, *[lambda: [(1,)]] * 2, list, list]
    found = deferral_of(looks)
    run: Any = found._run
    told: list[type[Event]] = []
    run.tell = lambda event: told.append(type(event))
    run.settings.unpaused = lambda: 0.0
    run.config = SimpleNamespace(
        connection=ConnectionOptions(), defer_timeout=9.0, recheck_interval=60.0
    )
    run.veto.held_back = lambda: "not now" if len(looks) > 3 else ""
    found.wait()
    assert told == [CutoverDeferred, CutoverReleased]


def test_each_source_of_a_move_is_asked_for_its_own_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of them may have become a replica while the wait went on, and it is not the first."""
    asked: list[tuple[str, list[Any]]] = []
    monkeypatch.setattr(
        deferral,
        "require_still_here",
        lambda session, config, tables: asked.append((session + config.name, tables)),
    )
    found = deferral_of([])
    found._pairs = [
        SimpleNamespace(source_name=("shop", name), job=job)  # type: ignore[misc]
        for host, names in (("eu", "tu"), ("us", "t"))
        for job in [
            SimpleNamespace(
                config=SimpleNamespace(name=f" as {host}", connection=ConnectionOptions(host=host)),
                step=lambda _role, work, host=host: work(host),
            )
        ]
        for name in names
    ]
    found._require_still_here()
    assert asked == [
        ("eu as eu", [("shop", "t"), ("shop", "u")]),
        ("us as us", [("shop", "t")]),
    ]
