"""Engines in Spark's place: the one Spark that all tests share, and threads instead of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spirit_py.spark.choice import DriverEngine

if TYPE_CHECKING:
    from collections.abc import Callable

    from spirit_py.spark.member import Outcome


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


class ThreadEngine(DriverEngine):
    """The engine of the driver's threads, which counts and reports what is asked of it.

    Args:
        at_start: called when the engine is started.
    """

    def __init__(self, slots: int = 2, *, at_start: Callable[[], object] | None = None) -> None:
        super().__init__(slots)
        self.runs = 0
        self.stopped = False
        self._at_start = at_start

    def start(self) -> None:
        """Start nothing."""
        if self._at_start is not None:
            self._at_start()

    def stop(self) -> None:
        """Note that it was stopped; a test may use it for another command."""
        self.stopped = True

    def run_gang(self, function: Callable[[int], Any], **how: Any) -> list[Outcome[Any]]:
        """Count the gangs."""
        self.runs += 1
        return super().run_gang(function, **how)
