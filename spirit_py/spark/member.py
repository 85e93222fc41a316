"""What a task of a gang does on an executor: join, work off orders, return a result."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.spark.mailbox import Mailbox

_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)

LOOK_SECONDS: Final = 0.002
"""Seconds between two looks into the mailbox."""
FINISH: Final = ""
"""The order with which the work is over."""
_KEPT_ANSWERS: Final = 8


class GangMember(Protocol[_R_co]):
    """What one task of a gang does. Used by one thread; every method may block."""

    @property
    def session(self) -> SqlSession:
        """A session of the driver's server; its user variables carry the answers."""

    @property
    def sessions(self) -> Sequence[tuple[str, int]]:
        """What to kill when the member does not end: server name and session id."""

    def handle(self, order: str) -> str:
        """Carry out one order and answer it."""

    def result(self) -> _R_co:
        """Return what is too large for the mailbox, at the end."""

    def close(self) -> None:
        """Close the sessions; called once, whatever happened."""


@dataclass(frozen=True, kw_only=True)
class GangTask(Generic[_R]):
    """What Spark ships: joins the gang and works off orders. Picklable."""

    join: Callable[[int], GangMember[_R]]
    mailbox: Mailbox

    def __call__(self, rank: int) -> _R:
        """Be the member of that rank until the driver says that it is over."""
        member = self.join(rank)
        try:
            return self._serve(rank, member)
        finally:
            member.close()

    def _serve(self, rank: int, member: GangMember[_R]) -> _R:
        """Report for work, then answer orders in sequence until the last one."""
        idle = threading.Event()
        done = 0
        answers: list[tuple[int, str]] = []
        while True:
            letter = {"rank": rank, "sessions": list(member.sessions), "answers": answers}
            self.mailbox.write(member.session, letter)
            while not (waiting := self._orders_after(done, rank, member)):
                idle.wait(LOOK_SECONDS)
            if any(order == FINISH for _, order in waiting):
                return member.result()
            done, order = waiting[0]
            answers = [*answers, (done, member.handle(order))][-_KEPT_ANSWERS:]

    def _orders_after(self, done: int, rank: int, member: GangMember[_R]) -> list[tuple[int, str]]:
        return [order for order in self.mailbox.orders(member.session, rank) if order[0] > done]
