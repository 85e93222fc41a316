"""The change feed: threads around store, dispatcher, buffers and ledger (design section 4).

::

    reader thread      stream.run -> store.put            parks while the ring is full
    dispatcher thread  store.get -> Dispatcher -> buffers  parks while the buffers are full
    flusher thread     asks for what waits in the buffers  every interval, or when half full
    apply threads      buffers -> Applier                  a partition's batch each
    lookout thread     how long the source keeps what a parked reader has not read yet

Everything that is counted, buffered or filtered changes under one lock, so that a chunk's
dispatch and the drop filter can never disagree (R3). Nothing waits for the server under it.
What is particular to a server is behind :class:`~spirit_py.binlog.stream.Stream`.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from spirit_py import points
from spirit_py.binlog.events import Failed, is_boundary, weight
from spirit_py.binlog.statements import TableFinder
from spirit_py.binlog.writes import StatementWrites
from spirit_py.chunk.watermark import OpenEnd
from spirit_py.contracts import FeedStatistics
from spirit_py.errors import ChangesNotFlushed, FeedFailure, SpiritError
from spirit_py.feed.apply import BatchApplier
from spirit_py.feed.backpressure import Parking
from spirit_py.feed.catchup import catch_up
from spirit_py.feed.dispatch import Dispatcher
from spirit_py.feed.flusher import Flusher
from spirit_py.feed.gate import VisibilityGate
from spirit_py.feed.ledger import Ledger
from spirit_py.feed.store import EventStore
from spirit_py.feed.subscription import TableSubscription

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from spirit_py.binlog.events import Event, Table
    from spirit_py.binlog.position import Frontier
    from spirit_py.binlog.stream import Stream
    from spirit_py.chunk.chunk import ComparableKey, KeyBound
    from spirit_py.config import FeedOptions
    from spirit_py.contracts import Applier, Clock, SqlSession
    from spirit_py.stop import StopSwitch
    from spirit_py.table.mapping import TableMapping

T = TypeVar("T")
_LOG = logging.getLogger(__name__)

FLUSH_GRACE = 1.0
"""Seconds that a running batch has to end in by itself when the feed is closed."""
JOIN_TIMEOUT = 10.0
"""Seconds that a thread has to end in."""
TRIVIAL_BACKLOG = 1000
"""Pending changes at which :meth:`ChangeFeed.flush` is content."""
_STALLED_ROUNDS = 10
_IDLE_PAUSE = 0.25
_GET_EVENTS = 1024


class ChangeFeed:
    """Implements :class:`spirit_py.contracts.ChangeSource` over a stream."""

    def __init__(
        self,
        stream: Stream,
        applier: Applier,
        *,
        options: FeedOptions,
        stop: StopSwitch,
        clock: Clock = time.monotonic,
    ) -> None:
        self._stream = stream
        self._options = options
        self._stop = stop
        self._clock = clock
        mutex = threading.RLock()
        self._lock = threading.Condition(mutex)
        self._closing = threading.Event()
        self._flush_wanted = threading.Event()
        self._applier = BatchApplier(
            applier, threads=options.apply_threads, batch_rows=options.batch_rows
        )
        self._subscriptions: dict[Table, TableSubscription] = {}
        self._gate = VisibilityGate(has_gtids=stream.has_gtids)
        self._flusher = Flusher(
            lock=self._lock,
            mutex=mutex,
            workers=max(1, options.apply_threads),
            subscriptions=self._subscriptions,
            applier=self._applier,
            stream=stream,
            gate=self._gate,
            ended=self._closing,
            stop=stop,
            fail=lambda error: self._fail(_as_fault(error)),
            parked=lambda: self._parking.parked,
        )
        store_bytes = max(1 << 20, min(32 << 20, options.soft_limit_bytes // 4))
        self._xa_memory = max(1 << 16, options.soft_limit_bytes // 16)
        self._store: EventStore[Event] = EventStore(max_bytes=store_bytes, clock=clock)
        self._parking = Parking(
            lock=self._lock,
            limit=max(1, options.soft_limit_bytes - store_bytes),
            buffered=self._buffered,
            queued=lambda: self._store.bytes,
            press=self._flush_wanted,
            over=lambda: self._closing.is_set() or self._fault is not None,
            ask=stream.retention,
            clock=clock,
        )
        self._ledger: Ledger | None = None
        self._dispatcher: Dispatcher | None = None
        self._threads: list[threading.Thread] = []
        self._own_sessions: set[int] = set()
        self._fault: SpiritError | None = None
        self._heard_at: float | None = None

    # -- before the start

    def add_subscription(
        self,
        mapping: TableMapping,
        *,
        resumed_above: KeyBound | None = None,
        keep_up_to: ComparableKey | OpenEnd = OpenEnd.BEGINNING,
        copied: bool = False,
    ) -> TableSubscription:
        """Follow a table; see the contract."""
        subscription = TableSubscription(
            mapping,
            lock=self._lock,
            gate=self._gate,
            wake=self._flush_when_pressed,
            resumed_above=resumed_above,
            keep_up_to=keep_up_to,
            copied=copied,
        )
        self._subscriptions[mapping.source.schema, mapping.source.name] = subscription
        return subscription

    def start(self) -> None:
        """Begin at a place that cannot miss a commit (R2). Returns once the stream is open."""
        self._run(self._stream.begin([s.mapping for s in self._subscriptions.values()]))

    def start_from_position(
        self, position: str, settled: str = "", *, pass_hidden: bool = False
    ) -> None:
        """Resume after a position; see the contract."""
        mappings = [s.mapping for s in self._subscriptions.values()]
        self._run(self._stream.resume(mappings, position, settled, pass_hidden=pass_hidden))

    def is_blind(self, mapping: TableMapping) -> bool:
        """Return whether changes of the table were passed over; see the contract."""
        return any(one.blind for one in self._of(mapping))

    def compared(self, mapping: TableMapping) -> None:
        """Note that the table was compared as a whole; see the contract."""
        for subscription in self._of(mapping):
            subscription.compared()

    def is_disturbed(self, mapping: TableMapping) -> bool:
        """Return whether others wrote to the new table between the runs; see the contract."""
        return (mapping.target.schema, mapping.target.name) in self._stream.disturbed

    def _run(self, start: Frontier) -> None:
        """Start the threads."""
        self._ledger = self._flusher.ledger = Ledger(start)
        self._dispatcher = Dispatcher(
            lock=self._lock,
            subscriptions=self._subscriptions,
            ledger=self._ledger,
            gate=self._gate,
            finder=TableFinder(self._subscriptions, ignore_case=self._stream.ignore_case),
            writes=self._statement_writes(),
            passes=self._stream.passes,
            park=self._parking.wait,
            knows_all_prepared=self._stream.knows_all_prepared,
            xa_memory=self._xa_memory,
        )
        for session_id in self._own_sessions:
            self._dispatcher.expect_own_ddl(session_id)
        self._heard_at = self._clock()
        bodies: dict[str, Callable[[], None]] = {
            "reader": self._read,
            "dispatcher": self._dispatch,
            "flusher": self._flush_periodically,
            "lookout": partial(self._parking.look, self._closing),
        }
        for number in range(max(1, self._options.apply_threads)):
            bodies[f"apply-{number}"] = self._flusher.work
        for name, body in bodies.items():
            thread = threading.Thread(target=body, name=f"spirit-feed-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()
        points.reach("feed.started")

    def _statement_writes(self) -> StatementWrites:
        """Return the judge of writes in text: nobody may write so to a source or its new table."""
        mappings = [one.mapping for one in self._subscriptions.values()]
        tables = [(t.schema, t.name) for m in mappings for t in (m.source, m.target)]
        ignore_case = self._stream.ignore_case
        return StatementWrites(
            self._options.vouched,
            TableFinder(tables, ignore_case=ignore_case).has,
            ignore_case=ignore_case,
            onward="run the same command again with {} to carry on behind the statement",
            give_up="spirit-py cleanup gives up what is done so far",
        )

    # -- threads

    def _read(self) -> None:
        """Reader thread: the stream's fault travels behind the events that came before it."""
        try:
            self._stream.run(self._emit, self._heard)
        except Exception as error:
            self._store.put(Failed(_as_fault(error)), 0, boundary=True)

    def _emit(self, event: Event) -> bool:
        return self._store.put(event, weight(event), boundary=is_boundary(event))

    def _heard(self) -> None:
        self._heard_at = self._clock()

    def _dispatch(self) -> None:
        """Dispatcher thread."""
        dispatcher = _started(self._dispatcher)
        try:
            while not self._closing.is_set():
                for event in self._store.get(_GET_EVENTS, timeout=1.0):
                    dispatcher.deliver(event)
                self._store.ack()
        except Exception as error:
            # Nobody gets them again: what a delivery fails at, it would fail at again.
            self._store.rollback()
            self._fail(_as_fault(error))

    def _flush_periodically(self) -> None:
        """Flusher thread."""
        try:
            while not self._closing.is_set():
                self._flush_wanted.wait(self._options.flush_interval)
                self._flush_wanted.clear()
                if not self._closing.is_set() and not self._flusher.request(wait=1.0):
                    self._closing.wait(_IDLE_PAUSE)
        except Exception as error:
            self._fail(_as_fault(error))

    def _fail(self, error: SpiritError) -> None:
        """Note a fault: the stop switch learns it, and everybody who waits here."""
        if self._closing.is_set():
            return
        with self._lock:
            self._fault = self._fault or error
            self._lock.notify_all()
        self._stop.request(error)
        self._store.close()

    # -- memory

    def _buffered(self) -> int:
        return sum(s.buffer.bytes for s in self._subscriptions.values())

    def _flush_when_pressed(self) -> None:
        """Let the flusher run when changes that were held may now be applied, and it matters."""
        if self._parking.pressed():
            self._flush_wanted.set()

    # -- applying

    def flush(self) -> None:
        """Apply until the backlog is trivial; see the contract."""
        trivial = min(TRIVIAL_BACKLOG, self._options.under_lock_changes)
        best, stalled = None, 0
        while True:
            self._check()
            applied = self._flusher.flush_once()
            self._check()
            pending = self.pending()
            if pending <= trivial or not applied:
                return
            stalled = stalled + 1 if best is not None and pending >= best else 0
            best = pending if best is None else min(best, pending)
            if stalled >= _STALLED_ROUNDS:
                raise ChangesNotFlushed(
                    f"{pending} changes are still pending after {stalled} rounds that did not"
                    " get below that",
                    hint="the table is written faster than changes are applied: wait for a"
                    " quieter time, or raise the apply threads",
                )

    def flush_under_table_lock(self, session: SqlSession, only: TableMapping | None = None) -> None:
        """Apply everything through the session that holds the lock; see the contract."""
        self._check()
        flushed = self._of(only)
        with self._lock:
            pending = sum(one.buffer.pending for one in flushed)
        limit = self._options.under_lock_changes
        if pending > limit:
            raise ChangesNotFlushed(
                f"{pending} changes are pending under the table lock, more than {limit}",
                hint="the cutover tries again when the backlog is smaller",
            )
        self._flusher.flush_in(session, flushed)

    def _of(self, only: TableMapping | None) -> list[TableSubscription]:
        """Return one table's subscription, or all of them."""
        followed = list(self._subscriptions.values())
        if only is None:
            return followed
        wanted = (only.source.schema, only.source.name)
        return [s for s in followed if (s.mapping.source.schema, s.mapping.source.name) == wanted]

    def applies_paused(self) -> AbstractContextManager[None]:
        """Hold back all applying; a running batch finishes first. Not to be nested.

        What was applied is visible then, so that a repair reads nothing older (R3).
        """
        return self._flusher.paused()

    def write_over(self, mapping: TableMapping) -> None:
        """Note that rows of the new table may be newer than what waits; see the contract."""
        for subscription in self._of(mapping):
            subscription.write_over()

    def overwrites(self, mapping: TableMapping) -> int:
        """Count what may have pushed a row out of the new table; see the contract."""
        with self._lock:
            return sum(one.buffer.overwrites for one in self._of(mapping))

    # -- waiting and looking

    def block_wait(self, timeout: float | None = None, session: SqlSession | None = None) -> None:
        """Wait until all that is visible at the call was received; see the contract."""
        ledger = _started(self._ledger)
        seconds = self._options.wait_timeout if timeout is None else timeout
        deadline = self._clock() + seconds
        with self._lock:
            claims = [(one, one.claim()) for one in self._subscriptions.values()]
        target = self._stream.executed(session)
        with self._lock:
            seen = self._progress()
            while not ledger.received.reaches(target):
                self._check()
                if timeout is None and (now := self._progress()) != seen:
                    seen, deadline = now, self._clock() + seconds
                left = deadline - self._clock()
                if left <= 0 or self._closing.is_set():
                    stood = "stood still" if timeout is None else "not come so far"
                    raise FeedFailure(
                        "the change feed has not received what the server had executed: for"
                        f" {seconds:.0f} s it has {stood}; {self._liveness()}",
                        hint="see whether the server sends its binlog; run the same command again",
                    )
                self._lock.wait(min(left, 1.0))
            for subscription, claim in claims:
                subscription.trust(claim)
        self._check()

    def catch_up(self, tell: Callable[[str], None]) -> None:
        """Receive and apply until the backlog is trivial; see the contract."""
        catch_up(self, self._stop, tell=tell)

    def _progress(self) -> tuple[object, ...]:
        """Return what changes whenever something was received, passed over or applied."""
        counters = [s.buffer.counters for s in self._subscriptions.values()]
        return (
            _started(self._ledger).received.text(),
            self._stream.traffic[1],
            sum(c.received for c in counters),
            sum(c.applied for c in counters),
        )

    def _liveness(self) -> str:
        """Return in words what the feed last heard."""
        if trouble := self._stream.trouble:
            return f"it is not connected ({trouble})"
        if self._parking.parked:
            return "it is parked, because its buffers are full"
        return f"it last heard from the server {self._silence() or 0:.0f} s ago"

    def _silence(self) -> float | None:
        return None if self._heard_at is None else self._clock() - self._heard_at

    def _check(self) -> None:
        """Raise the feed's own fault, or the reason to stop."""
        if self._fault is not None:
            raise self._fault
        self._stop.check()

    def position(self) -> str:
        """Return the safe position (R7); empty before the start."""
        with self._lock:
            if self._ledger is None:
                return ""
            self._ledger.settle()
            return self._ledger.safe_text()

    def position_here(self, session: SqlSession) -> str:
        """Return the place behind everything that is executed now; see the contract."""
        return self._stream.position_here(session)

    def pending(self) -> int:
        """Count changes received and not yet applied."""
        with self._lock:
            return sum(s.buffer.pending for s in self._subscriptions.values())

    def all_changes_flushed(self, only: TableMapping | None = None) -> bool:
        """Return whether every received change is applied and no transaction is half received."""
        with self._lock:
            ledger = _started(self._ledger)
            if only is not None:
                return not any(one.buffer.pending for one in self._of(only))
            return not (self.pending() or ledger.in_transaction or ledger.undecided)

    def set_watermark_optimization(self, *, enabled: bool) -> None:
        """Switch the watermark filters of every table."""
        points.reach("drain.begun")
        for subscription in self._subscriptions.values():
            subscription.set_filters(active=enabled)

    def expect_own_ddl(self, session_id: int) -> None:
        """Let DDL by this session of ours pass; on a followed table it ends the feed."""
        self._own_sessions.add(session_id)
        if self._dispatcher is not None:
            self._dispatcher.expect_own_ddl(session_id)

    def statistics(self) -> FeedStatistics:
        """Return the counters."""
        received, skipped, own = self._stream.traffic
        with self._lock:
            counters = [s.buffer.counters for s in self._subscriptions.values()]
            return FeedStatistics(
                received=sum(c.received for c in counters),
                applied=sum(c.applied for c in counters),
                deduplicated=sum(c.deduplicated for c in counters),
                dropped_above_high_watermark=sum(c.dropped for c in counters),
                pending=sum(s.buffer.pending for s in self._subscriptions.values()),
                buffered_bytes=self._buffered() + self._store.bytes,
                peak_buffered_bytes=self._parking.peak,
                backpressure_seconds=self._parking.seconds,
                backpressure=self._parking.parked,
                retention=self._parking.retention,
                reconnects=self._stream.reconnects,
                received_bytes=received,
                skipped_bytes=skipped,
                own_bytes=own,
                lag_seconds=self._dispatcher.lag if self._dispatcher else None,
                read_position=self._ledger.received.text() if self._ledger else "",
            )

    def stop(self) -> None:
        """Apply nothing more from now on; at once, without I/O. ``close`` follows."""
        self._closing.set()
        self._flush_wanted.set()
        self._store.close()

    def close(self) -> None:
        """Stop the threads and close the sessions; safe to call again.

        A batch that is being applied is given a moment, then ended; it was not to be kept.
        """
        self.stop()
        self._stream.close()
        with self._lock:
            self._flusher.wake()
        threads, self._threads = self._threads, []
        for thread in threads:
            thread.join(FLUSH_GRACE)
        if any(thread.is_alive() for thread in threads):
            self._applier.interrupt()
        for thread in threads:
            thread.join(JOIN_TIMEOUT)
        self._applier.close()
        if self._dispatcher is not None:
            self._dispatcher.close()
        for thread in threads:
            if thread.is_alive():
                _LOG.error("thread %s did not stop within %s s", thread.name, JOIN_TIMEOUT)


def _started(part: T | None) -> T:
    """Return a part that exists from the start on."""
    if part is None:
        raise FeedFailure("the change feed was not started", hint="this is a bug: report it")
    return part


def _as_fault(error: Exception) -> SpiritError:
    """Return an error of ours; an unforeseen one is wrapped."""
    if isinstance(error, SpiritError):
        return error
    fault = FeedFailure(f"the change feed broke: {error!r}", hint="this is a bug: report it")
    fault.__cause__ = error
    return fault
