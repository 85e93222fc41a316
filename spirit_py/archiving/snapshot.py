"""One snapshot for several sessions of tasks that know each other by a name alone.

Named locks of the server are their only messages: each task holds one when it is there, the first
one locks the table (READ, for milliseconds, where a task does not open for a second) when all are,
and tells the others to open. A place in the binlog that is read under that lock is that of the
snapshot: nobody has written the table since.
A snapshot keeps no table: once the lock is gone, another one may take the name before it is read.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from spirit_py.binlog.position import FileFrontier, FilePlace, GtidFrontier, GtidSet
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, Refusal, ServerFault
from spirit_py.locks.blockers import LockPolicy
from spirit_py.locks.look import LockRequest
from spirit_py.locks.named import (
    named_lock_holder,
    named_lock_holders,
    release_named_lock,
    take_named_lock,
)
from spirit_py.locks.table import TableLock, let_go_when_silent, open_lock_session
from spirit_py.locks.turns import Front, LockTurns
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import (
    Disposition,
    access_denied,
    disposition,
    refuses_sessions,
    server_away,
)
from spirit_py.mysql.grants import read_grants
from spirit_py.mysql.replication import binlog_status
from spirit_py.mysql.tables.identity import born_at
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Name

_LOOK_SECONDS: Final = 0.02
_LOCK_SECONDS: Final = 600.0
_HOLD_SECONDS: Final = 20.0
#: Writers wait meanwhile: a task whose host is gone keeps its locks until the server notices.
_UNDER_LOCK_SECONDS: Final = 1.0
#: Where the first one's own snapshot takes longer, as far away: twice as long, and no more than so.
_FAR_SECONDS: Final = 3.0
#: A task is ended by Spark.
_NOT_STOPPED: Final = StopSwitch()


class LockedMoment(NamedTuple):
    """What was read under the lock of a snapshot: its place in the binlog, and the table's birth.

    Another table has another birth, whose rows of before the snapshot are not all of them.
    """

    position: str
    born: int


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """The tasks that read one table in one snapshot: a name of theirs alone, and their number.

    They wait for each other for ``patience`` seconds. ``reading`` tells those of one reading from
    another at the same time, of the same DataFrame: Spark gives both the same partitions.
    ``placed``: the snapshot's place in the binlog is asked for, which is empty otherwise.
    ``again``: this task is tried once more; it can still come, unless the others have read by now.
    """

    name: str
    tasks: int
    table: Name
    patience: float
    placed: bool = False
    reading: str = ""
    again: bool = False

    def _lock(self, rank: int, what: str) -> str:
        return f"spirit_py_{self.name}_{self.reading}_{rank}_{what}"

    def _take(self, session: SqlSession, rank: int, what: str) -> None:
        """Take a lock; MigrationFailure where another session is there in the same place."""
        if take_named_lock(session, self._lock(rank, what)):
            return
        if self.again:
            raise MigrationFailure(
                "the session of an earlier try of this task is still there",
                hint="one of a lost executor stays until the server notices: run the query again"
                " then; if Spark tries tasks twice at a time, turn off spark.speculation",
                error_code=ErrorCode.SPARK_FAILED,
            )
        raise MigrationFailure(
            "another task of Spark reads the same partition of the same snapshot",
            hint="turn off spark.speculation, or .cache() the DataFrame and count it first",
            error_code=ErrorCode.SPARK_FAILED,
        )

    @contextlib.contextmanager
    def session(
        self, connection: ConnectionOptions, rank: int
    ) -> Iterator[tuple[Session, LockedMoment]]:
        """Return a session in the snapshot of all, and what was read as that was opened."""
        with connect(connection, role="archive") as session:
            self._take(session, rank, "here")
            if rank == 0:
                moment = self._lead(connection, session)
            else:
                here = self._lock(0, "here")
                (leader,) = self._await(session, [self._lock(0, "go")], while_held=here)
                moment = self._open(session, rank)
                # One that has read its rows sooner would be missed.
                self._await_seen(session, leader)
                release_named_lock(session, self._lock(rank, "here"))
            if rank == 0:
                # Before anything is read: a task that is tried again must not open a later one.
                self._let_go(session)
                for what in ("here", "go", "seen"):
                    release_named_lock(session, self._lock(0, what))
            yield session, moment

    def _open(self, session: Session, rank: int) -> LockedMoment:
        # Before the snapshot: a server might show the catalogue of its moment.
        born = born_at(session, *self.table)
        session.execute("SET SESSION transaction_isolation = 'REPEATABLE-READ'")
        session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        moment = LockedMoment(position_of(session) if self.placed else "", born)
        # Taken before the lock is given back: what is opened after that is another moment.
        if named_lock_holder(session, self._lock(0, "seen")) is not None:
            raise self._too_late(under_lock=False, lost=True)
        self._take(session, rank, "open")
        return moment

    def _lead(self, connection: ConnectionOptions, session: Session) -> LockedMoment:
        here = [self._lock(rank, "here") for rank in range(self.tasks)]
        self._await(session, here)

        def under_lock() -> LockedMoment:
            self._take(session, 0, "go")
            began = time.monotonic()
            moment = self._open(session, 0)
            within = min(_FAR_SECONDS, 2 * (time.monotonic() - began))
            opened = [self._lock(rank, "open") for rank in range(self.tasks)]
            # Writers wait: whoever was here a moment ago opens at once, or is gone.
            self._await(session, opened, of=here, within=max(_UNDER_LOCK_SECONDS, within))
            self._take(session, 0, "seen")
            return moment

        return _locked(connection, self.table, under_lock)

    def _let_go(self, session: SqlSession) -> None:
        """Keep the first one's locks until all others have seen them, or are gone."""
        others = [self._lock(rank, "here") for rank in range(1, self.tasks)]
        while any(named_lock_holders(session, others)):
            _NOT_STOPPED.wait(_LOOK_SECONDS)

    def _await_seen(self, session: SqlSession, leader: int) -> None:
        """Wait until the first one has seen that all are open: under its lock of then, no later."""
        names = [self._lock(0, "seen"), self._lock(0, "go")]
        while True:
            seen, go = named_lock_holders(session, names)
            if seen == leader:
                return
            if go != leader:
                raise _ended_early()
            _NOT_STOPPED.wait(_LOOK_SECONDS)

    def _await(
        self,
        session: SqlSession,
        names: list[str],
        *,
        while_held: str = "",
        of: Sequence[str] = (),
        within: float = math.inf,
    ) -> list[int]:
        """Wait until each of these locks has a holder, and return them; longer while another has.

        ``of``: a lock of each one that is waited for, who is gone without it: under a table lock,
        for ``within`` seconds.
        """
        patience = min(self.patience, within)
        since = time.monotonic()
        while True:
            found = named_lock_holders(session, [*names, *of, while_held or names[0]])
            holders, there = found[: len(names)], found[len(names) : -1]
            if None not in holders:
                return [one for one in holders if one is not None]
            if while_held and found[-1] is not None:
                since = time.monotonic()
            if of and (None, None) in zip(holders, there, strict=True):
                raise _ended_early()
            if time.monotonic() - since > patience:
                # Where others still wait, nobody has read.
                lost = self.again and sum(one is not None for one in holders) <= 1
                raise self._too_late(under_lock=bool(of), lost=lost)
            _NOT_STOPPED.wait(_LOOK_SECONDS)

    def _too_late(self, *, under_lock: bool, lost: bool) -> MigrationFailure:
        if under_lock:
            said = "a task of Spark did not open its snapshot while the table was locked for it"
            hint = "see whether its host is gone, or overloaded; then run the query again"
        elif lost:
            said = (
                "a task of this snapshot was lost, and no task can open it again once others"
                " have read"
            )
            hint = "see in Spark's log how its first try ended; then run the query again"
        else:
            said = (
                f"a snapshot of {self.tasks} partitions needs as many tasks at a time, and they"
                f" did not come together within {self.patience:.0f} s"
            )
            hint = "give Spark as many slots, or read fewer partitions (.option('partitions', ...))"
        return MigrationFailure(said, hint=hint, error_code=ErrorCode.SPARK_FAILED)


