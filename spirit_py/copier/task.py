"""A copy's resident task: one MySQL session that copies chunk after chunk, as it is ordered.

A member of a gang (:mod:`spirit_py.spark.gang`), perhaps on another machine: it imports rules and
mysql only. A chunk is one transaction for each part, reported after the last: until then the feed
holds changes, deletes included (R4). So a part may be tried again after a transient fault, and a
chunk whose task was lost is copied again, even if all was committed.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from spirit_py import points
from spirit_py.chunk.chunk import decode_chunk, encode_chunk
from spirit_py.chunk.chunker import boundary_sql
from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.copier.chunk_sql import chunk_lock, copy_sql, copying_slots, source_range
from spirit_py.copier.meter import ChunkCopied, LostValue
from spirit_py.errors import CopyFailure, PacketTooSmall, ServerFault, WorkersLost
from spirit_py.locks.look import LockedBy
from spirit_py.mysql import faults
from spirit_py.mysql.connect import connect
from spirit_py.mysql.evaluation import evaluating
from spirit_py.mysql.facts import RowsRead
from spirit_py.mysql.grants import access_remedy
from spirit_py.mysql.lost_values import DEPRECATED, VALUE_ERRORS, numbers_used_up, telling
from spirit_py.mysql.own_sessions import committing_as, take_slot
from spirit_py.mysql.retry import TaskRest, retrying
from spirit_py.table.values import bound_from_row
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.chunk.chunk import Chunk
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.table.mapping import TableMapping

_T = TypeVar("_T")
_Member = TypeVar("_Member", bound="ChunkWriter")

#: A chunk waits this long for an earlier attempt's session to end (R18).
_FENCE_SECONDS: Final = 120
_ATTEMPTS: Final = 8
SESSION_SECONDS: Final = 86_400

#: 1 with the chunk's lock, 0 when another session has it, -1 when the gang was given up. IF
#: evaluates its branch last, so the licence is looked up under the chunk's lock.
_TAKE_LOCK: Final = "SELECT IF(GET_LOCK(%s, %s), IF(IS_USED_LOCK(%s) IS NULL, -1, 1), 0)"
_RELEASE_LOCK: Final = "SELECT RELEASE_LOCK(%s) IS NOT NULL AND IS_USED_LOCK(%s) = CONNECTION_ID()"
_HINT: Final = (
    "change the row in the source, then run the same command again: it resumes; or change the"
    " ALTER, and begin again with --start-afresh"
)
_JUDGED: Final = "; or what --keep computes is no answer for a row: it is judged in strict mode"
_MISSING: Final = "SELECT GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed)"


@dataclass(frozen=True, kw_only=True)
class ChunkOrder:
    """One chunk's order; ``visibility`` are GTIDs to wait for before reading (R3), or empty.

    ``gtid``: the first part's; the next ones count on. ``rest``: seconds for each second of a part.
    """

    chunk: Chunk
    visibility: str = ""
    gtid: str = ""
    rest: float = 0.0

    def encode(self) -> str:
        """Return the order's text."""
        return json.dumps({**vars(self), "chunk": encode_chunk(self.chunk)})

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read an order's text."""
        said = json.loads(text)
        return cls(**{**said, "chunk": decode_chunk(said["chunk"])})

    def gtid_of(self, part: int) -> str:
        """Return the GTID of a part's transaction; empty for the server's own."""
        if not self.gtid:
            return ""
        uuid, _, number = self.gtid.rpartition(":")
        return f"{uuid}:{int(number) + part}"


@dataclass(frozen=True, kw_only=True)
class JoinCopy:
    """Opens the session of one task. Picklable; only the connection options hold the password."""

    connection: ConnectionOptions
    mapping: TableMapping
    licence: str = ""
    visibility_timeout: float = 60.0

    def __call__(self, _rank: int) -> ChunkWriter:
        """Return the member of that rank."""
        return self.joined(lambda session: ChunkWriter(self, session))

    def reach(self, _server: str) -> ConnectionOptions:
        """Return the options of the server on which a member has a session."""
        return self.connection

    def joined(self, made: Callable[[Session], _Member]) -> _Member:
        """Open the session that writes, found by a slot of the table (R18), and make its member."""
        session = connect(self.connection, role="chunk", wait_timeout=SESSION_SECONDS)
        try:
            slots = copying_slots(self.mapping, self.connection.origin)
            take_slot(session.query, session.id, slots)
            return made(session)
        except BaseException:
            session.close()
            raise


