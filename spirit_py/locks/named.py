"""Named locks of the server: their holders, and the lock that a run holds to its end (R15, R18).

A session that loses its connection loses its named locks last. So ``IS_USED_LOCK`` shows, without
any privilege, whether a session can still execute anything.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NoReturn, Self

from spirit_py.classes import KW_ONLY, InitVar, dataclass, field
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, Refusal, ServerFault, SpiritError
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import LOCK_WAIT_TIMEOUT, Disposition, disposition
from spirit_py.mysql.kill import kill_session
from spirit_py.mysql.own_sessions import of_run, token_of
from spirit_py.mysql.processlist import whose
from spirit_py.mysql.retry import PATIENCE, Patience
from spirit_py.table.names import lock_name
from spirit_py.threads import Background
from spirit_py.units import counted

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.table.names import Name
    from spirit_py.threads import StopSwitch

#: After a restart of the server another run could begin until the lock is taken again.
_KEEP_ALIVE_SECONDS: Final = 2.0
_TRY_AGAIN_SECONDS: Final = 1.0
#: The server may take a moment to end the session of a run that was killed just now.
LAST_RUN_SECONDS: Final = 3.0
_LOST_SECONDS: Final = 30
#: The server ends this session after so long without a question; its default is eight hours.
GONE_SECONDS: Final = 240
#: A statement may have 4096 columns.
_NAMES_AT_A_TIME: Final = 1000
_STILL_RUNS: Final = "a lost session of this program still runs"
#: Anybody can make the name of such a lock: it is the same for all who work on the table.
NO_RUN_OF_OURS: Final = (
    "if that session is not a run of spirit-py, another client holds its named"
    " lock: KILL {0} (with CONNECTION_ADMIN; RDS: CALL mysql.rds_kill({0}))"
)


def take_named_lock(session: SqlSession, name: str, *, timeout: float = 0) -> bool:
    """Take a lock (:func:`spirit_py.table.names.lock_name`) for the session; False if held."""
    return bool(session.query("SELECT GET_LOCK(%s, %s)", (name, int(timeout)))[0][0])


def release_named_lock(session: SqlSession, name: str) -> None:
    """Release a named lock of the session."""
    session.query("SELECT RELEASE_LOCK(%s)", (name,))


def named_lock_holder(session: SqlSession, name: str) -> int | None:
    """Return the id of the session that holds a named lock, or None."""
    return named_lock_holders(session, [name])[0]


def named_lock_holders(session: SqlSession, names: Sequence[str]) -> list[int | None]:
    """Return the same for each of several locks, by one statement for as many as it takes."""
    found: list[int | None] = []
    for at in range(0, len(names), _NAMES_AT_A_TIME):
        part = tuple(names[at : at + _NAMES_AT_A_TIME])
        row = session.query("SELECT " + ", ".join(["IS_USED_LOCK(%s)"] * len(part)), part)[0]
        found += (None if holder is None else int(holder) for holder in row)
    return found


def take_from_lost_session(
    session: SqlSession,
    name: str,
    *,
    lost: bool = True,
    said: str = _STILL_RUNS,
    where: str = "named lock",
) -> None:
    """Take a named lock, which proves that its ``lost`` holder is ours, and end that first (R18).

    Raises a ServerFault, which is transient, when that session still runs.
    """
    holder = named_lock_holder(session, name) if lost else None
    if holder is not None and holder != session.id:
        with contextlib.suppress(ServerFault):
            session.execute(f"KILL {holder}")
    if not take_named_lock(session, name, timeout=_LOST_SECONDS):
        raise ServerFault(LOCK_WAIT_TIMEOUT, said, where=where)


def working_session(session: SqlSession, table: Name) -> int | None:
    """Return the session of the run that changes a table; None also for a :func:`reader`'s."""
    holder = named_lock_holder(session, lock_name("migration", *table))
    return None if holder is None or holder == reader(session, table) else holder


def reader(session: SqlSession, table: Name) -> int | None:
    """Return the session of an archive or a repair that keeps runs from a table, or None."""
    return named_lock_holder(session, lock_name("reading", *table))


def migration_lock(
    options: ConnectionOptions, *tables: Name, stop: StopSwitch, reads: bool = False
) -> AdvisoryLock:
    """Return the lock of tables that keeps every other run from working on one of them.

    One session holds it for all: a schema may have hundreds of tables, and a run takes days.
    ``reads``: it is shown as a :func:`reader`, and not as the run that changes the tables.
    """
    # In one order in all runs, against deadlocks.
    purposes = {
        lock_name("migration", schema, table): f"migration of {schema}.{table}"
        for schema, table in sorted(tables)
    }
    first, *also = purposes
    several = f"migration of {counted(len(tables), 'table')}"
    readers = [lock_name("reading", *table) for table in sorted(tables) if reads]
    return AdvisoryLock(
        options,
        first,
        stop=stop,
        purpose=several if also else purposes[first],
        also=(*also, *readers),
        purposes=purposes,
    )


