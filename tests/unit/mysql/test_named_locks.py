"""How soon a run has its named lock again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from spirit_py.errors import ServerFault
from spirit_py.locks import named
from spirit_py.threads import StopSwitch


def test_a_restart_of_the_server_leaves_a_run_without_its_lock_for_seconds_only(monkeypatch):
    """Until then nobody sees that a process works on the table, and another one may begin."""
    waited: list[float] = []
    lost: Any = SimpleNamespace(id=1, query=lost_connection, close=lambda: None)
    again: Any = SimpleNamespace(id=2, query=lambda *_: [(2,)], close=lambda: None)
    monkeypatch.setattr(named, "connect", lambda *_, **__: again)
    lock = named.migration_lock(SimpleNamespace(), ("shop", "t"), stop=StopSwitch())  # type: ignore[arg-type]
    lock._session = lost

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return lock._session is again

    lock._keep(SimpleNamespace(wait=wait))  # type: ignore[arg-type]
    assert sum(waited[:2]) <= 5.0


def test_a_thread_that_ends_late_leaves_no_session():
    """Whoever ended the run has waited for so long, and has gone on."""
    closed: list[int] = []
    held: Any = SimpleNamespace(id=1, close=lambda: closed.append(1))
    lock = named.migration_lock(SimpleNamespace(), ("shop", "t"), stop=StopSwitch())  # type: ignore[arg-type]
    lock._session = held
    lock._keep(SimpleNamespace(wait=lambda _: True))  # type: ignore[arg-type]
    assert closed == [1]


def lost_connection(*_: Any) -> Any:
    """Answer as a session that the server has lost."""
    raise ServerFault(2013, "Lost connection to server during query", where="advisory")
