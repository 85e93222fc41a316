"""Pick the mailbox of a gang; the one of tasks that are threads of the driver."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from spirit_py.mysql.processlist import any_idle, performance_schema_shows_sessions
from spirit_py.spark.mailbox.server import TableMailbox, VariablesMailbox
from spirit_py.sql import quote_table
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.spark.gang import GangEngine
    from spirit_py.spark.mailbox.ends import DriverEnd, Orders
    from spirit_py.table.schema import TableSchema

#: A member that waits for orders asks the server for nothing else.
_PING_SECONDS: Final = 0.25


@dataclass
class MemoryMailbox:
    """Both the driver's end and what the tasks are given; thread-safe.

    A sender is the server's number of the member's session.

    Args:
        control: a session of the driver, to look for sessions that idle.
    """

    control: SqlSession
    name: str = field(default_factory=lambda: f"spirit_py_gang_{secrets.token_hex(6)}")
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _orders: dict[int, Orders] = field(default_factory=dict)
    _letters: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def box(self) -> MemoryMailbox:
        """What the tasks are given."""
        return self

    def post(self, rank: int, orders: Collection[tuple[int, str]]) -> None:
        """Replace a member's orders."""
        with self._lock:
            self._orders[rank] = list(orders)

    def letters(self) -> list[tuple[int, Any]]:
        """Return the sender and the message of each member that lives."""
        with self._lock:
            return list(self._letters.items())

    def silent(self, senders: Collection[int], seconds: int) -> bool:
        """Return whether the session of one of these members has idled for so long."""
        return any_idle(self.control, senders, seconds)

    def close(self) -> None:
        """Do nothing: nothing is left."""

    def join(self, rank: int, session: SqlSession) -> _Member:
        """Open the end of a member."""
        return _Member(self, rank, session)

    def _write(self, sender: int, letter: dict[str, Any] | None) -> None:
        with self._lock:
            self._letters.pop(sender, None)
            if letter is not None:
                self._letters[sender] = letter

    def _orders_of(self, rank: int) -> Orders:
        with self._lock:
            return self._orders.get(rank, [])


class _Member:
    """A member's end."""

    def __init__(self, mailbox: MemoryMailbox, rank: int, session: SqlSession) -> None:
        self._mailbox = mailbox
        self._rank = rank
        self._session = session
        self._asked = 0.0

    def write(self, letter: dict[str, Any]) -> None:
        """Replace the member's message."""
        self._mailbox._write(self._session.id, letter)  # noqa: SLF001
        self._ping()

    def orders(self) -> Orders:
        """Return the member's orders; notice a session that is lost while there are none."""
        if time.monotonic() - self._asked >= _PING_SECONDS:
            self._ping()
        return self._mailbox._orders_of(self._rank)  # noqa: SLF001

    def _ping(self) -> None:
        """Use the session: until then the server counts a statement that has ended as idle time."""
        self._session.execute("DO 0")
        self._asked = time.monotonic()

    def close(self) -> None:
        """Withdraw the message."""
        self._mailbox._write(self._session.id, None)  # noqa: SLF001


@contextlib.contextmanager
def open_mailbox(
    control: SqlSession, options: ConnectionOptions, engine: GangEngine, source: TableSchema
) -> Iterator[DriverEnd]:
    """Open the driver's end for the next gang of an engine.

    Args:
        control: a session of the driver, used by no other thread.
        source: the table beside which the checkpoint table is.
    """
    end: DriverEnd
    if engine.in_process:
        end = MemoryMailbox(control)
    elif performance_schema_shows_sessions(control):
        end = VariablesMailbox(control)
    else:
        checkpoint = AuxiliaryNames.of(source.name).checkpoint
        end = TableMailbox(options, quote_table(source.schema, checkpoint))
    with contextlib.closing(end):
        yield end
