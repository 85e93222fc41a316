"""The requests to the process that works on a table, in a table of their own beside it.

Operators write to no other table of the program, and only the fields of a
:class:`~spirit_py.checkpoint.live.Request` are read (R26). Each request is a row with a number of
the server; the asking session holds the request's named lock. The process deletes the row to claim
it, works, and puts the answer under the same number; the asker reads and deletes it. A request
without a held lock is not carried out; the lock's holder is who asked. An asker that deletes its
row has withdrawn the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint.codec import UnreadableCheckpoint, message_from_text, to_text
from spirit_py.checkpoint.live import Answer, Request
from spirit_py.checkpoint.table import RecordTable
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure
from spirit_py.locks.named import named_lock_holder
from spirit_py.mysql.faults import ABSENT_TABLE, excused
from spirit_py.mysql.processlist import user_of
from spirit_py.sql import string_literal
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession

#: A longer row is not read: it is no request of this program.
_LONGEST: Final = 1 << 18
#: Requests of one look, and rows of a query: an operator may write any number, and the run is not
#: to end for want of memory.
_MOST: Final = 200
#: Seconds after which an answer that nobody has read is deleted.
_KEPT_SECONDS: Final = 600


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request that waits, under its number; ``who`` is empty where its lock is not held."""

    number: int
    request: Request
    who: str = ""


@dataclass(frozen=True, kw_only=True)
class Malformed:
    """A row in the place of a request that is none, and why."""

    number: int
    why: str


class RequestQueue(RecordTable):
    """The requests beside one table, in the table ``name``; has no session of its own."""

    MARK = "spirit-py requests"

    def __init__(self, schema: str, table: str) -> None:
        super().__init__(schema, AuxiliaryNames.of(table).requests)

    def create(self, session: SqlSession) -> None:
        """Create the table, in the place of that which a process has left that was killed."""
        self.drop(session)
        self.make(session)

    def put(self, session: SqlSession, request: Request) -> int:
        """Add a request, and return its number; a :data:`ABSENT_TABLE` fault without the table."""
        text = string_literal(to_text(request))
        session.execute(f"INSERT INTO {self.quoted} (record) VALUES ({text})")
        return int(session.query("SELECT LAST_INSERT_ID()")[0][0])

    def answer_to(self, session: SqlSession, number: int, token: str) -> Answer | None:
        """Return the answer to a request, or None; MigrationFailure for one of another version."""
        found = excused(lambda: self._rows(session, f"id = {number}"), [], ABSENT_TABLE)
        try:
            answer = message_from_text(found[0][1], Request, Answer) if found else None
        except UnreadableCheckpoint as error:
            raise MigrationFailure(
                f"the answer of the process cannot be read: {error}",
                hint="spirit-py status shows whether it did what was asked; use the version of"
                " spirit-py that runs there",
                error_code=ErrorCode.NO_ANSWER,
            ) from error
        return answer if isinstance(answer, Answer) and answer.token == token else None

    def withdraw(self, session: SqlSession, asked: Asked) -> bool:
        """Delete a request, and no answer to it; return False for one that was claimed."""
        text = string_literal(to_text(asked.request))
        sql = f"DELETE FROM {self.quoted} WHERE id = {asked.number} AND record = {text}"
        return bool(excused(lambda: session.execute(sql), 0, ABSENT_TABLE))

    def forget(self, session: SqlSession, number: int) -> None:
        """Delete a request, or the answer to it."""
        excused(lambda: self.claim(session, number), False, ABSENT_TABLE)

    def waiting(self, session: SqlSession) -> list[Asked | Malformed]:
        """Return the requests in the order of arrival; delete answers that were not read.

        An :data:`ABSENT_TABLE` fault without the table.
        """
        asked: list[Asked | Malformed] = []
        answered = False
        rows = self._rows(session, "TRUE")
        while rows:
            for number, text in rows:
                try:
                    found = message_from_text(text, Request, Answer)
                except UnreadableCheckpoint as error:
                    asked.append(Malformed(number=number, why=str(error)))
                    continue
                answered = answered or isinstance(found, Answer)
                if isinstance(found, Request):
                    who = self.who_waits(session, found)
                    asked.append(Asked(number=number, request=found, who=who))
            # Behind answers that nobody reads there may be requests.
            more = len(rows) == _MOST and len(asked) < _MOST
            rows = self._rows(session, f"id > {rows[-1][0]}") if more else []
        if answered:
            session.execute(
                f"DELETE FROM {self.quoted} WHERE"
                f" written_at < CURRENT_TIMESTAMP(6) - INTERVAL {_KEPT_SECONDS} SECOND"
            )
        return asked

    def claim(self, session: SqlSession, number: int) -> bool:
        """Take a request out of the queue; False for one that was withdrawn or claimed before."""
        return bool(session.execute(f"DELETE FROM {self.quoted} WHERE id = {number}"))

    def who_waits(self, session: SqlSession, request: Request) -> str:
        """Return user and host of the session that holds the request's lock; empty for none."""
        holder = named_lock_holder(session, request.lock)
        return "" if holder is None else user_of(session, holder)

    def answer(self, session: SqlSession, number: int, answer: Answer) -> None:
        """Write the answer to a claimed request, or a newer one."""
        self.replace(session, number, answer)

    def _rows(self, session: SqlSession, where: str) -> list[tuple[int, str]]:
        sql = (
            f"SELECT id, IF(LENGTH(record) > {_LONGEST}, '', record) FROM {self.quoted}"
            f" FORCE INDEX (PRIMARY) WHERE {where} ORDER BY id LIMIT {_MOST}"
        )
        return [(int(number), str(text)) for number, text in session.query(sql)]
