"""One server session: executes statements, returns raw rows, and knows its id and role.

Values (measured, mysqlclient 2.3, Connector/C 3.3): integers and YEAR are ``int``; BINARY, BLOB,
BIT, GEOMETRY, VECTOR and X'' are ``bytes``; all others, DECIMAL, FLOAT and temporal ones too, are
the server's text as ``str``; NULL is ``None``.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final, Self, TypeGuard

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import server_fault
from spirit_py.sql import EndsPacket
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


#: Queries a second of a task of Spark that waits for its first order, at most.
_OF_A_TASK: Final = 600.0


class OwnQueries:
    """Counts this process's queries and writes, by server. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reads: defaultdict[str, float] = defaultdict(float)
        self._writes: Counter[str] = Counter()
        #: How many tasks of other processes query a server, and up to when that is in its reads.
        self._elsewhere: defaultdict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))

    def note(self, address: str) -> None:
        """Count a query."""
        with self._lock:
            self._reads[address] += 1

    def note_write(self, address: str) -> None:
        """Count an INSERT, an UPDATE or a DELETE."""
        with self._lock:
            self._writes[address] += 1

    def reads(self, address: str, *, more_tasks: int = 0) -> float:
        """Return how many queries a server was sent so far, at most.

        ``more_tasks``: so many tasks of other processes more send some from now on; below 0 fewer.
        """
        with self._lock:
            tasks, since = self._elsewhere[address]
            now = time.monotonic()
            self._reads[address] += _OF_A_TASK * tasks * (now - since)
            self._elsewhere[address] = (tasks + more_tasks, now)
            return self._reads[address]

    def writes(self, address: str) -> int:
        """Return how many of these writes a server was sent so far."""
        with self._lock:
            return self._writes[address]


OWN_QUERIES: Final = OwnQueries()
_PING_SECONDS: Final = 1.0
_MULTI_STATEMENTS_ON: Final = 0
_MULTI_STATEMENTS_OFF: Final = 1
# On a line of its own, because a statement may end in a comment.
_END_OF_STATEMENT: Final = b"\n;\n"


