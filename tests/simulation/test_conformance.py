"""Each fact of ``facts.py``, played against a real MySQL and against the model server."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import uuid
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import MySQLdb
import pytest

from mysql_server import ServerOptions, running
from mysql_words import binlog_end, reset_binlogs
from spirit_py.binlog import wire, writes
from spirit_py.binlog.connection import BinlogConnection, StreamLost
from spirit_py.binlog.events import Place
from spirit_py.binlog.position import GtidSet
from tests.fixtures.mysql import PROVIDER, Database
from tests.kits.background import BackgroundCall
from tests.kits.connection import make_account, options_of
from tests.kits.waiting import until
from tests.semisync.stall import LoneSource
from tests.simulation.binlog import Dump
from tests.simulation.catalog import RIGHTS
from tests.simulation.driver import Connection
from tests.simulation.facts import FACTS, table
from tests.simulation.scheduler import Choices, Scheduler
from tests.simulation.server import UUID, Server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.simulation.facts import Fact, Step
    from tests.simulation.scheduler import Task

TABLE: Final = ("id", "v", "w")
ROWS: Final = (1, 3, 5)
#: As the program's own sessions begin.
OPENING: Final = (
    "SET NAMES utf8mb4, SESSION transaction_isolation='READ-COMMITTED', SESSION autocommit=1,"
    " SESSION foreign_key_checks=0, SESSION sql_mode='STRICT_ALL_TABLES',"
    " SESSION innodb_lock_wait_timeout=50, SESSION lock_wait_timeout=50"
)
#: The collation of ``SET NAMES utf8mb4``.
UTF8MB4: Final = {255: "utf8mb4"}
LOST: Final = frozenset({2006, 2013})
#: Event types of a file, not of a transaction.
FRAMES: Final = frozenset(
    {wire.ROTATE, wire.FORMAT_DESCRIPTION, wire.PREVIOUS_GTIDS, wire.HEARTBEAT, wire.HEARTBEAT_V2}
)


class Stage(ABC):
    """A server on which scripts are played.

    What is asked of it by name:

    ``executed``, ``owned``, ``sent``: transactions in ``gtid_executed`` and ``gtid_owned``, and
    those that a dump sends; ``log``: their events, as far as not shown yet; ``flags``: those of row
    events; ``variables``: of statements; ``info``: a session's summary of its last statement;
    ``close``: its end; ``order``: of sessions by their numbers; ``cut``: a session's connection;
    ``hold``, ``release``: commits stall between binlog and visibility; ``relax``: commits wait for
    no disk; ``cached``: they are written, and not flushed; ``reset``: of the binlog;
    ``crash``, ``restart``; ``account``: sessions from now on are of one with rights on the schema
    alone, ``revoke`` and ``grant`` of it; ``numbers``: whether a number was given to another
    session before; ``table``: whether InnoDB's number of the table is another one than when it was
    last asked for.
    """

    uuid: str
    schema: str

    def __init__(self) -> None:
        self.sessions: dict[str, Any] = {}
        self._numbers: dict[str, int] = {}
        self._highest = 0
        self._table = 0
        self._shown = 0
        self._begun: GtidSet = GtidSet()

    def begin(self) -> None:
        """Remember what is executed before the script."""
        self._observer = self._connect()
        self._begun = self._executed()

    @abstractmethod
    def _connect(self) -> Any:
        """Open a session."""

    @abstractmethod
    def _events(self) -> list[bytes]:
        """Return all events since the script began, as a dump sends them."""

    @abstractmethod
    def _table_number(self) -> int:
        """Return InnoDB's number of the table."""

    @abstractmethod
    def start(self, connection: Any, sql: str, given: Sequence[Any]) -> Any:
        """Begin a statement; return its handle."""

    @abstractmethod
    def waits(self, call: Any, number: int) -> str:
        """Return for what a statement that was begun waits."""

    @abstractmethod
    def end(self, call: Any) -> str:
        """Wait for a statement's end; return its answer."""

    @abstractmethod
    def control(self, what: str) -> None:
        """Do something to the server."""

    @abstractmethod
    def cut(self, who: str) -> None:
        """Break the connection of a session, as a network does."""

    @abstractmethod
    def await_end(self, who: str) -> None:
        """Wait until the server has ended a session that was closed."""

    def ask(self, sql: str) -> tuple[Any, ...]:
        """Return the first row of an answer to the observer."""
        cursor = self._observer.cursor()
        cursor.execute(sql.encode())
        return tuple(cursor.fetchall()[0])

    def _executed(self) -> GtidSet:
        return GtidSet.parse(self.ask("SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged")[0])

    def session(self, who: str) -> Any:
        """Return a session of the script, opened when it is first needed."""
        if who not in self.sessions:
            self.sessions[who] = self._connect()
            # Asked while it is idle: the driver refuses that during a statement.
            self._numbers[who] = self.sessions[who].thread_id()
            self._highest = max(self._highest, self._numbers[who])
            self.end(self.start(self.sessions[who], OPENING, ()))
        return self.sessions[who]

    # -- transactions

    def _first(self) -> int:
        """Return the number of the last transaction before the script."""
        return (
            max((stop for tsid, _, stop in self._begun.ranges() if tsid == self.uuid), default=1)
            - 1
        )

    def _since(self, gtids: GtidSet) -> str:
        found = [
            f"+{number - self._first()}"
            for tsid, first, stop in gtids.ranges()
            if tsid == self.uuid
            for number in range(max(first, self._first() + 1), stop)
        ]
        return " ".join(found) or "nothing"

    def look(self, what: str) -> str:
        """Answer a question about the server."""
        if what == "executed":
            return self._since(self._executed())
        if what == "owned":
            owned = re.findall(r":(\d+)#(\d+)", self.ask("SELECT @@GLOBAL.gtid_owned")[0])
            found = sorted((int(number), int(session)) for number, session in owned)
            told = [f"+{number - self._first()} of {self._whose(who)}" for number, who in found]
            return ", ".join(told) or "nothing"
        if what == "sent":
            gtids = [e for e in self._events() if e[4] == wire.GTID]
            return " ".join(map(self._event, gtids)).replace("GTID ", "") or "nothing"
        if what == "log":
            told = [self._event(event) for event in self._events()]
            new, self._shown = told[self._shown :], len(told)
            return "; ".join(new) or "nothing"
        if what == "flags":
            return "; ".join(
                f"{_rows(e[4], e[19:-4]).split()[0]}{_flags(e)}"
                for e in self._events()
                if e[4] in wire.ROWS
            )
        if what == "variables":
            return "; ".join(_variables(e) for e in self._events() if e[4] == wire.QUERY)
        word, *names = what.split()
        if word == "info":
            return self.sessions[names[0]].info()
        if word == "close":
            self.session(names[0]).close()
            self.await_end(names[0])
        elif word == "cut":
            self.cut(names[0])
        elif word == "order":
            return " ".join(sorted(names, key=self._numbers.__getitem__))
        elif word in {"numbers", "table"}:
            return self._compared(word)
        else:
            self.control(what)
        return ""

    def _compared(self, word: str) -> str:
        if word == "numbers":
            return "again" if self._observer.thread_id() <= self._highest else "go on"
        before, self._table = self._table, self._table_number()
        return "another" if self._table != before else "the same"

    def number(self, who: str) -> int:
        """Return the number of a session of the script."""
        return self._numbers[who]

    def _whose(self, number: int) -> str:
        known = (name for name, each in self._numbers.items() if each == number)
        return next(known, "a stranger")

    def _event(self, event: bytes) -> str:
        kind, body = event[4], event[wire.HEADER_SIZE : -wire.CHECKSUM_SIZE]
        if kind == wire.GTID:
            return f"GTID +{wire.parse_gtid(body)[1] - self._first()}"
        if kind == wire.QUERY:
            seen = writes.parse_query(body, UTF8MB4, Place("", 0), prepared=False)
            doubt = "" if seen.certain else " (not certain)"
            schema = self._alike(seen.schema) or "none"
            return f"{self._whose(seen.session_id)} in {schema}: {self._alike(seen.sql)}{doubt}"
        if kind == wire.TABLE_MAP:
            schema, table = wire.table_name(body).decode().split("\0")[:2]
            return f"TABLE {self._alike(schema[1:])}.{table[1:]}"
        if kind in wire.ROWS:
            return _rows(kind, body)
        if kind == wire.XID:
            return "COMMIT"
        if kind == wire.XA_PREPARE:
            return "XA PREPARE {1}".format(*wire.parse_xa_prepare(body))
        return f"event {kind}"

    def _alike(self, text: str) -> str:
        """Return a text with the schema's name as in scripts."""
        return text.replace(self.schema, "s")

    def filled(self, text: str) -> str:
        """Put numbers of sessions and transactions into a text."""
        text = text.replace("{schema}", self.schema).replace("{uuid}", self.uuid)
        text = re.sub(r"\{([a-z]\w*)\}", lambda found: str(self._numbers[found[1]]), text)
        first = self._first()
        return re.sub(r"\{\+(\d+)\}", lambda found: f"{self.uuid}:{first + int(found[1])}", text)


