"""One MySQL per test session, one schema per test, and nothing of ours left behind.

`mysql` has GTIDs, `mysql_file` has not (file and offset). `db` and `db_file` are a fresh schema
on either. At teardown they assert that every session which appeared during the test, other than
those from `db.connect()`, is gone, and with them all their locks.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import time
import uuid
from typing import TYPE_CHECKING, Any

import MySQLdb
import pytest

from mysql_server import MySQLServer, Provider, ServerOptions, choose, running
from mysql_words import version_number
from tests.fix_lane import GTID_VARIABLE, check_series

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FILE_SERVER_VARIABLE = "SPIRIT_PY_TEST_MYSQL_FILE"
LIBRARIES = ("pyspark", "mysqlclient", "mysql-replication")
#: How long a session that has been closed may take to leave the server's lists.
GRACE = 5.0
_VECTOR_SINCE = (9,)

PROVIDER = pytest.StashKey[Provider]()
FILE_PROVIDER = pytest.StashKey[Provider]()
#: What the servers that were started call themselves; known only once a test has asked for one.
SERVERS = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Choose where MySQL comes from, once."""
    config.stash[SERVERS] = []
    provider = config.stash[PROVIDER] = choose()
    # A server that somebody named has GTIDs or has not; the other kind is then a server of ours.
    environ = {k: v for k, v in os.environ.items() if k != "SPIRIT_PY_TEST_MYSQL"}
    file_provider = choose(environ, variable=FILE_SERVER_VARIABLE)
    config.stash[FILE_PROVIDER] = file_provider if str(file_provider) != str(provider) else provider


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the server's provider and the versions that matter."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES]
    return [
        str(config.stash[PROVIDER]),
        f"Python {platform.python_version()}, " + ", ".join(versions),
    ]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name the servers that the tests ran against."""
    for line in config.stash[SERVERS]:
        terminalreporter.write_line(line)


def connect(server: MySQLServer, **arguments: Any) -> Any:
    """Open a plain session of the test's own: utf8mb4, autocommit, as root."""
    given = {
        "host": server.host,
        "port": server.port,
        "user": server.user,
        "passwd": server.password,
        "charset": "utf8mb4",
        "autocommit": True,
        "local_infile": 1,
    }
    return MySQLdb.connect(**(given | arguments))


def has_vector(server: MySQLServer) -> bool:
    """Whether the server has the type VECTOR and its functions."""
    return version_number(server.version()) >= _VECTOR_SINCE


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what a parameter's name tells to be about VECTOR and goes to a server."""
    for item in items:
        parameters = item.name.partition("[")[2].lower()
        if "vector" in parameters and {"mysql", "mysql_file"} & set(_fixtures(item)):
            item.add_marker("vector")


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


