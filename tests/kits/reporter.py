"""A reporter that keeps what the operator would have read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from spirit_py.events.event import Event, Tell, teller
from tests.kits.events import undeclared

if TYPE_CHECKING:
    from collections.abc import Callable


Kind = TypeVar("Kind", bound="Event")


def lines_to(keep: Callable[[str], object]) -> Tell:
    """Return how a part of a run reports, so that each line reaches ``keep``."""

    def show(event: Event) -> None:
        keep(event.line)

    return teller(show)


UNDECLARED: list[str] = []
"""What reporters were told that its class does not declare; see conftest.py."""


class RecordingReporter:
    """Keeps every event and every snapshot of the progress.

    Args:
        on_progress: called with each snapshot.
    """

    def __init__(self, on_progress: Callable[[Any], object] | None = None) -> None:
        self.events: list[Event] = []
        self.snapshots: list[Any] = []
        self._on_progress = on_progress

    def start(self) -> None:
        """Nothing to prepare."""

    def event(self, event: Event) -> None:
        """Keep an event, and what is wrong with its fields."""
        self.events.append(event)
        UNDECLARED.extend(undeclared(event))

    def progress(self, snapshot: Any) -> None:
        """Keep the snapshot, rendered once as a display would."""
        str(snapshot)
        self.snapshots.append(snapshot)
        if self._on_progress is not None:
            self._on_progress(snapshot)

    def stop(self) -> None:
        """Nothing to clean."""

    @property
    def lines(self) -> list[str]:
        """The line of each event."""
        return [event.line for event in self.events]

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines)

    def said(self, text: str) -> bool:
        """Whether a line has this text in it."""
        return any(text in line for line in self.lines)

    def named(self, kind: type[Kind]) -> list[Kind]:
        """Return the events of a kind, oldest first."""
        return [event for event in self.events if isinstance(event, kind)]
