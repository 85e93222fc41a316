"""The driver of the copy: one thread reads keys, cuts a chunk, dispatches it, measures (R17).

Changes up to the last key that a run copied are not dropped, as the copy only adds rows
(docs/decisions.md). Read it when no session of the earlier run can write, and before the feed
begins.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spirit_py import points
from spirit_py.chunk.chunk import chunk_predicate, walk_directions
from spirit_py.chunk.sizing import part_rows
from spirit_py.chunk.watermark import CopiedSoFar, OpenEnd
from spirit_py.classes import KW_ONLY, dataclass, field
from spirit_py.copier.crew import Crew
from spirit_py.copier.fence import CopyOrder, end_earlier_chunks
from spirit_py.copier.meter import ChunkCopied, CopyMeter, CopyStatistics, LostValue
from spirit_py.copier.task import ChunkOrder, JoinCopy
from spirit_py.locks.look import LockedBy
from spirit_py.mysql.connect import connect
from spirit_py.mysql.own_sessions import own_uuid
from spirit_py.mysql.retry import PATIENCE, RenewedSession, patiently, retrying
from spirit_py.pace import Work
from spirit_py.sql import quote_identifier
from spirit_py.table.keys import comparable
from spirit_py.table.values import key_from_row, key_select_expressions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spirit_py.chunk.chunk import Chunk, KeyRange
    from spirit_py.chunk.chunker import BoundaryQuery
    from spirit_py.chunk.lanes import LaneChunker
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import Clock, SqlSession, Subscription
    from spirit_py.pace import Pace
    from spirit_py.spark.gang import GangEngine
    from spirit_py.table.keys import ComparableKey
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.names import Name
    from spirit_py.threads import StopSwitch

_WORTHWHILE_SECONDS: Final = 2.0
#: What is left makes this many chunks for each task, at least.
_LAST_CHUNKS: Final = 2
_THROTTLE_SECONDS: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class CopyOptions:
    """How to copy; times in seconds. ``own_writes`` is the run of the chunks' GTIDs, or empty.

    ``visibility_timeout``: for which commits may stall while a chunk waits (R3); ``grace``: for
    running chunks, after a stop or a failure.
    """

    visibility_timeout: float = PATIENCE
    own_writes: str = ""
    grace: float = 3.0


@dataclass(frozen=True, kw_only=True)
class TableCopy:
    """What is copied: what ``chunker`` cuts, above ``before``, which earlier runs have copied.

    ``subscription`` learns of every chunk before it is handed out and after it committed.
    ``connection`` is to the new table's server; ``joins`` makes what opens a task's sessions.
    """

    mapping: TableMapping
    connection: ConnectionOptions
    chunker: LaneChunker
    query: BoundaryQuery
    subscription: Subscription
    joins: Callable[..., JoinCopy] = JoinCopy
    before: CopiedSoFar = field(default_factory=CopiedSoFar)


@dataclass(eq=False)
class Copier:
    """Copies one table; use once. ``spark`` takes over when it is ready, or is None.

    ``pace`` is asked before every chunk. After ``stop`` nothing is handed out.
    """

    copy: TableCopy
    _: KW_ONLY
    driver: GangEngine
    spark: GangEngine | None
    pace: Pace
    stop: StopSwitch
    options: CopyOptions
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._mapping = self.copy.mapping
        self._chunker = self.copy.chunker
        self._meter = CopyMeter(
            self.pace.chunk_seconds(),
            self.clock,
            part_rows=part_rows(self.copy.mapping.source, self.pace.part_bytes()),
            rows=self.copy.before.rows,
            chunks=self.copy.before.chunks,
            estimate=self.copy.mapping.source.estimated_rows,
        )
        self._chunks: dict[int, Chunk] = {}
        self._ended = False
        self._ask_again = 0.0
        #: How many numbers of own GTIDs are used.
        self._numbers = 0

    def run(self) -> None:
        """Copy every row that exists. Blocks until the last chunk has committed.

        Raises `ValueLost` with column and row (R10), `CopyFailure` for a chunk, `WorkersLost` after
        gang after gang, and the reason of the stop switch.
        """
        self._meter.begin()
        retrying(self.stop)(end_earlier_chunks, self.copy.connection, self._mapping)
        try:
            self._chunker.measure()
            self._copy()
            self._meter.all_committed()
        except LostValue as error:
            whole = self._chunks.get(error.chunk)
            part = None if whole is None else whole.parts[error.part]
            raise error.named(self._mapping, part, self.copy.query) from error
        finally:
            self._meter.end()
        self.copy.subscription.copy_finished()

    def _copy(self) -> None:
        join = self.copy.joins(
            connection=self.copy.connection,
            mapping=self._mapping,
            visibility_timeout=self.options.visibility_timeout,
        )
        with Crew(
            driver=self.driver, spark=self.spark, join=join, pace=self.pace, stop=self.stop
        ) as crew:
            while not self.stop.requested and not (self._ended and crew.idle):
                self._waiting()
                crew.feed(self._next, lasting=self._lasting)
                self._committed(crew.collect())
            deadline = self.clock() + self.options.grace
            while not crew.idle and self.clock() < deadline:
                self._committed(crew.collect())
            self.stop.check()

    def statistics(self) -> CopyStatistics:
        """Return the figures as they are now. No I/O; any thread may ask."""
        return self._meter.statistics()

    def _next(self, rank: int) -> CopyOrder | None:
        """Return the next chunk for a task, dispatched, in order; None to wait, or at the end."""
        if self._ended or self._waiting():
            return None
        rest = self.pace.rest_after(1.0)
        part = part_rows(self._mapping.source, self.pace.part_bytes())
        tasks = self.pace.tasks(self.driver.slots)
        rows = self._rows(self.pace.chunk_seconds() / (1.0 + rest), part, tasks)
        chunk = self._chunker.next_chunk(rows, rank, part_rows=part, workers=tasks)
        if chunk is None:
            self._ended = True
            self._meter.all_cut()
            return None
        visibility = self.copy.subscription.dispatch(chunk)
        points.reach("chunk.dispatched")
        self._chunks[chunk.number] = chunk
        self._meter.dispatched(chunk.target_rows, self._chunker.rows_left())
        gtid = ""
        if run := self.options.own_writes:
            # Of the first part: numbers without gaps, one for each.
            source = self._mapping.source
            gtid = f"{own_uuid(run, source.schema, source.name)}:{self._numbers + 1}"
            self._numbers += len(chunk.parts)
        order = ChunkOrder(chunk=chunk, visibility=visibility, gtid=gtid, rest=rest)
        return CopyOrder(order=order, seconds=self._meter.expected_seconds(chunk.target_rows))

    def _rows(self, seconds: float, part: int, tasks: int) -> int:
        """Return the next chunk's size; towards the end smaller chunks, that end together."""
        left = (1 - self._chunker.estimated_fraction()) * self._mapping.source.estimated_rows
        share = int(left / (_LAST_CHUNKS * tasks))
        return min(self._meter.next_rows(seconds), max(share, part))

    def _lasting(self) -> bool:
        cut = self._chunker.estimated_fraction()
        seconds = self._meter.statistics().seconds
        return not self._ended and seconds * (1 - cut) > cut * _WORTHWHILE_SECONDS > 0

    def _waiting(self) -> bool:
        now = self.clock()
        if now >= self._ask_again:
            reason = self.pace.reason(Work.COPY)
            self._meter.throttled(reason)
            self._ask_again = now + _THROTTLE_SECONDS if reason else now
        return self._ask_again > now

    def _committed(self, copied: Sequence[ChunkCopied]) -> None:
        for one in copied:
            points.reach("chunk.committed")
            chunk = self._chunks.pop(one.number)
            self.copy.subscription.committed(chunk, one.rows)
            self._chunker.observed(chunk, one.rows)
            self._meter.committed(chunk.target_rows, one)


