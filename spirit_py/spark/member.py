"""A task of a gang: joins, handles orders, and sends its outcome to the driver."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, SpiritError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.spark.mailbox import MemberBox, MemberEnd

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
        member = self.join(rank)
        try:
            mailbox = self.mailbox.join(rank, member.session)
            try:
                return self._serve(rank, member, mailbox)
            finally:
                mailbox.close()
        finally:
            member.close()

    @staticmethod
    def _serve(rank: int, member: GangMember[_R], mailbox: MemberEnd) -> _R:
        done = 0
        answers: list[tuple[int, str]] = []
        while True:
            letter = {"rank": rank, "sessions": list(member.sessions), "answers": answers}
            mailbox.write(letter)
            pause = LOOK_SECONDS
            while not (waiting := [order for order in mailbox.orders() if order[0] > done]):
                mailbox.wait(pause)
                pause = min(_LONGEST_LOOK, pause * 1.5) if done else pause
            if any(order == FINISH for _, order in waiting):
                return member.result()
            done, order = waiting[0]
            answers = [*answers, (done, member.handle(order))][-_KEPT_ANSWERS:]


_S = TypeVar("_S")


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[_R]):
    """A task's result or error, and its seconds; ``index`` is the rank, from 0."""

    index: int
    result: _R | None
    error: SpiritError | None
    seconds: float


def guarded(index: int, function: Callable[[_S], _R], spec: _S) -> Outcome[_R]:
    """Run a task's function; return an error as a value, a foreign one as MigrationFailure."""
    began = time.monotonic()
    result: _R | None = None
    failure: SpiritError | None = None
    try:
        result = function(spec)
    except SpiritError as error:
        failure = error
    except Exception as error:
        failure = MigrationFailure(
            f"a task failed unexpectedly: {type(error).__name__}: {error}",
            hint="this is a bug; please report it with the details",
            details=tuple(traceback.format_exc().splitlines()[-12:]),
            error_code=ErrorCode.DEFECT,
        )
    return Outcome(index=index, result=result, error=failure, seconds=time.monotonic() - began)
