"""What the threads of a change feed share: one state, changed under one lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

    from spirit_py.binlog.stream import Stream
    from spirit_py.feed.ledger import Ledger, VisibilityGate
    from spirit_py.feed.subscription import Subscriptions


@dataclass(frozen=True, kw_only=True)
class Shared:
    """The state of a feed whose stream has begun.

    Attributes:
        lock: guards it, and is notified whenever something was received; nothing waits for the
            server under it.
        mutex: that of ``lock``, for conditions of their own on it.
        ended: set when the feed is closed: nothing may be applied any more.
    """

    lock: threading.Condition
    mutex: threading.RLock
    subscriptions: Subscriptions
    stream: Stream
    gate: VisibilityGate
    ledger: Ledger
    ended: threading.Event
