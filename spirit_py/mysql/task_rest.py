"""The rests of a task between two statements."""

from __future__ import annotations

import threading
import time
from typing import Final

#: A statement that took long was held up by something else than its own work.
_LONGEST: Final = 5.0


class TaskRest:
    """The rest that a task has to take before its next statement. One thread.

    It comes before the next statement and not after the last one: an answer need not wait for it.
    """

    def __init__(self) -> None:
        self._until = 0.0

    def owe(self, seconds: float, ratio: float) -> None:
        """Note that a statement of so many seconds has ended now.

        Args:
            ratio: seconds of rest for each of them.
        """
        self._until = time.monotonic() + min(seconds * ratio, _LONGEST)

    def take(self) -> None:
        """Wait until the rest is over."""
        left = self._until - time.monotonic()
        if left > 0:
            threading.Event().wait(left)
