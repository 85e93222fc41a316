"""What the threads of a change feed share: one state, changed under one lock, and its figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spirit_py.progress import FeedStatistics

if TYPE_CHECKING:
    import threading

    from spirit_py.binlog.events import Event, Stream
    from spirit_py.feed.ledger import Ledger, VisibilityGate
    from spirit_py.feed.store import Backpressure, EventStore
    from spirit_py.feed.subscription import Subscriptions


@dataclass(frozen=True, kw_only=True)
class Shared:
    """The state of a feed whose stream has begun; nothing waits for the server under ``lock``."""

    lock: threading.Condition
    mutex: threading.RLock
    subscriptions: Subscriptions
    stream: Stream
    gate: VisibilityGate
    ledger: Ledger
    ended: threading.Event


def statistics(
    stream: Stream,
    subscriptions: Subscriptions,
    *,
    lock: threading.Condition,
    store: EventStore[Event],
    backpressure: Backpressure,
    ledger: Ledger | None,
    lag: float | None,
    paused: bool,
) -> FeedStatistics:
    """Return the counters of a feed; ``ledger`` and ``lag`` are None before the start."""
    received, skipped, own = stream.traffic
    with lock:
        totals = subscriptions.totals()
        return FeedStatistics(
            received=totals.received,
            applied=totals.applied,
            deduplicated=totals.deduplicated,
            dropped_above_high_watermark=totals.dropped,
            pending=subscriptions.pending,
            buffered_bytes=subscriptions.bytes + store.bytes,
            peak_buffered_bytes=backpressure.peak,
            backpressure_seconds=backpressure.seconds,
            backpressure=backpressure.waiting,
            parked=_parked(subscriptions, backpressure, paused=paused),
            retention=backpressure.retention,
            reconnects=stream.reconnects,
            received_bytes=received,
            skipped_bytes=skipped,
            own_bytes=own,
            lag_seconds=lag,
            read_position=ledger.received.text() if ledger else "",
        )


def _parked(subscriptions: Subscriptions, backpressure: Backpressure, *, paused: bool) -> str:
    if backpressure.waiting:
        return "the buffers are full, the reader waits"
    if paused:
        return "the swap or a repair applies them"
    if not all(one.may_apply for one in subscriptions.values()):
        return "the build of indexes holds them"
    fifo = [one for one in subscriptions.values() if not one.buffer.comparable]
    if any(one.buffer.pending and one.tracker.settled < one.tracker.dispatched for one in fifo):
        return "chunks in flight hold the queue"
    return ""
