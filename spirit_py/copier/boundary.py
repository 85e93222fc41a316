"""The driver's session for boundary queries: a lost one is opened again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from spirit_py.mysql.connect import connect
from spirit_py.mysql.renewed import RenewedSession
from spirit_py.mysql.retry import patiently

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.config import ConnectionOptions
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
        self._session = RenewedSession(partial(connect, connection, role="boundary"))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a SELECT and return its rows; a transient fault is tried again.

        Raises:
            ServerFault: when it stays.
        """

        def rows() -> list[tuple[Any, ...]]:
            return self._session.ask(lambda session: session.query(sql))

        return patiently(rows, self._connection, self._stop, tell=self._tell)

    def close(self) -> None:
        """Close the session; safe to call again, and a later query opens another."""
        self._session.close()
