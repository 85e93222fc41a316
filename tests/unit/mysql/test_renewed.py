"""A session that is opened at need, and again after a fault."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spirit_py.errors import ServerFault
from spirit_py.mysql.retry import RenewedSession

LOST = 2013


class Server:
    """Opens sessions, each of which counts when it is closed."""

    def __init__(self) -> None:
        self.opened, self.closed = 0, 0

    def open(self) -> Any:
        """Return a session with a number."""
        self.opened += 1
        return SimpleNamespace(number=self.opened, close=self._close)

    def _close(self) -> None:
        self.closed += 1


def test_a_fault_costs_one_turn() -> None:
    """Nothing is opened before it is needed; one session serves until a fault, then another."""
    server = Server()
    renewed = RenewedSession(server.open)
    assert server.opened == 0
    assert [renewed.ask(lambda one: one.number) for _ in range(3)] == [1, 1, 1]  # type: ignore[attr-defined]

    def fail(_: Any) -> None:
        raise ServerFault(LOST, "lost", where="test")

    with pytest.raises(ServerFault):
        renewed.ask(fail)
    assert (server.opened, server.closed) == (1, 1)
    assert renewed.session().number == 2  # type: ignore[attr-defined]
    renewed.close()
    renewed.close()
    assert (server.opened, server.closed) == (2, 2)


def test_a_session_that_could_not_be_prepared_is_not_used() -> None:
    """What prepares a session is done with each that is opened, or it is closed."""
    server, prepared = Server(), []

    def prepare(session: Any) -> None:
        prepared.append(session.number)
        if session.number == 1:
            raise ServerFault(LOST, "lost", where="test")

    renewed = RenewedSession(server.open, prepare=prepare)
    with pytest.raises(ServerFault):
        renewed.ask(lambda _: None)
    assert renewed.ask(lambda one: one.number) == 2  # type: ignore[attr-defined]
    assert (prepared, server.closed) == ([1, 2], 1)


@pytest.mark.parametrize("code", [1045, 1129, 1130, 1698, 1862, 3118, 3159, 3955, 2026])
def test_a_refused_login_is_not_repeated_at_once(code: int) -> None:
    """R26: no account is locked by us, however often work asks; the pauses grow until it works."""
    now = 0.0
    tries: list[float] = []
    server = Server()

    def refuse() -> Any:
        tries.append(now)
        if now < 100.0:
            raise ServerFault(code, "refused", where="test")
        return server.open()

    renewed = RenewedSession(refuse, clock=lambda: now)
    for now in map(float, range(100)):  # noqa: B007 - the clock
        with pytest.raises(ServerFault, match="refused"):
            renewed.session()
    assert tries == [0, 2, 6, 14, 30, 62]
    now = 126.0
    assert renewed.session().number == 1  # type: ignore[attr-defined]