def _variables(event: bytes) -> str:
    """Return what the program reads of a statement's status variables: sql_mode, character set."""
    body = event[wire.HEADER_SIZE : -wire.CHECKSUM_SIZE]
    size = int.from_bytes(body[11:13], "little")
    found = writes.status_variables(body[13 : 13 + size])
    collation = int.from_bytes(found.get(4, b"")[:2], "little")
    return f"{'sql_mode' if 1 in found else 'none'} and {UTF8MB4.get(collation, collation)}"


def _flags(event: bytes) -> str:
    names = {1: "end", 2: "unchecked", 16: "sql"}
    return "".join(f" {name}" for bit, name in names.items() if event[wire.HEADER_SIZE + 6] & bit)


def _rows(kind: int, body: bytes) -> str:
    """Return the rows of an event of columns that are all INT."""
    at = 8 + int.from_bytes(body[8:10], "little")
    width, at = body[at], at + 1
    nulls = (width + 7) // 8
    at += nulls * (2 if kind == wire.UPDATE_ROWS else 1)
    images: list[str] = []
    while at < len(body):
        absent, at = int.from_bytes(body[at : at + nulls], "little"), at + nulls
        values: list[str] = []
        for column in range(width):
            if absent >> column & 1:
                values.append("NULL")
            else:
                values.append(str(int.from_bytes(body[at : at + 4], "little", signed=True)))
                at += 4
        images.append(f"({', '.join(values)})")
    if kind == wire.UPDATE_ROWS:
        images = [f"{old} to {new}" for old, new in zip(images[::2], images[1::2], strict=True)]
    name = {wire.WRITE_ROWS: "WRITE", wire.UPDATE_ROWS: "UPDATE", wire.DELETE_ROWS: "DELETE"}[kind]
    return f"{name} {' '.join(images)}"