@dataclass(eq=False)
class AdvisoryLock:
    """A named lock held for hours on a session of its own, so that a table has one migration.

    ``also`` are names that are locked with it, by the same session; ``purposes`` say what each of
    several is for.

    A thread checks it and opens a lost session again; if another run has taken the lock, or the
    server stays away, the stop switch gets a :class:`~spirit_py.errors.MigrationFailure`.
    """

    options: ConnectionOptions
    name: str
    _: KW_ONLY
    stop: StopSwitch
    purpose: str
    also: tuple[str, ...] = ()
    purposes: Mapping[str, str] = field(default_factory=dict)
    keep_alive: float = _KEEP_ALIVE_SECONDS
    patience: InitVar[float] = PATIENCE

    def __post_init__(self, patience: float) -> None:
        self._patience = Patience(patience)
        self._session: Session | None = None
        self._thread = Background("advisory-lock", self._keep)

    def acquire(self) -> None:
        """Take the lock and keep it; Refusal when another session holds it, or a ServerFault."""
        self._session = self._take()
        try:
            self._thread.start()
        except BaseException:
            self._forget()
            raise

    def _take(self, *, again: bool = False) -> Session:
        session = connect(
            self.options,
            role="advisory",
            read_timeout=30,
            wait_timeout=GONE_SECONDS,
            asks_for_lock=True,
        )
        try:
            for name in (self.name, *self.also):
                if not take_named_lock(session, name, timeout=LAST_RUN_SECONDS):
                    self._refuse(session, name, again=again)
            return session
        except BaseException:
            session.close()
            raise

    def _refuse(self, session: Session, name: str, *, again: bool) -> NoReturn:
        holder = named_lock_holder(session, name)
        if again:
            self._end_lost(session, name, holder)
        purpose = self.purposes.get(name, self.purpose)
        raise Refusal(
            f"another {purpose} is running ({whose(session, holder)})",
            hint=f"wait for it to end, or stop it; {NO_RUN_OF_OURS.format(holder)}",
            error_code=ErrorCode.ALREADY_RUNNING,
        )

    def _end_lost(self, session: Session, name: str, holder: int | None) -> None:
        """End a holder of this run, which the server takes for living (R18).

        Raises a transient ServerFault unless another session holds the lock, in two looks.
        """
        label = self.options.label
        if holder is not None and label and of_run(session, token_of(label), [holder]):
            # Only the number that was proven: another run may have the lock by now (R24).
            kill_session(session, holder)
        elif holder is not None and named_lock_holder(session, name) == holder:
            return
        raise ServerFault(LOCK_WAIT_TIMEOUT, _STILL_RUNS, where="named lock")

    def _keep(self, stopping: threading.Event) -> None:
        """Check regularly that the lock is ours; without a session, try each second to open one."""
        try:
            self._look_until(stopping)
        except BaseException as error:
            # Before the lock is given up.
            self._lost(error)
        finally:
            # Here, for one who does not wait any longer for this thread, too.
            self._forget()

    def _look_until(self, stopping: threading.Event) -> None:
        often = min(_TRY_AGAIN_SECONDS, self.keep_alive)
        while not stopping.wait(self.keep_alive if self._session else often):
            try:
                if self._session is None:
                    self._session = self._take(again=True)
                elif not self._holds(self._session):
                    raise MigrationFailure(
                        f"the named lock of the {self.purpose} is gone",
                        error_code=ErrorCode.RUN_LOCK_LOST,
                    )
                self._patience.answered()
            except ServerFault as fault:
                self._forget()
                if disposition(fault) is not Disposition.RETRY or self._patience.over():
                    raise

    def _holds(self, session: Session) -> bool:
        names = (self.name, *self.also)
        holders = session.query("SELECT " + ", ".join(["IS_USED_LOCK(%s)"] * len(names)), names)
        return all(holder == session.id for holder in holders[0])

    def _lost(self, error: BaseException) -> None:
        why = error.message if isinstance(error, SpiritError) else repr(error)
        failure = MigrationFailure(
            f"the lock that keeps a second {self.purpose} away was lost: {why}",
            hint="run the same command again",
            error_code=ErrorCode.RUN_LOCK_LOST,
        )
        failure.__cause__ = error
        self.stop.request(failure)

    def _forget(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def close(self) -> None:
        """Release the lock; safe to call again."""
        self._thread.join()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):
            self.close()
