"""The model server: tables, transactions, table locks, named locks, sessions and a binlog.

It knows what the program relies on, and says so (:class:`Unknown`) when it meets a statement that
it does not know (:mod:`tests.simulation.statements`). What is modelled:

- A commit goes in two steps: it is in the binlog, and readers of the binlog get it; then it is
  visible, and in ``gtid_executed``. Between the two the commit may stall, with its row locks.
- READ COMMITTED reads what is visible when the statement begins; a consistent snapshot what was
  visible when it began, and REPEATABLE READ what was at its first read.
- Row locks of one table each, exclusive, until the commit is visible; a wait ends with 1205. At
  REPEATABLE READ a statement also locks the rows that it reads to write them elsewhere.
- Metadata locks with a queue: whoever comes behind a waiting exclusive request waits too.
- Named locks; sessions with numbers that begin again after a restart; KILL.
- A crash ends all sessions, and the next binlog file begins. What was in the binlog is there
  afterwards, and visible, unless the server is not durable (:attr:`Server.relaxed`).
- RESET BINARY LOGS AND GTIDS, ``sql_log_bin=0``, a binlog that an error has closed.
"""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import MySQLdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.simulation.scheduler import Scheduler, Task

Key = tuple[Any, ...]
Row = tuple[Any, ...]
Name = tuple[str, str]

UUID: Final = "11111111-1111-1111-1111-111111111111"
#: Locks on a table that go together: a holder's, and those that others may have meanwhile.
READ, WRITE, LOCKED_READ, LOCKED_WRITE, EXCLUSIVE = "SR", "SW", "SRO", "SNRW", "X"
_TOGETHER: Final = {
    READ: {READ, WRITE, LOCKED_READ},
    WRITE: {READ, WRITE},
    LOCKED_READ: {READ, LOCKED_READ},
    LOCKED_WRITE: set(),
    EXCLUSIVE: set(),
}
#: The program does not ask for a lock behind a transaction of 2.5 s; a look takes time.
_OLD: Final = 5.0
#: Roles of sessions that write rows.
WRITERS: Final = frozenset({"chunk", "apply"})
_STRONG: Final = {LOCKED_READ, LOCKED_WRITE, EXCLUSIVE}


class Unknown(AssertionError):
    """A statement that the model does not know."""


def fault(code: int, text: str) -> Exception:
    """Return the driver's error for one of the server's."""
    if code == 1062:
        return MySQLdb.IntegrityError(code, text)
    if code in {1205, 1213, 1317, 2003, 2006, 2013, 3024}:
        return MySQLdb.OperationalError(code, text)
    return MySQLdb.DatabaseError(code, text)


@dataclass(eq=False)
class Table:
    """One table: its columns, whose first one is the primary key, and its visible rows.

    Attributes:
        number: InnoDB's, which a rename keeps.
        unique: positions of columns that are unique by themselves.
        born: when it was made or last altered, Unix time in whole seconds.
        counter: the highest number that was given to a row, as by AUTO_INCREMENT.
    """

    columns: tuple[str, ...]
    number: int
    unique: tuple[int, ...] = ()
    born: int = 0
    counter: int = 0
    rows: dict[Any, Row] = field(default_factory=dict)
    #: Who holds the row locks.
    locked: dict[Any, Session] = field(default_factory=dict)
    granted: dict[Session, list[str]] = field(default_factory=dict)
    queue: deque[tuple[Session, str, Task | None]] = field(default_factory=deque)
    comment: str = ""


@dataclass(frozen=True)
class RowChange:
    """One row of a transaction: images before and after; None where there is none.

    Attributes:
        first: it is the first one of its statement.
    """

    table: Name
    number: int
    before: Row | None
    after: Row | None
    first: bool = False


@dataclass(frozen=True)
class Replaced:
    """All rows of a table were replaced: TRUNCATE, or the restore of a dump."""

    table: Name
    rows: dict[Any, Row]


@dataclass(frozen=True)
class LogFile:
    """One file of the binlog: its name, the transactions before it, and when it was begun."""

    name: str
    before: int
    begun: float

    def end_of(self, number: int) -> int:
        """Return where a transaction of the file ends."""
        return 1_000 * (number - self.before + 1)


@dataclass
class Transaction:
    """A transaction in the binlog.

    Attributes:
        statement: the text of DDL; such a transaction has no rows.
        text: a write in STATEMENT format, which is in the binlog in place of the rows.
        xid: of an XA transaction; it is prepared, unless it is ``decided``: COMMIT or ROLLBACK.
        visible: readers see it.
        unchecked: the session does not check foreign keys.
        effect: what DDL does, when it becomes visible.
    """

    number: int
    changes: tuple[RowChange, ...] = ()
    statement: str = ""
    schema: str = ""
    session: int = 0
    visible: bool = False
    text: str = ""
    xid: str = ""
    decided: str = ""
    unchecked: bool = False
    effect: Callable[[], None] | None = None
    columns: dict[Name, tuple[str, ...]] = field(default_factory=dict)


