"""A task of a gang, and the messages between it and the driver while tasks run.

Messages need no port: threads use memory, Spark's tasks the server, where other accounts can write,
too. So each message carries a code made with a random key that the tasks get with the password.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import importlib
import json
import secrets
import threading
import time
import traceback
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar

from spirit_py.classes import dataclass, field
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, SpiritError
from spirit_py.mysql.processlist import any_idle

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.threads import StopSwitch

_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)

LOOK_SECONDS: Final = 0.002
"""Seconds between two reads of a mailbox that nobody tells of orders."""
_LONGEST_LOOK: Final = 0.02
FINISH: Final = ""
"""The order that ends a member."""
_KEPT_ANSWERS: Final = 8


class GangMember(Protocol[_R_co]):
    """The work of one task of a gang. Used by one thread; every method may block."""

    @property
    def session(self) -> SqlSession:
        """A session of the driver's server, which may carry the messages."""

    @property
    def sessions(self) -> Sequence[tuple[str, int]]:
        """The sessions to kill when the member does not end: server name and session id."""

    def handle(self, order: str) -> str:
        """Carry out one order and answer it."""

    def result(self) -> _R_co:
        """Return the final result, which may be too large for the mailbox."""

    def close(self) -> None:
        """Close the sessions; called once, also after a failure."""


@dataclass(frozen=True, kw_only=True)
class GangTask(Generic[_R]):
    """The function that Spark ships: joins the gang and handles orders. Picklable."""

    join: Callable[[int], GangMember[_R]]
    mailbox: MemberBox

    def __call__(self, rank: int) -> _R:
        """Run the member of that rank until the driver ends it."""
        with (
            contextlib.closing(self.join(rank)) as member,
            contextlib.closing(self.mailbox.join(rank, member.session)) as mailbox,
        ):
            return self._serve(rank, member, mailbox)

    @staticmethod
    def _serve(rank: int, member: GangMember[_R], mailbox: MemberEnd) -> _R:
        done = 0
        answers: list[tuple[int, str]] = []
        while True:
            mailbox.write({"rank": rank, "sessions": list(member.sessions), "answers": answers})
            pause = LOOK_SECONDS
            while not (waiting := [order for order in mailbox.orders() if order[0] > done]):
                mailbox.wait(pause)
                pause = min(_LONGEST_LOOK, pause * 1.5) if done else pause
            if any(order == FINISH for _, order in waiting):
                return member.result()
            done, order = waiting[0]
            answers = [*answers, (done, member.handle(order))][-_KEPT_ANSWERS:]


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[_R]):
    """A task's result or error."""

    rank: int
    result: _R | None = None
    error: SpiritError | None = None


def guarded(rank: int, function: Callable[[int], _R]) -> Outcome[_R]:
    """Run a task's function; return an error as a value, a foreign one as MigrationFailure."""
    try:
        return Outcome(rank=rank, result=function(rank))
    except SpiritError as error:
        return Outcome(rank=rank, error=error)
    except Exception as error:
        failure = MigrationFailure(
            f"a task failed unexpectedly: {type(error).__name__}: {error}",
            hint="this is a bug; please report it with the details",
            details=tuple(traceback.format_exc().splitlines()[-12:]),
            error_code=ErrorCode.DEFECT,
        )
        return Outcome(rank=rank, error=failure)


class Gathering:
    """A parameter of Spark's accumulators: lists, whose items the driver has as each task ends."""

    def zero(self, _value: list[_R]) -> list[_R]:
        """Return what a task begins with."""
        return []

    def addInPlace(self, found: list[_R], more: list[_R]) -> list[_R]:  # noqa: N802 - Spark's name
        """Add what a task has found, to the driver's own list at the end."""
        found += more
        return found


def lacking(modules: Sequence[str]) -> str:
    """Return why one of these cannot be imported in this task; empty where all can."""
    try:
        for name in modules:
            importlib.import_module(name)
    except ImportError as error:
        return str(error)
    return ""


Orders: TypeAlias = "list[tuple[int, str]]"


class MemberEnd(Protocol):
    """A member's end; used by one thread."""

    def write(self, letter: dict[str, Any]) -> None:
        """Replace the member's message to the driver."""

    def orders(self) -> Orders:
        """Return the member's orders; `WorkersLost` when the driver is gone."""

    def wait(self, seconds: float) -> None:
        """Wait before the next look for orders: so long, or where it is told of them, for them."""

    def close(self) -> None:
        """Withdraw the message; the member's session may be closed already."""


class MemberBox(Protocol):
    """What a task needs to open its end. Picklable if tasks run in other processes."""

    def join(self, rank: int, session: SqlSession) -> MemberEnd:
        """Open the end of a member, whose session is on the driver's server."""


