"""The throttler for the times of the day: ``--allow 22:00-06:00`` (pure).

Outside of every window nothing begins that others might notice: no chunk, no build of indexes, no
comparison, no repair, and no swap. The change feed and the checkpoint go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.throttle.throttler import ALL_WORK
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from spirit_py.windows import Window


class WindowThrottler:
    """Waits until one of the windows is open.

    Args:
        now: returns the time, with a time zone.
    """

    name: Final = "times of the day"
    holds: Final = ALL_WORK
    every: Final = 0.0

    def __init__(self, windows: Sequence[Window], *, now: Callable[[], datetime]) -> None:
        self._windows = windows
        self._now = now

    def look(self) -> str:
        """Return which window is waited for; no I/O."""
        now = self._now()
        if any(window.is_open(now) for window in self._windows):
            return ""
        wait = human_seconds(min(window.opens_in(now) for window in self._windows))
        return f"the time of --allow {','.join(map(str, self._windows))}, in {wait}"

    def close(self) -> None:
        """Do nothing."""
