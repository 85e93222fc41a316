"""The driver's session for boundary queries: a lost one is opened again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import connection_lost
from spirit_py.mysql.retry import patiently

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session
    from spirit_py.stop import StopSwitch


class BoundaryReader:
    """Runs SELECTs for the chunker; not thread-safe.

    Args:
        stop: Ends the pauses between tries.
        tell: Called with what is waited for, and an empty text at the end.
    """

    def __init__(
        self,
        connection: ConnectionOptions,
        *,
        stop: StopSwitch,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._connection = connection
        self._stop = stop
        self._tell = tell
        self._session: Session | None = None

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a SELECT and return its rows; a transient fault is tried again.

        Raises:
            ServerFault: when it stays.
        """
        return patiently(lambda: self._try(sql), self._connection, self._stop, tell=self._tell)

    def _try(self, sql: str) -> list[tuple[Any, ...]]:
        if self._session is None:
            self._session = connect(self._connection, role="boundary")
        try:
            return self._session.query(sql)
        except BaseException as error:
            if connection_lost(error):
                self.close()
            raise

    def close(self) -> None:
        """Close the session; safe to call again, and a later query opens another."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