def answer_of(rows: Sequence[Sequence[Any]], affected: int, *, asked: bool) -> str:
    """Return an answer as scripts write it."""
    if not asked:
        return str(affected)
    return " ".join(f"({', '.join(map(_value, row))})" for row in rows) or "nothing"


def _value(value: Any) -> str:
    return "NULL" if value is None else value.decode() if isinstance(value, bytes) else str(value)


def failure_of(error: MySQLdb.Error) -> str:
    """Return an error as scripts write it."""
    return "lost" if error.args[0] in LOST else f"error {error.args[0]}"


def _is_question(sql: str) -> bool:
    return sql.split(maxsplit=1)[0].upper() in {"SELECT", "SHOW", "XA"} and not re.match(
        "XA (?!RECOVER)", sql
    )


class RealStage(Stage):
    """A real MySQL; the schema of the script is the test's own."""

    _STATES: Final = {
        "Waiting for table metadata lock": "table",
        "User lock": "name",
    }

    def __init__(self, db: Database) -> None:
        super().__init__()
        self._db = db
        self.uuid = db.query("SELECT @@server_uuid")[0][0]
        self.schema = db.name
        self._stall: LoneSource | None = None
        self._files: dict[Any, int] = {}
        self._account: dict[str, str] = {}
        db.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT);"
            "CREATE TABLE _t_new (id INT PRIMARY KEY, v INT, w INT, n INT);"
            f"INSERT INTO t VALUES {', '.join(f'({key}, 0, 0)' for key in ROWS)}"
        )

    def _connect(self) -> Any:
        return self._db.connect(db="", **self._account)

    def _events(self) -> list[bytes]:
        """Read to the end of the binlog, which has what is not visible yet."""
        file, end = binlog_end(self._db.query)
        dump = BinlogConnection(
            options_of(self._db.server),
            gtids=self._begun.copy(),
            place=None,
            server_uuid=self.uuid,
            replica_uuid=str(uuid.uuid4()),
            heartbeat=0.1,
            silence=30.0,
        )
        found: list[bytes] = []
        name, at = "", 0
        try:
            while (name, at) != (file, end):
                for event in map(bytes, dump.read()):
                    at = int.from_bytes(event[13:17], "little") or at
                    if event[4] == wire.ROTATE:
                        name = wire.parse_rotate(event[19:-4])[0]
                    elif event[4] not in FRAMES:
                        found.append(event)
        finally:
            dump.close()
            self._db.kill(dump.id)
        return found

    def _table_number(self) -> int:
        name = f"{self._db.name}/t"
        asked = "SELECT TABLE_ID FROM information_schema.INNODB_TABLES WHERE NAME = %s"
        return int(self._db.query(asked, (name,))[0][0])

    def start(self, connection: Any, sql: str, given: Sequence[Any]) -> BackgroundCall:
        """Begin a statement in a thread."""
        # Asked while the session is idle: the driver refuses that during a statement.
        self._files[connection] = connection.fileno()

        def execute() -> str:
            text = re.sub(r"`s`(?=\.|$)", f"`{self._db.name}`", sql)
            with contextlib.closing(connection.cursor()) as cursor:
                try:
                    affected = cursor.execute(text, given or None)
                    return answer_of(cursor.fetchall(), affected, asked=_is_question(sql))
                except MySQLdb.Error as error:
                    return failure_of(error)

        return BackgroundCall(execute)

    def waits(self, call: BackgroundCall, number: int) -> str:
        """Wait until the session waits."""
        return str(until(lambda: self._waits(number), "the wait", seconds=20.0))

    def _waits(self, number: int) -> str:
        for state, info in self._db.query(
            "SELECT processlist_state, processlist_info FROM performance_schema.threads"
            f" WHERE processlist_id = {number}"
        ):
            if (state or "").startswith("Waiting for semi-sync ACK"):
                return "commit"
            if state in self._STATES:
                return self._STATES[state]
            if state == "waiting for handler commit":
                # For a moment in each commit; it lasts behind one that waits for its answer.
                waits = () if self._stall is None else self._stall.waiting()
                behind = any(one.state.startswith("Waiting for semi-sync ACK") for one in waits)
                return "commit" if behind else ""
            if state and (info or "").startswith("SELECT WAIT_FOR_EXECUTED"):
                return "transactions"
        rows = self._db.query(
            "SELECT 1 FROM performance_schema.data_lock_waits w JOIN performance_schema.threads t"
            f" ON t.thread_id = w.requesting_thread_id WHERE t.processlist_id = {number}"
        )
        return "row" if rows else ""

    def end(self, call: BackgroundCall) -> str:
        """Return the thread's answer."""
        return str(call.result())

    def control(self, what: str) -> None:
        """Do something to the server."""
        server = self._db.server
        if what == "crash":
            server.kill()
        elif what == "relax":
            # Only what a test flushes is flushed.
            self._db.execute("SET GLOBAL innodb_flush_log_at_timeout = 2700")
            self._db.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
        elif what == "cached":
            # What is written outlives mysqld in the system's cache.
            self._db.execute("SET GLOBAL sync_binlog = 0")
            self._db.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
        elif what == "reset":
            self._db.execute(reset_binlogs(server.version()))
        elif what == "restart":
            server.resume()
            self._db.reconnect()
            self._stall = None
            self._observer = self._connect()
        elif what == "hold":
            self._stall = self._stall or LoneSource(server)
            self._stall.hold()
        elif what == "release":
            assert self._stall is not None
            self._stall.release()
        elif what == "account":
            options = make_account(
                self._db, f"u{self.schema[2:14]}", f"{', '.join(RIGHTS)} ON {{db}}.*"
            )
            self._account = {"user": options.user, "passwd": options.password}
        elif what.startswith(("revoke", "grant")):
            way = "TO" if what.startswith("grant") else "FROM"
            self._db.execute(f"{what} ON `{self.schema}`.* {way} {self._account['user']}")
        else:
            raise AssertionError(f"no such control: {what}")

    def cut(self, who: str) -> None:
        """Shut its socket down."""
        with socket.socket(fileno=os.dup(self._files[self.sessions[who]])) as handle:
            handle.shutdown(socket.SHUT_RDWR)

    def await_end(self, who: str) -> None:
        """Wait until the server does not know its number any more, which is after the answer."""
        asked = "SELECT 1 FROM performance_schema.threads WHERE PROCESSLIST_ID = %s"
        until(lambda: not self._db.query(asked, (self._numbers[who],)), "the session's end")

    def close(self) -> None:
        """Let go what stalls, and end the script's sessions."""
        for number in self._numbers.values():
            self._db.kill(number)
        if self._stall is not None:
            self._stall.release()
            self._stall.close()
        if self._account:
            self._db.execute(f"DROP USER {self._account['user']}")