class ChunkWriter:
    """A task's session and what it does; with the session it ends."""

    def __init__(self, spec: JoinCopy, session: Session) -> None:
        self.session: SqlSession = session
        self.sessions: Sequence[tuple[str, int]] = [("source", session.id)]
        self._own = session
        #: What reads the source; on its server.
        self._reader = session
        self._spec = spec
        self._rest = TaskRest()
        self._locked = LockedBy.of(spec.connection, spec.mapping)
        tables = spec.mapping.source.quoted, spec.mapping.target.quoted
        counts = spec.mapping.keep is not None and not spec.mapping.apart
        #: What the session reads, where some of it is left out.
        self._read = RowsRead(session, *tables) if counts else None
        self._settings = contextlib.ExitStack()
        if not spec.mapping.apart:
            self._settings.enter_context(evaluating(session, spec.mapping))

    def handle(self, order: str) -> str:
        """Copy one chunk, commit its parts, and report it. Doing it twice is harmless."""
        return self._copy(ChunkOrder.decode(order)).encode()

    def result(self) -> None:
        """Return nothing: every chunk was answered."""

    def close(self) -> None:
        """Close the session."""
        self._own.close()

    def _copy(self, order: ChunkOrder) -> ChunkCopied:
        chunk, retries = order.chunk, 0

        def note(_attempt: int, _fault: BaseException) -> None:
            nonlocal retries
            retries += 1

        def step(work: Callable[..., _T], *given: Any) -> _T:
            def once() -> _T:
                try:
                    return work(*given)
                except ServerFault as fault:
                    if faults.connection_lost(fault):
                        # Not tried again: the task ends with its session.
                        raise WorkersLost(fault.message) from fault
                    raise

            again = retrying(
                StopSwitch(),
                attempts=_ATTEMPTS,
                first_pause=0.05,
                on_retry=note,
                locked=self._locked,
            )
            return again(once)

        lock = chunk_lock(self._spec.mapping, chunk, self._spec.connection.origin)
        part = 0
        try:
            step(self._take_lock, lock, self._label(chunk))
            step(self._wait_until_visible, order)
            points.reach("chunk.executing")
            rows, left_out, seconds = 0, 0, 0.0
            left = list(enumerate(chunk.parts))
            while left:
                part, piece = left.pop(0)
                if part:
                    points.reach("chunk.part")
                self._rest.take()
                began = time.monotonic()
                try:
                    read, written = step(self._write, order, part, piece)
                except ServerFault as fault:
                    # The rows of a table may be longer here than on average.
                    left[:0] = [(part, half) for half in step(self._halves, piece, fault)]
                    continue
                except LostValue as lost:
                    if piece not in chunk.parts:
                        # It is looked up in the whole part.
                        lost.row = 0
                    raise
                rows, left_out = rows + read, left_out + read - written
                spent = time.monotonic() - began
                seconds += spent
                self._rest.owe(spent, order.rest)
            points.reach("chunk.executed")
            step(self._release, lock)
        except ServerFault as fault:
            raise self._explained(chunk, part, fault) from fault
        return ChunkCopied(
            number=chunk.number, rows=rows, left_out=left_out, seconds=seconds, retries=retries
        )

    def _release(self, lock: str) -> None:
        """Release the chunk's lock as often as it was taken, by interrupted attempts too."""
        while self._own.value(_RELEASE_LOCK, (lock, lock)):
            pass

    def _take_lock(self, lock: str, label: str) -> None:
        """Take the chunk's lock; refuse when the driver has given the gang up (R18)."""
        taken = self._own.value(_TAKE_LOCK, (lock, _FENCE_SECONDS, self._spec.licence))
        if taken == 0:
            raise ServerFault(
                faults.LOCK_WAIT_TIMEOUT,
                f"an earlier attempt at {label} still runs on the server",
                where=f"chunk session at {self._own.address}",
            )
        if taken != 1:
            raise WorkersLost(f"{label}: the driver has given up this task")

    def _wait_until_visible(self, order: ChunkOrder) -> None:
        """Wait until every transaction whose rows were dropped can be read by this session (R3)."""
        if not order.visibility:
            return
        timeout = self._spec.visibility_timeout
        wait = "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)"
        missing, left = None, str(self._reader.value(_MISSING, (order.visibility,)))
        # The limit starts again whenever more have become visible.
        while left and left != missing:
            # NULL: it could not wait.
            if self._reader.value(wait, (left, str(timeout))) == 0:
                return
            missing, left = left, str(self._reader.value(_MISSING, (order.visibility,)))
        if left:
            raise CopyFailure(
                f"{self._label(order.chunk)}: transactions that the change feed has seen are not"
                f" visible after {timeout:.0f} s",
                hint="look for stalled commits on the server (semi-synchronous replication), then"
                " run the same command again",
                error_code=ErrorCode.COMMITS_STALLED,
            )

    def _write(self, order: ChunkOrder, part: int, piece: Chunk) -> tuple[int, int]:
        """Write a part; return how many rows of the source were read, and written."""
        sql = copy_sql(self._spec.mapping, piece)
        if self._read is not None:
            self._read.since()
        with committing_as(self._own, order.gtid_of(part)):
            affected = self._own.execute(sql)
            # As in "Records: 3  Duplicates: 1  Warnings: 0"; replaced ones count once.
            found = re.search(r"Records: (\d+)", self._own.info)
            self._refuse_warnings(order.chunk, part)
        written = int(found[1]) if found else affected
        return max(written, self._read.since() if self._read is not None else 0), written

    def _halves(self, piece: Chunk, fault: ServerFault) -> tuple[Chunk, Chunk]:
        """Divide what is too large for a transaction; raise the fault for others and single rows.

        Only the first half commits under the part's own GTID.
        """
        mapping = replace(self._spec.mapping, keep=None)
        if not faults.too_large(fault):
            raise fault
        rows = int(self._reader.value(f"SELECT COUNT(*) FROM {source_range(mapping, piece)}"))
        found = self._reader.query(boundary_sql(mapping, piece, rows // 2)) if rows > 1 else []
        if not found:
            raise fault
        middle = bound_from_row(mapping.key_columns, found[0])
        return replace(piece, upper=middle), replace(piece, lower=middle)

    def _refuse_warnings(self, chunk: Chunk, part: int) -> None:
        for _level, code, text in telling(self._own, self._spec.mapping.recomputed):
            if code in faults.PACKET_TOO_SMALL:
                message = f"{self._label(chunk)}: {text} (error {code})"
                raise PacketTooSmall(message, hint=faults.RAISE_PACKET)
            if code != DEPRECATED:
                raise self._lost_value(chunk, part, code, text)

    def _explained(self, chunk: Chunk, part: int, fault: ServerFault) -> Exception:
        if fault.code in VALUE_ERRORS:
            return self._lost_value(chunk, part, fault.code, fault.text)
        if (used_up := numbers_used_up(fault, self._spec.mapping)) is not None:
            return used_up
        # The server's fault stays in the executor: only this error is sent.
        code, hint = access_remedy(fault) or (None, fault.hint)
        return CopyFailure(
            f"{self._label(chunk)} could not be copied: {fault.message}",
            hint=hint or "see the server's error log, then run the same command again",
            error_code=code,
        )

    def _lost_value(self, chunk: Chunk, part: int, code: int, text: str) -> LostValue:
        name = self._spec.mapping.source.full_name
        message = f"a value of {name} does not fit: {text} (error {code})"
        judged = "" if self._spec.mapping.keep is None else _JUDGED
        hint = _HINT + judged
        return LostValue(message, text, chunk=chunk.number, part=part, code=code, hint=hint)

    def _label(self, chunk: Chunk) -> str:
        return f"chunk {chunk.number} of {self._spec.mapping.source.full_name}"
