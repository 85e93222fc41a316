"""What a phase waits for, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spirit_py.contracts import Clock

#: A wait that goes on after so short a break is the same wait.
_SAME_WAIT_SECONDS: Final = 2.0


class Waiting:
    """What is waited for, and since when. Any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = self._ended = float("-inf")
        self.what = ""

    def show(self, what: str) -> None:
        """Show what is waited for now; an empty text for nothing."""
        now = self._clock()
        if what and not self.what and now - self._ended > _SAME_WAIT_SECONDS:
            self._began = now
        if self.what and not what:
            self._ended = now
        self.what = what

    def end(self) -> None:
        """Note that what comes is another wait."""
        self.what, self._ended = "", float("-inf")

    @property
    def seconds(self) -> float | None:
        """How long the wait has taken; None where nothing is waited for."""
        return self._clock() - self._began if self.what else None