class Database:
    """A schema of one test's own, with a session to it and helpers."""

    def __init__(self, server: MySQLServer, name: str) -> None:
        """Create the schema `name` and remember the sessions that are there already."""
        self.server = server
        self.name = name
        self._connections: list[Any] = []
        self._globals: dict[str, str] = {}
        self._own: set[int] = set()
        self._main = self.connect(db="")
        self._before = set(self.sessions())
        self._branches_before = set(self.xa_branches())
        self.execute(f"CREATE DATABASE `{name}`")
        self.execute(f"USE `{name}`")

    def connect(self, **arguments: Any) -> Any:
        """Open a session in the schema that belongs to the test; closed at teardown."""
        connection = connect(self.server, **({"db": self.name} | arguments))
        self._connections.append(connection)
        self._own.add(connection.thread_id())
        return connection

    def execute(self, sql: str, parameters: Sequence[object] | None = None) -> int:
        """Run statements without results, several if separated by `;`; return affected rows."""
        with contextlib.closing(self._main.cursor()) as cursor:
            rows: int = cursor.execute(sql, parameters)
            while cursor.nextset():
                rows += max(cursor.rowcount, 0)
            return rows

    def query(self, sql: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement and return all its rows."""
        with contextlib.closing(self._main.cursor()) as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    def set_global(self, name: str, value: str | float) -> None:
        """Set a global variable of the server for this test; it is put back at teardown."""
        ((before,),) = self.query(
            "SELECT variable_value FROM performance_schema.global_variables"
            " WHERE variable_name = %s",
            (name,),
        )
        self._globals.setdefault(name, before)
        self._set_global(name, value)

    def _set_global(self, name: str, value: str | float) -> None:
        # Numbers must not be quoted, words must: the server's own listing does not tell which.
        try:
            self.execute(f"SET GLOBAL {name} = %s", (value,))
        except MySQLdb.Error:
            self.execute(f"SET GLOBAL {name} = {value}")

    def reconnect(self) -> None:
        """Open the helpers' session anew after the server was restarted, or the session killed."""
        with contextlib.suppress(MySQLdb.Error):
            self._main.close()
        self._main = connect(self.server, db=self.name)
        self._own.add(self._main.thread_id())
        if self._main.thread_id() <= max(self._before, default=0):
            self._before = set()
            self._own = {self._main.thread_id()}

    def xa_branches(self) -> list[str]:
        """Return the prepared and undecided XA transactions, as XA COMMIT would name them."""
        return [
            f"X'{data[2 : 2 + 2 * gtrid]}', X'{data[2 + 2 * gtrid :]}', {form}"
            for form, gtrid, _, data in self.query("XA RECOVER CONVERT XID")
        ]

    def sessions(self) -> dict[int, str]:
        """Return every client session but the test's own: its id and what it is doing."""
        rows = self.query(
            "SELECT processlist_id, CONCAT_WS(' ', processlist_user, processlist_command,"
            " processlist_state, LEFT(processlist_info, 100))"
            " FROM performance_schema.threads WHERE type = 'FOREGROUND'"
            " AND processlist_id IS NOT NULL AND processlist_user IS NOT NULL"
            " AND processlist_command <> 'Daemon'"
        )
        return {number: text for number, text in rows if number not in self._own}

    def leftovers(self) -> list[str]:
        """Return what the test's code has left on the server: sessions, and their locks."""
        branches = [
            f"prepared XA transaction {xid}"
            for xid in self.xa_branches()
            if xid not in self._branches_before
        ]
        sessions = {k: v for k, v in self.sessions().items() if k not in self._before}
        if not sessions:
            return branches
        numbers = ", ".join(map(str, sessions))
        locks = self.query(
            "SELECT t.processlist_id, l.object_type, l.object_schema, l.object_name, l.lock_type"
            " FROM performance_schema.metadata_locks l JOIN performance_schema.threads t"
            f" ON t.thread_id = l.owner_thread_id WHERE t.processlist_id IN ({numbers})"
        )
        return [
            *branches,
            *(f"session {number}: {text}" for number, text in sessions.items()),
            *(f"lock: {lock}" for lock in locks),
        ]

    def close(self) -> list[str]:
        """Drop the schema, close the test's sessions, and return what was left behind."""
        try:
            self._main.ping()
        except MySQLdb.Error:
            self.reconnect()
        for connection in self._connections[1:]:
            with contextlib.suppress(MySQLdb.Error):
                connection.close()
        deadline = time.monotonic() + GRACE
        while (left := self.leftovers()) and time.monotonic() < deadline:
            time.sleep(0.02)
        # What was left may hold a lock that the DROP would wait for.
        for number in {k for k in self.sessions() if k not in self._before}:
            with contextlib.suppress(MySQLdb.Error):
                self.execute(f"KILL {number}")
        for xid in self.xa_branches():
            if xid not in self._branches_before:
                with contextlib.suppress(MySQLdb.Error):
                    self.execute(f"XA ROLLBACK {xid}")
        for name, value in self._globals.items():
            self._set_global(name, value)
        self.execute("SET SESSION lock_wait_timeout = 20; UNLOCK TABLES")
        self.execute(f"DROP DATABASE IF EXISTS `{self.name}`")
        self._main.close()
        return left


def _serve(config: pytest.Config, provider: Provider, *, gtid: bool) -> Iterator[MySQLServer]:
    with running(ServerOptions(gtid=gtid), provider=provider) as server:
        with contextlib.closing(connect(server)) as session, session.cursor() as cursor:
            cursor.execute("SELECT @@gtid_mode")
            ((mode,),) = cursor.fetchall()
        if (mode == "ON") is not gtid:
            message = f"the server {server.origin} has gtid_mode={mode}, the test needs {gtid=}"
            raise pytest.UsageError(message)
        check_series(server.version(), server.origin)
        config.stash[SERVERS].append(f"MySQL {server.version()} ({server.origin}), {gtid=}")
        yield server


@pytest.fixture(scope="session")
def mysql(request: pytest.FixtureRequest) -> Iterator[MySQLServer]:
    """Return the session's server with GTIDs; in the lane of file positions, the one without."""
    if os.environ.get(GTID_VARIABLE) == "OFF":
        yield request.getfixturevalue("mysql_file")
        return
    yield from _serve(request.config, request.config.stash[PROVIDER], gtid=True)


@pytest.fixture(scope="session")
def mysql_file(request: pytest.FixtureRequest) -> Iterator[MySQLServer]:
    """Return the session's server without GTIDs, started when the first test asks for it."""
    yield from _serve(request.config, request.config.stash[FILE_PROVIDER], gtid=False)


def _schema(server: MySQLServer, request: pytest.FixtureRequest) -> Iterator[Database]:
    if request.node.get_closest_marker("vector") and not has_vector(server):
        pytest.skip(f"MySQL {server.version()} has no VECTOR type, which came with 9.0")
    database = Database(server, f"t_{uuid.uuid4().hex[:12]}")
    try:
        yield database
    finally:
        left = database.close()
    assert not left, "left on the server after the test:\n  " + "\n  ".join(left)


@pytest.fixture
def db(mysql: MySQLServer, request: pytest.FixtureRequest) -> Iterator[Database]:
    """Return a fresh schema on the server with GTIDs."""
    yield from _schema(mysql, request)


@pytest.fixture
def db_file(mysql_file: MySQLServer, request: pytest.FixtureRequest) -> Iterator[Database]:
    """Return a fresh schema on the server without GTIDs."""
    yield from _schema(mysql_file, request)