class Session:
    """One session of the server."""

    def __init__(self, server: Server, number: int, *, client: str = "") -> None:
        self.server = server
        self.number = number
        self.client = client
        self.alive = True
        self.cut = False
        #: The connection breaks behind the next statement, which begins so many seconds later;
        #: of :data:`WRITERS` behind the next one that writes.
        self.severed: float | None = None
        self.killed = False
        #: Any of these: it has ended, its connection is cut, or it was killed.
        self.gone = False
        #: It was killed by the world, not by the program.
        self.disturbed = False
        self.role = ""
        #: As ``sql_log_bin``.
        self.logged = True
        self.schema = ""
        self.unchecked = False
        #: Its level is REPEATABLE READ, the server's own; the program's is READ COMMITTED.
        self.repeats = True
        self.lock_wait = 50.0
        self.row_wait = 3.0
        self.warnings: list[tuple[str, int, str]] = []
        self.info = ""
        #: Rows that it has read behind the first one of a range.
        self.read_next = 0
        #: As LAST_INSERT_ID().
        self.last_number = 0
        self.doing = ""
        self.wait_timeout = 28_800.0
        #: When its transaction began: its first lock.
        self.began = server.scheduler.now
        #: What only this session sees.
        self.temporary: dict[Name, Table] = {}
        #: Rows written in the open transaction, by table and key, and the changes in order.
        self.changes: list[RowChange] = []
        self.open = False
        self.snapshot: dict[int, dict[Any, Row]] | None = None
        self.lock_tables: dict[Name, str] | None = None
        self.waits: Task | None = None
        #: The row that it waits for.
        self.wants: tuple[Table, Any] | None = None
        #: Its transaction that is in the binlog and not visible yet.
        self.committing: Transaction | None = None
        #: It ends as soon as its commit does.
        self.ending = False
        #: KILL QUERY.
        self.interrupted = False
        task = server.scheduler.current
        #: The process that opened it.
        self.process = task.process if task is not None else None
        self.idle_since = server.scheduler.now

    def begin(self, sql: str) -> None:
        """Note what it does now; the warnings of what it did before are gone."""
        self.doing = sql
        if self.warnings and sql != "SHOW WARNINGS":
            self.warnings = []

    def require_life(self) -> None:
        """End the statement of a session that is gone."""
        if not self.gone:
            return
        if self.killed or not self.alive:
            self.server.end(self)
            raise fault(2013, "Lost connection to MySQL server during query")
        if self.cut:
            raise fault(2013, "Lost connection to MySQL server during query")


