"""What an executor does: copy one chunk, in the one MySQL session of its Python process.

This module runs in another process, maybe on another machine: everything it needs is in the
task, and everything that it returns is in the result. It imports rules and mysql only.
"""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.errors import CopyFailure, PacketTooSmall, ServerFault, ValueLost
from spirit_py.mysql.connect import connect
from spirit_py.mysql.evaluation import evaluating
from spirit_py.mysql.faults import (
    LOCK_WAIT_TIMEOUT,
    PACKET_TOO_SMALL,
    RAISE_PACKET,
    connection_lost,
)
from spirit_py.mysql.locks.named import take_named_lock
from spirit_py.mysql.ownwrites import committing_as
from spirit_py.mysql.retry import retrying
from spirit_py.mysql.values.lost_values import DEPRECATED, VALUE_ERRORS, telling
from spirit_py.stop import StopSwitch

if TYPE_CHECKING:
    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session

#: A chunk waits at most this long for an earlier attempt's session to end (R18).
_FENCE_SECONDS: Final = 120
_ATTEMPTS: Final = 8
#: The server ends a session that idles this long; the next chunk opens another.
_IDLE_SECONDS: Final = 600

_MISSING: Final = "SELECT GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed)"
_COLUMN: Final = re.compile(r"[Cc]olumn '((?:[^']|'')+)'")
_ROW: Final = re.compile(r"at row (\d+)")


@dataclass(frozen=True, kw_only=True)
class CopyTask:
    """One chunk for an executor. Picklable; the password is in the connection options only.

    Attributes:
        number: the chunk's.
        label: the chunk for messages: table and range.
        sql: the statement that copies it.
        time_zone: the session's time zone for it; empty for the program's own.
        makes_dates: it runs with the server's modes about dates.
        recomputed: columns that hold no value of the source: notes about them are ignored.
        quiet: notes can only be about such columns.
        lock: the name of its fence, held while the statements run (R18).
        visibility: GTID set to wait for before reading; empty for none (R3).
        visibility_timeout: seconds for which none of it may become visible.
        gtid: the GTID of its transaction, so that the change feed need not receive it; empty for
            one of the server's own.
    """

    number: int
    label: str
    connection: ConnectionOptions
    sql: str
    lock: str
    time_zone: str = ""
    makes_dates: bool = False
    recomputed: frozenset[str] = frozenset()
    quiet: bool = False
    visibility: str = ""
    visibility_timeout: float = 60.0
    gtid: str = ""


@dataclass(frozen=True, kw_only=True)
class CopyResult:
    """What a copied chunk cost.

    Attributes:
        rows: rows read and written.
        seconds: the statements alone, without waiting for lock and visibility.
        waited: seconds of those waits.
        retries: transient faults that were met and overcome.
        session: the server session that did it.
    """

    number: int
    rows: int
    seconds: float
    waited: float = 0.0
    retries: int = 0
    session: int = 0


