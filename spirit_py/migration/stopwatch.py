"""A clock that runs only while something is done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from spirit_py.contracts import Clock


class Stopwatch:
    """Seconds spent inside its ``with`` blocks; stands still between them. Call it for the time."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._before = 0.0
        self._began: float | None = None

    def __call__(self) -> float:
        """Return the seconds up to now."""
        began = self._began
        return self._before if began is None else self._before + self._clock() - began

    def __enter__(self) -> Self:
        """Let it run."""
        self._began = self._clock()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self._before, self._began = self(), None