class Session:
    """A connection of the program, in autocommit mode.

    Not thread-safe but for :meth:`kept_alive`; end a statement by
    :func:`spirit_py.mysql.kill.kill_session`. Every method raises
    :class:`~spirit_py.errors.ServerFault`.
    """

    def __init__(self, connection: Any, *, role: str, address: str, origin: str = "") -> None:
        self._connection = connection
        self.role = role
        self.origin = origin
        self.address = address
        self.id: int = connection.thread_id()
        self._turn = threading.Lock()

    def _translated(self) -> _Statement:
        return _Statement(self._turn, self._connection, self._fault)

    def _fault(self, error: Exception) -> ServerFault:
        return server_fault(error, where=f"{self.role} session at {self.address}")

    def execute(self, sql: str, parameters: Sequence[object] | None = None) -> int:
        """Run one statement without a result set; return the affected rows, replaced ones twice."""
        if sql.startswith(("INSERT", "UPDATE", "DELETE")):
            OWN_QUERIES.note_write(self.address)
        with self._translated() as cursor:
            return int(cursor.execute(sql.encode(), parameters))

    def execute_packet(self, statements: Sequence[str | bytes]) -> tuple[int, ServerFault | None]:
        """Send statements without result sets as one packet; return the number done, and a fault.

        The server executes them until one fails, also when this process ends; a KILL of the session
        ends them between two. Bytes are in the character set that is then set. Behind an
        :class:`~spirit_py.sql.EndsPacket` another packet begins; what ends in a semicolon is not
        the last one.
        """
        done = 0
        for packet in _packets(statements):
            try:
                with self._several_statements(len(packet)), self._translated() as cursor:
                    cursor.execute(_joined(packet))
                    done += 1
                    while cursor.nextset():
                        done += 1
            except ServerFault as fault:
                return done, fault
        return done, None

    @contextlib.contextmanager
    def _several_statements(self, number: int) -> Iterator[None]:
        if number == 1:
            yield
            return
        self._set_option(_MULTI_STATEMENTS_ON)
        try:
            yield
        finally:
            # Of a session that is lost there is nothing to set back.
            with contextlib.suppress(ServerFault):
                self._set_option(_MULTI_STATEMENTS_OFF)

    def _set_option(self, option: int) -> None:
        import MySQLdb

        try:
            with self._turn:
                self._connection.set_server_option(option)
        except MySQLdb.Error as error:
            raise self._fault(error) from error

    def query(self, sql: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        """Run one statement with a result set; return all its rows, typed as the module says.

        Without ``parameters`` for each ``%s`` (int, str, bytes, None) a ``%`` stands for itself.
        """
        if sql.lstrip().startswith("SELECT"):
            OWN_QUERIES.note(self.address)
        with self._translated() as cursor:
            cursor.execute(sql.encode(), parameters)
            return list(cursor.fetchall())

    def stream(self, sql: str, rows: int) -> Iterator[Sequence[tuple[Any, ...]]]:
        """Run one statement, and yield its rows as they come, so many at a time; none is kept.

        Nothing else may use the session before the last. Whoever stops before that has it closed:
        all other rows would come first.
        """
        import MySQLdb
        from MySQLdb.cursors import SSCursor

        OWN_QUERIES.note(self.address)
        cursor = self._connection.cursor(SSCursor)
        try:
            cursor.execute(sql.encode())
            while found := cursor.fetchmany(rows):
                yield found
        except MySQLdb.Error as error:
            raise self._fault(error) from error
        except GeneratorExit:
            self.close()
            raise
        finally:
            # Reads what is left, or finds the session lost, which changes nothing.
            with contextlib.suppress(MySQLdb.Error):
                cursor.close()

    def value(self, sql: str, parameters: Sequence[object] | None = None) -> Any:
        """Run a query and return the first column of its first row; None when there is no row."""
        return next((row[0] for row in self.query(sql, parameters)), None)

    @property
    def info(self) -> str:
        """The server's summary of the last statement: ``Records: 3  Duplicates: 0 ...``."""
        said = self._connection.info()
        return said.decode() if isinstance(said, bytes) else said or ""

    @property
    def warning_count(self) -> int:
        """Warnings and notes of the last statement. Asks no server."""
        return int(self._connection.warning_count())

    def warnings(self) -> list[tuple[str, int, str]]:
        """Level, code and text of the last statement's warnings, at most max_error_count."""
        said = self.query("SHOW WARNINGS")
        return [(str(level), int(code), str(text)) for level, code, text in said]

    def alive(self) -> bool:
        """Ask the server whether this session still exists; it is never reconnected."""
        import MySQLdb

        try:
            with self._turn:
                self._connection.ping()
        except MySQLdb.Error:
            return False
        return True

    def take_over(self, fresh: Session) -> None:
        """Go on with the connection of another session, which is used up by that."""
        self.close()
        self._connection, self.id = fresh._connection, fresh.id

    @contextlib.contextmanager
    def kept_alive(self, longest: float) -> Iterator[None]:
        """Ping every second, for ``longest`` seconds at most; the last warnings are gone then."""

        def keep(stopping: threading.Event) -> None:
            until = time.monotonic() + longest
            while not stopping.wait(_PING_SECONDS) and time.monotonic() < until and self.alive():
                pass

        thread = Background("keep-alive", keep)
        thread.start()
        try:
            yield
        finally:
            thread.stop()
            # Without a timeout: a connection must not be closed while a thread uses it.
            thread.wait(None)

    def fileno(self) -> int:
        """Return the number of the connection's socket."""
        return int(self._connection.fileno())

    def close(self) -> None:
        """Close the session; safe to call again and on a broken connection."""
        with contextlib.suppress(Exception):
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Session {self.role} id={self.id} at {self.address}>"


class _Statement:
    """One use of a session's connection; a class, because entering a generator takes longer."""

    __slots__ = ("_connection", "_fault", "_made", "_turn")

    def __init__(
        self, turn: threading.Lock, connection: Any, fault: Callable[[Exception], ServerFault]
    ) -> None:
        self._turn, self._connection, self._fault = turn, connection, fault

    def __enter__(self) -> Any:
        self._turn.acquire()
        try:
            made = self._made = self._connection.cursor()
        except BaseException as error:
            self._turn.release()
            if _of_driver(error):
                raise self._fault(error) from error
            raise
        return made

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            self._made.close()
        except Exception as unclosed:
            # After an error the driver's close() may raise again; that would hide the first one.
            if not _of_driver(unclosed):
                raise
        finally:
            self._turn.release()
        if error is not None and _of_driver(error):
            raise self._fault(error) from error


def _of_driver(error: BaseException) -> TypeGuard[Exception]:
    # No statement that goes well has to ask for the driver.
    import MySQLdb

    return isinstance(error, MySQLdb.Error)


def _joined(packet: Sequence[str | bytes]) -> bytes:
    encoded = [s if isinstance(s, bytes) else s.encode() for s in packet]
    ended = [one + (b"\n" if one.endswith(b";") else _END_OF_STATEMENT) for one in encoded[:-1]]
    return b"".join([*ended, encoded[-1]])


def _packets(statements: Sequence[str | bytes]) -> Iterator[list[str | bytes]]:
    packet: list[str | bytes] = []
    for statement in statements:
        packet.append(statement)
        if isinstance(statement, EndsPacket):
            yield packet
            packet = []
    if packet:
        yield packet


#: A peer that answers no probe is lost after IDLE + COUNT * INTERVAL, 45 seconds.
_PROBES = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 6, "TCP_USER_TIMEOUT": 45_000}


def probe(number: int) -> None:
    """Have the system detect within a minute that a socket's other end is gone, where it can."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as wire:
        if wire.family not in {socket.AF_INET, socket.AF_INET6}:
            return
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _PROBES.items():
            option = getattr(socket, name, None)
            if option is not None:
                wire.setsockopt(socket.IPPROTO_TCP, option, value)


def duplicate(session: Session) -> socket.socket:
    """Return our own handle on an idle session's socket: the driver's number may be reused."""
    return socket.socket(fileno=os.dup(session.fileno()))


class CuttableSession:
    """Holds a session that another thread can cut; none at first. For one user at a time."""

    def __init__(self) -> None:
        # Never held while the server is waited for.
        self._guard = threading.Lock()
        self.session: Session | None = None
        self._socket: socket.socket | None = None

    def take(self, session: Session) -> Session:
        """Hold a new session, while it is idle; return it."""
        with self._guard:
            self.session, self._socket = session, duplicate(session)
        return session

    def cut(self) -> int:
        """Break the connection (error 2013); return the session to kill as well, or 0."""
        with self._guard:
            if self.session is None or self._socket is None:
                return 0
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            return self.session.id

    def close(self) -> None:
        """Close the session, if there is one."""
        with self._guard:
            if self.session is not None:
                self.session.close()
            if self._socket is not None:
                self._socket.close()
            self.session = self._socket = None