class ModelCall:
    """A statement on the model server."""

    def __init__(self, connection: Connection, sql: str, given: Sequence[Any]) -> None:
        self.answer = ""
        self.task: Task | None = None
        self._connection, self._sql, self._given = connection, sql, given

    def __call__(self) -> None:
        """Execute it."""
        cursor = self._connection.cursor()
        try:
            affected = cursor.execute(self._sql.encode(), self._given)
            asked = _is_question(self._sql)
            self.answer = answer_of(cursor.fetchall(), affected, asked=asked)
        except MySQLdb.Error as error:
            self.answer = failure_of(error)


class ModelStage(Stage):
    """The model server, whose sessions take turns in the order in which they were woken."""

    _WAITS: Final = {
        "the table lock": "table",
        "a row lock": "row",
        "the lock": "name",
        "a commit": "commit",
        "the transactions": "transactions",
    }

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(Choices(None, {}))
        self.server = Server(self.scheduler)
        self.server.create(("s", "t"), TABLE).rows = {key: (key, 0, 0) for key in ROWS}
        self.server.create(("s", "_t_new"), (*TABLE, "n"))
        self.uuid, self.schema, self._role = UUID, "s", ""

    def _connect(self) -> Connection:
        return Connection(self.server)

    def _events(self) -> list[bytes]:
        dump = Dump(self.server, gtids=self._begun, silence=0.0)
        found: list[bytes] = []
        try:
            while True:
                found += [bytes(one) for one in dump.read() if one[4] not in FRAMES]
        except StreamLost:
            return found
        finally:
            dump.close()

    def _table_number(self) -> int:
        return self.server.table(("s", "t")).number

    def start(self, connection: Connection, sql: str, given: Sequence[Any]) -> ModelCall:
        """Begin a statement in a task."""
        connection.session.role = self._role
        call = ModelCall(connection, sql, given)
        call.task = self.scheduler.spawn(sql, call, process=connection)
        return call

    def waits(self, call: ModelCall, number: int) -> str:
        """Run what can go on."""
        task = call.task
        assert task is not None
        self.scheduler.run_out(0.0)
        found = (kind for words, kind in self._WAITS.items() if task.waits_for.startswith(words))
        return next(found, task.waits_for or f"no wait: {call.answer}")

    def end(self, call: ModelCall) -> str:
        """Run to the statement's end, and let time pass for that."""
        task = call.task
        assert task is not None
        self.scheduler.run([task])
        if task.failure is not None:
            raise task.failure
        return call.answer

    def control(self, what: str) -> None:
        """Do something to the server."""
        if what == "crash":
            self.server.crash(lost=1)
        elif what == "cached":
            self.server.relaxed = ""
        elif what == "relax":
            self.server.flushed = len(self.server.history)
            self.server.relaxed = "engine"
        elif what == "reset":
            self.server.reset_log()
        elif what == "restart":
            self.server.restart()
            self._observer = self._connect()
        elif what == "hold":
            self.server.stall = lambda: 1e6
        elif what == "release":
            self.server.stall = lambda: 0.0
            for task in [one for one in self.scheduler._waiting if one.waits_for == "time"]:
                self.scheduler.wake(task)
        elif what == "account":
            self._role = "account"
        elif what.startswith("revoke"):
            self.server.revoked |= {what.removeprefix("revoke ")}
        elif what.startswith("grant"):
            self.server.revoked -= {what.removeprefix("grant ")}
        else:
            raise AssertionError(f"no such control: {what}")

    def await_end(self, who: str) -> None:
        """Do nothing: it has ended at once."""

    def cut(self, who: str) -> None:
        """Cut it as the world does."""
        self.server.cut(self.sessions[who].session)


