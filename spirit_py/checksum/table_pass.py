"""One pass over the table, cut into segments, one for each gang of tasks.

When tasks are lost or the server restarts, a new gang reads the segment again, above the low
watermark. A segment has one snapshot, opened under a lock; in a rolling pass each piece of it has
its own, without a lock, and the rows that differ in these are settled when the segment ends
(docs/verification.md).
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spirit_py import points
from spirit_py.checksum.query import SOURCE, TARGET, ComparisonPlan
from spirit_py.checksum.reading import SegmentReading
from spirit_py.checksum.recheck import Suspects
from spirit_py.checksum.result import Counts, PassCoverage, RowDifference, count
from spirit_py.checksum.snapshot import LockFigures, SnapshotLock
from spirit_py.checksum.worker import QUIET_SECONDS
from spirit_py.chunk.chunker import boundary_sql, make_chunker
from spirit_py.chunk.sizing import FLOOR_ROWS
from spirit_py.classes import InitVar, dataclass, replace
from spirit_py.errors import ServerFault, WorkersLost
from spirit_py.locks.look import LockedBy, find_locked_out, waits_for_all
from spirit_py.mysql.connect import connect
from spirit_py.mysql.faults import LOCK_WAIT_TIMEOUT, excused
from spirit_py.mysql.retry import Patience, RenewedSession, await_server
from spirit_py.pace import FIRST_TASKS, Work, await_turn
from spirit_py.spark.gang import Gang, is_transient, lacked_sessions
from spirit_py.spark.server_mailbox import open_mailbox
from spirit_py.table.values import bound_from_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.checksum.worker import Comparison
    from spirit_py.chunk.chunk import Chunk, KeyRange
    from spirit_py.chunk.chunker import CompositeChunker, Further
    from spirit_py.chunk.sizing import ChunkSizer
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.errors import SpiritError
    from spirit_py.table.keys import KeyBound
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.names import Name
    from spirit_py.threads import StopSwitch

_log = logging.getLogger(__name__)

_GANG_ATTEMPTS: Final = 3
#: The pause before a segment that a table lock of others has ended begins again.
_LOCKED_SECONDS: Final = 5.0
#: Between two tries on a server that had no room for a session.
_FULL_SECONDS: Final = 1.0
#: The pause between two looks for a global lock that waits, before a segment.
_LOCK_PAUSE: Final = 1.0
_ASSEMBLE_SECONDS: Final = 120.0
_LARGE_BYTES: Final = 1 << 30
_SEATS: Final = 4
_SNAPSHOT_SECONDS: Final = 10.0
#: The limit of a query for a chunk's end, and of one for letters.
_CUT_SECONDS: Final = 60
_LETTER_SECONDS: Final = 20
#: The same for a look at the target's locks, and for a lock before a chunk's end is looked up.
_LOOK_SECONDS: Final = 2
#: All rows of a chunk are listed where some differ, with some 300 bytes each in a task's memory:
#: rows of a chunk while chunks differ, and while none does.
_LISTED_ROWS: Final = (20_000, 100_000)
#: The bytes of a key up to which so many are listed. A longer one is listed twice for each table,
#: in hexadecimal digits: a thousand bytes a row, and more.
_LISTED_KEY: Final = 125
#: What the rows of a chunk may have by the table's average, where their values are converted.
_STAGED_BYTES: Final = 16 << 20
_UNKNOWN_ROW_BYTES: Final = 2_000
_FLUSH_SECONDS: Final = 2.0
#: Rows that differ at which a segment ends, so that they are settled.
_MOST_SUSPECTS: Final = 20_000
#: Rows that really differ at which one snapshot reads the rest: these are no single ones.
_MOST_REAL: Final = 1000


def _waits(session: SqlSession, tables: Sequence[Name], *, rolling: bool) -> str:
    if who := waits_for_all(session)[0]:
        return f"the global lock of {who}"
    # A piece of a rolling pass is over in a moment.
    found = [] if rolling else find_locked_out(session, tables)
    return f"the table lock of {found[0]}" if found else ""


def _global_lock(server: ConnectionOptions) -> str:
    with connect(server, role="lock-look", read_timeout=_LOOK_SECONDS) as session:
        return _waits(session, (), rolling=True)


def _late(error: SpiritError) -> bool:
    """Return whether a lock did not come in time, for the driver or for a task."""
    cause = error.__cause__ if isinstance(error, WorkersLost) else error
    return isinstance(cause, ServerFault) and cause.code == LOCK_WAIT_TIMEOUT


class _OneSnapshot(Exception):
    """Too many rows of a chunk differ for a rolling pass."""


def most_staged(plan: ComparisonPlan) -> float:
    """Return how many rows a chunk may have whose values a task holds, to have them converted."""
    if not plan.staged:
        return math.inf
    average = plan.mapping.source.unzipped_row_bytes or _UNKNOWN_ROW_BYTES
    return max(FLOOR_ROWS, _STAGED_BYTES // average)


def most_listed(mapping: TableMapping, rows: int) -> int:
    """Return how many of these rows a chunk may have, by the length that keys may have."""
    longest = sum((one.length or 0) * (4 if one.charset else 1) for one in mapping.key_columns)
    average = min(longest, mapping.source.row_bytes or longest)
    return int(rows * _LISTED_KEY / max(_LISTED_KEY, average))


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
        #: Whether the rows were counted again in the very snapshot of every chunk.
        self.counted = True
        self._coverage = PassCoverage(lower=above if self._plan.aligned else None)
        #: The key up to which complete segments had no difference; for any thread.
        self.clean_up_to = self._coverage.lower
        #: Whether the last chunk of a rolling pass had rows under change.
        self._written = False
        #: Sessions for the ends of the segment's chunks that wait for no lock for long.
        self._brief: list[RenewedSession] = []
        #: How often a server had no room for the sessions of so many tasks: each halves them.
        self._refused = 0
        #: Segments in turn that had to be given up.
        self._given_up = 0
        self._rolling = self._options.rolling and self.what.feed is not None and self._plan.aligned
        #: Keys of the segment's rows that differ in a rolling pass, and their chunks' numbers.
        self._differing: dict[str, int] = {}
        #: Those of tries of the segment that were given up.
        self._left_open: dict[str, int] = {}
        self._suspects = Suspects(
            self.what,
            wait_for=self._wait_for,
            locked=lambda figures: self.on_snapshot(figures, 0.0),
        )

    @property
    def _size(self) -> int:
        return max(1, self._wanted >> self._refused)

    @property
    def _wanted(self) -> int:
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
        lost, patience = 0, Patience()
        locked = LockedBy.of(what.source, what.mapping, what.target)
        while not coverage.complete or self._suspects.rows:
            try:
                for part in self._segments():
                    room = max(0, self._options.max_repairs - len(found))
                    found += part[:room] if self._options.rolling else part
                    lost = self._given_up = 0
                    self._refused = max(0, self._refused - 1)
                    patience.answered()
            except _OneSnapshot:
                self._give_up()
            except (WorkersLost, ServerFault) as error:
                if is_transient(error) and _late(error) and (who := locked()):
                    # Behind a table lock of others no try is in vain.
                    self._wait_for(who)
                    what.stop.pause(_LOCKED_SECONDS)
                    continue
                if lacked_sessions(error) and (self._size > 1 or not patience.over()):
                    self._refused += self._size > 1
                    what.stop.pause(_FULL_SECONDS)
                else:
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
        cutting = partial(connect, role="checksum-cut", read_timeout=_CUT_SECONDS)
        here = there = RenewedSession(partial(cutting, what.source))
        if what.target is not None:
            there = RenewedSession(partial(cutting, what.target))
        further: Further | None = None
        # A feed keeps the new table as large as the source; another table may be far larger.
        if what.feed is None and target is not None:
            further = partial(self._further, there, target)
        cut = partial(self._cut, here)
        chunker = make_chunker(what.mapping, cut, further=further)
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
            self._brief.clear()
            with contextlib.closing(here), contextlib.closing(there):
                yield self._segment(chunker)

    def _cut(self, cutting: RenewedSession, sql: str) -> list[tuple[Any, ...]]:
        # A lock in front of it may wait for what the segment's own snapshot has read.
        hinders = not self._rolling and self._coverage.segment.dispatched
        if hinders and cutting not in self._brief:
            cutting.session().execute(f"SET SESSION lock_wait_timeout = {_LOOK_SECONDS}")
            self._brief.append(cutting)
        return cutting.session().query(sql)

    def _further(
        self, there: RenewedSession, target: TableMapping, above: KeyRange, rows: int
    ) -> KeyBound | None:
        """Return the key so many rows on in the target, where the source has fewer left."""
        found = self._cut(there, boundary_sql(target, above, rows))
        return bound_from_row(target.key_columns, found[0]) if found else None

    def _await_turn(self) -> None:
        what = self.what
        await_turn(what.pace, Work.CHECKSUM, pause=what.stop.pause, show=self._wait_for)
        for server in filter(None, (what.source, what.target)):
            while who := excused(partial(_global_lock, server), "", lambda _: True):
                self._wait_for(who)
                what.stop.pause(_LOCK_PAUSE)
                self._wait_for("")

    def _wait_for(self, what: str) -> None:
        self.show(waiting_for=what)

    def _segment(self, chunker: CompositeChunker) -> list[RowDifference]:
        coverage, what = self._coverage, self.what
        coverage.begin_segment()
        # Found again, where they are in the range of this try.
        self._left_open |= self._differing
        self._differing = {}
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
                reach=self._reach,
                description=f"checksum of {what.name}",
            ) as gang,
        ):
            began = time.monotonic()
            gang.assemble(_ASSEMBLE_SECONDS)
            gathered = time.monotonic() - began
            figures = LockFigures()
            points.reach("checksum.begin")
            if lock is not None:
                # Before others wait for the lock.
                gang.everyone(json.dumps({"do": "quiet"}), _ASSEMBLE_SECONDS)
                order = json.dumps({"do": "snapshot", "short": False})
                figures = lock.take(lambda: gang.everyone(order, _SNAPSHOT_SECONDS))
            # Tasks on other machines end with it.
            control.execute(f"SET SESSION wait_timeout = {QUIET_SECONDS}")
            self.on_snapshot(figures, gathered)
            self._wait_for("")
            points.reach("checksum.compare")
            look = partial(connect, what.target or what.source, role="lock-look")
            with contextlib.closing(
                RenewedSession(partial(look, read_timeout=_LOOK_SECONDS))
            ) as there:
                self._read(gang, chunker, partial(self._locked_out, control, there))
            return [difference for part in gang.finish() for difference in part]

    def _most_rows(self) -> float:
        most = _LISTED_ROWS[not (self._rolling and self._written)]
        return min(most_listed(self.what.mapping, most), most_staged(self._plan))

    def _answered(self, chunk: Chunk, told: Sequence[str], counts: Counts) -> bool:
        if not self._rolling:
            if counts.total:
                self.clean_up_to = None
            return False
        self._differing |= dict.fromkeys(told, chunk.number)
        self._written = bool(told)
        if counts.total > len(told):
            raise _OneSnapshot
        return len(self._differing) > _MOST_SUSPECTS

    def _give_up(self) -> None:
        """Read the segment again: many rows may have changed at once, and be applied by then."""
        self._given_up += 1
        if self._given_up > 1:
            self._in_one_snapshot()

    def _in_one_snapshot(self) -> None:
        _log.info("%s: rows that differ cannot be looked at one by one", self.what.name)
        self._rolling = False
        # They are found again.
        self._differing, self._left_open = {}, {}

    def settle_open(self, stop: StopSwitch) -> bool:
        """Return whether a pass that was stopped may have met rows that really differ."""
        one_snapshot = self._options.rolling and self._plan.aligned and not self._rolling
        if one_snapshot or self._given_up:
            return True
        left = replace(self._suspects, what=replace(self.what, stop=stop))
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

    def _locked_out(self, here: SqlSession, there: RenewedSession) -> str:
        """Return whose lock, of a table or of all, waits for what the tasks read."""
        both = self.what.mapping.source, self.what.mapping.target
        names = [(one.schema, one.name) for one in both]
        if self.what.target is None:
            return _waits(here, names, rolling=self._rolling)
        if found := _waits(here, names[:1], rolling=self._rolling):
            return found
        look = partial(_waits, tables=names[1:], rolling=self._rolling)
        return excused(partial(there.ask, look), "", lambda _: True)

    def _read(
        self,
        gang: Gang[list[RowDifference]],
        chunker: CompositeChunker,
        locked_out: Callable[[], str],
    ) -> None:
        coverage, aligned = self._coverage, self._plan.aligned
        reading = SegmentReading(
            self.what,
            self.sizer,
            coverage,
            chunker,
            rolling=self._rolling,
            most_rows=self._most_rows,
            answered=self._answered,
            show=self.show,
            locked_out=locked_out,
        )
        counted = reading.read(gang, aligned=aligned)
        one_moment = self._options.lock or gang.size == 1
        self.counted = self.counted and one_moment
        extra = coverage.end_segment(
            counted[SOURCE],
            counted[TARGET],
            aligned=aligned,
            counted=one_moment,
            below=reading.below,
        )
        # Not before: a segment that is read again finds them again.
        self._suspects.rows |= self._differing
        self._differing, self._left_open = {}, {}
        # Where no feed kept earlier rows equal, a missing row and an unseen one may cancel out.
        doubtful = reading.below and self.what.feed is None
        if aligned or not (extra or doubtful):
            return
        self.show(doing="looking for rows that only the target has", outstanding=True)
        try:
            (said,) = gang.ask([json.dumps({"do": "extra"})])
        finally:
            self.show(outstanding=False)
        if extra := max(extra, int(json.loads(said)["counts"]["extra"])):
            coverage.counts += Counts(extra=extra)
            coverage.differing_chunks += 1

    def _reach(self, server: str) -> ConnectionOptions:
        what = self.what
        return what.target if server == TARGET and what.target is not None else what.source