class DriverEnd:
    """The driver's end; used by one thread. ``name`` is the gang's alone, ``box`` for its tasks.

    A *sender* is the number of one attempt of a member, by default of its session.
    """

    box: MemberBox

    def __init__(self, session: SqlSession) -> None:
        self._session = session
        self.name = f"spirit_py_gang_{secrets.token_hex(6)}"

    @property
    def address(self) -> str:
        """The server that all members use."""
        return self._session.address

    def post(self, rank: int, orders: Collection[tuple[int, str]]) -> None:
        """Replace a member's orders."""
        raise NotImplementedError

    def letters(self) -> list[tuple[int, Any]]:
        """Return the sender and message of each living member; None while it comes or ends."""
        raise NotImplementedError

    def await_letter(self, seconds: float, stop: StopSwitch) -> None:
        """Wait before the next look: so long, or where it is told of messages, for one."""
        stop.wait(seconds)

    def silent(self, senders: Collection[int], seconds: int) -> bool:
        """Return whether a session idles so long, by lost packets; a read may take hours."""
        return any_idle(self._session, senders, seconds)

    def close(self) -> None:
        """Remove what the mailbox leaves on the server, as far as it can be reached."""


_CODE_BYTES: Final = 64


@dataclass(frozen=True)
class Seal:
    """The key of one gang; picklable. Each code covers its message's place."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def close(self, message: Any, *place: str | int) -> str:
        """Return a JSON value as a text with its code."""
        text = json.dumps(message)
        return self._code(text, place) + text

    def open(self, sealed: bytes, *place: str | int) -> Any:
        """Return the value; None for a text that :meth:`close` did not make for this place."""
        code, text = sealed[:_CODE_BYTES], sealed[_CODE_BYTES:].decode(errors="replace")
        if not hmac.compare_digest(code, self._code(text, place).encode()):
            return None
        return json.loads(text)

    def _code(self, text: str, place: tuple[str | int, ...]) -> str:
        return hmac.new(self.key, json.dumps([*place, text]).encode(), hashlib.sha256).hexdigest()


#: Between two uses of the session: while there are no orders, and while one follows another.
_PING_SECONDS: Final = 0.25
_LONG_SECONDS: Final = 1.0


class MemoryMailbox(DriverEnd):
    """Both the driver's end and what the tasks are given; thread-safe."""

    def __init__(self, session: SqlSession) -> None:
        super().__init__(session)
        self.box = self
        self._lock = threading.Lock()
        self._orders: dict[int, Orders] = {}
        self._posted: defaultdict[int, threading.Event] = defaultdict(threading.Event)
        self._letters: dict[int, dict[str, Any]] = {}
        self._written = threading.Event()

    def post(self, rank: int, orders: Collection[tuple[int, str]]) -> None:
        """Replace a member's orders."""
        with self._lock:
            self._orders[rank] = list(orders)
            self._posted[rank].set()

    def letters(self) -> list[tuple[int, Any]]:
        """Return the sender and the message of each member that lives."""
        with self._lock:
            return list(self._letters.items())

    def join(self, rank: int, session: SqlSession) -> _Member:
        """Open the end of a member."""
        with self._lock:
            posted = self._posted[rank]
        return _Member(self, rank, session, posted)

    def write(self, sender: int, letter: dict[str, Any] | None) -> None:
        """Replace a member's message; None withdraws it."""
        with self._lock:
            self._letters.pop(sender, None)
            if letter is not None:
                self._letters[sender] = letter
        self._written.set()

    def await_letter(self, seconds: float, stop: StopSwitch) -> None:  # noqa: ARG002
        """Wait until a member has written since the last wait, at most so long."""
        self._written.wait(seconds)
        # Before the look that follows: what is written from now on ends the next wait.
        self._written.clear()

    def orders(self, rank: int) -> Orders:
        """Return a member's orders."""
        with self._lock:
            return self._orders.get(rank, [])


class _Member:
    def __init__(
        self, mailbox: MemoryMailbox, rank: int, session: SqlSession, posted: threading.Event
    ) -> None:
        self._mailbox = mailbox
        self._posted = posted
        self._rank = rank
        self._session = session
        self._asked = 0.0

    def write(self, letter: dict[str, Any]) -> None:
        self._mailbox.write(self._session.id, letter)
        self._ping_after(_LONG_SECONDS)

    def orders(self) -> Orders:
        return self._mailbox.orders(self._rank)

    def wait(self, seconds: float) -> None:
        """Wait for orders, at most until the session is to be used again; raise for a lost one."""
        self._ping_after(_PING_SECONDS)
        self._posted.wait(max(seconds, _PING_SECONDS))
        # Before the look that follows: what is posted from now on ends the next wait.
        self._posted.clear()

    def _ping_after(self, seconds: float) -> None:
        """Use the session: the server counts what its last statement took as idle, too."""
        if time.monotonic() - self._asked >= seconds:
            self._session.execute("DO 0")
            self._asked = time.monotonic()

    def close(self) -> None:
        self._mailbox.write(self._session.id, None)
