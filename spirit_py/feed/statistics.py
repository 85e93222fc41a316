"""The figures of a feed, gathered from its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.contracts import FeedStatistics

if TYPE_CHECKING:
    import threading

    from spirit_py.binlog.events import Event
    from spirit_py.binlog.stream import Stream
    from spirit_py.feed.backpressure import Backpressure
    from spirit_py.feed.dispatch import Dispatcher
    from spirit_py.feed.ledger import Ledger
    from spirit_py.feed.store import EventStore
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
) -> FeedStatistics:
    """Return the counters of a feed; ``ledger`` and ``dispatcher`` are None before the start."""
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
            retention=backpressure.retention,
            reconnects=stream.reconnects,
            received_bytes=received,
            skipped_bytes=skipped,
            own_bytes=own,
            lag_seconds=dispatcher.lag if dispatcher else None,
            read_position=ledger.received.text() if ledger else "",
        )