def play(fact: Fact, stage: Stage) -> list[str]:
    """Play a script; return what was not as it says."""
    stage.begin()
    wrong: list[str] = []
    begun: dict[str, Any] = {}
    for step in fact.steps():
        answer = _step(step, stage, begun)
        expected = None if step.answer is None else stage.filled(step.answer)
        if expected is None:
            if answer.startswith(("error", "lost")):
                wrong.append(f"{step.who}{step.how} {step.what}: {answer}")
        elif answer != expected:
            wrong.append(f"{step.who}{step.how} {step.what}: {answer}, not {expected}")
    return wrong


def _step(step: Step, stage: Stage, begun: dict[str, Any]) -> str:
    if step.how == "!":
        return stage.look(step.what)
    if step.how == "<":
        return stage.end(begun.pop(step.who))
    session = stage.session(step.who)
    given = [stage.filled(one) for one in step.given]
    call = stage.start(session, stage.filled(step.what), given)
    if step.how == ":":
        return stage.end(call)
    begun[step.who] = call
    kind = stage.waits(call, stage.number(step.who))
    return f"waits for {kind}" if step.answer != "waits" else "waits"


def played(*, own: bool) -> list[Any]:
    """Return the facts that need a server of their own, or the others."""
    return [
        pytest.param(
            fact,
            id=fact.name,
            marks=getattr(pytest.mark, fact.marker) if fact.marker else (),
        )
        for fact in FACTS
        if fact.own is own
    ]


