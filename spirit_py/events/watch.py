"""Events of ``spirit-py watch`` (pure)."""

from __future__ import annotations

from spirit_py.events.event import Event, event


@event("watch.begun", "following {scope} from {position}")
class WatchBegun(Event):
    """Records are written from that position on."""

    scope: str
    position: str


@event("watch.empty", "there is no table in {scope} now")
class WatchEmpty(Event):
    """No table is followed yet."""

    scope: str


@event("watch.xa_prepared")
class WatchXaPrepared(Event):
    """Transactions that were prepared before are not in the stream."""

    transactions: list[str]

    @property
    def sentence(self) -> str:
        """Which."""
        return (
            "XA transactions are prepared already; their rows are not in this stream:"
            f" {', '.join(self.transactions)}"
        )


@event("watch.broken", "position: {position}")
class WatchBroken(Event):
    """The stream has ended by an error; it goes on from that position."""

    position: str
