"""Takes batches of changes out of the partitions and applies several at the same time."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.classes import KW_ONLY, dataclass
from spirit_py.errors import (
    MEETING_PAUSE,
    MEETING_SECONDS,
    ChangesNotFlushed,
    FeedSilent,
    RowsMeet,
    ValueLost,
)
from spirit_py.feed.buffer import Manner
from spirit_py.mysql.faults import not_now
from spirit_py.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.feed.apply import Appliers, BatchApplier, Weigher
    from spirit_py.feed.ledger import Ledger
    from spirit_py.feed.partitions import Partition
    from spirit_py.feed.shared import Backpressure, Shared
    from spirit_py.feed.subscription import TableSubscription

TAKE_ROWS: Final = 10_000
"""Changes of an indivisible table in one batch: its parts are applied side by side."""
TAKE_BYTES: Final = 32 << 20
OWN_ROWS: Final = 4000
"""Changes of one partition of several in one batch."""
OWN_BYTES: Final = 8 << 20
_WEIGHED_WITHIN: Final = 3.0
"""Seconds for which a flush under a table lock waits for the weights of keys (R23)."""
FLUSH_GRACE: Final = 1.0
"""Seconds for which a batch may run when nothing more is applied."""
_POLL: Final = 0.2
_IDLE_PAUSE: Final = 0.25


class _Request:
    def __init__(self, number: int) -> None:
        self.number = number
        self.fault: Exception | None = None
        #: Whether a batch waits again because rows of two sources meet.
        self.met = False

    @property
    def again(self) -> bool:
        """Whether another round is to be requested."""
        return self.met and self.fault is None


@dataclass(eq=False)
class Flusher:
    """Applies the pending changes of a feed's tables, in rounds; see :meth:`flush_once`.

    Workers and those that wait for them have conditions of their own on the mutex of ``shared``, so
    that not every received transaction wakes them.
    """

    shared: Shared
    ledger: Ledger
    _: KW_ONLY
    appliers: Appliers
    start_appliers: Callable[[], None]
    applier: BatchApplier
    fail: Callable[[Exception], None]
    backpressure: Backpressure
    weigher: Weigher

    def __post_init__(self) -> None:
        self._lock = self.shared.lock
        self._work = threading.Condition(self.shared.mutex)
        self._settled = threading.Condition(self.shared.mutex)
        self._subscriptions = self.shared.subscriptions
        self._pausing = threading.Lock()
        #: Whether nothing is applied but through the session of a table lock.
        self.holding = False
        #: Seconds between rounds that somebody asks for, see :meth:`often`; the shortest counts.
        self._asked_for: list[float] = []
        self._rounds = 0
        #: Since when all is over as far as it was seen, and whether what runs is being ended.
        self._over_since: float | None = None
        self._ending = False
        self._requests: list[_Request] = []
        #: When rows of two sources first met, in each partition by what was said.
        self._meetings: dict[Partition, dict[str, float]] = {}

    def flush_once(self) -> int:
        """Apply what waits at the call and is not held; return how many; raises a batch's fault."""
        self.weigher.finish(list(self._subscriptions))
        self._prove_all()
        with self._lock:
            before = self._applied()
            request = _Request(self._ask(insist=True))
            self._requests.append(request)
            try:
                parts = [one.buffer.partitions for one in self._subscriptions]
                while request.again or not all(one.done(request.number) for one in parts):
                    if self.shared.over and not self._running():
                        break
                    self._end_hung()
                    if request.again:
                        request.met, request.number = False, self._ask(insist=True)
                    self._settled.wait(_POLL)
            finally:
                self._requests.remove(request)
            self.ledger.settle()
            if request.fault is not None:
                raise request.fault
            return self._applied() - before

    @contextlib.contextmanager
    def often(self, seconds: float) -> Iterator[None]:
        """Have :meth:`run` go by another interval meanwhile; may be nested."""
        self._asked_for.append(seconds)
        self.shared.wanted.set()
        try:
            yield
        finally:
            self._asked_for.remove(seconds)

    def run(self, stopping: threading.Event, interval: float) -> None:
        """Request pending changes when ``wanted``, and every so many seconds."""
        while not stopping.is_set():
            self.shared.wanted.wait(min([interval, *self._asked_for]))
            self.shared.wanted.clear()
            if not stopping.is_set() and not self.request(wait=1.0):
                stopping.wait(_IDLE_PAUSE)

    def request(self, *, wait: float) -> bool:
        """Request what waits, and wait for an idle worker; return whether anything was applied."""
        self._prove_all()
        with self._lock:
            self._end_hung()
            before = self._applied()
            if self._ask(insist=False):
                self._settled.wait_for(lambda: self.shared.over or self._idle(), wait)
            self.ledger.settle()
            return self._applied() > before

    def _ask(self, *, insist: bool) -> int:
        self.start_appliers()
        self._rounds += 1
        self.ledger.seal()
        wanted = False
        for subscription in self._subscriptions:
            partitions = subscription.buffer.partitions
            if self.backpressure.waiting:
                subscription.buffer.cut()
            if not self.holding:
                # More than work now: more of them may be tried.
                partitions.balance(min(self.appliers.most, 2 * self.appliers.tasks))
            wanted |= partitions.ask(self._rounds, insist=insist)
        self._work.notify_all()
        return self._rounds if wanted or insist else 0

    def _running(self) -> int:
        return sum(s.buffer.partitions.running for s in self._subscriptions)

    def _end_hung(self) -> None:
        """End batches that run on after a stop, as on a frozen server; called under the lock."""
        if self._ending or not (self.shared.over and self._running()):
            return
        now = time.monotonic()
        if self._over_since is None:
            self._over_since = now
        if now - self._over_since >= FLUSH_GRACE:
            self._ending = True
            # It may have to wait for the server.
            Background("feed-interrupt", lambda _: self.applier.interrupt()).start()

    def _idle(self) -> bool:
        if self._running() >= self.appliers.tasks:
            return False
        return not any(any(s.buffer.partitions.ready()) for s in self._unbounded())

    def _unbounded(self) -> list[TableSubscription]:
        return [one for one in self._subscriptions if one.may_apply]

    def _applied(self) -> int:
        return self._subscriptions.totals().applied

    def work(self) -> None:
        """Body of a worker's thread: apply batch after batch."""
        while True:
            with self._lock:
                while (found := self._next()) is None:
                    self.appliers.rest()
                    if self.shared.ended.is_set():
                        return
                    self._work.wait()
                # The parts of other tables count one by one.
                parts = found[0].buffer.partitions
                counts = parts.divisible or parts.ordered
                began = self.appliers.begin() if counts else None
            match self._apply(*found, None, began):
                case RowsMeet() as met:
                    self._met(met, found[1])
                case Exception() as fault:
                    self.fail(fault)

    def _met(self, met: RowsMeet, partition: Partition) -> None:
        """Let others go on; their feeds may delete the row in the way, and this one's may go too.

        The text names the key: the feed fails where one is in the way for too long, and nothing of
        the partition could be applied meanwhile.
        """
        now = time.monotonic()
        with self._lock:
            first = self._meetings.setdefault(partition, {}).setdefault(met.message, now)
            over = now - first > MEETING_SECONDS
            told = over and self._failed(met)
        if not over:
            self.shared.ended.wait(MEETING_PAUSE)
        elif not told:
            self.fail(met)

    def _next(self) -> tuple[TableSubscription, Partition] | None:
        if self.holding or self.shared.over or self._running() >= self.appliers.tasks:
            return None
        ready = [
            (partition.turn, number, subscription, partition)
            for number, subscription in enumerate(self._unbounded())
            for partition in subscription.buffer.partitions.ready()
        ]
        for _, _, subscription, partition in sorted(ready, key=lambda found: found[:2]):
            if self._take(subscription, partition):
                return subscription, partition
            self._settled.notify_all()
        return None

    @staticmethod
    def _take(subscription: TableSubscription, partition: Partition) -> bool:
        divided = subscription.buffer.partitions.divisible
        rows, size = (OWN_ROWS, OWN_BYTES) if divided else (TAKE_ROWS, TAKE_BYTES)
        if subscription.room is None:
            return bool(subscription.buffer.take(partition, rows, size))
        taken = subscription.buffer.take(partition, rows, min(size, subscription.room))
        subscription.room -= sum(change.size for change in taken)
        return bool(taken)

    def _apply(
        self,
        subscription: TableSubscription,
        partition: Partition,
        session: SqlSession | None,
        began: float | None = None,
    ) -> Exception | None:
        """Write a batch; return its fault, or None where a call that waits raises a worker's."""
        buffer = subscription.buffer
        fault: Exception | None = None
        done = over = False
        points.reach("feed.flushing")
        try:
            over = self._write(subscription, partition, session)
            done = True
            points.reach("feed.flushed")
        except Exception as error:
            fault = error
        # In one hold of the lock: who waits for the round sees its end together with its fault.
        with self._lock:
            if began is not None:
                rows = len(partition.taken) if done else 0
                ready = (one.buffer.partitions.ready() for one in self._unbounded())
                self.appliers.end(rows, began, ready=sum(1 for each in ready for _ in each))
            if done:
                buffer.overwrites += over
                buffer.applied(partition)
                self._meetings.pop(partition, None)
            else:
                buffer.give_back(partition)
            met = isinstance(fault, RowsMeet)
            for request in self._requests:
                request.met = request.met or met
            told = fault is not None and session is None and not met and self._failed(fault)
            self.wake()
        return None if told else fault

    def _write(
        self, subscription: TableSubscription, partition: Partition, session: SqlSession | None
    ) -> bool:
        buffer, mapping, taken = subscription.buffer, subscription.mapping, partition.taken
        if buffer.manner is not Manner.OVER:
            complete = buffer.manner is Manner.STATE
            return self.applier.apply_state(mapping, taken, complete=complete, session=session)
        in_order, spread = buffer.partitions.ordered, not buffer.partitions.divisible
        try:
            self.applier.apply(mapping, taken, in_order=in_order, session=session, spread=spread)
        except ValueLost:
            if session is not None:
                raise
            # A later change of the row can be read only once the image itself is visible.
            with self._lock:
                unproven = self.shared.gate.unproven()
            self._await_visible(unproven)
            self.applier.apply_what_counts(mapping, taken, in_order=in_order)
        return False

    def wake(self) -> None:
        """Wake every thread that waits; called under the lock."""
        for condition in (self._lock, self._work, self._settled):
            condition.notify_all()

    def _failed(self, error: Exception) -> bool:
        """End all rounds, under the lock; return whether a call waits, which raises the fault."""
        for subscription in self._subscriptions:
            subscription.buffer.partitions.give_up()
        for request in self._requests:
            request.fault = request.fault or error
        self.wake()
        return bool(self._requests)

    def flush_in(self, session: SqlSession, subscriptions: Sequence[TableSubscription]) -> None:
        """Apply all changes of tables in one session, workers paused; raises ChangesNotFlushed."""
        if not (self.weigher.finish(subscriptions, seconds=_WEIGHED_WITHIN) or self.shared.over):
            raise ChangesNotFlushed(
                f"the server did not say within {_WEIGHED_WITHIN:.0f} s which keys are equal",
                hint="see whether the server opens new connections; run the same command again",
            )
        with contextlib.nullcontext() if self.holding else self._quiet():
            try:
                for subscription in subscriptions:
                    self._flush_here(subscription, session)
            except RowsMeet as met:
                # Not here, where others wait for the lock.
                raise ChangesNotFlushed(met.message, hint=met.hint) from met

    def _flush_here(self, subscription: TableSubscription, session: SqlSession) -> None:
        self._prove(subscription, self.shared.stream.prove_visible)
        buffer = subscription.buffer
        with self._lock:
            self.ledger.seal()
            partition = buffer.partitions.unite()
            left = len(partition.waiting)
        while left > 0 and not self.shared.over:
            with self._lock:
                taken = buffer.take(partition, min(TAKE_ROWS, left), TAKE_BYTES)
            if not taken:
                break
            if fault := self._apply(subscription, partition, session):
                raise fault
            left -= len(taken)
        with self._lock:
            self.ledger.settle()

    @contextlib.contextmanager
    def paused(self, *, patient: bool = True) -> Iterator[None]:
        """Pause all flushes but those in a session; wait until all applied changes are visible.

        ``patient``: also behind a backup, of which nothing is shown.
        """
        with self._quiet():
            with self._lock:
                unproven = self.shared.gate.unproven()
            prove = self._await_visible if patient else self.shared.stream.prove_visible
            prove(unproven)
            with self._lock:
                self.shared.gate.prove(unproven)
            yield

    @contextlib.contextmanager
    def _quiet(self) -> Iterator[None]:
        with self._pausing:
            with self._lock:
                self.holding = True
            try:
                with self._lock:
                    while self._running():
                        self._end_hung()
                        self._settled.wait(_POLL)
                yield
            finally:
                with self._lock:
                    self.holding = False
                    self._work.notify_all()

    def _prove_all(self) -> None:
        for subscription in list(self._subscriptions):
            self._prove(subscription, self._await_visible)

    def _await_visible(self, gtids: str) -> None:
        """Prove it, again and again while a backup or a global lock is in front; not in a lock."""
        while True:
            try:
                return self.shared.stream.prove_visible(gtids)
            except FeedSilent as silent:
                if self.shared.over or not not_now(silent.__cause__):
                    raise
            self.shared.ended.wait(_IDLE_PAUSE)

    def _prove(self, subscription: TableSubscription, prove: Callable[[str], None]) -> None:
        """Without GTIDs: prove that what was received is visible, before anything is applied."""
        filters = subscription.buffer.filters
        if filters.proofs is None or not filters.active:
            return
        with self._lock:
            if not subscription.buffer.partitions.waiting:
                return
            number = filters.proofs.begin()
        prove("")
        with self._lock:
            filters.proofs.end(number, subscription.tracker.dispatched)
