"""Takes changes out of the buffers and has them applied; one flush at a time."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spirit_py.change.apply import BatchApplier
    from spirit_py.change.events import Table
    from spirit_py.change.feedstream import Stream
    from spirit_py.change.gate import VisibilityGate
    from spirit_py.change.ledger import Ledger
    from spirit_py.change.subscription import TableSubscription
    from spirit_py.contracts import SqlSession
    from spirit_py.stop import StopSwitch

TAKE_ROWS: Final = 10_000
TAKE_BYTES: Final = 32 << 20


class Flusher:
    """Applies what waits in the buffers of a feed's tables.

    Args:
        lock: the feed's lock; nothing here waits for the server under it.
        ended: set when nothing may be applied any more.
        stop: once requested, no further batch is begun.
    """

    def __init__(
        self,
        *,
        lock: threading.Condition,
        subscriptions: Mapping[Table, TableSubscription],
        applier: BatchApplier,
        stream: Stream,
        gate: VisibilityGate,
        ended: threading.Event,
        stop: StopSwitch,
    ) -> None:
        self._lock = lock
        self._subscriptions = subscriptions
        self._applier = applier
        self._stream = stream
        self._gate = gate
        self._ended = ended
        self._stop = stop
        self._flushing = threading.Lock()
        self._paused = False
        self.ledger: Ledger | None = None

    def flush_once(self) -> int:
        """Apply what waited at the call and need not wait longer; gives the changes applied."""
        with self._flushing:
            return sum(self._flush(s, None) for s in list(self._subscriptions.values()))

    def flush_in(self, session: SqlSession) -> None:
        """Apply everything in one session, while everybody else is paused; then verify (R11)."""
        with contextlib.nullcontext() if self._paused else self._flushing:
            for subscription in self._subscriptions.values():
                self._flush(subscription, session)
                self._applier.verify(subscription.mapping, session)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Hold back all flushes but those in a session; wait until what was applied is visible."""
        with self._flushing:
            with self._lock:
                unproven = self._gate.unproven()
            self._stream.prove_visible(unproven)
            with self._lock:
                self._gate.prove(unproven)
            self._paused = True
            try:
                yield
            finally:
                self._paused = False

    def _flush(self, subscription: TableSubscription, session: SqlSession | None) -> int:
        """Apply one table's changes, batch by batch; a stop request ends it between two."""
        buffer = subscription.buffer
        self._prove(subscription)
        with self._lock:
            if self.ledger is not None:
                self.ledger.seal()
            left = buffer.waiting
        applied = 0
        while left > 0 and not (self._ended.is_set() or self._stop.requested):
            with self._lock:
                batch = buffer.take(min(TAKE_ROWS, left), TAKE_BYTES)
            if not batch:
                break
            done = False
            try:
                self._applier.apply(
                    subscription.mapping, batch, in_order=not buffer.comparable, session=session
                )
                done = True
            finally:
                with self._lock:
                    if done:
                        buffer.settled(batch)
                    else:
                        buffer.give_back(batch)
                    self._lock.notify_all()
            applied += len(batch)
            left -= len(batch)
        with self._lock:
            if self.ledger is not None:
                self.ledger.settle()
        return applied

    def _prove(self, subscription: TableSubscription) -> None:
        """Without GTIDs: prove that what was received is visible, before anything is applied."""
        filters = subscription.buffer.filters
        if filters.proofs is None or not filters.active:
            return
        with self._lock:
            if not subscription.buffer.waiting:
                return
            number = filters.proofs.begin()
        self._stream.prove_visible("")
        with self._lock:
            filters.proofs.end(number, subscription.tracker.dispatched)
