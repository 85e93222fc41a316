"""A reporter that keeps what the operator would have read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class RecordingReporter:
    """Keeps every line and every snapshot of the progress.

    Args:
        on_progress: called with each snapshot.
    """

    def __init__(self, on_progress: Callable[[Any], object] | None = None) -> None:
        self.lines: list[str] = []
        self.snapshots: list[Any] = []
        self._on_progress = on_progress

    def start(self) -> None:
        """Nothing to prepare."""

    def message(self, text: str, **fields: object) -> None:
        """Keep a line."""
        self.lines.append(f"{text} {fields}" if fields else text)

    def progress(self, snapshot: Any) -> None:
        """Keep the snapshot, rendered once as a display would."""
        str(snapshot)
        self.snapshots.append(snapshot)
        if self._on_progress is not None:
            self._on_progress(snapshot)

    def stop(self) -> None:
        """Nothing to clean."""

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines)

    def said(self, text: str) -> bool:
        """Whether a line has this text in it."""
        return any(text in line for line in self.lines)