class Server:
    """One server. Every method that waits takes a turn of the scheduler."""

    def __init__(self, scheduler: Scheduler, uuid: str = UUID) -> None:
        self.scheduler = scheduler
        self.uuid = uuid
        self.tables: dict[Name, Table] = {}
        self.sessions: dict[int, Session] = {}
        self.named: dict[str, tuple[Session, int]] = {}
        #: What the world keeps here, such as the checkpoint of its table.
        self.notes: dict[str, Any] = {}
        self.binlog: list[Transaction] = []
        # Begun long ago: the program knows a log by its name and the second of its beginning.
        self.files = [LogFile("b.000001", 0, self.unix_time - 3600)]
        #: How often the binlog was reset.
        self.resets = 0
        #: The log is written: not after an error under ``binlog_error_action=IGNORE_ERROR``.
        self.logs = True
        #: What a crash may lose: commits of the ``engine``, the end of the ``log``, or nothing.
        self.relaxed = ""
        #: ``binlog_ignore_db``.
        self.ignored = ""
        self.started = 1_700_000_000
        self.up = True
        #: A session is prepared statement by statement, as it is in truth; or in one step.
        self.session_by_statements = False
        #: Seconds for which the next commits stall between binlog and visibility.
        self.stall: Callable[[], float] = lambda: 0.0
        #: Called before each statement of the program, and with the task of a commit that stalls.
        self.counted: Callable[[], None] | None = None
        self.stalling: Callable[[Task], None] | None = None
        #: Seconds for which a packet of the binlog is under way.
        self.latency: Callable[[], float] = lambda: 0.0
        #: Seconds for which the comparison reads a chunk.
        self.reading: Callable[[], float] = lambda: 0.0
        #: How many of so many events of a transaction come in one read; the others come in the
        #: next one, so many seconds later; below 0: the connection is cut between the two.
        self.parting: Callable[[int], tuple[int, float]] = lambda events: (events, 0.0)
        #: What became visible, in this order, with the number of its transaction, or 0.
        self.history: list[tuple[int, RowChange | Replaced]] = []
        #: How much of the history a crash cannot take back.
        self.flushed = 0
        #: XA transactions that are prepared: who holds their locks and changes.
        self.prepared: dict[str, Session] = {}
        #: The program asked for a lock behind somebody older than this.
        self.rude: list[str] = []
        #: Accidents and acts of others that had an effect; what comes to nothing is not among them.
        self.happened: set[str] = set()
        #: What must never happen, whoever passes over it: a world with any of it is wrong.
        self.caught: list[str] = []
        #: Names of the application's tables, to which the program writes nothing (R1).
        self.applications: frozenset[Name] = frozenset()
        #: Rights on the schema that the program's account has no more.
        self.revoked: frozenset[str] = frozenset()
        #: ``binlog_error_action=IGNORE_ERROR``, without which no error closes the binlog.
        self.forgives = False
        #: Every role that a session of the program has had.
        self.roles: set[str] = set()
        #: Longest that a session of a client has waited for a table lock.
        self.longest_wait = 0.0
        self._next_session = 10
        self._next_table = 1000
        self._waiting: list[Task] = []
        #: Dumps that wait for a transaction.
        self.dumps: list[Task] = []

    # -- waiting

    def changed(self) -> None:
        """Let everybody who waits for something of the server look again."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for task in waiting:
                self.scheduler.wake(task)

    def wait_until(
        self, session: Session, what: str, holds: Callable[[], Any], seconds: float | None
    ) -> bool:
        """Wait until a condition holds; return whether it did within so many seconds."""
        deadline = None if seconds is None else self.scheduler.now + seconds
        while not holds():
            session.require_life()
            if session.interrupted and session.committing is None:
                raise fault(1317, "Query execution was interrupted")
            left = None if deadline is None else deadline - self.scheduler.now
            if left is not None and left <= 0:
                return False
            task = self.scheduler.current
            assert task is not None
            self._waiting.append(task)
            self.scheduler.wait(what, left)
        session.require_life()
        return True

    # -- sessions

    def connect(self, client: str = "") -> Session:
        """Open a session."""
        if not self.up:
            raise fault(2003, "Can't connect to MySQL server")
        session = Session(self, self._next_session, client=client)
        self._next_session += 1
        self.sessions[session.number] = session
        return session

    def end(self, session: Session) -> None:
        """End a session, after its commit: roll back, and give up all that it holds."""
        if not session.alive:
            return
        if session.committing is not None:
            session.ending = True
            return
        session.alive, session.gone = False, True
        self.sessions.pop(session.number, None)
        self.rollback(session)
        self._give_up_tables(session, everything=True)
        for name in [name for name, (holder, _) in self.named.items() if holder is session]:
            del self.named[name]
        self.changed()

    def kill(self, number: int) -> None:
        """KILL CONNECTION."""
        session = self.sessions.get(number)
        if session is None:
            raise fault(1094, f"Unknown thread id: {number}")
        session.killed = session.gone = True
        self.scheduler.tell(f"session {number} ({session.role}) is killed")
        if session.waits is None:
            self.end(session)
        self.changed()

    def kill_query(self, number: int) -> None:
        """KILL QUERY; nothing to an idle session, nor to a commit that stalls."""
        session = self.sessions.get(number)
        if session is None:
            raise fault(1094, f"Unknown thread id: {number}")
        session.interrupted = session.waits is not None
        self.changed()

    def cut(self, session: Session) -> None:
        """Break a connection; the server notices when its statement has ended."""
        self.happened.add("cut")
        session.cut = session.gone = True
        if session.waits is None:
            self.end(session)
        self.changed()
        self.wake_dumps()

    def restart(self) -> None:
        """Take connections again."""
        self.up = True
        self.scheduler.tell("the server is back")
        self.changed()

    def await_start(self) -> None:
        """Wait until something has changed on the server, such as its start."""
        assert self.scheduler.current is not None
        self._waiting.append(self.scheduler.current)
        self.scheduler.wait("the server", 60.0)

    def lose(self, process: object, within: float = float("inf")) -> None:
        """Notice, later, that the client of idle sessions is gone; of ``wait_timeout`` at most."""
        for session in list(self.sessions.values()):
            idle = session.process is process and session.waits is None
            if idle and session.wait_timeout <= within:
                self.end(session)
        self.wake_dumps()

    def crash(self, lost: int = 0) -> bool:
        """Lose all sessions, and the last transactions of a server that is not durable.

        Return whether it has lost any of these.
        """
        self.up = False
        self.happened.add("crash")
        self.scheduler.tell("the server crashes")
        for session in list(self.sessions.values()):
            session.alive, session.gone = False, True
            session.changes, session.lock_tables = [], None
        self.sessions.clear()
        self.named.clear()
        forget = {"engine": self._forget_commits, "log": self._forget_log}.get(self.relaxed)
        forgot = forget is not None and forget(lost)
        for transaction in self.binlog:
            self._make_visible(transaction)
        self.flushed = len(self.history)
        for table in self.tables.values():
            table.locked.clear()
            table.granted.clear()
            table.queue.clear()
        for holder in self.prepared.values():
            # It stays prepared, with its locks.
            for change in holder.changes:
                table = self.table(change.table)
                table.locked[(change.after or change.before or ())[0]] = holder
                table.granted[holder] = [WRITE]
        self._next_session = 10
        # In whole seconds, as Uptime is: a life of the server takes longer than one.
        self.started = max(self.started + 1, int(self.unix_time))
        self.logs = True
        self.files.append(LogFile(f"b.{len(self.files) + 1:06d}", len(self.binlog), self.unix_time))
        self.changed()
        self.wake_dumps()
        return forgot

    def _forget_commits(self, lost: int) -> bool:
        """Undo the last transactions, which stay in the binlog, and in ``gtid_executed``."""
        for transaction in self.binlog:
            if transaction.statement:
                self._make_visible(transaction)
            # Rows were in no more than the binlog.
            transaction.visible = True
        numbers = list(dict.fromkeys(number for number, _ in self.history[self.flushed :]))
        gone = set(numbers[len(numbers) - lost :])
        self._undo(gone)
        return bool(gone)

    def _undo(self, gone: set[int]) -> None:
        if not gone:
            return
        self.scheduler.tell(f"the crash takes back {sorted(gone)}")
        by_number = {table.number: table for table in self.tables.values()}
        for number, change in reversed(self.history[self.flushed :]):
            if number in gone and isinstance(change, RowChange):
                table = by_number[change.number]
                table.rows = dict(table.rows)
                _apply(table.rows, RowChange(change.table, 0, change.after, change.before))
        kept = [one for one in self.history[self.flushed :] if one[0] not in gone]
        self.history[self.flushed :] = kept

    def _forget_log(self, lost: int) -> bool:
        """Lose the end of the binlog; some of its transactions stay visible, in no event."""
        begun = self.files[-1].before
        ddl = [one.number for one in self.binlog if one.statement]
        first = max(len(self.binlog) - lost, begun, *ddl, 0)
        gone = {one.number for one in self.binlog[first:]}
        # Of those that were visible, the first half was flushed by the engine.
        visible = [one.number for one in self.binlog[first:] if one.visible]
        del self.binlog[first:]
        self._undo(gone - set(visible[: len(visible) // 2]))
        self.history = [(0 if number in gone else number, what) for number, what in self.history]
        return bool(gone)

    def reset_log(self) -> None:
        """RESET BINARY LOGS AND GTIDS."""
        self.scheduler.tell("RESET BINARY LOGS AND GTIDS")
        for transaction in self.binlog:
            self._make_visible(transaction)
        self.history = [(0, what) for _, what in self.history]
        self.binlog = []
        self.files = [LogFile("b.000001", 0, self.unix_time)]
        self.resets += 1
        self.wake_dumps()

    def file_of(self, number: int) -> LogFile:
        """Return the file that a transaction is in, or will be in."""
        return next(file for file in reversed(self.files) if file.before < number)

    # -- tables

    @property
    def log_end(self) -> tuple[str, int]:
        """Where the binlog ends: file and offset."""
        file = self.files[-1]
        return file.name, file.end_of(len(self.binlog))

    @property
    def unix_time(self) -> float:
        """The server's clock."""
        return 1_700_000_000.0 + self.scheduler.now

    def made(self, columns: tuple[str, ...], *, unique: tuple[int, ...] = ()) -> Table:
        """Return an empty table that no name has yet."""
        self._next_table += 1
        return Table(columns, self._next_table, unique, int(self.unix_time))

    def create(
        self, name: Name, columns: tuple[str, ...], *, unique: tuple[int, ...] = ()
    ) -> Table:
        """Make an empty table."""
        table = self.tables[name] = self.made(columns, unique=unique)
        return table

    def table(self, name: Name) -> Table:
        """Return a table.

        Raises:
            MySQLdb.Error: 1146, there is none.
        """
        found = self.tables.get(name)
        if found is None:
            raise fault(1146, f"Table '{name[0]}.{name[1]}' doesn't exist")
        return found

    def lock_table(
        self, session: Session, name: Name, mode: str, seconds: float | None = None
    ) -> None:
        """Take a metadata lock, behind those who wait for one that excludes it.

        Raises:
            MySQLdb.Error: 1205 after ``lock_wait_timeout``, 1146 without the table.
        """
        table = self.table(name)
        if mode in table.granted.get(session, ()):  # nothing stronger is asked for twice
            return None
        place = (session, mode, self.scheduler.current)
        self._note_manners(session, table, mode)
        table.queue.append(place)
        asked = self.scheduler.now
        try:
            waited = self.wait_until(
                session,
                f"the table lock {mode} on {name[1]}",
                lambda: self._grantable(table, place),
                session.lock_wait if seconds is None else seconds,
            )
            if not waited:
                raise fault(1205, "Lock wait timeout exceeded; try restarting transaction")
            if self.tables.get(name) is not table:
                # Renamed away while it was waited for.
                table.queue.remove(place)
                self.changed()
                return self.lock_table(session, name, mode, seconds)
            if not any(session in other.granted for other in self.tables.values()):
                session.began = self.scheduler.now
            table.granted.setdefault(session, []).append(mode)
        finally:
            if not session.role:
                self.longest_wait = max(self.longest_wait, self.scheduler.now - asked)
            if place in table.queue:
                table.queue.remove(place)
                self.changed()

    def _note_manners(self, session: Session, table: Table, mode: str) -> None:
        """Note a request of the program that clients would wait behind for long (R23)."""
        if session.role and mode in _STRONG:
            for holder, modes in table.granted.items():
                age = self.scheduler.now - holder.began
                if not holder.role and age > _OLD and not _TOGETHER[mode].issuperset(modes):
                    self.rude.append(f"session {session.number} ({session.role}), {age:.1f} s")

    def _grantable(self, table: Table, place: tuple[Session, str, Any]) -> bool:
        session, mode, _ = place
        for holder, modes in table.granted.items():
            if holder is not session and any(mode not in _TOGETHER[held] for held in modes):
                return False
        for other in table.queue:
            if other is place:
                return True
            if other[0] is not session and other[1] in _STRONG and mode not in _TOGETHER[other[1]]:
                return False
        return True

    def _give_up_tables(self, session: Session, *, everything: bool) -> None:
        """Release the metadata locks of a transaction, or of LOCK TABLES too."""
        for table in self.tables.values():
            held = table.granted.get(session) if table.granted else None
            if held is None:
                continue
            kept = (
                [] if everything else [mode for mode in held if mode in {LOCKED_READ, LOCKED_WRITE}]
            )
            if kept:
                table.granted[session] = kept
            else:
                del table.granted[session]
        if everything:
            session.lock_tables = None
        self.changed()

    def unlock_tables(self, session: Session) -> None:
        """UNLOCK TABLES."""
        self._give_up_tables(session, everything=True)

    # -- reading and writing

    def read(self, session: Session, name: Name) -> dict[Any, Row]:
        """Return the rows that a statement reads; the metadata lock stays to the transaction's end.

        The table's own dictionary, which no reader changes, or the snapshot's.
        """
        self._use(session, name, READ)
        table = self.table(name)
        if session.open and session.repeats and session.snapshot is None:
            self.begin_snapshot(session)
        if session.snapshot is not None:
            found = session.snapshot.get(table.number)
            if found is None:
                raise fault(1412, "Table definition has changed, please retry transaction")
        else:
            found = table.rows
        if not session.changes:
            return found
        rows = dict(found)
        for change in session.changes:
            if change.number == table.number:
                _apply(rows, change)
        return rows

    def lock_rows(self, session: Session, name: Name, keys: Iterable[Any]) -> None:
        """Lock the rows of keys, as a statement that writes them elsewhere does."""
        for key in keys:
            self._lock_row(session, self.table(name), key)

    def _use(self, session: Session, name: Name, mode: str) -> None:
        if session.lock_tables is not None:
            allowed = session.lock_tables.get(name)
            if allowed is None:
                raise fault(1100, f"Table '{name[1]}' was not locked with LOCK TABLES")
            if mode == WRITE and allowed == LOCKED_READ:
                raise fault(1099, f"Table '{name[1]}' was locked with a READ lock")
            return
        self.lock_table(session, name, mode)

    def write(
        self,
        session: Session,
        name: Name,
        changing: Callable[[dict[Any, Row]], Iterable[tuple[Any, Row | None]]],
        *,
        replacing: bool = True,
    ) -> int:
        """Change rows, each after its lock; return how many changed.

        Args:
            changing: yields the new row of each key, None to delete it, from the rows that the
                transaction sees.
            replacing: rows with the same value of a unique key are removed, as by REPLACE.

        Raises:
            MySQLdb.Error: 1062, another row has a unique value; as :meth:`_lock_row`.
        """
        self._use(session, name, WRITE)
        table = self.table(name)
        first = len(session.changes)
        try:
            number = self._write(session, name, table, changing, replacing=replacing)
        except BaseException:
            # A statement that fails has changed nothing; the transaction stays open.
            del session.changes[first:]
            raise
        if len(session.changes) > first:
            one = session.changes[first]
            session.changes[first] = RowChange(one.table, one.number, one.before, one.after, True)
        return number

    def _write(
        self,
        session: Session,
        name: Name,
        table: Table,
        changing: Callable[[dict[Any, Row]], Iterable[tuple[Any, Row | None]]],
        *,
        replacing: bool,
    ) -> int:
        number = 0
        pending = dict(changing(self._current(session, table)))
        if any(holder is not session for holder in table.locked.values()):
            # What others have not committed is waited for, too.
            with contextlib.suppress(MySQLdb.Error):
                pending = dict(changing(self._latest(table))) | pending
        for key, wanted in pending.items():
            after = wanted
            if self._lock_row(session, table, key):
                # The row may be another one by now.
                fresh = dict(changing(self._current(session, table)))
                if key not in fresh:
                    continue
                after = fresh[key]
            before = self._current(session, table).get(key)
            if before == after:
                continue
            if after is not None:
                if after[0] != key:
                    self._require_free(session, name, after[0])
                for at in table.unique:
                    self._make_way(session, name, (key, at, after[at]), replacing=replacing)
            session.changes.append(RowChange(name, table.number, before, after))
            number += 1
        if number and session.role and name in self.applications:
            self.caught.append(f"{session.role} has written rows of {name[1]}: {pending}")
        return number

    def _require_free(self, session: Session, name: Name, key: Any) -> None:
        """Wait for whoever writes the row of a key that another one is to get; 1062."""
        table = self.table(name)
        self._lock_row(session, table, key)
        if key in self._current(session, table):
            raise fault(1062, f"Duplicate entry '{key}' for key '{name[1]}.PRIMARY'")

    def _make_way(
        self, session: Session, name: Name, value: tuple[Any, int, Any], *, replacing: bool
    ) -> None:
        """Remove the row that has a unique value, by whomever it is written, or fail."""
        table = self.table(name)
        key, at, wanted = value
        if wanted is None:
            return
        for other, row in self._latest(table).items():
            if other != key and row[at] == wanted:
                self._lock_row(session, table, other)
        there = self._current(session, table)
        for other in [one for one, row in there.items() if one != key and row[at] == wanted]:
            self._lock_row(session, table, other)
            # Who was waited for may have given it another value.
            now = self._current(session, table).get(other)
            if now is None or now[at] != wanted:
                continue
            if not replacing:
                at_key = f"{name[1]}.{table.columns[at]}"
                raise fault(1062, f"Duplicate entry '{wanted}' for key '{at_key}'")
            session.changes.append(RowChange(name, table.number, now, None))

    def _current(self, session: Session, table: Table) -> dict[Any, Row]:
        mine = [change for change in session.changes if change.number == table.number]
        if not mine:
            return table.rows
        rows = dict(table.rows)
        for change in mine:
            _apply(rows, change)
        return rows

    def _latest(self, table: Table) -> dict[Any, Row]:
        """Return the rows with what is not committed, or not visible yet."""
        rows = dict(table.rows)
        for holder in set(table.locked.values()):
            logged = holder.committing.changes if holder.committing is not None else ()
            for change in (*logged, *holder.changes):
                if change.number == table.number:
                    _apply(rows, change)
        return rows

    def _lock_row(self, session: Session, table: Table, key: Any) -> bool:
        """Lock a row; return whether that took a wait.

        Raises:
            MySQLdb.Error: 1205 after ``innodb_lock_wait_timeout``; 1213, rolled back, where the
                holder waits for this session.
        """

        def free() -> bool:
            return table.locked.get(key) in {None, session}

        waited = not free()
        if waited:
            self._note_lock(session, table, key)
            session.wants = (table, key)
            try:
                if self._in_circle(session):
                    self.rollback(session)
                    raise fault(1213, "Deadlock found when trying to get lock")
                if not self.wait_until(session, f"a row lock on {key}", free, session.row_wait):
                    raise fault(1205, "Lock wait timeout exceeded; try restarting transaction")
            finally:
                session.wants = None
        table.locked[key] = session
        return waited

    def _note_lock(self, session: Session, table: Table, key: Any) -> None:
        """Note that a client waits for a row of its own table that the program has locked."""
        holder = table.locked[key]
        theirs = any(self.tables.get(name) is table for name in self.applications)
        if theirs and holder.role and not session.role:
            self.caught.append(f"{session.client} waits for row {key}, locked by {holder.role}")

    def _in_circle(self, session: Session) -> bool:
        """Whether those in front of a session's row lock wait for the session itself."""
        other: Session | None = session
        while other is not None and other.wants is not None:
            table, key = other.wants
            other = table.locked.get(key)
            if other is session:
                return True
        return False

    def rollback(self, session: Session) -> None:
        """Undo the open transaction."""
        session.changes = []
        session.open = False
        session.snapshot = None
        self._let_go(session)

    def _release_rows(self, session: Session) -> None:
        for table in self.tables.values():
            if table.locked:
                for key in [key for key, holder in table.locked.items() if holder is session]:
                    del table.locked[key]
        self.changed()

    def end_statement(self, session: Session) -> None:
        """Commit in autocommit mode."""
        if not session.open:
            self.commit(session)

    def commit(self, session: Session, text: str = "") -> None:
        """Commit: into the binlog, then, perhaps later, visible; ``text`` in place of the rows."""
        changes, session.changes = tuple(session.changes), []
        session.snapshot = None
        session.open = False
        if changes:
            columns = {name: self.tables[name].columns for name in {one.table for one in changes}}
            self._commit(session, Transaction(0, changes, columns=columns, text=text))
        if session.alive:
            self._let_go(session)

    def prepare(self, session: Session, xid: str) -> None:
        """XA PREPARE: the rows are in the binlog, their locks stay, and nobody sees them."""
        holder = self.prepared[xid] = Session(self, 0)
        holder.changes, session.changes = session.changes, []
        session.open = False
        for table in self.tables.values():
            for key in [key for key, one in table.locked.items() if one is session]:
                table.locked[key] = holder
            if session in table.granted:
                table.granted[holder] = table.granted.pop(session)
        changes = tuple(holder.changes)
        columns = {name: self.tables[name].columns for name in {one.table for one in changes}}
        self._commit(session, Transaction(0, changes, columns=columns, xid=xid))

    def decide(self, session: Session, xid: str, decided: str) -> None:
        """XA COMMIT or XA ROLLBACK, of any session.

        Raises:
            MySQLdb.Error: 1397, there is none.
        """
        holder = self.prepared.get(xid)
        if holder is None or holder.committing is not None:
            raise fault(1397, "XAER_NOTA: Unknown XID")
        changes = tuple(holder.changes) if decided == "COMMIT" else ()
        transaction = holder.committing = Transaction(0, changes, xid=xid, decided=decided)
        self._commit(session, transaction)

    def ddl(
        self, session: Session, statement: str, effect: Callable[[], None] | None = None
    ) -> None:
        """Execute DDL, whose locks are held; it is never lost, nor what was before it."""
        self._commit(session, Transaction(0, statement=statement, effect=effect))

    def replace_rows(
        self,
        session: Session,
        name: Name,
        rows: dict[Any, Row],
        sql: str,
        *,
        logged_late: bool = False,
    ) -> None:
        """Put another table of the same definition in a table's place: TRUNCATE, a restore.

        Where it is ``logged_late``, others see and use the new table before the statement is in the
        binlog, as OPTIMIZE does it.
        """
        self.lock_table(session, name, EXCLUSIVE)

        def effect() -> None:
            old = self.table(name)
            new = self.create(name, old.columns, unique=old.unique)
            # The table may have been swapped since the rows were dumped.
            width = len(old.columns)
            wide = {key: (*row, *([None] * (width - len(row)))) for key, row in rows.items()}
            new.comment, new.rows = old.comment, wide
            # Who waits for the old one sees that it is gone.
            self.history.append((0, Replaced(name, wide)))
            old.granted.clear()
            self.changed()

        if logged_late:
            effect()
            self.scheduler.step()
        self.ddl(session, sql, None if logged_late else effect)

    def _commit(self, session: Session, transaction: Transaction) -> None:
        """Log a transaction, and wait until it is visible.

        It goes on when the session is killed or cut meanwhile, which is when the wait ends.
        """
        transaction.session, transaction.unchecked = session.number, session.unchecked
        transaction.schema = session.schema
        ignored = transaction.statement and self.ignored and session.schema == self.ignored
        if not (session.logged and self.logs) or ignored:
            self._make_visible(transaction)
            return
        self._log(transaction)
        seconds = self.stall()
        self.scheduler.step()
        if not seconds and self._is_next(transaction):
            self._make_visible(transaction)
            return
        session.committing = transaction
        finishing = self.scheduler.spawn(
            f"the commit of {transaction.number}",
            partial(self._finish, session, transaction, seconds),
            process="server",
        )
        if seconds and self.stalling is not None:
            self.stalling(finishing)
        self.wait_until(session, "a commit", lambda: session.committing is None, None)

    def _finish(self, session: Session, transaction: Transaction, seconds: float) -> None:
        """Make a transaction visible that stalls, or is logged behind one that does."""
        if seconds:
            self.scheduler.tell(f"the commit of {transaction.number} stalls")
            self.scheduler.sleep(seconds)
        # A crash decides about it, and ends the session.
        while session.alive and not self._is_next(transaction):
            task = self.scheduler.current
            assert task is not None
            self._waiting.append(task)
            self.scheduler.wait("an earlier commit")
        if not session.alive:
            return
        self._make_visible(transaction)
        session.committing = None
        self._let_go(session)
        if session.ending:
            self.end(session)
        self.changed()

    def _is_next(self, transaction: Transaction) -> bool:
        """Whether all that is logged before it is visible."""
        before = transaction.number - 2
        return transaction.visible or before < 0 or self.binlog[before].visible

    def _let_go(self, session: Session) -> None:
        """Release what a transaction holds."""
        self._release_rows(session)
        self._give_up_tables(session, everything=False)

    def _log(self, transaction: Transaction) -> Transaction:
        transaction.number = len(self.binlog) + 1
        self.binlog.append(transaction)
        self.wake_dumps()
        return transaction

    def wake_dumps(self) -> None:
        """Let the dumps send what is new."""
        dumps, self.dumps = self.dumps, []
        for task in dumps:
            self.scheduler.wake(task)

    def _make_visible(self, transaction: Transaction) -> None:
        if transaction.visible:
            return
        transaction.visible = True
        if transaction.effect is not None:
            transaction.effect()
        if transaction.statement:
            self.flushed = len(self.history)
        if transaction.decided:
            self._let_go(self.prepared.pop(transaction.xid))
        prepared = transaction.xid and not transaction.decided
        by_number = {table.number: table for table in self.tables.values()}
        for change in () if prepared else transaction.changes:
            table = by_number.get(change.number)
            if table is not None:
                # Snapshots keep the old dictionary.
                if table.rows is not None:
                    table.rows = dict(table.rows)
                _apply(table.rows, change)
                self.history.append((transaction.number, change))
        self.changed()

    def executed(self) -> list[int]:
        """Return the numbers in ``gtid_executed``."""
        return [one.number for one in self.binlog if one.visible]

    def begin_snapshot(self, session: Session) -> None:
        """START TRANSACTION WITH CONSISTENT SNAPSHOT; there is none at READ COMMITTED."""
        session.open = True
        if session.repeats:
            session.snapshot = {table.number: table.rows for table in self.tables.values()}

    def outdate_snapshots(self, table: Table) -> None:
        """Let no snapshot that is open read a table any more, whose definition has changed."""
        for session in self.sessions.values():
            if session.snapshot is not None:
                session.snapshot.pop(table.number, None)

    # -- named locks

    def take_named(self, session: Session, name: str, seconds: float) -> int:
        """GET_LOCK."""
        if name not in self.named:
            self.named[name] = (session, 1)
            return 1

        def free() -> bool:
            holder = self.named.get(name)
            return holder is None or holder[0] is session

        if not free() and (
            seconds <= 0 or not self.wait_until(session, f"the lock {name}", free, seconds)
        ):
            return 0
        self.named[name] = (session, self.named.get(name, (session, 0))[1] + 1)
        return 1

    def release_named(self, session: Session, name: str) -> int | None:
        """RELEASE_LOCK."""
        holder = self.named.get(name)
        if holder is None:
            return None
        if holder[0] is not session:
            return 0
        if holder[1] > 1:
            self.named[name] = (session, holder[1] - 1)
        else:
            del self.named[name]
        self.changed()
        return 1

    def holder(self, name: str) -> int | None:
        """IS_USED_LOCK."""
        found = self.named.get(name)
        return found[0].number if found else None

    def rename(self, session: Session, pairs: list[tuple[Name, Name]], statement: str) -> None:
        """RENAME TABLE, under locks that the session has or takes; all or nothing."""
        tables = dict(self.tables)
        for old, new in pairs:
            if new in tables:
                raise fault(1050, f"Table '{new[1]}' already exists")
            if old not in tables:
                raise fault(1146, f"Table '{old[0]}.{old[1]}' doesn't exist")
            tables[new] = tables.pop(old)
        for old in [old for old, _ in pairs if old in self.tables]:
            if session.lock_tables is None:
                self.lock_table(session, old, EXCLUSIVE)
            elif session.lock_tables.get(old) != LOCKED_WRITE:
                raise fault(1100, f"Table '{old[1]}' was not locked with LOCK TABLES")

        def effect() -> None:
            # Other tables may have come, gone or been replaced while it stalled.
            renamed = dict(self.tables)
            for old, new in pairs:
                renamed[new] = renamed.pop(old)
            self.tables = renamed

        self.ddl(session, statement, effect)


def _apply(rows: dict[Any, Row], change: RowChange) -> None:
    if change.before is not None and (change.after is None or change.after[0] != change.before[0]):
        rows.pop(change.before[0], None)
    if change.after is not None:
        rows[change.after[0]] = change.after


def interval(numbers: Iterable[int]) -> str:
    """Return a GTID set of this server."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    if not parts:
        return ""
    text = ":".join(f"{a}-{b}" if b > a else f"{a}" for a, b in parts)
    return f"{UUID}:{text}"


def numbers(gtids: str) -> set[int]:
    """Return the numbers of a GTID set of this server."""
    found: set[int] = set()
    for part in gtids.replace("\n", "").split(","):
        _, _, spans = part.strip().partition(":")
        for span in filter(None, spans.split(":")):
            first, _, last = span.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    return found
