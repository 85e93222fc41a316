"""Events of a run over many tables (pure)."""

from __future__ import annotations

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
