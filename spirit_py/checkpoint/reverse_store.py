"""The rows of a way back in the checkpoint table: record, request and answer.

They stand beside the migration's own record (row 1), so that one mark says whose all of them are,
and one DROP ends them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.checkpoint.reverse import (
    Answer,
    KeepRecord,
    Request,
    answer_from,
    record_from,
    request_from,
    to_text,
)
from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import NO_SUCH_TABLE
from spirit_py.sql import quote_table, string_literal

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession

_RECORD: Final = 2
_REQUEST: Final = 3
_ANSWER: Final = 4


class KeepStore:
    """Reads and writes the rows of one way back.

    Args:
        table: name of the checkpoint table.
    """

    def __init__(self, schema: str, table: str) -> None:
        self._table = quote_table(schema, table)

    def write(self, session: SqlSession, record: KeepRecord) -> None:
        """Replace the record."""
        self._write(session, _RECORD, to_text(record))

    def read(self, session: SqlSession) -> KeepRecord | None:
        """Read the record; None when there is none.

        Raises:
            UnreadableRecord: when it cannot be read.
        """
        text = self._read(session, _RECORD)
        return None if text is None else record_from(text)

    def age(self, session: SqlSession) -> float:
        """Return the seconds since the record was written, by the server's clock."""
        rows = session.query(
            "SELECT TIMESTAMPDIFF(MICROSECOND, written_at, CURRENT_TIMESTAMP(6))"
            f" FROM {self._table} WHERE id = {_RECORD}"
        )
        return int(rows[0][0]) / 1e6 if rows else 0.0

    def ask(self, session: SqlSession, request: Request) -> None:
        """Put a request."""
        self._write(session, _REQUEST, to_text(request))

    def asked(self, session: SqlSession) -> Request | None:
        """Return the request that waits; None without one."""
        text = self._read(session, _REQUEST)
        return None if text is None else request_from(text)

    def withdraw(self, session: SqlSession, request: Request) -> None:
        """Take a request back, or say that its answer was read; another one stays."""
        text = string_literal(to_text(request))
        session.execute(f"DELETE FROM {self._table} WHERE id = {_REQUEST} AND record = {text}")

    def answer(self, session: SqlSession, answer: Answer) -> None:
        """Replace the answer."""
        self._write(session, _ANSWER, to_text(answer))

    def answered(self, session: SqlSession, token: str) -> Answer | None:
        """Return the answer to one request; None before there is one."""
        text = self._read(session, _ANSWER)
        found = None if text is None else answer_from(text)
        return found if found is not None and found.token == token else None

    def _write(self, session: SqlSession, number: int, text: str) -> None:
        session.execute(
            f"REPLACE INTO {self._table} (id, record) VALUES ({number}, {string_literal(text)})"
        )

    def _read(self, session: SqlSession, number: int) -> str | None:
        """Return a row's text; None when there is no row, or no table any more."""
        try:
            rows = session.query(f"SELECT record FROM {self._table} WHERE id = {number}")
        except ServerFault as fault:
            if fault.code == NO_SUCH_TABLE:
                return None
            raise
        return str(rows[0][0]) if rows else None
