"""The mailbox of a gang in user variables of sessions, or in rows of the checkpoint table.

Variables are read in ``performance_schema.user_variables_by_thread`` within 0.1 ms, write no
binlog, and go with their session; an open transaction does not matter. Rows cost a commit each, in
autocommit sessions of their own: a member's snapshot would not show them. Named locks show who
lives (:mod:`spirit_py.mysql.own_sessions`). Every message is sealed for its writer.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from spirit_py.classes import dataclass, field
from spirit_py.errors import ServerFault, WorkersLost
from spirit_py.mysql.connect import connect
from spirit_py.mysql.own_sessions import ours
from spirit_py.mysql.processlist import performance_schema_shows_sessions
from spirit_py.spark.member import DriverEnd, MemoryMailbox, Seal
from spirit_py.sql import quote_table
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.spark.gang import GangEngine
    from spirit_py.spark.member import Orders
    from spirit_py.table.schema import TableSchema

#: A gang has a row for each rank's message, and one for its orders.
_RANKS: Final = 512
_NUMBERS: Final = 2 * _RANKS
#: Ids are below 0, and the checkpoint's above.
_GANGS: Final = 2**31 // _NUMBERS
_ALIVE_SECONDS: Final = 0.25
_ANSWER_SECONDS: Final = 20
_DRIVER_GONE: Final = "the driver's session is gone, so this task ends"


class TableMailbox(DriverEnd):
    """Rows of the checkpoint table, whose name is quoted."""

    box: _TableBox

    def __init__(self, options: ConnectionOptions, table: str) -> None:
        super().__init__(connect(options, role="mailbox", read_timeout=_ANSWER_SECONDS))
        first = -(1 + secrets.randbelow(_GANGS)) * _NUMBERS
        self.box = _TableBox(options, table, first, self._session.id)
        self._living: set[int] = set()
        self._looked_at = -_ALIVE_SECONDS

    def post(self, rank: int, orders: Collection[tuple[int, str]]) -> None:
        """Replace a member's orders."""
        self.box.replace(self._session, _RANKS + rank, list(orders))

    def letters(self) -> list[tuple[int, Any]]:
        """Return the sender and the message of each member that lives, as of a moment ago."""
        rows = self._session.query(self.box.select(0, _RANKS))
        opened = (self.box.open(int(number), str(text)) for number, text in rows)
        found = [(int(letter[0]), letter[1]) for letter in opened if letter is not None]
        senders = {sender for sender, _ in found}
        if senders - self._living or time.monotonic() - self._looked_at > _ALIVE_SECONDS:
            self._living = ours(self._session, senders)
            self._looked_at = time.monotonic()
        return [(sender, letter) for sender, letter in found if sender in self._living]

    def close(self) -> None:
        """Delete the rows, as far as that is possible."""
        ids = f"{self.box.first} AND {self.box.first + _NUMBERS - 1}"
        with contextlib.suppress(ServerFault):
            self._session.execute(f"DELETE FROM {self.box.table} WHERE id BETWEEN {ids}")
        self._session.close()


@dataclass(frozen=True)
class _TableBox:
    """The rows of one gang's messages, from ``first``; picklable."""

    options: ConnectionOptions
    table: str
    first: int
    driver: int
    seal: Seal = field(default_factory=Seal)

    def join(self, rank: int, session: SqlSession) -> _RowMember:
        return _RowMember(self, rank, session)

    def replace(self, session: SqlSession, place: int, message: Any) -> None:
        table = self.table.replace("%", "%%")
        session.execute(
            f"REPLACE INTO {table} (id, record) VALUES (%s, %s)",
            (self.first + place, self.seal.close(message, self.first + place)),
        )

    def open(self, number: int, text: str) -> Any:
        """Return the message of a row; None where the gang has not written it there."""
        return self.seal.open(text.encode(), number)

    def select(self, place: int, count: int) -> str:
        """Return the query for rows that are there: number and text."""
        low = self.first + place
        # The hint keeps a view from being read; see CheckpointTable.
        table = f"{self.table} FORCE INDEX (PRIMARY)"
        return f"SELECT id, record FROM {table} WHERE id BETWEEN {low} AND {low + count - 1}"


