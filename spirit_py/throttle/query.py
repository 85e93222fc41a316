"""A throttler that asks the server a query of the operator's: ``--throttle-query "SELECT ..."``.

The first column of its first row decides. A number other than 0 means wait, as with gh-ost, and so
does a text, which is then shown as the reason: ``SELECT IF(HOUR(NOW()) < 20, 'the evening', '')``.
NULL, an empty text and no row mean go on. It runs in a session that cannot write, under the
server's own settings, for two seconds at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql.faults import Disposition, disposition
from spirit_py.throttle.own_session import own_session
from spirit_py.throttle.throttler import ALL_WORK

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession

_MILLISECONDS: Final = 2000


class QueryThrottler:
    """Asks one query.

    Args:
        database: the default schema of the query.
    """

    name: Final = "query"
    holds: Final = ALL_WORK
    every: Final = 1.0

    def __init__(self, connection: ConnectionOptions, query: str, *, database: str = "") -> None:
        self._query = query
        self._session = own_session(
            connection, "throttle-query", prepare=_bounded, native=True, database=database
        )

    def look(self) -> str:
        """Return what the query says.

        Raises:
            ServerFault: it failed.
        """
        return why_query(self._session.ask(lambda session: session.query(self._query)))

    def check(self) -> None:
        """Ask once, before anything is done.

        Raises:
            Refusal: the server does not accept the query.
        """
        try:
            self.look()
        except ServerFault as fault:
            if disposition(fault) is Disposition.FATAL:
                raise Refusal(
                    f"the server does not accept the query of --throttle-query: {fault.text}"
                    f" (error {fault.code})",
                    hint="correct it: a SELECT whose first column is 0 while the work may go on",
                    error_code=ErrorCode.LIMIT_NOT_WATCHABLE,
                ) from fault
        finally:
            self.close()

    def close(self) -> None:
        """Close the session; safe to call again."""
        self._session.close()


def _bounded(session: SqlSession) -> None:
    """Let a session write nothing, and end its queries."""
    session.execute(f"SET SESSION max_execution_time={_MILLISECONDS}")
    session.execute("SET SESSION TRANSACTION READ ONLY")


def why_query(rows: list[tuple[Any, ...]]) -> str:
    """Return what is waited for, by the rows of the operator's query."""
    value = rows[0][0] if rows and rows[0] else None
    if isinstance(value, bytes):
        value = value.decode(errors="replace").strip("\0")
    text = "" if value is None else str(value).strip()
    try:
        return "the query of --throttle-query" if text and float(text) else ""
    except ValueError:
        return f"{text} (--throttle-query)"