def _ended_early() -> MigrationFailure:
    return MigrationFailure(
        "a task of Spark has ended before all had opened their snapshot",
        hint="see why in Spark's log; the query may be tried again",
        error_code=ErrorCode.SPARK_FAILED,
    )


def _locked(
    connection: ConnectionOptions, table: Name, work: Callable[[], LockedMoment]
) -> LockedMoment:
    """Do something while nobody writes a table; wait for the lock as a comparison does."""
    policy = LockPolicy(timeout=_LOCK_SECONDS)
    request = LockRequest(tables=[table], read_only=[table])
    turns = LockTurns(
        [(connection, Front(request))],
        policy,
        _NOT_STOPPED,
        what="the table lock of a snapshot",
        show=lambda _: None,
        tell=lambda _: None,
    )
    tries = 1
    while turns.await_free():
        wait = math.ceil(policy.wait)
        lock = None
        with contextlib.ExitStack() as stack:
            try:
                session = stack.enter_context(
                    open_lock_session(
                        connection, role="archive-lock", wait=wait, hold=_HOLD_SECONDS
                    )
                )
                lock = TableLock(session, request.tables, read_only=request.read_only)
                let_go_when_silent(session)
                lock.acquire()
            except ServerFault as fault:
                if lock is not None and access_denied(fault):
                    why = "a snapshot locks the table for milliseconds"
                    read_grants(session).require(("LOCK TABLES",), table[0], why)
                if not _passes(fault) or turns.over:
                    raise
                turns.pause(tries, lock.waited_ms / 1000 if lock else 0.0, "")
                tries += 1
                continue
            with session.kept_alive(_HOLD_SECONDS):
                moment = work()
            lock.verify()
            lock.release()
            return moment
    raise MigrationFailure(
        f"{'.'.join(table)} could not be locked for a snapshot: other sessions blocked it",
        hint="end the long transactions on the table, then read it again",
        error_code=ErrorCode.LOCK_NOT_GRANTED,
    )


def _passes(fault: ServerFault) -> bool:
    """Return whether to lock again; where sessions are lost, that of the task is, too."""
    away = server_away(fault) and not refuses_sessions(fault)
    return disposition(fault) is Disposition.RETRY and not away


def position_of(session: SqlSession) -> str:
    """Return the place of all that is executed now, as ``spirit-py watch --from`` takes it.

    Raises a Refusal where the server has none, or the account may not see it.
    """
    asked = "SELECT @@GLOBAL.gtid_mode, @@GLOBAL.server_uuid, @@GLOBAL.log_bin"
    mode, uuid, logs = session.query(asked)[0]
    if mode == "ON":
        executed = str(session.query("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")
        # A replica without a log counts those of its primary, but no server its own (measured).
        if logs or executed:
            return GtidFrontier(str(uuid), GtidSet.parse(executed)).text()
    try:
        end = binlog_status(session) if logs else None
    except ServerFault as fault:
        if access_denied(fault):
            why = "the place of a snapshot is the end of the binary log"
            read_grants(session).require(("REPLICATION CLIENT",), "", why)
        raise
    if end is None:
        raise Refusal(
            "the server writes no binary log, in which a snapshot has a place",
            hint="leave position out, or read a server that has one",
        )
    return FileFrontier(str(uuid), FilePlace(end.file, end.offset)).text()