@dataclass(eq=False)
class BoundaryReader:
    """Runs SELECTs on ``tables`` for the chunker; not thread-safe.

    ``stop`` ends the pauses between tries.
    """

    connection: ConnectionOptions
    _: KW_ONLY
    stop: StopSwitch
    tell: Callable[[str], None] | None = None
    tables: Sequence[Name] = ()

    def __post_init__(self) -> None:
        self._locked = LockedBy((self.connection, self.tables))
        self._session = RenewedSession(partial(connect, self.connection, role="boundary"))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a SELECT; a transient fault is tried again."""

        def rows() -> list[tuple[Any, ...]]:
            return self._session.ask(lambda session: session.query(sql))

        return patiently(rows, self.connection, self.stop, tell=self.tell, locked=self._locked)

    def close(self) -> None:
        """Close the session; safe to call again, and a later query opens another."""
        self._session.close()


def last_copied_key(
    session: SqlSession, mapping: TableMapping, within: KeyRange
) -> ComparableKey | OpenEnd:
    """Return the last key of the new table in a range, ``BEGINNING`` if empty.

    ``END`` where its values mean something else in the new table, or no index gives their order.
    """
    if not (sql := last_key_sql(mapping, within)):
        return OpenEnd.END
    found = session.query(sql)
    return key_from_row(mapping.key_columns, found[0]) if found else OpenEnd.BEGINNING


def last_key_sql(mapping: TableMapping, within: KeyRange) -> str:
    """Render the query for the last key; empty where there is none that is exact and fast."""
    old = mapping.key_columns
    new = mapping.new_key
    same = all(
        one.type_identity == other.type_identity and one.collation == other.collation
        for one, other in zip(old, new, strict=True)
    )
    index = _index_in_order(mapping)
    if not same or not index or not comparable(old):
        return ""
    directions = walk_directions(mapping.key)
    order = ", ".join(
        quote_identifier(column.name) + ("" if descending else " DESC")
        for column, descending in zip(new, directions, strict=True)
    )
    where = chunk_predicate(old, within, directions, mapping.new_key_columns)
    if mapping.owned is not None:
        where = f"({where}) AND {mapping.owned.condition()}"
    return (
        f"SELECT {', '.join(key_select_expressions(new))}"
        f" FROM {mapping.target.quoted}"
        f" FORCE INDEX ({quote_identifier(index)}) WHERE {where} ORDER BY {order} LIMIT 1"
    )


def _index_in_order(mapping: TableMapping) -> str:
    names = tuple(name.lower() for name in mapping.new_key_columns)
    directions = walk_directions(mapping.key)
    for index in mapping.target.indexes:
        in_order = index.visible and index.leading[: len(names)] == names
        if in_order and walk_directions(index)[: len(names)] == directions:
            return index.name
    return ""