class _RowMember:
    def __init__(self, box: _TableBox, rank: int, session: SqlSession) -> None:
        self._box = box
        self._rank = rank
        self._works_in = session
        self._session: Session = connect(box.options, role="mailbox", read_timeout=_ANSWER_SECONDS)
        self._looked_at = time.monotonic()
        self._idle = threading.Event()

    def write(self, letter: dict[str, Any]) -> None:
        self._box.replace(self._session, self._rank, (self._works_in.id, letter))
        # Otherwise the server counts its last statement as idle time.
        self._works_in.execute("DO 0")

    def orders(self) -> Orders:
        self._require_living()
        rows = self._session.query(self._box.select(_RANKS + self._rank, 1))
        return _orders(self._box.open(int(rows[0][0]), str(rows[0][1])) if rows else None)

    def wait(self, seconds: float) -> None:
        self._idle.wait(seconds)

    def _require_living(self) -> None:
        if time.monotonic() - self._looked_at < _ALIVE_SECONDS:
            return
        if not ours(self._session, [self._box.driver]):
            raise WorkersLost(_DRIVER_GONE)
        # Nothing else uses the session while there are no orders.
        self._works_in.execute("DO 0")
        self._looked_at = time.monotonic()

    def close(self) -> None:
        self._session.close()


def _orders(found: Any) -> Orders:
    return [(int(number), str(text)) for number, text in found or ()]


_LETTERS: Final = """SELECT THREAD_ID, VARIABLE_VALUE
FROM performance_schema.user_variables_by_thread WHERE VARIABLE_NAME = %s"""

_SILENT: Final = """
SELECT COUNT(*) FROM performance_schema.threads
WHERE PROCESSLIST_COMMAND = 'Sleep' AND PROCESSLIST_TIME >= %s AND THREAD_ID IN ({})"""

_THREAD: Final = """SELECT THREAD_ID FROM performance_schema.threads
WHERE PROCESSLIST_ID = CONNECTION_ID()"""


class VariablesMailbox(DriverEnd):
    """User variables. A sender is the server's thread of the member's session."""

    box: _VariablesBox

    def __init__(self, session: SqlSession) -> None:
        super().__init__(session)
        self.box = _VariablesBox(self.name, int(session.query(_THREAD)[0][0]))

    def post(self, rank: int, orders: Collection[tuple[int, str]]) -> None:
        """Replace a member's orders."""
        sealed = self.box.seal.close(list(orders), "orders", rank)
        self._session.execute(f"SET @{self.name}_{rank} = %s", (sealed,))

    def letters(self) -> list[tuple[int, Any]]:
        """Return each living member's sender and message; None if it has none of ours."""
        rows = self._session.query(_LETTERS, (self.name,))
        return [(int(thread), self._opened(int(thread), text)) for thread, text in rows]

    def _opened(self, thread: int, text: bytes | None) -> Any:
        return None if text is None else self.box.seal.open(text, "letter", thread)

    def silent(self, senders: Collection[int], seconds: int) -> bool:
        """Return whether the session of one of these members has idled for so long."""
        found = _SILENT.format(", ".join(str(int(thread)) for thread in senders))
        return bool(senders) and bool(self._session.query(found, (seconds,))[0][0])


@dataclass(frozen=True)
class _VariablesBox:
    """The variables of one gang's messages; picklable. The driver's end in the member's rank."""

    name: str
    driver_thread: int
    seal: Seal = field(default_factory=Seal)

    def join(self, rank: int, session: SqlSession) -> _VariableMember:
        return _VariableMember(self, rank, session)


class _VariableMember:
    def __init__(self, box: _VariablesBox, rank: int, session: SqlSession) -> None:
        self._box = box
        self._rank = rank
        self._session = session
        self._thread = int(session.query(_THREAD)[0][0])
        self._idle = threading.Event()

    def write(self, letter: dict[str, Any]) -> None:
        sealed = self._box.seal.close(letter, "letter", self._thread)
        self._session.execute(f"SET @{self._box.name} = %s", (sealed,))

    def orders(self) -> Orders:
        box = self._box
        where = (f"{box.name}_{self._rank}", box.driver_thread)
        rows = self._session.query(f"{_LETTERS} AND THREAD_ID = %s", where)
        if not rows:
            raise WorkersLost(_DRIVER_GONE)
        sealed = rows[0][1]
        return _orders(None if sealed is None else box.seal.open(sealed, "orders", self._rank))

    def wait(self, seconds: float) -> None:
        self._idle.wait(seconds)

    def close(self) -> None:
        """Do nothing: the message goes with the session."""


@contextlib.contextmanager
def open_mailbox(
    control: SqlSession, options: ConnectionOptions, engine: GangEngine, source: TableSchema
) -> Iterator[DriverEnd]:
    """Open the driver's end for the next gang; ``control`` is a session for one thread."""
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
