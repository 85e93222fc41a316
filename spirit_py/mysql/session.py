"""One server session: statements in, raw rows out, with the session's identity at hand."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Sequence


class Session:
    """A connection of the program; every value comes back as bytes, str or None, unconverted.

    Not thread-safe: one session belongs to one thread at a time.
    """

    def __init__(self, connection: Any, *, role: str, address: str) -> None:
        self._connection = connection
        self.role = role
        self.address = address
        self.id: int = connection.thread_id()

    def execute(self, sql: str) -> int:
        """Run a statement without a result set; give the affected rows."""
        with contextlib.closing(self._connection.cursor()) as cursor:
            return int(cursor.execute(sql.encode()))

    def query(self, sql: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement with a result set; give all its rows.

        Text columns come as ``str``, numbers as their text, binary columns as ``bytes``.
        """
        with contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    @property
    def warning_count(self) -> int:
        """Warnings of the last statement."""
        return int(self._connection.warning_count())

    def warnings(self) -> list[tuple[str, int, str]]:
        """Level, code and text of the last statement's warnings."""
        return [(str(level), int(code), str(text)) for level, code, text in self.query("SHOW WARNINGS")]

    def close(self) -> None:
        """Close the session; safe to call again and on a broken connection."""
        with contextlib.suppress(Exception):
            self._connection.close()

    def __enter__(self) -> Self:
        """Use the session as a context that closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the session."""
        self.close()

    def __repr__(self) -> str:
        """Show role, id and server; never a secret."""
        return f"<Session {self.role} id={self.id} at {self.address}>"
