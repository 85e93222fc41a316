"""What the threads of a change feed share: one state, changed under one lock."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spirit_py.feed.ledger import VisibilityGate
from spirit_py.feed.subscription import Subscriptions

if TYPE_CHECKING:
    from spirit_py.binlog.events import Stream
    from spirit_py.contracts import Clock
    from spirit_py.threads import StopSwitch


@dataclass(kw_only=True, eq=False)
class Shared:
    """The state of a feed; nothing waits for the server under ``lock``.

    ``mutex`` is that of ``lock``. ``ended`` is set when the feed is closed, ``wanted`` to have
    changes applied soon.
    """

    stream: Stream
    stop: StopSwitch
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self.mutex = threading.RLock()
        self.lock = threading.Condition(self.mutex)
        self.subscriptions = Subscriptions()
        self.gate = VisibilityGate(has_gtids=self.stream.has_gtids)
        self.ended = threading.Event()
        self.wanted = threading.Event()

    @property
    def over(self) -> bool:
        """Whether nothing more is applied."""
        return self.ended.is_set() or self.stop.requested
