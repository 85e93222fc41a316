"""What stands in MySQLdb's place: connections and cursors to the model server."""

from __future__ import annotations

import contextlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import MySQLdb

from tests.simulation.server import WRITERS, fault
from tests.simulation.statements import execute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.server import Server, Session


class Wire:
    """A handle on a connection's socket."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def shutdown(self, _how: int) -> None:
        """Break the connection, whoever waits on it."""
        self._session.cut = self._session.gone = True
        if self._session.waits is not None:
            self._session.server.scheduler.wake(self._session.waits)
        self._session.server.changed()

    def close(self) -> None:
        """Do nothing: the handle is only a second one."""


@lru_cache(maxsize=50_000)
def _texts(sql: bytes) -> tuple[str, ...]:
    """Return the statements of a packet, the same objects each time."""
    return tuple(sql.decode().split("\n;\n"))


class Cursor:
    """The cursor of a connection: the program has one at a time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        #: The server has gone on without the connection.
        self.lost = False
        self._rows: list[tuple[Any, ...]] = []
        self._rest: tuple[str, ...] = ()

    def execute(self, sql: bytes, parameters: Sequence[Any] | None = None) -> int:
        """Send one statement, or a packet of several."""
        texts = _texts(sql)
        self._rest = texts[1:]
        return self._execute(texts[0], tuple(parameters) if parameters else ())

    def _execute(self, sql: str, parameters: tuple[Any, ...]) -> int:
        session = self._session
        if session.severed is not None or self.lost:
            self._require(sql, parameters)
        self._rows, affected = execute(session, sql, parameters)
        return affected

    def _require(self, sql: str, parameters: tuple[Any, ...]) -> None:
        """Send a statement; if the connection was cut meanwhile, the server goes on with it."""
        session = self._session
        writes = session.role not in WRITERS or sql.startswith(("REPLACE", "DELETE"))
        if session.severed is not None and session.alive and writes:
            self.lost = True
            late, session.severed = session.severed, None
            session.server.happened.add("late statement")
            # The end of its process ends no statement that is under way.
            session.process = None
            scheduler = session.server.scheduler
            scheduler.tell(f"the connection of session {session.number} is cut behind: {sql[:60]}")

            def go_on() -> None:
                scheduler.sleep(late)
                with contextlib.suppress(MySQLdb.Error):
                    execute(session, sql, parameters)
                session.server.end(session)

            scheduler.spawn(f"the statement of {session.number}", go_on, process="server")
        self.require_connection()

    def require_connection(self) -> None:
        """Fail if the connection is lost."""
        if self.lost:
            raise fault(2013, "Lost connection to MySQL server during query")

    def nextset(self) -> int | None:
        """Execute the next statement of a packet."""
        if not self._rest:
            return None
        first, self._rest = self._rest[0], self._rest[1:]
        self._execute(first, ())
        return 1

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows."""
        return self._rows

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        """Return the next rows, so many."""
        found, self._rows = self._rows[:size], self._rows[size:]
        return found

    def close(self) -> None:
        """Do nothing."""


class Connection:
    """A connection of MySQLdb."""

    def __init__(self, server: Server) -> None:
        server.scheduler.step()
        self.session = server.connect()
        self._cursor = Cursor(self.session)

    def thread_id(self) -> int:
        """Return the session's number."""
        return self.session.number

    def cursor(self, _kind: type[Any] | None = None) -> Cursor:
        """Return the cursor; that of a stream gives its rows piece by piece, too."""
        return self._cursor

    def fileno(self) -> int:
        """Return no socket of the operating system."""
        return -1

    def info(self) -> str:
        """Return the summary of the last statement."""
        return self.session.info

    def warning_count(self) -> int:
        """Return how many warnings the last statement gave."""
        return len(self.session.warnings)

    def set_server_option(self, _option: int) -> None:
        """Do nothing: packets of several statements are known by their separator."""

    def ping(self) -> None:
        """Ask whether the session lives."""
        self.session.server.scheduler.step()
        self._cursor.require_connection()
        self.session.require_life()

    def close(self) -> None:
        """End the session, if the server still hears of it."""
        if not self._cursor.lost:
            self.session.server.end(self.session)
