"""Events of batches, of what operators asked for, and of ``spirit-py watch`` (pure)."""

from __future__ import annotations

from typing import Any

from spirit_py.events.event import Event, aside, event
from spirit_py.events.run import Ended


@event("batch.planned", "{said}")
class BatchPlanned(Event):
    """What is done with all tables is known."""

    tables: int
    refused: int
    left: int
    said: str = aside()


@event("table.planned", "{said}")
class TablePlanned(Event):
    """What is done with one table is known."""

    action: str
    refusals: list[str]
    said: str = aside()


@event("table.skipped", "{table}: {reason}")
class TableSkipped(Event):
    """Nothing is done with a table."""

    reason: str


@event("table.ended")
class TableEnded(Ended):
    """A table's migration has ended; ``summed_up`` is the first line of its summary."""

    summed_up: str = aside()

    @property
    def sentence(self) -> str:
        """The cause, or what was done."""
        return f"{self.table}: {self.outcome}: {self.error}" if self.error else self.summed_up


@event("control.obeyed", "ctl {request}: {said}; asked by {client}")
class ControlObeyed(Event):
    """A request was carried out."""

    verb: str
    arguments: dict[str, Any]
    client: str | None
    request: str = aside()
    said: str = aside()


@event("control.refused", "{said}")
class ControlRefused(Event):
    """A request was not carried out; what cannot be read of it is None."""

    verb: str | None = None
    arguments: dict[str, Any] | None = None
    client: str | None = None
    reason: str
    said: str = aside()


@event("settings.kept")
class SettingsKept(Event):
    """What operators of an earlier run had set counts again."""

    settings: dict[str, str]

    @property
    def sentence(self) -> str:
        """The settings, as ``ctl set`` takes them."""
        texts = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"set by operators of the earlier run: {texts}"


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
