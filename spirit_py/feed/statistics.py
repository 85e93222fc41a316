"""The figures of a feed, gathered from its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.progress import FeedStatistics

if TYPE_CHECKING:
    import threading

    from spirit_py.binlog.events import Event
    from spirit_py.binlog.stream import Stream
    from spirit_py.feed.dispatch import Dispatcher
    from spirit_py.feed.ledger import Ledger
    from spirit_py.feed.store import Backpressure, EventStore
    from spirit_py.feed.subscription import Subscriptions


def statistics(
    stream: Stream,
    subscriptions: Subscriptions,
    *,
    lock: threading.Condition,
    store: EventStore[Event],
    backpressure: Backpressure,
    ledger: Ledger | None,
    dispatcher: Dispatcher | None,
    paused: bool,
) -> FeedStatistics:
    """Return the counters of a feed; ``ledger`` and ``dispatcher`` are None before the start.

    Args:
        paused: nothing is applied but under the lock of the swap, or while rows are repaired.
    """
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
            lag_seconds=dispatcher.lag if dispatcher else None,
            read_position=ledger.received.text() if ledger else "",
        )


def _parked(subscriptions: Subscriptions, backpressure: Backpressure, *, paused: bool) -> str:
    """Return why changes that wait are not applied now; empty where they may be."""
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
