"""The look for a sentinel while the server is away."""

from __future__ import annotations

import contextlib
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.errors import Interrupted, ServerFault
from spirit_py.migration import deferral
from spirit_py.migration.deferral import Deferral
from spirit_py.mysql.retry import retrying
from spirit_py.pace import Unhindered, Work
from spirit_py.stop import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        def query(self, _sql: str) -> Any:
            return answers.pop(0)()

    @contextlib.contextmanager
    def session(_role: str) -> Iterator[Session]:
        yield Session()

    source = SimpleNamespace(schema="shop", name="t")
    work = SimpleNamespace(mapping=SimpleNamespace(source=source))
    run = SimpleNamespace(session=session, stop=stop or StopSwitch(), pace=pace or Unhindered())
    run.show = lambda _: None
    return Deferral(run, [work])  # type: ignore[arg-type,list-item]


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