@pytest.mark.parametrize("fact", played(own=False))
def test_a_fact_is_so_on_a_real_server(db, fact):
    """Every answer is the one in the list."""
    stage = RealStage(db)
    try:
        assert not play(fact, stage)
    finally:
        stage.close()


@pytest.fixture(scope="module")
def own(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return a server that no other test uses."""
    options = ServerOptions(keeps_all=True, durable=False)
    with running(options, provider=request.config.stash[PROVIDER]) as server:
        yield server


@pytest.mark.parametrize("fact", played(own=True))
def test_a_fact_is_so_on_a_real_server_of_its_own(own, fact):
    """Likewise where the server crashes, stalls or is reset."""
    db = Database(own, f"t_{uuid.uuid4().hex[:12]}")
    stage = RealStage(db)
    try:
        assert not play(fact, stage)
    finally:
        stage.close()
        left = db.close()
    assert not left


@pytest.mark.parametrize("fact", FACTS, ids=lambda one: one.name)
def test_a_fact_is_so_on_the_model(fact):
    """The model gives the same answers, unless the list has what it does otherwise."""
    assert bool(play(fact, ModelStage())) is bool(fact.differs)


def test_the_documentation_has_every_fact():
    """``python -m tests.simulation.facts`` prints the table."""
    assert table() in (Path(__file__).parent / "README.md").read_text()
