"""The one stop switch of a migration: the first reason wins, every part waits on it.

A fault in any thread (a schema change seen by the feed, a failed chunk, a signal) calls
:meth:`StopSwitch.request`; loops poll :attr:`requested` or sleep in :meth:`wait`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import WeakSet

from spirit_py.errors import DifferencesFound, OutcomeUnknown, Refusal

if TYPE_CHECKING:
    from spirit_py.errors import SpiritError


class StopSwitch:
    """A one-way switch that remembers the first reason."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._reason: SpiritError | None = None
        #: Weak: a run of days links a switch for each comparison.
        self._linked: WeakSet[StopSwitch] = WeakSet()

    def request(self, reason: SpiritError) -> bool:
        """Ask everything to stop because of ``reason``; True when this was the first reason."""
        with self._lock:
            first = self._reason is None
            if first:
                self._reason = reason
            linked = tuple(self._linked) if first else ()
        self._event.set()
        for other in linked:
            other.request(reason)
        return first

    def linked(self) -> StopSwitch:
        """Return a switch that a request to this one reaches too; not the other way round."""
        other = StopSwitch()
        with self._lock:
            self._linked.add(other)
        if self._reason is not None:
            other.request(self._reason)
        return other

    @property
    def requested(self) -> bool:
        """Whether a stop was asked for."""
        return self._event.is_set()

    @property
    def reason(self) -> SpiritError | None:
        """The first reason, or None."""
        return self._reason

    def wait(self, seconds: float) -> bool:
        """Sleep until a stop is asked for, at most ``seconds``; True when it was."""
        return self._event.wait(seconds)

    def pause(self, seconds: float) -> None:
        """Sleep for so long; raise the reason at once when a stop is asked for."""
        self._event.wait(seconds)
        self.check()

    def check(self) -> None:
        """Raise the first reason, if there is one."""
        if self._event.is_set() and self._reason is not None:
            raise self._reason

    def cause_of(self, error: BaseException) -> BaseException:
        """Return the reason of the stop request where ``error`` may only have followed from it.

        Refusals, unknown outcomes and differences are found, not caused by a stop.
        """
        if self._reason is None or isinstance(error, (DifferencesFound, OutcomeUnknown, Refusal)):
            return error
        return self._reason
