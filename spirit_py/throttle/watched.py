"""One throttler, looked at in a thread of its own: one that is slow delays no other."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from spirit_py.errors import SpiritError
from spirit_py.threads import Background

if TYPE_CHECKING:
    from spirit_py.contracts import Clock
    from spirit_py.throttle.throttler import Throttler

_log = logging.getLogger(__name__)

GRACE: Final = 5.0
"""Seconds for which a throttler may not answer before that is a reason to wait."""


class Watched:
    """Looks at a throttler again and again, and keeps what it found.

    Args:
        grace: seconds for which what was found last holds when a look fails or does not end.
        first: nothing begins before the first look has ended.
    """

    def __init__(
        self,
        throttler: Throttler,
        *,
        grace: float = GRACE,
        first: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        self.throttler = throttler
        self._grace = grace
        self._clock = clock
        self._first = first
        self._looked = threading.Event()
        self._found = f"the first look at the {throttler.name}" if first else ""
        self._trouble = ""
        self._answered_at = clock()
        self._thread = Background(f"throttle-{throttler.name.replace(' ', '-')}", self._run)

    def start(self) -> None:
        """Begin to look, unless the throttler is asked whenever work is."""
        if self.throttler.every:
            self._answered_at = self._clock()
            self._thread.start()

    def await_first(self, seconds: float) -> None:
        """Wait for the first look, where nothing begins before it, for so many seconds at most."""
        if self._first and self.throttler.every:
            self._looked.wait(seconds)

    @property
    def reason(self) -> str:
        """What the work has to wait for now; empty when it need not. No I/O."""
        if not self.throttler.every:
            return self.throttler.look()
        silent = self._clock() - self._answered_at
        if silent <= self._grace + self.throttler.every:
            return self._found
        why = f": {self._trouble}" if self._trouble else ""
        return f"an answer to the look at the {self.throttler.name}, for {silent:.0f} s{why}"

    def _run(self, stopping: threading.Event) -> None:
        """Look until the end; runs in the thread."""
        try:
            while not stopping.is_set():
                self._look()
                stopping.wait(self.throttler.every)
        finally:
            self.throttler.close()

    def _look(self) -> None:
        try:
            self._found = self.throttler.look()
        except Exception as error:
            self._trouble = error.message if isinstance(error, SpiritError) else str(error)
            _log.debug("the throttler %s failed: %s", self.throttler.name, self._trouble)
            if self._first and not self._looked.is_set():
                self._found = f"{self._found}, which failed: {self._trouble}"
        else:
            self._trouble = ""
            self._answered_at = self._clock()
        self._looked.set()

    def stop(self) -> None:
        """Ask the thread to end; return at once."""
        self._thread.stop()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended and the throttler is closed."""
        if self.throttler.every:
            self._thread.join(seconds)
        else:
            self.throttler.close()
