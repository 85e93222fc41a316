"""The driver of the copy: cut a chunk, open it in the change feed, have it copied, learn.

Everything here runs in the one thread that called :meth:`Copier.run`, except
:meth:`Copier.statistics`, which any thread may call.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py.chunk.sizing import ChunkSizer
from spirit_py.copier.fence import chunk_locks_held, end_chunks
from spirit_py.copier.sql import chunk_lock, chunk_lock_prefix, copy_sql, row_lookup_sql
from spirit_py.copier.task import (
    NULL_REFUSED,
    CopyResult,
    CopyTask,
    LostValue,
    copy_chunk,
)
from spirit_py.errors import CopyFailure, ServerFault, SpiritError, ValueLost
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import kill_session
from spirit_py.spark.waves import Pull, WavePlan, WaveRunner
from spirit_py.table.values import bound_from_row, key_select_expressions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.chunk.chunk import Chunk
    from spirit_py.chunk.composite import BoundaryQuery
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Chunker, Clock, SqlSession, Subscription, Throttler
    from spirit_py.spark.waves import WaveEngine
    from spirit_py.stop import StopSwitch
    from spirit_py.table.mapping import TableMapping

_log = logging.getLogger(__name__)

_KILL_SECONDS: Final = 5.0
#: An executor may try a killed chunk once more before Spark has killed the executor's process.
_QUIET_SECONDS: Final = 1.5
_RATE_SECONDS: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class CopyOptions:
    """How to copy.

    Attributes:
        slots: chunks at a time.
        target_chunk_time: seconds that one chunk should take.
        visibility_timeout: seconds that a chunk waits for the transactions of R3.
        setup: statements for every chunk session, such as ``SET gtid_next='AUTOMATIC:tag'``.
        grace: seconds that running chunks have to end after a stop or a failure.
    """

    slots: int
    target_chunk_time: float = 0.5
    visibility_timeout: float = 60.0
    setup: tuple[str, ...] = ()
    grace: float = 3.0


@dataclass(frozen=True, kw_only=True)
class CopyStatistics:
    """How the copy goes. Rows and chunks are counted when they have committed.

    Attributes:
        fraction: how much has been cut, 0.0 to 1.0, an estimate.
        rows_per_second: over the last ten seconds or so; None before there is a figure.
        chunk_seconds_p90: of the last chunks; None before the first.
        chunk_rows: what the next chunk aims at.
        throttled: why the copy waits now; empty when it does not.
        replaced_chunks: chunk attempts that met a transient fault and were repeated.
    """

    rows: int = 0
    chunks: int = 0
    seconds: float = 0.0
    chunk_seconds: float = 0.0
    fraction: float = 0.0
    rows_per_second: float | None = None
    chunk_seconds_p90: float | None = None
    chunk_rows: int = 0
    in_flight: int = 0
    throttled: str = ""
    throttled_seconds: float = 0.0
    replaced_chunks: int = 0


class Copier:
    """Copies one table; use once.

    Args:
        engine: Spark, started or starting.
        query: Runs a SELECT in a driver session, to name the row of an error.
        subscription: Told of every chunk before it is handed out and after it committed.
        throttler: Asked before every chunk.
        stop: When requested, nothing more is handed out, and :meth:`run` raises its reason.
    """

    def __init__(
        self,
        *,
        engine: WaveEngine,
        mapping: TableMapping,
        connection: ConnectionOptions,
        chunker: Chunker,
        query: BoundaryQuery,
        subscription: Subscription,
        throttler: Throttler,
        stop: StopSwitch,
        options: CopyOptions,
        clock: Clock = time.monotonic,
    ) -> None:
        self._engine = engine
        self._mapping = mapping
        self._connection = connection
        self._chunker = chunker
        self._query = query
        self._subscription = subscription
        self._throttler = throttler
        self._stop = stop
        self._options = options
        self._clock = clock
        self._sizer = ChunkSizer(options.target_chunk_time)
        self._chunks: dict[int, Chunk] = {}
        #: Server sessions that executors hold open between chunks.
        self._sessions: set[int] = set()
        self._lock = threading.Lock()
        self._began: float | None = None
        self._ended: float | None = None
        self._rows = 0
        self._done = 0
        self._chunk_seconds = 0.0
        self._retried = 0
        self._throttled = ""
        self._throttled_since: float | None = None
        self._throttled_seconds = 0.0
        #: (time, rows so far), the last few seconds of it.
        self._history: list[tuple[float, int]] = []
        self._fraction = 0.0

    def run(self) -> None:
        """Copy every row that exists. Blocks until the last chunk has committed.

        Raises:
            ValueLost: naming the column and, where it can be found, the row (R10).
            CopyFailure: when a chunk could not be copied.
            SpiritError: the reason of the stop switch.
        """
        self._began = self._clock()
        self._fence_earlier_run()
        plan: WavePlan[CopyTask, CopyResult] = WavePlan(
            function=copy_chunk,
            pull=self._pull,
            on_result=self._committed,
            describe=self._describe,
            on_abandon=self._end_on_server,
            group=f"spirit-py copy {self._table}",
            grace=self._options.grace,
        )
        runner = WaveRunner(
            self._engine, plan, slots=self._options.slots, stop=self._stop, clock=self._clock
        )
        try:
            runner.run()
        except LostValue as error:
            raise self._named(error) from error
        finally:
            self._ended = self._clock()
            self._end_sessions()
        self._subscription.copy_finished()

    def statistics(self) -> CopyStatistics:
        """Give the figures as they are now. No I/O."""
        with self._lock:
            now = self._clock() if self._ended is None else self._ended
            return CopyStatistics(
                rows=self._rows,
                chunks=self._done,
                seconds=0.0 if self._began is None else now - self._began,
                chunk_seconds=self._chunk_seconds,
                fraction=self._fraction,
                rows_per_second=self._rate(now),
                chunk_seconds_p90=self._sizer.p90,
                chunk_rows=self._sizer.rows,
                in_flight=len(self._chunks),
                throttled=self._throttled,
                throttled_seconds=self._throttled_seconds
                + (0.0 if self._throttled_since is None else now - self._throttled_since),
                replaced_chunks=self._retried,
            )

    @property
    def _table(self) -> str:
        return f"{self._mapping.source.schema}.{self._mapping.source.name}"

    def _pull(self) -> CopyTask | Pull:
        """Cut the next chunk and open it in the change feed, unless the copy must wait."""
        reason = self._throttler.throttled()
        self._note_throttle(reason)
        if reason:
            return Pull.WAIT
        chunk = self._chunker.next_chunk(self._sizer.rows)
        if chunk is None:
            return Pull.END
        visibility = self._subscription.dispatch(chunk)
        with self._lock:
            self._chunks[chunk.number] = chunk
            self._fraction = self._chunker.estimated_fraction()
        return CopyTask(
            number=chunk.number,
            label=f"chunk {chunk.number} of {self._table}",
            connection=self._connection,
            sql=copy_sql(self._mapping, chunk),
            time_zone=self._mapping.time_zone,
            lock=chunk_lock(self._mapping, chunk),
            visibility=visibility,
            visibility_timeout=self._options.visibility_timeout,
            setup=self._options.setup,
        )

    def _committed(self, task: CopyTask, result: CopyResult) -> None:
        """Close a chunk in the change feed and learn from it."""
        with self._lock:
            chunk = self._chunks.pop(task.number)
        self._subscription.committed(chunk)
        self._sessions.add(result.session)
        self._chunker.observed(chunk, result.rows)
        with self._lock:
            self._sizer.finished(
                target_rows=chunk.target_rows, rows=result.rows, seconds=result.seconds
            )
            self._rows += result.rows
            self._done += 1
            self._chunk_seconds += result.seconds
            self._retried += result.retries
            now = self._clock()
            self._history.append((now, self._rows))
            while self._history[0][0] < now - _RATE_SECONDS:
                del self._history[0]

    def _rate(self, now: float) -> float | None:
        """Give the rows a second of the last seconds."""
        if len(self._history) < 2:
            return None
        (since, before), (_, rows) = self._history[0], self._history[-1]
        return (rows - before) / max(now - since, 1e-3)

    def _note_throttle(self, reason: str) -> None:
        """Keep why and for how long the copy waits."""
        with self._lock:
            now = self._clock()
            if reason and self._throttled_since is None:
                self._throttled_since = now
            if not reason and self._throttled_since is not None:
                self._throttled_seconds += now - self._throttled_since
                self._throttled_since = None
            self._throttled = reason

    def _describe(self, tasks: Sequence[CopyTask]) -> str:
        """Say what a job copies, for Spark's UI: the key range, nothing secret (R20)."""
        with self._lock:
            first, last = self._chunks.get(tasks[0].number), self._chunks.get(tasks[-1].number)
        if first is None or last is None:
            return f"copy of {self._table}"
        low = ", ".join(first.lower.literals) if first.lower else "-inf"
        high = ", ".join(last.upper.literals) if last.upper else "+inf"
        return f"copy of {self._table}, chunks {first.number} to {last.number}: ({low}; {high}]"

    def _fence_earlier_run(self) -> None:
        """End what an earlier run may still have running on the server (R18)."""
        prefix = chunk_lock_prefix(self._mapping)
        with connect(self._connection, role="fence") as session:
            locks = list(chunk_locks_held(session, prefix))
            self._end(locks, session)
        if locks:
            _log.info("ended %d chunks of an earlier run", len(locks))

    def _end_on_server(self, tasks: Sequence[CopyTask]) -> None:
        """Kill the sessions of chunks that are no longer wanted."""
        if not tasks:
            return
        try:
            with connect(self._connection, role="fence") as session:
                self._end([task.lock for task in tasks], session, quiet=_QUIET_SECONDS)
        except SpiritError as error:
            _log.warning("running chunks could not be ended on the server: %s", error)

    def _end_sessions(self) -> None:
        """End the idle sessions of the executors; nothing copies any more."""
        try:
            with connect(self._connection, role="fence") as session:
                for number in self._sessions:
                    kill_session(session, number)
        except SpiritError as error:
            _log.warning("idle chunk sessions could not be ended: %s", error)

    def _end(self, locks: Sequence[str], session: SqlSession, *, quiet: float = 0.0) -> None:
        """End the holders of chunk locks.

        Raises:
            CopyFailure: when a session does not end: its chunk may still be written.
        """
        left = end_chunks(session, locks, timeout=_KILL_SECONDS, quiet=quiet)
        if left:
            raise CopyFailure(
                f"{len(left)} chunk sessions of {self._table} do not end on the server",
                hint="look for sessions with @spirit_py_role = 'chunk' and KILL them",
            )

    def _named(self, error: LostValue) -> ValueLost:
        """Name the row of a lost value by its key, where it can still be found."""
        columns = self._mapping.key_columns
        details = error.details
        try:
            sql = self._lookup_sql(error)
            found = self._query(sql) if sql else []
        except ServerFault as fault:
            _log.debug("the row could not be looked up: %s", fault)
            found = []
        if found:
            literals = bound_from_row(columns, found[0]).literals
            key = ", ".join(
                f"{column.name} = {literal}"
                for column, literal in zip(columns, literals, strict=True)
            )
            details = (*details, f"in or near the row with {key}")
        return ValueLost(error.message, hint=error.hint, details=details)

    def _lookup_sql(self, error: LostValue) -> str:
        """Render the query for the row of a lost value; empty when there is no clue."""
        with self._lock:
            chunk = self._chunks.get(error.chunk)
        pair = next((p for p in self._mapping.pairs if p.new.name == error.column), None)
        if chunk is None:
            return ""
        expressions = key_select_expressions(self._mapping.key_columns)
        if error.row:
            return row_lookup_sql(self._mapping, chunk, expressions, row=error.row)
        if error.code == NULL_REFUSED and pair is not None:
            return row_lookup_sql(self._mapping, chunk, expressions, null=pair.old.name)
        return ""
