"""Engines in Spark's place: the one Spark that all tests share, and threads instead of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from spirit_py.spark.outcome import Outcome, guarded

if TYPE_CHECKING:
    from collections.abc import Callable


class SharedEngine:
    """The one Spark of the test session as a command sees it: it is neither started nor stopped."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def start(self) -> None:
        """It runs already."""

    def stop(self) -> None:
        """Leave it running."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class ThreadEngine:
    """Runs a gang's tasks in threads: the same conversation, without a JVM.

    Args:
        at_start: called when the engine is started.
    """

    def __init__(self, slots: int = 2, *, at_start: Callable[[], object] | None = None) -> None:
        self.slots = slots
        self.runs = 0
        self.stopped = False
        self._at_start = at_start

    def start(self) -> None:
        """Start nothing."""
        if self._at_start is not None:
            self._at_start()

    def stop(self) -> None:
        """Note that it was stopped."""
        self.stopped = True

    def run_gang(
        self, function: Callable[[int], Any], *, size: int, group: str, description: str
    ) -> list[Outcome[Any]]:
        """Run ``function(rank)`` in ``size`` threads."""
        self.runs += 1
        outcomes: list[Outcome[Any]] = []
        threads = [
            threading.Thread(target=lambda r=rank: outcomes.append(guarded(r, function, r)))
            for rank in range(size)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return outcomes

    def cancel(self, group: str) -> None:
        """Threads cannot be cancelled; they end when their sessions are killed."""
