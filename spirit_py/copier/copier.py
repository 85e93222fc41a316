"""The driver of the copy: cut a chunk, dispatch it in the change feed, have it copied, measure.

Everything here runs in the one thread that called :meth:`Copier.run`, except
:meth:`Copier.statistics`.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.chunk.chunk import KeyBound
from spirit_py.chunk.watermark import CommittedPrefix, CopiedSoFar
from spirit_py.copier.chunk_sql import chunk_lock, copy_sql, row_lookup_sql
from spirit_py.copier.fence import end_chunks, end_earlier_chunks
from spirit_py.copier.meter import CopyMeter, CopyStatistics
from spirit_py.copier.task import (
    CopyResult,
    CopyTask,
    LostValue,
    copy_chunk,
)
from spirit_py.errors import ServerFault, SpiritError, ValueLost
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import kill_own
from spirit_py.mysql.ownwrites import own_uuid
from spirit_py.mysql.retry import PATIENCE, retrying
from spirit_py.mysql.values.lost_values import NULL_REFUSED
from spirit_py.spark.waves import Pull, WavePlan, WaveRunner
from spirit_py.table.values import bound_from_row, key_select_expressions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.chunk.chunk import Chunk
    from spirit_py.chunk.chunker import Chunker
    from spirit_py.chunk.composite import BoundaryQuery
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock, FeedStatistics, Subscription
    from spirit_py.spark.waves import WaveEngine
    from spirit_py.stop import StopSwitch
    from spirit_py.table.mapping import TableMapping

_log = logging.getLogger(__name__)

_KILL_SECONDS: Final = 5.0
#: An executor may try a killed chunk once more before Spark has killed the executor's process.
_QUIET_SECONDS: Final = 1.5


@dataclass(frozen=True, kw_only=True)
class CopyOptions:
    """How to copy.

    Attributes:
        slots: chunks at a time.
        target_chunk_time: seconds that one chunk should take.
        visibility_timeout: seconds for which commits may stall while a chunk waits for the
            transactions of R3.
        own_writes: the run whose identifiers the chunks commit under, so that its change feed need
            not receive them; see :mod:`spirit_py.mysql.ownwrites`. Empty for the server's own.
        grace: seconds that running chunks have to end after a stop or a failure.
    """

    slots: int
    target_chunk_time: float = 0.5
    visibility_timeout: float = PATIENCE
    own_writes: str = ""
    grace: float = 3.0


class Copier:
    """Copies one table; use once.

    Args:
        engine: Spark, started or starting.
        query: Runs a SELECT in a driver session, to name the row of an error.
        subscription: Learns of every chunk before it is handed out and after it committed.
        throttled: returns the reason to wait now, or an empty text; asked before every chunk.
        stop: When requested, nothing more is handed out, and :meth:`run` raises its reason.
        before: What earlier runs have copied; the chunker begins above it.
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
        throttled: Callable[[], str],
        stop: StopSwitch,
        options: CopyOptions,
        before: CopiedSoFar | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._engine = engine
        self._mapping = mapping
        self._connection = connection
        self._chunker = chunker
        self._query = query
        self._subscription = subscription
        self._throttled = throttled
        self._stop = stop
        self._options = options
        self._clock = clock
        self._before = before = before or CopiedSoFar()
        self._so_far = before
        self._meter = CopyMeter(
            options.target_chunk_time, clock, rows=before.rows, chunks=before.chunks
        )
        self._prefix = CommittedPrefix(KeyBound(literals=before.up_to) if before.up_to else None)
        self._fraction_before = min(1.0, before.rows / max(mapping.source.estimated_rows, 1))
        self._chunks: dict[int, Chunk] = {}
        #: Server sessions that executors keep open between chunks.
        self._sessions: set[int] = set()

    def run(self) -> None:
        """Copy every row that exists. Blocks until the last chunk has committed.

        Raises:
            ValueLost: naming the column and, where it can be found, the row (R10).
            CopyFailure: when a chunk could not be copied.
            SpiritError: the reason of the stop switch.
        """
        self._meter.begin()
        retrying(self._stop)(end_earlier_chunks, self._connection, self._mapping)
        plan: WavePlan[CopyTask, CopyResult] = WavePlan(
            function=copy_chunk,
            pull=self._pull,
            on_result=self._committed,
            describe=self._describe,
            on_abandon=self._end_on_server,
            group=f"spirit-py copy {self._table}",
            settled=lambda: self._meter.settled,
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
            self._meter.end()
            self._end_sessions()
        self._subscription.copy_finished()
        self._so_far = self._so_far.ended()

    def statistics(self) -> CopyStatistics:
        """Return the figures as they are now. No I/O; any thread may ask."""
        return self._meter.statistics()

    def so_far(self) -> CopiedSoFar:
        """Return what is copied without a gap, in all runs. No I/O; any thread may ask."""
        return self._so_far

    def _fraction(self) -> float:
        """Return the fraction of the table that is cut, earlier runs included."""
        before = self._fraction_before
        return before + (1 - before) * self._chunker.estimated_fraction()

    @property
    def _table(self) -> str:
        return f"{self._mapping.source.schema}.{self._mapping.source.name}"

    def _pull(self) -> CopyTask | Pull:
        reason = self._throttled()
        self._meter.throttled(reason)
        if reason:
            return Pull.WAIT
        chunk = self._chunker.next_chunk(self._meter.next_rows)
        if chunk is None:
            return Pull.END
        visibility = self._subscription.dispatch(chunk)
        self._prefix.dispatch(chunk)
        points.reach("chunk.dispatched")
        self._chunks[chunk.number] = chunk
        self._meter.dispatched(self._fraction())
        return CopyTask(
            number=chunk.number,
            label=f"chunk {chunk.number} of {self._table}",
            connection=self._connection,
            sql=copy_sql(self._mapping, chunk),
            time_zone=self._mapping.time_zone,
            makes_dates=self._mapping.makes_dates,
            recomputed=self._mapping.recomputed,
            quiet=self._mapping.quiet,
            lock=chunk_lock(self._mapping, chunk),
            visibility=visibility,
            visibility_timeout=self._options.visibility_timeout,
            gtid=self._gtid(chunk),
        )

    def _gtid(self, chunk: Chunk) -> str:
        """Return the GTID of a chunk's transaction: numbers without gaps, one for each chunk."""
        run = self._options.own_writes
        if not run:
            return ""
        source = self._mapping.source
        return f"{own_uuid(run, source.schema, source.name)}:{chunk.number + 1}"

    def _committed(self, task: CopyTask, result: CopyResult) -> None:
        points.reach("chunk.committed")
        chunk = self._chunks.pop(task.number)
        self._subscription.committed(chunk)
        self._prefix.committed(chunk, result.rows)
        self._so_far = self._before.extended_by(self._prefix)
        self._sessions.add(result.session)
        self._chunker.observed(chunk, result.rows)
        self._meter.committed(
            target_rows=chunk.target_rows,
            rows=result.rows,
            seconds=result.seconds,
            retries=result.retries,
        )

    def _describe(self, tasks: Sequence[CopyTask]) -> str:
        """Return what a job copies, for Spark's UI: the key range, nothing secret (R20)."""
        first, last = self._chunks[tasks[0].number], self._chunks[tasks[-1].number]
        low = ", ".join(first.lower.literals) if first.lower else "-inf"
        high = ", ".join(last.upper.literals) if last.upper else "+inf"
        return f"copy of {self._table}, chunks {first.number} to {last.number}: ({low}; {high}]"

    def _end_on_server(self, tasks: Sequence[CopyTask]) -> None:
        if not tasks:
            return
        try:
            with connect(self._connection, role="fence") as session:
                end_chunks(
                    session,
                    [task.lock for task in tasks],
                    of=self._table,
                    timeout=_KILL_SECONDS,
                    quiet=_QUIET_SECONDS,
                )
        except SpiritError as error:
            _log.warning("running chunks could not be ended on the server: %s", error)

    def _end_sessions(self) -> None:
        try:
            with connect(self._connection, role="fence") as session:
                for number in self._sessions:
                    kill_own(session, number)
        except SpiritError as error:
            _log.warning("idle chunk sessions could not be ended: %s", error)

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
        # RENAME TABLE will give the table its original names of constraints again.
        made, final = (
            f"'{table.name}_chk_" for table in (self._mapping.target, self._mapping.source)
        )
        return ValueLost(error.message.replace(made, final), hint=error.hint, details=details)

    def _lookup_sql(self, error: LostValue) -> str:
        """Render the query for the row of a lost value; empty when there is no clue."""
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


def backlog_reason(feed: FeedStatistics) -> str:
    """Return why the copy waits for the change feed (R19); empty when it does not.

    The copy adds to the binlog that the feed has to read. So it pauses while the feed cannot keep
    up with the application.
    """
    if not feed.backpressure:
        return ""
    return f"the change feed, which has {feed.pending} changes to apply before it reads on"
