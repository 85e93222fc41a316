"""Questions for weights that fail: what is asked again, for how long, and what ends the wait."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.binlog.sessions import ServerWeights
from spirit_py.config import ConnectionOptions
from spirit_py.errors import FeedFailure, ServerFault
from spirit_py.mysql.retry import PATIENCE
from spirit_py.table.values import KeyWeights
from spirit_py.threads import StopSwitch
from tests.kits.definitions import column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEYS = [(b"a",), (b"B",)]
AWAY, DEADLOCK, SYNTAX = 2003, 1213, 1064


class Closing(StopSwitch):
    """A switch on whose waits time passes; the feed is closed at some time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.closed_at = float("inf")
        self.close: Callable[[], object] = lambda: None

    def wait(self, seconds: float) -> bool:
        """Let time pass."""
        self.now += seconds
        if self.now >= self.closed_at:
            self.close()
        return self.requested


class Lent:
    """A session that fails with the given codes before it answers."""

    def __init__(self, *codes: int, packet: int = 1 << 26) -> None:
        self.codes = list(codes)
        self.packet = packet
        self.id = 1
        self.asked: list[str] = []

    @contextlib.contextmanager
    def lend(self) -> Iterator[Any]:
        """Lend the session."""
        if self.codes:
            code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
            if code:
                raise ServerFault(code, "no answer", where="test")
        yield self

    def end(self) -> int:
        """Leave nothing to kill."""
        return 0

    def value(self, _: str) -> int:
        """Return the packet's size."""
        return self.packet

    def query(self, question: str) -> list[tuple[int, bytes]]:
        """Weigh each text of a question as its place."""
        self.asked.append(question)
        return [(n, b"%d" % n) for n in range(-1, question.count("ROW(") - 1)]


def server(lent: Lent) -> tuple[ServerWeights, Closing]:
    """Build what is tested around a session."""
    closing = Closing()
    options = ConnectionOptions(host="h", port=1, user="u", password="p")
    made = ServerWeights(options, read_timeout=1, closing=closing, clock=lambda: closing.now)
    made._lent = lent  # type: ignore[assignment]
    closing.close = made.end
    return made, closing


def weigh(made: ServerWeights) -> Any:
    """Ask for two keys."""
    return made.weigh(KeyWeights([column("k", "varchar(9)")]), KEYS)


@pytest.mark.parametrize("code", [AWAY, DEADLOCK, 2013, 1317])
def test_a_question_is_asked_again_after_a_passing_fault(code: int) -> None:
    """A server that is away, a lost session and a killed statement end nothing."""
    made, closing = server(Lent(code, code, code, 0))
    assert weigh(made) == [(b"0",), (b"1",)]
    assert closing.now > 0


def test_a_server_that_stays_away_ends_the_feed() -> None:
    """Only after the patience of the whole program."""
    made, closing = server(Lent(AWAY))
    with pytest.raises(ServerFault, match="no answer"):
        weigh(made)
    assert PATIENCE < closing.now < PATIENCE + 60


def test_a_fault_that_does_not_pass_is_raised() -> None:
    """At once where it would recur, and after a dozen tries where it keeps coming."""
    made, closing = server(Lent(SYNTAX))
    with pytest.raises(ServerFault):
        weigh(made)
    assert closing.now == 0
    made, closing = server(Lent(DEADLOCK))
    with pytest.raises(ServerFault):
        weigh(made)
    assert 0 < closing.now < PATIENCE


def test_closing_the_feed_ends_the_wait() -> None:
    """Not when the server is back."""
    made, closing = server(Lent(AWAY))
    closing.closed_at = 5.0
    with pytest.raises(FeedFailure, match="closed"):
        weigh(made)
    assert closing.now < 20


def test_a_question_that_closing_cuts_off_is_no_fault_of_the_server() -> None:
    """The session is lost because it was ended."""

    class Cut(Lent):
        @contextlib.contextmanager
        def lend(self) -> Iterator[Any]:
            made.end()
            if made._closing.requested:
                raise ServerFault(2013, "lost", where="test")
            yield self

    made, closing = server(Cut())
    with pytest.raises(FeedFailure, match="closed"):
        weigh(made)
    assert closing.now == 0


def test_questions_fit_the_packet() -> None:
    """A server with small packets is asked more often."""
    lent = Lent(0, packet=2048)
    made, _ = server(lent)
    keys = [(b"%020d" % number,) for number in range(100)]
    assert len(made.weigh(KeyWeights([column("k", "varchar(20)")]), keys)) == 100
    assert len(lent.asked) > 1
    assert all(len(question) < 1024 for question in lent.asked)


def test_another_session_may_have_a_smaller_packet() -> None:
    """A global that is lowered holds for the session that comes after a lost one."""
    lent = Lent(0)
    made, _ = server(lent)
    keys = [(b"%020d" % number,) for number in range(100)]
    weights = KeyWeights([column("k", "varchar(20)")])
    made.weigh(weights, keys)
    assert len(lent.asked) == 1
    lent.packet, lent.id = 2048, 2
    made.weigh(weights, keys)
    assert all(len(question) < 1024 for question in lent.asked[1:])
