"""One pass over the table, cut into segments, one for each gang of tasks.

The driver cuts chunks while the gang reads, two outstanding for each task. When tasks are lost or
the server restarts, a new gang reads the segment again, above the low watermark. A segment has one
snapshot, opened under a lock; in a rolling pass each piece of it has its own, without a lock, and
the rows that differ in these are settled when the segment ends (docs/verification.md).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import math
import time
from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from spirit_py import points
from spirit_py.checksum.query import SOURCE, TARGET, ComparisonPlan
from spirit_py.checksum.recheck import Suspects
from spirit_py.checksum.result import Counts, PassCoverage, RowDifference, count
from spirit_py.checksum.snapshot import LockFigures, SnapshotLock
from spirit_py.chunk.chunk import Chunk, encode_chunk
from spirit_py.chunk.chunker import boundary_sql, make_chunker
from spirit_py.classes import InitVar, dataclass, replace
from spirit_py.errors import ChecksumFailure, ServerFault, WorkersLost
from spirit_py.estimates import RowsLeft
from spirit_py.mysql.connect import connect
from spirit_py.mysql.kill import kill_own
from spirit_py.mysql.retry import RenewedSession, await_server
from spirit_py.pace import FIRST_TASKS, PART_BYTES, AtWork, Work, await_turn
from spirit_py.spark.gang import Gang, is_transient
from spirit_py.spark.server_mailbox import open_mailbox
from spirit_py.table.values import bound_from_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spirit_py.checksum.query import Side
    from spirit_py.checksum.worker import Comparison
    from spirit_py.chunk.chunk import KeyBound, KeyRange
    from spirit_py.chunk.chunker import CompositeChunker, Further
    from spirit_py.chunk.sizing import ChunkSizer
    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.session import Session
    from spirit_py.table.mapping import TableMapping
    from spirit_py.threads import StopSwitch

    _Order: TypeAlias = tuple[Mapping[str, Any], Callable[[Mapping[str, Any]], None]]

_log = logging.getLogger(__name__)

_OUTSTANDING: Final = 2
_GANG_ATTEMPTS: Final = 3
_ASSEMBLE_SECONDS: Final = 120.0
_LARGE_BYTES: Final = 1 << 30
_SEATS: Final = 4
_SNAPSHOT_SECONDS: Final = 10.0
#: Of smaller chunks the messages take more time than the comparison.
_LEAST_PIECE: Final = 1 / 8
#: A snapshot is kept for so long while nothing may be compared.
_HOLD_SECONDS: Final = 10.0
#: The limit of a query for a chunk's end, and of one for letters.
_CUT_SECONDS: Final = 60
_LETTER_SECONDS: Final = 20
#: Of a rolling pass: chunks that one snapshot reads, how long one takes, and how long a segment.
_PIECE_CHUNKS: Final = 4
_SHORT_SECONDS: Final = 0.25
#: All rows of a chunk are listed where some differ, with some 300 bytes each in a task's memory:
#: rows of a chunk while chunks differ, and while none does.
_LISTED_ROWS: Final = (20_000, 100_000)
_ROLLING_SECONDS: Final = 300.0
_FLUSH_SECONDS: Final = 2.0
#: Rows that differ at which a segment ends, so that they are settled.
_MOST_SUSPECTS: Final = 20_000
#: Rows that really differ at which one snapshot reads the rest: these are no single ones.
_MOST_REAL: Final = 1000


class _OneSnapshot(Exception):
    """Too many rows of a chunk differ for a rolling pass."""


@dataclass(eq=False)
class TablePass:
    """One pass above ``above``, the end of an earlier run's pass or None; :meth:`run` once.

    ``show`` takes changed fields of :class:`ChecksumProgress`, ``on_snapshot`` also the seconds
    until the tasks were ready.
    """

    what: Comparison
    sizer: ChunkSizer
    above: InitVar[KeyBound | None]
    show: Callable[..., None]
    on_snapshot: Callable[[LockFigures, float], None]

    def __post_init__(self, above: KeyBound | None) -> None:
        self._options = self.what.options
        self._plan = ComparisonPlan(mapping=self.what.mapping)
        self._coverage = PassCoverage(lower=above if self._plan.aligned else None)
        #: The key up to which complete segments had no difference; for any thread.
        self.clean_up_to = self._coverage.lower
        self._held_by = ""
        self._held_since = 0.0
        self._handed_out = 0
        self._at_work = AtWork()
        self._tasks = 0
        #: What is done beside the chunks that are handed out.
        self._beside = ""
        self._given_back = False
        #: Whether the last chunk of a rolling pass had rows under change.
        self._written = False
        #: Segments in turn that had to be given up.
        self._given_up = 0
        self._rolling = self._options.rolling and self.what.feed is not None and self._plan.aligned
        #: Keys of the segment's rows that differ in a rolling pass, and their chunks' numbers.
        self._differing: dict[str, int] = {}
        #: Those of tries of the segment that were given up.
        self._left_open: dict[str, int] = {}
        self._suspects = Suspects(self.what, wait_for=self._wait_for, locked=self._note_lock)
        #: The source's rows below the last segment, when the key's order changed.
        self._below = 0

    @property
    def counted(self) -> bool:
        """Whether the rows can be counted again in the very snapshot of every chunk."""
        return self._options.lock or self._size == 1

    @property
    def _size(self) -> int:
        if self._options.tasks:
            return self._options.tasks
        slots = self.what.engine.slots
        tasks = self.what.pace.tasks(slots)
        if self.what.feed is None:
            return min(slots, tasks)
        if self.what.mapping.source.total_bytes > _LARGE_BYTES:
            # Others may go while a large table is compared.
            return min(slots, max(_SEATS, 2 * tasks))
        return min(slots, _SEATS, max(FIRST_TASKS, tasks))

    def run(self) -> tuple[PassCoverage, list[RowDifference]]:
        """Go over the whole table once; return what was compared, and rows that differ."""
        feed = self.what.feed
        # What is applied soon differs in fewer snapshots.
        rolling = feed is not None and self._rolling
        with feed.flushed_often(_FLUSH_SECONDS) if feed and rolling else contextlib.nullcontext():
            return self._run()

    def _run(self) -> tuple[PassCoverage, list[RowDifference]]:
        coverage, what = self._coverage, self.what
        found: list[RowDifference] = []
        lost = 0
        while not coverage.complete or self._suspects.rows:
            try:
                for part in self._segments():
                    room = max(0, self._options.max_repairs - len(found))
                    found += part[:room] if self._options.rolling else part
                    lost = self._given_up = 0
            except _OneSnapshot:
                self._give_up()
            except (WorkersLost, ServerFault) as error:
                lost += 1
                if lost >= _GANG_ATTEMPTS or not is_transient(error):
                    raise
                _log.warning("%s; its part of the checksum starts over", error.message)
                # One that restarts ends the whole gang.
                for options in filter(None, (what.source, what.target)):
                    await_server(options, what.stop, tell=self._wait_for)
        return coverage, found

    def _segments(self) -> Iterator[list[RowDifference]]:
        coverage, what, target = self._coverage, self.what, self._plan.beyond
        # Opened at first use in a segment: the target's would idle until the source's end.
        here = there = RenewedSession(partial(self._cutting, what.source))
        if what.target is not None:
            there = RenewedSession(partial(self._cutting, what.target))
        further: Further | None = None
        # A feed keeps the new table as large as the source; another table may be far larger.
        if what.feed is None and target is not None:
            further = partial(self._further, there, target)
        chunker = make_chunker(what.mapping, lambda sql: here.session().query(sql), further=further)
        chunker.restart(coverage.lower)
        while True:
            if self._suspects.rows:
                self._await_turn()
                yield self._settled()
            clean = self._plan.aligned and not coverage.differences
            self.clean_up_to = coverage.lower if clean else None
            if coverage.complete:
                return
            self._await_turn()
            with contextlib.closing(here), contextlib.closing(there):
                yield self._segment(chunker)

    @staticmethod
    def _cutting(options: ConnectionOptions) -> Session:
        return connect(options, role="checksum-cut", read_timeout=_CUT_SECONDS)

    def _further(
        self, there: RenewedSession, target: TableMapping, above: KeyRange, rows: int
    ) -> KeyBound | None:
        """Return the key so many rows on in the target, where the source has fewer left."""
        found = there.session().query(boundary_sql(target, above, rows))
        return bound_from_row(target.key_columns, found[0]) if found else None

    def _await_turn(self) -> None:
        self._given_back, self._held_by = False, ""
        what = self.what
        await_turn(what.pace, Work.CHECKSUM, pause=what.stop.pause, show=self._wait_for)

    def _wait_for(self, what: str) -> None:
        self.show(waiting_for=what)

    def _segment(self, chunker: CompositeChunker) -> list[RowDifference]:
        coverage, what = self._coverage, self.what
        coverage.begin_segment()
        # Found again, where they are in the range of this try.
        self._left_open |= self._differing
        self._differing = {}
        self._handed_out = 0
        lock = None if self._rolling else SnapshotLock(what, on_wait=self._wait_for)
        # Before the tasks start: their sessions would idle as long.
        if lock is not None:
            lock.await_free()
        elif what.feed is not None:
            what.feed.apply_executed(what.stop, self._wait_for)
        self._wait_for("all tasks to start")
        with (
            connect(what.source, role="checksum", read_timeout=_LETTER_SECONDS) as control,
            open_mailbox(control, what.source, what.engine, what.mapping.source) as mailbox,
            Gang[list[RowDifference]](
                what.engine,
                mailbox,
                what.join,
                size=self._size,
                stop=what.stop,
                kill=self._kill,
                description=f"checksum of {what.name}",
            ) as gang,
        ):
            self._tasks = gang.size
            began = time.monotonic()
            gang.assemble(_ASSEMBLE_SECONDS)
            gathered = time.monotonic() - began
            figures = LockFigures()
            points.reach("checksum.begin")
            if lock is not None:
                order = json.dumps({"do": "snapshot", "short": False})
                figures = lock.take(lambda: gang.everyone(order, _SNAPSHOT_SECONDS))
            self.on_snapshot(figures, gathered)
            self._wait_for("")
            points.reach("checksum.compare")
            self._verify(gang, self._compare(gang, chunker))
            return [difference for part in gang.finish() for difference in part]

    def _compare(
        self, gang: Gang[list[RowDifference]], chunker: CompositeChunker
    ) -> Mapping[Side, int]:
        """Hand out chunks, then at once the counts; return the rows counted on each side."""
        counted: dict[Side, int] = {SOURCE: 0, TARGET: 0}
        if self._rolling:
            pieces = self._rolling_pieces(chunker, counted)
        else:
            chunks = map(partial(self._asked, chunker), self._chunks(chunker))
            orders = itertools.chain(chunks, self._counts(gang.size, counted))
            pieces = ([order] for order in orders)
        asked: dict[tuple[int, int], Callable[[Mapping[str, Any]], None]] = {}
        #: What is left of the piece that each task reads.
        begun: list[deque[_Order]] = [deque() for _ in range(gang.size)]
        ended = False
        while not ended or asked or any(begun):
            busy = sum(bool(gang.outstanding(rank)) for rank in range(gang.size))
            self._at_work.count(busy, time.monotonic())
            rank = self._next_rank(gang, begun, ended=ended)
            if rank is None:
                for answer in gang.collect():
                    asked.pop((answer.rank, answer.number))(json.loads(answer.text))
                continue
            if not begun[rank]:
                begun[rank].extend(next(pieces, ()))
                ended = not begun[rank]
            if begun[rank]:
                text, take = begun[rank].popleft()
                rest = {"rest": self.what.pace.rest_after(1.0)}
                asked[rank, gang.post(rank, json.dumps({**text, **rest}))] = take
        return counted

    def _next_rank(
        self, gang: Gang[list[RowDifference]], begun: Sequence[deque[_Order]], *, ended: bool
    ) -> int | None:
        """Return the task that gets the next order: a snapshot that is open must be read."""
        for rank, left in enumerate(begun):
            if left and gang.outstanding(rank) < _OUTSTANDING:
                return rank
        if ended or self._held():
            return None
        idlest = min(range(self.what.pace.tasks(gang.size)), key=gang.outstanding)
        return idlest if gang.outstanding(idlest) < _OUTSTANDING else None

    def _held(self) -> bool:
        """Return whether no chunk may be handed out now; after a while that ends the segment."""
        reason = self.what.pace.reason(Work.CHECKSUM)
        if reason != self._held_by:
            self._wait_for(reason)
        now = time.monotonic()
        if reason and not self._held_by:
            self._held_since = now
        self._held_by = reason
        if reason and now - self._held_since > _HOLD_SECONDS:
            self._given_back = True
        return bool(reason) and not self._given_back

    def _rolling_pieces(
        self, chunker: CompositeChunker, counted: dict[Side, int]
    ) -> Iterator[list[_Order]]:
        """Cut pieces, each with a snapshot of its own, in which its rows are counted again."""
        chunks = self._chunks(chunker)
        while piece := list(islice(chunks, _PIECE_CHUNKS)):
            span = Chunk(number=0, lower=piece[0].lower, upper=piece[-1].upper, target_rows=0)
            sides: tuple[Side, ...] = (SOURCE, TARGET)
            yield [
                ({"do": "snapshot", "short": True}, _nothing),
                *(self._asked(chunker, chunk) for chunk in piece),
                *((self._count(side, span), partial(_add_rows, counted, side)) for side in sides),
                ({"do": "release"}, _nothing),
            ]

    def _asked(self, chunker: CompositeChunker, chunk: Chunk) -> _Order:
        order = {"do": "compare", "chunk": encode_chunk(chunk)}
        return order, partial(self._answered, chunker, chunk)

    def _chunks(self, chunker: CompositeChunker) -> Iterator[Chunk]:
        segment = self._coverage.segment
        self._beside = ""
        self.show(doing="")
        longest, most = self._options.yield_seconds, math.inf
        if self._rolling:
            longest, most = min(longest, _ROLLING_SECONDS), _SHORT_SECONDS
        give_back = time.monotonic() + longest
        while not segment.at_end and (
            not segment.dispatched or (not self._given_back and time.monotonic() < give_back)
        ):
            self.sizer.aim(min(most, self._options.target_seconds * self._piece))
            rows = self.sizer.rows
            if self._rolling:
                rows = min(rows, _LISTED_ROWS[not self._written])
            chunk = chunker.next_chunk(rows)
            if chunk is None:
                raise ChecksumFailure("the chunks ended before the end of the table")
            segment.dispatch(chunk)
            self._handed_out += chunk.target_rows
            yield chunk

    def _counts(self, tasks: int, counted: dict[Side, int]) -> Iterator[_Order]:
        segment = self._coverage.segment
        self._beside = "counting the rows again"
        if not self._handed_out:
            self.show(doing=self._beside)
        sides: tuple[Side, ...] = (SOURCE, TARGET)
        if not self._plan.aligned:
            sides = (SOURCE,)
            if segment.at_end:
                whole = Chunk(number=0, lower=None, upper=None, target_rows=0)
                yield self._count(TARGET, whole), partial(_add_rows, counted, TARGET)
            if segment.at_end and segment.lower is not None:
                below = Chunk(number=0, lower=None, upper=segment.lower, target_rows=0)
                yield self._count(SOURCE, below), self._counted_below
        finer = math.ceil(1 / self._piece)
        parts = (tasks + 1) // 2 if self._plan.aligned else tasks - segment.at_end
        for side in sides:
            for span in segment.spans(parts * finer):
                yield self._count(side, span), partial(_add_rows, counted, side)

    @staticmethod
    def _count(side: Side, span: Chunk) -> dict[str, Any]:
        return {"do": "count", "side": side, "chunk": encode_chunk(span)}

    def _counted_below(self, said: Mapping[str, Any]) -> None:
        self._below = int(said["rows"])

    @property
    def _piece(self) -> float:
        """The part of the full size that a chunk has, so that others get the CPU."""
        return max(_LEAST_PIECE, self.what.pace.part_bytes() / PART_BYTES)

    def _answered(self, chunker: CompositeChunker, chunk: Chunk, said: Mapping[str, Any]) -> None:
        coverage = self._coverage
        counts = Counts(**said["counts"])
        if self._rolling:
            self._suspect(chunk, said["differing"], counts)
            counts = Counts()
        coverage.segment.answer(chunk.number, said["source"], said["target"], counts)
        if counts.total:
            self.clean_up_to = None
        self.sizer.finished(
            target_rows=chunk.target_rows,
            rows=said["source"] or said["target"],
            seconds=said["seconds"],
        )
        rows, seconds = said["source"], said["seconds"]
        done = self._at_work.done(rows, seconds, time.monotonic() - seconds)
        self.what.pace.done(Work.CHECKSUM, done, self._tasks)
        chunker.observed(chunk, said["source"])
        self._handed_out -= chunk.target_rows
        extra = said["target"] and not said["source"]
        going_on = "reading rows that only the target has" if extra else ""
        found = coverage.counts + coverage.segment.counts
        rows = coverage.rows + coverage.segment.source_rows + found.extra
        self.show(
            rows=rows,
            handed_out=self._handed_out,
            left=self._left(chunker, rows),
            doing=going_on if self._handed_out else self._beside,
            differences=found.total,
        )

    def _suspect(self, chunk: Chunk, told: Sequence[str], counts: Counts) -> None:
        self._differing |= dict.fromkeys(told, chunk.number)
        self._written = bool(told)
        if counts.total > len(told):
            raise _OneSnapshot
        if len(self._differing) > _MOST_SUSPECTS:
            self._given_back = True

    def _give_up(self) -> None:
        """Read the segment again: many rows may have changed at once, and be applied by then."""
        self._given_up += 1
        if self._given_up > 1:
            self._in_one_snapshot()

    def _in_one_snapshot(self) -> None:
        _log.info("%s: too many rows differ to be looked at one by one", self.what.name)
        self._rolling = False
        # They are found again.
        self._differing, self._left_open = {}, {}

    def settle_open(self, stop: StopSwitch) -> bool:
        """Return whether a pass that was stopped may have met rows that really differ."""
        one_snapshot = self._options.rolling and self._plan.aligned and not self._rolling
        if one_snapshot or self._given_up:
            return True
        left = Suspects(
            replace(self.what, stop=stop), wait_for=self._wait_for, locked=self._note_lock
        )
        left.rows |= self._suspects.rows | self._left_open | self._differing
        try:
            return bool(left.rows) and bool(left.settle()[0])
        except (WorkersLost, ServerFault) as error:
            if not is_transient(error):
                raise
            return True

    def _settled(self) -> list[RowDifference]:
        found, chunks = self._suspects.settle()
        self._coverage.counts += count(found)
        if self._coverage.differences > _MOST_REAL:
            self._in_one_snapshot()
        self._coverage.differing_chunks += chunks
        self.show(differences=self._coverage.differences)
        return found

    def _note_lock(self, figures: LockFigures) -> None:
        self.on_snapshot(figures, 0.0)

    def _left(self, chunker: CompositeChunker, rows: int) -> RowsLeft:
        if chunker.finished:
            # The last chunks are rarely as large as they were meant: an estimate may know better.
            return RowsLeft(most=0)
        # No values are left where the target goes on.
        if not (width := chunker.width()):
            return RowsLeft()
        if self.what.feed is None:
            width = max(width, self.what.mapping.target.estimated_rows - rows - self._handed_out)
        return RowsLeft(most=width)

    def _verify(self, gang: Gang[list[RowDifference]], counted: Mapping[Side, int]) -> None:
        coverage, aligned = self._coverage, self._plan.aligned
        extra = coverage.end_segment(
            counted[SOURCE],
            counted[TARGET],
            aligned=aligned,
            counted=self.counted,
            below=self._below,
        )
        # Not before: a segment that is read again finds them again.
        self._suspects.rows |= self._differing
        self._differing, self._left_open = {}, {}
        # Where no feed kept earlier rows equal, a missing row and an unseen one may cancel out.
        doubtful = self._below and self.what.feed is None
        if aligned or not (extra or doubtful):
            return
        self.show(doing="looking for rows that only the target has")
        (said,) = gang.ask([json.dumps({"do": "extra"})])
        if extra := max(extra, int(json.loads(said)["counts"]["extra"])):
            coverage.counts += Counts(extra=extra)
            coverage.differing_chunks += 1

    def _kill(self, server: str, session: int) -> None:
        what = self.what
        options = what.target if server == TARGET and what.target is not None else what.source
        with (
            contextlib.suppress(ServerFault),
            connect(options, role="checksum-kill", read_timeout=_LETTER_SECONDS) as killer,
        ):
            kill_own(killer, session)


def _nothing(_said: Mapping[str, Any]) -> None:
    """Take an answer that says nothing."""


def _add_rows(counted: dict[Side, int], side: Side, said: Mapping[str, Any]) -> None:
    counted[side] += int(said["rows"])
