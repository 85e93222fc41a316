"""The change feed: the threads, and the store, dispatcher, buffers and ledger (design section 4).

::

    reader       stream.run -> store.put              waits while the ring is full
    dispatcher   store.get -> Dispatcher -> buffers    waits while the buffers are full
    weigher      changes -> Stream.weigh -> changes    where keys are compared by weight
    flusher      asks for what waits in the buffers    every interval, or when half full
    apply        buffers -> Applier                    a partition's batch each
    retention    how long the source keeps what a waiting reader has not read yet

State changes under one lock, so that a chunk's dispatch and the drop filter never disagree (R3).
Nothing waits for the server under it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

from spirit_py import points
from spirit_py.binlog.events import Failed, is_boundary, weight
from spirit_py.chunk.watermark import Rest
from spirit_py.errors import (
    ChangesNotFlushed,
    FeedBroken,
    FeedFailure,
    HandOverFailed,
    HistoryLost,
    SpiritError,
)
from spirit_py.events.event import Tell, untold
from spirit_py.feed import reception
from spirit_py.feed.apply import Appliers, BatchApplier, Weigher
from spirit_py.feed.dispatch import Dispatcher
from spirit_py.feed.flusher import FLUSH_GRACE, Flusher
from spirit_py.feed.ledger import Ledger
from spirit_py.feed.shared import ASK_EVERY, Backpressure, EventStore, Shared
from spirit_py.feed.subscription import TableSubscription
from spirit_py.threads import Background, every

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from spirit_py.binlog.events import Event, Frontier, Stream, Table
    from spirit_py.config import FeedOptions
    from spirit_py.contracts import Applier, Clock, Origin, SqlSession
    from spirit_py.progress import FeedStatistics
    from spirit_py.table.mapping import TableMapping
    from spirit_py.threads import StopSwitch

T = TypeVar("T")

LOOK_EVERY: Final = 5.0
"""Seconds between two looks whether the source has kept its past (R25)."""
JOIN_TIMEOUT: Final = 10.0
"""Seconds that a thread has to end."""


class ChangeFeed:
    """Implements :class:`spirit_py.contracts.ChangeSource`. One class because of its one lock.

    ``behind_swap``: it goes on from a place under the lock of a swap, where no XA transaction had
    rows of the tables; a new key of another table to a followed one does not end it.
    """

    def __init__(
        self,
        stream: Stream,
        applier: Applier,
        *,
        options: FeedOptions,
        stop: StopSwitch,
        clock: Clock = time.monotonic,
        tell: Tell = untold,
        behind_swap: bool = False,
    ) -> None:
        shared = self._shared = Shared(stream=stream, stop=stop, clock=clock)
        self._stream, self._lock, self._subscriptions = stream, shared.lock, shared.subscriptions
        self._options = options
        self._behind_swap = behind_swap
        self._stop = stop
        appliers = self._appliers = Appliers(options.apply_threads, clock)
        self._applier = BatchApplier(applier, appliers, batch_rows=options.batch_rows)
        #: How many sessions apply at a time.
        self.knee = appliers.knee
        store_bytes = max(1 << 20, min(32 << 20, options.soft_limit_bytes // 4))
        self._store: EventStore[Event] = EventStore(
            weigh=weight, is_boundary=is_boundary, max_bytes=store_bytes
        )
        limit = max(1, options.soft_limit_bytes - store_bytes)
        self._backpressure = Backpressure(shared, limit=limit, store=self._store, tell=tell)
        self._weigher = Weigher(shared)
        self._ledger: Ledger | None = None
        self._dispatcher: Dispatcher | None = None
        self._flusher: Flusher | None = None
        self._reception: reception.Reception | None = None
        self._threads: list[Background] = []
        self._unaltered: dict[Table, Callable[[], bool]] = {}
        self._applying = 0
        self._fault: SpiritError | None = None

    def add_subscription(
        self, mapping: TableMapping, *, rests: Sequence[Rest] = (Rest(),)
    ) -> TableSubscription:
        """Follow a table. Before :meth:`start`. No I/O.

        ``rests``: the key ranges to be copied, in the order of the walk, each with how far an
        earlier run may have copied it, where no delete may be dropped (R17). Empty: all is copied.
        """
        gate, wake, unweighed = self._shared.gate, self._backpressure.relieve, self._weigher.arrived
        subscription = TableSubscription(
            mapping, lock=self._lock, unweighed=unweighed, gate=gate, wake=wake, rests=rests
        )
        self._subscriptions.add(subscription)
        return subscription

    def confirm_by(self, table: Table, unaltered: Callable[[], bool]) -> None:
        """Ask this whether DDL has left a table as it was, where its text allows that; see R14.

        Before the start. A thread of the feed calls it, which hands nothing on meanwhile.
        """
        self._unaltered[table] = unaltered

    def start(self) -> None:
        """Begin at a place that cannot miss a commit (R2). Returns once the stream is open."""
        self._run(self._stream.begin(self._subscriptions.mappings))

    def start_from_position(
        self, position: str, settled: str = "", *, pass_hidden: bool = False
    ) -> None:
        """Resume. Raises :class:`~spirit_py.errors.PositionNotFound` when that is impossible.

        ``settled``: the place after the earlier run's last write to a new table, or empty.
        ``pass_hidden``: pass over unreadable changes from before this call; the caller compares
        such tables as a whole (:meth:`has_unread_changes`).
        """
        tables = self._subscriptions.mappings
        self._run(self._stream.resume(tables, position, settled, pass_hidden=pass_hidden))

    def _run(self, start: Frontier) -> None:
        ledger = self._ledger = Ledger(start)
        dispatcher = self._dispatcher = Dispatcher(
            self._shared,
            ledger,
            passable=self._options.passable,
            wait_for_room=self._backpressure.wait,
            xa_memory=max(1 << 16, self._options.soft_limit_bytes // 16),
            pause=self._shared.ended.wait,
            unaltered=self._unaltered,
            behind_swap=self._behind_swap,
        )
        received = self._reception = reception.Reception(
            self._shared, ledger, dispatcher, self._backpressure, self._check
        )
        flusher = self._flusher = Flusher(
            self._shared,
            ledger,
            appliers=self._appliers,
            start_appliers=self._start_appliers,
            applier=self._applier,
            fail=self._fail,
            backpressure=self._backpressure,
            weigher=self._weigher,
        )
        bodies: dict[str, Callable[[threading.Event], None]] = {
            "reader": lambda _: self._read(received.heard),
            "dispatcher": lambda _: dispatcher.run(self._store),
            "weigher": self._weigher.run,
            "flusher": lambda stopping: flusher.run(stopping, self._options.flush_interval),
            "retention": every(ASK_EVERY, self._backpressure.ask_retention),
            "look": every(LOOK_EVERY, self._look),
        }
        for name, body in bodies.items():
            self._start(name, body)
        self._start_appliers()
        points.reach("feed.started")

    def _look(self) -> None:
        """Look at the server; what never comes is in the position, though nobody waits for it."""
        self._stream.look()
        with self._lock:
            _started(self._ledger).absorb(self._stream.unlogged)

    def _start(self, name: str, body: Callable[[threading.Event], None]) -> None:
        thread = Background(f"feed-{name}", body, failed=self._fail, join_seconds=JOIN_TIMEOUT)
        self._threads.append(thread)
        thread.start()

    def _start_appliers(self) -> None:
        """Have as many threads as sessions may apply now; where they become fewer, some wait."""
        work = _started(self._flusher).work
        with self._lock:
            while self._applying < self._appliers.tasks and not self._shared.ended.is_set():
                self._start(f"apply-{self._applying}", lambda _: work())
                self._applying += 1

    def _read(self, heard: Callable[[], None]) -> None:
        try:
            self._stream.run(self._store.put, heard)
        except Exception as error:
            self._store.put(Failed(_as_fault(error)))

    def _fail(self, error: BaseException) -> None:
        """Note a fault, which goes to the stop switch; every call that waits raises it."""
        if self._shared.ended.is_set():
            return
        fault = _as_fault(error)
        with self._lock:
            self._fault = self._fault or fault
            self._lock.notify_all()
        self._stop.request(fault)
        self._store.close()

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault
        self._stop.check()
        if self._ended():
            raise FeedFailure("the change feed has ended", hint="run the same command again")

    def _ended(self) -> bool:
        swapped = self._dispatcher is not None and self._dispatcher.ended
        return swapped or self._fault is not None or self._shared.ended.is_set()

    def stop(self) -> None:
        """Apply nothing more from now on; at once, without I/O. ``close`` follows."""
        self._shared.ended.set()
        for thread in self._threads:
            thread.stop()
        self._shared.wanted.set()
        self._store.close()

    def close(self) -> None:
        """Stop threads and sessions, idempotent; a batch may run for :data:`FLUSH_GRACE` s more."""
        self.stop()
        self._stream.close()
        if self._flusher is not None:
            with self._lock:
                self._flusher.wake()
                self._weigher.wake()
        with self._lock:
            # None is started any more.
            threads, self._threads = self._threads, []
        if not all(thread.wait(FLUSH_GRACE) for thread in threads):
            self._applier.interrupt()
        for thread in threads:
            thread.join()
        self._applier.close()
        if self._dispatcher is not None:
            self._dispatcher.close()

    def _flush_once(self) -> int:
        self._check()
        applied = _started(self._flusher).flush_once()
        self._check()
        return applied

    def flush(self) -> None:
        """Apply until the backlog is trivial; see the contract."""
        trivial = min(reception.TRIVIAL_BACKLOG, self._options.under_lock_changes)
        reception.flush_backlog(self._flush_once, self.pending, trivial=trivial)

    def catch_up(self, tell: Callable[[str], None]) -> None:
        """Receive and apply until the backlog is trivial; see the contract."""
        reception.patiently_with(self, self._stop, tell=tell, apply=self.flush)

    def apply_executed(self, stop: StopSwitch, tell: Callable[[str], None]) -> None:
        """Receive and apply what is executed now; see the contract."""
        reception.patiently_with(self, stop, tell=tell, apply=self._flush_once)

    def flush_under_table_lock(self, session: SqlSession, only: TableMapping | None = None) -> None:
        """Apply everything through the session that holds the lock; see the contract."""
        self._check()
        flushed = self._subscriptions.of(only)
        with self._lock:
            pending = sum(one.buffer.pending for one in flushed)
        if pending > (limit := self._options.under_lock_changes):
            said = f"{pending} changes are pending under the table lock, more than {limit}"
            hint = "the cut-over tries again when the backlog is smaller"
            raise ChangesNotFlushed(said, hint=hint)
        _started(self._flusher).flush_in(session, flushed)

    def flushed_often(self, seconds: float | None = None) -> AbstractContextManager[None]:
        """Apply every few hundred milliseconds, or so many seconds; see the contract."""
        return _started(self._flusher).often(seconds or self._options.swap_flush_interval)

    def applies_paused(self, *, patient: bool = True) -> AbstractContextManager[None]:
        """Hold back all applying, not nested; what was applied is visible meanwhile (R3)."""
        return _started(self._flusher).paused(patient=patient)

    def block_wait(self, timeout: float | None = None, session: SqlSession | None = None) -> None:
        """Wait until all that is visible at the call was received; see the contract."""
        seconds = self._options.wait_timeout if timeout is None else timeout
        try:
            _started(self._reception).wait(seconds, session, while_moving=timeout is None)
        except HistoryLost as error:
            # Trying again cannot help.
            self._fail(error)
            raise

    def position(self) -> str:
        """Return the safe position (R7); empty before the start."""
        with self._lock:
            if self._ledger is None:
                return ""
            self._ledger.settle()
            return self._ledger.safe_text()

    @property
    def origin(self) -> Origin:
        """What the position is of (R25)."""
        return self._stream.origin

    @property
    def lapses(self) -> int:
        """How often rows may have been changed past the log since the feed was made (R25)."""
        return self._stream.lapses

    def distrust(self) -> None:
        """Have each new table compared as a whole before its swap; right after the start."""
        with self._lock:
            for subscription in self._subscriptions:
                subscription.note_unread(_started(self._ledger).current)

    def position_here(self, session: SqlSession) -> str:
        """Return the place after everything that is executed now; see the contract."""
        return self._stream.position_here(session)

    def pending(self) -> int:
        """Count changes received and not yet applied."""
        with self._lock:
            return self._subscriptions.pending

    def all_changes_flushed(self, only: TableMapping | None = None) -> bool:
        """Return whether every received change is applied; False once the feed has ended."""
        with self._lock:
            ledger = _started(self._ledger)
            if self._ended():
                return False
            if only is not None:
                return not any(one.buffer.pending for one in self._subscriptions.of(only))
            return not (self.pending() or ledger.in_transaction or ledger.undecided)

    def statistics(self) -> FeedStatistics:
        """Return the counters."""
        return reception.statistics(
            self._backpressure,
            ledger=self._ledger,
            lag=self._dispatcher.lag if self._dispatcher else None,
            paused=self._flusher is not None and self._flusher.holding,
            apply_sessions=self._appliers.tasks,
        )

    def end_watermark_optimization(self) -> None:
        """Switch the watermark filters of every table off: before checksum and cutover."""
        points.reach("drain.begun")
        for subscription in self._subscriptions:
            subscription.copy_finished()

    def expect_own_ddl(self, session_id: int, sql: str) -> None:
        """Let the swap of this session of ours pass, which ends the feed; see the contract."""
        _started(self._dispatcher).expect_own_ddl(session_id, sql)

    def forget_own_ddl(self) -> None:
        """Let no swap pass any more; see the contract."""
        _started(self._dispatcher).forget_own_ddl()

    def rebuilt(self, table: Table) -> int:
        """Count how often a followed table, or one that follows it, was seen to be built again."""
        with self._lock:
            return _started(self._dispatcher).rebuilt[table]

    def has_unread_changes(self, mapping: TableMapping) -> bool:
        """Return whether changes of the table were passed over; see the contract."""
        return any(one.has_unread_changes for one in self._subscriptions.of(mapping))

    def compared(self, mapping: TableMapping) -> None:
        """Note that the table was compared as a whole; see the contract."""
        for subscription in self._subscriptions.of(mapping):
            subscription.compared()

    def was_written_by_others(self, mapping: TableMapping) -> bool:
        """Return whether others wrote to the new table before the resume; after block_wait."""
        return (mapping.target.schema, mapping.target.name) in self._stream.written_by_others

    def write_over(self, mapping: TableMapping) -> None:
        """Note that rows of the new table may be newer than what waits; see the contract."""
        for subscription in self._subscriptions.of(mapping):
            subscription.write_over()

    def overwrites(self, mapping: TableMapping) -> int:
        """Count what may have pushed a row out of the new table; see the contract."""
        with self._lock:
            return sum(one.buffer.overwrites for one in self._subscriptions.of(mapping))


def _started(part: T | None) -> T:
    if part is None:
        raise FeedBroken("the change feed was not started", hint="this is a bug: report it")
    return part


def _as_fault(error: BaseException) -> SpiritError:
    if isinstance(error, SpiritError):
        return error
    if isinstance(error, MemoryError):
        fault: SpiritError = HandOverFailed(
            "there is not enough memory for the changed rows that the feed has in hand",
            hint="give the process more memory, then run the same command again",
        )
    else:
        fault = FeedBroken(f"the change feed broke: {error!r}", hint="this is a bug: report it")
    fault.__cause__ = error
    return fault
