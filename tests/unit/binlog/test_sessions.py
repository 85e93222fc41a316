"""A session that threads take turns with, and that another thread can end."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.binlog import sessions as lending
from spirit_py.binlog.position import GtidFrontier, GtidSet
from spirit_py.binlog.sessions import FollowedServer, LentSession
from spirit_py.config import ConnectionOptions
from spirit_py.errors import FeedFailure, ServerFault

if TYPE_CHECKING:
    from spirit_py.events.event import Event

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


class FakeServer:
    """Opens sessions and cuts their wires."""

    def __init__(self) -> None:
        self.sessions: list[FakeServer.Session] = []
        self.cut: list[int] = []
        self.before_connected = threading.Event()
        self.before_connected.set()
        self.connecting = threading.Event()

    class Session:
        """A session that does nothing."""

        def __init__(self, number: int) -> None:
            self.id = number
            self.open = True

        def alive(self) -> bool:
            """Return whether it is open."""
            return self.open

        def close(self) -> None:
            """Close."""
            self.open = False

    def connect(self, *_: Any, **__: Any) -> FakeServer.Session:
        """Open a session."""
        self.connecting.set()
        assert self.before_connected.wait(60)
        self.sessions.append(FakeServer.Session(len(self.sessions) + 1))
        return self.sessions[-1]

    def wire(self, session: Any) -> Any:
        """Return a wire that notes its cut."""
        server = self

        class Wire:
            """Notes."""

            def shutdown(self, _how: int) -> None:
                """Note."""
                server.cut.append(session.id)

            def close(self) -> None:
                """Nothing is held."""

        return Wire()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    """Return a server that is not there."""
    made = FakeServer()
    monkeypatch.setattr(lending, "connect", made.connect)
    monkeypatch.setattr("spirit_py.mysql.session.duplicate", made.wire)
    return made


@pytest.fixture
def lent(server: FakeServer) -> LentSession:
    """Return its session."""
    return LentSession(ConnectionOptions(), role="test", read_timeout=1)


def test_it_is_opened_once_and_again_when_lost(lent: LentSession, server: FakeServer) -> None:
    """A lost session gives way to a new one; a plain error costs it nothing."""
    with lent.lend():
        pass
    for code in (1064, 2013):
        with pytest.raises(ServerFault), lent.lend():
            raise ServerFault(code, "an error", where="here")
    with lent.lend() as session:
        assert session.id == 2
    server.sessions[1].open = False
    with lent.lend() as session:
        assert session.id == 3


def test_an_idle_session_is_closed_by_its_end(lent: LentSession, server: FakeServer) -> None:
    """There is nothing to kill, and nothing is opened afterwards."""
    with lent.lend():
        pass
    assert lent.end() == 0
    assert not server.sessions[0].open
    with pytest.raises(FeedFailure), lent.lend():
        pass
    assert not any(session.open for session in server.sessions)


def test_a_session_in_use_is_cut(lent: LentSession, server: FakeServer) -> None:
    """Whoever ends it learns which session to kill, and does not wait for its turn."""
    with lent.lend():
        assert lent.end() == 1
    assert server.cut == [1]
    with pytest.raises(FeedFailure), lent.lend():
        pass
    assert not any(session.open for session in server.sessions)


def test_a_session_that_is_being_opened_is_never_lent(
    lent: LentSession, server: FakeServer
) -> None:
    """The end does not wait for the connection; the one who waits for it is refused."""
    server.before_connected.clear()
    refused: list[FeedFailure] = []

    def borrow() -> None:
        try:
            with lent.lend():
                pass
        except FeedFailure as error:
            refused.append(error)

    borrower = threading.Thread(target=borrow)
    borrower.start()
    assert server.connecting.wait(60)
    assert lent.end() == 0
    server.before_connected.set()
    borrower.join(60)
    assert len(refused) == 1
    assert not any(session.open for session in server.sessions)


def test_what_two_threads_find_unlogged_at_once_is_noted_once_each(monkeypatch):
    """One of them asks the server in between: what the other has noted meanwhile stays."""
    server = FollowedServer.__new__(FollowedServer)
    told: list[Event] = []
    server.lapses, server.unlogged, server._own = 0, None, set()
    server._counting, server._tell = threading.Lock(), told.append
    parser: Any = SimpleNamespace(file="binlog.000002", complete=GtidFrontier(UUID, GtidSet()))
    asked = iter([f"{UUID}:1-2", f"{UUID}:1-3", ""])

    def files(session: Any) -> list[tuple[str, int]]:
        if purged := next(asked):
            server._note_unlogged(session, parser, GtidSet.parse(purged))
        return [("binlog.000002", 4)]

    monkeypatch.setattr(lending, "binlog_files", files)
    session: Any = None
    server._note_unlogged(session, parser, GtidSet.parse(f"{UUID}:1-2:9"))
    noted: Any = server.unlogged
    assert str(noted.gtids) == f"{UUID}:1-3:9"
    assert server.lapses == len(told) == 2
