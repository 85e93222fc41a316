"""The owner of a run's state: parts report to it, and anybody reads what is so now."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from spirit_py.migration.state import State, apply
from spirit_py.phases import PhaseLog

if TYPE_CHECKING:
    from spirit_py.contracts import Clock
    from spirit_py.events.event import Event
    from spirit_py.migration.facts import Fact
    from spirit_py.status.report import MigrationReport


class Journal:
    """Holds the state, and replaces it with what follows from each thing that happened.

    Any thread may report and read; a state that was read never changes.

    Args:
        report: what the report begins with.
        first: further fields of the first state.
    """

    def __init__(
        self, report: MigrationReport, *, clock: Clock = time.monotonic, **first: Any
    ) -> None:
        self.clock = clock
        self._changing = threading.Lock()
        began = clock()
        phases = PhaseLog(entered_at=began)
        self._state = State(report=report, began=began, phases=phases, **first)

    @property
    def state(self) -> State:
        """What is so now."""
        return self._state

    def note(self, happened: Event | Fact) -> None:
        """Take something in.

        Raises:
            IllegalTransition: as of :func:`spirit_py.migration.state.apply`.
        """
        with self._changing:
            self._state = apply(self._state, happened, self.clock())
