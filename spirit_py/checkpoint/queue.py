"""The requests to the process that works on a table, as rows of the checkpoint table.

Each request is a row of its own, with a number that the server gives, so that none overwrites
another one. Its life::

    asked     the row holds the request; the asking session holds the named lock of its token
    claimed   the process has deleted the row, so that nobody carries it out twice, and works
    answered  the row holds the answer, under the same number; who asked reads and deletes it

A request is carried out only while its named lock is held: nobody waits for the others any more. An
asking session that deletes its row itself has withdrawn the request, and it was not claimed.

Whom the server has authenticated is evaluated by the server in the INSERT.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint.codec import UnreadableCheckpoint, message_from_text, to_text
from spirit_py.checkpoint.requests import FIRST_ID, Answer, Request
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, ServerFault
from spirit_py.mysql.faults import ABSENT_TABLE
from spirit_py.mysql.locks.named import named_lock_holder
from spirit_py.sql import string_literal

if TYPE_CHECKING:
    from spirit_py.checkpoint.table import CheckpointTable
    from spirit_py.contracts import SqlSession

#: A longer row is not read: it is no request of this program.
_LONGEST: Final = 1 << 20
#: Seconds after which an answer that nobody has read is deleted.
_KEPT_SECONDS: Final = 600


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request that waits, under its number."""

    number: int
    request: Request


@dataclass(frozen=True, kw_only=True)
class Malformed:
    """A row in the place of a request that is none, and why."""

    number: int
    why: str


class RequestQueue:
    """The requests in one checkpoint table; has no session of its own."""

    def __init__(self, table: CheckpointTable) -> None:
        self.table = table
        self._quoted = table.quoted

    # -- the side that asks

    def put(self, session: SqlSession, request: Request) -> int:
        """Add a request, and return its number; the server enters account and client.

        Raises:
            ServerFault: it could not be added; one of :data:`ABSENT_TABLE` without the table.
        """
        text = string_literal(to_text(request))
        session.execute(
            f"INSERT INTO {self._quoted} (record) VALUES"
            f" (JSON_SET({text}, '$.account', CURRENT_USER(), '$.client', USER()))"
        )
        return int(session.query("SELECT LAST_INSERT_ID()")[0][0])

    def answer_to(self, session: SqlSession, number: int, token: str) -> Answer | None:
        """Return the answer to a request; None before there is one, and without the table.

        Raises:
            MigrationFailure: it cannot be read; a process of another version has written it.
        """
        found = self._rows(session, f"id = {number}")
        try:
            answer = _read(found[0][1]) if found else None
        except UnreadableCheckpoint as error:
            raise MigrationFailure(
                f"the answer of the process cannot be read: {error}",
                hint="see with spirit-py status whether it did what was asked; use the version of"
                " spirit-py that runs there",
                error_code=ErrorCode.NO_ANSWER,
            ) from error
        return answer if isinstance(answer, Answer) and answer.token == token else None

    def withdraw(self, session: SqlSession, number: int) -> bool:
        """Delete a request, or its answer; return False for one that was claimed."""
        try:
            return bool(session.execute(f"DELETE FROM {self._quoted} WHERE id = {number}"))
        except ServerFault as fault:
            if fault.code in ABSENT_TABLE:
                return False
            raise

    # -- the side that answers

    def waiting(self, session: SqlSession) -> list[Asked | Malformed]:
        """Return the requests in the order of their arrival; delete answers that nobody reads."""
        asked: list[Asked | Malformed] = []
        answered = False
        for number, text in self._rows(session, f"id >= {FIRST_ID}"):
            try:
                found = _read(text)
            except UnreadableCheckpoint as error:
                asked.append(Malformed(number=number, why=str(error)))
                continue
            answered = answered or isinstance(found, Answer)
            if isinstance(found, Request):
                asked.append(Asked(number=number, request=found))
        if answered:
            session.execute(
                f"DELETE FROM {self._quoted} WHERE id >= {FIRST_ID}"
                f" AND written_at < CURRENT_TIMESTAMP(6) - INTERVAL {_KEPT_SECONDS} SECOND"
            )
        return asked

    def claim(self, session: SqlSession, number: int) -> bool:
        """Take a request out of the queue; False for one that was withdrawn or claimed before."""
        return bool(session.execute(f"DELETE FROM {self._quoted} WHERE id = {number}"))

    def is_waited_for(self, session: SqlSession, request: Request) -> bool:
        """Return whether the command that asked still waits for the answer."""
        return named_lock_holder(session, request.lock) is not None

    def answer(self, session: SqlSession, number: int, answer: Answer) -> None:
        """Write the answer to a claimed request, or a newer one."""
        text = string_literal(to_text(answer))
        session.execute(f"REPLACE INTO {self._quoted} (id, record) VALUES ({number}, {text})")

    def _rows(self, session: SqlSession, where: str) -> list[tuple[int, str]]:
        """Return number and text of rows; nothing without the table."""
        try:
            found = session.query(
                f"SELECT id, IF(LENGTH(record) > {_LONGEST}, '', record) FROM {self._quoted}"
                f" WHERE {where} ORDER BY id"
            )
        except ServerFault as fault:
            if fault.code in ABSENT_TABLE:
                return []
            raise
        return [(int(number), str(text)) for number, text in found]


def _read(text: str) -> Request | Answer:
    return message_from_text(text, Request, Answer)