class LostValue(ValueLost):
    """A :class:`~spirit_py.errors.ValueLost` that knows which row of the chunk it was.

    Attributes:
        chunk: the chunk's number.
        code: MySQL's error number.
        row: counted from 1 in key order, as the server says "at row"; 0 when it does not.
        column: the new table's column; empty when the server does not name it.
    """

    def __init__(
        self, message: str, *, chunk: int, code: int, row: int, column: str, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.chunk = chunk
        self.row = row
        self.column = column


_session: Session | None = None
_session_of: ConnectionOptions | None = None


def copy_chunk(task: CopyTask) -> CopyResult:
    """Copy one chunk and commit it. Doing it twice is harmless.

    Raises:
        ValueLost: when a value cannot be stored as it is (R10).
        CopyFailure: when the chunk cannot be copied.
        ServerFault: when the server does not answer for long.
    """
    retries = 0

    def note(_attempt: int, _fault: BaseException) -> None:
        nonlocal retries
        retries += 1

    retrier = retrying(StopSwitch(), attempts=_ATTEMPTS, first_pause=0.05, on_retry=note)
    try:
        result = retrier(_attempt, task)
    except BaseException as error:
        # The driver ends the sessions that it knows of from results; this has none.
        close_session()
        if isinstance(error, ServerFault):
            raise _explained(task, error) from error
        raise
    return CopyResult(**{**result.__dict__, "retries": retries})


def close_session() -> None:
    """Close this process's session, if there is one."""
    global _session, _session_of
    session, _session, _session_of = _session, None, None
    if session is not None:
        session.close()


def _session_for(task: CopyTask) -> Session:
    """Return the session of this process, a new one when the last is lost or was for another."""
    global _session, _session_of
    if _session is not None and _session_of == task.connection:
        return _session
    close_session()
    _session = connect(task.connection, role="chunk", wait_timeout=_IDLE_SECONDS)
    _session_of = task.connection
    return _session


def _attempt(task: CopyTask) -> CopyResult:
    began = time.monotonic()
    session = _session_for(task)
    try:
        if not take_named_lock(session, task.lock, timeout=_FENCE_SECONDS):
            raise ServerFault(
                LOCK_WAIT_TIMEOUT,
                f"an earlier attempt at {task.label} still runs on the server",
                where=f"chunk session at {session.address}",
            )
        try:
            _wait_until_visible(session, task)
            points.reach("chunk.executing")
            reading = time.monotonic()
            rows = _run(session, task)
            ended = time.monotonic()
            points.reach("chunk.executed")
        finally:
            with contextlib.suppress(ServerFault):
                session.query("SELECT RELEASE_LOCK(%s)", (task.lock,))
    except BaseException as error:
        # After an unexpected error the session's state is unknown as well.
        if connection_lost(error) or not isinstance(error, ServerFault):
            close_session()
        raise
    return CopyResult(
        number=task.number,
        rows=rows,
        seconds=ended - reading,
        waited=reading - began,
        session=session.id,
    )


def _wait_until_visible(session: Session, task: CopyTask) -> None:
    """Wait until every transaction whose rows were dropped can be read by this session (R3)."""
    if not task.visibility:
        return
    wait = "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)"
    missing, left = None, str(session.value(_MISSING, (task.visibility,)))
    # The limit starts again whenever more of them have become visible.
    while left and left != missing:
        if not session.value(wait, (left, str(task.visibility_timeout))):
            return
        missing, left = left, str(session.value(_MISSING, (task.visibility,)))
    if left:
        raise CopyFailure(
            f"{task.label}: transactions that the change feed has seen are not visible"
            f" after {task.visibility_timeout:.0f} s",
            hint="look for stalled commits on the server (semi-synchronous replication), then"
            " run the same command again",
        )


def _run(session: Session, task: CopyTask) -> int:
    """Run the statement in its time zone and mode; return the chunk's rows."""
    with evaluating(session, task), committing_as(session, task.gtid):
        affected = session.execute(task.sql)
        records = _records(session.info, affected)
        _refuse_warnings(session, task)
    return records


def _records(info: str, affected: int) -> int:
    """Read the rows from ``Records: 3  Duplicates: 1  Warnings: 0``; replaced rows count once."""
    found = re.search(r"Records: (\d+)", info)
    return int(found.group(1)) if found else affected


def _refuse_warnings(session: Session, task: CopyTask) -> None:
    """Take any warning for the loss of a value (R10)."""
    for _level, code, text in telling(session, task.recomputed):
        if code in PACKET_TOO_SMALL:
            raise PacketTooSmall(f"{task.label}: {text} (error {code})", hint=RAISE_PACKET)
        if code != DEPRECATED:
            raise _lost_value(task, code, text)


def _explained(task: CopyTask, fault: ServerFault) -> Exception:
    if fault.code in VALUE_ERRORS:
        return _lost_value(task, fault.code, fault.text)
    return CopyFailure(
        f"{task.label} could not be copied: {fault.message}",
        hint=fault.hint or "see the server's error log, then run the same command again",
    )


def _lost_value(task: CopyTask, code: int, text: str) -> LostValue:
    column, row = _COLUMN.search(text), _ROW.search(text)
    return LostValue(
        f"{task.label}: {text} (error {code})",
        chunk=task.number,
        code=code,
        column=column.group(1) if column else "",
        row=int(row.group(1)) if row else 0,
        hint="change the row in the source, then run the same command again: it carries on; or"
        " change the ALTER, which starts from the beginning",
    )
