"""Which losses of the feed's connection are told: the first, and then how many there were.

A connection that is lost again and again, such as behind a proxy that ends idle ones, would fill
the log with pairs of lines. So a loss soon after one that was told is counted, and the count is
told after a minute, then after pauses that double up to ten minutes. A loss that lasts is told in
any case, as is the end of every loss that was told.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spirit_py.events import EventName, untold
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from spirit_py.contracts import Clock
    from spirit_py.events import Tell

_FIRST_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 600.0
#: A loss that lasts so long is told, however many there were.
_LASTS_SECONDS: Final = 10.0


@dataclass(kw_only=True)
class Losses:
    """Reports the losses of one connection; used by one thread.

    Attributes:
        tell: may be set later.
    """

    clock: Clock = time.monotonic
    tell: Tell = untold
    #: When the loss that goes on began, and whether it was told.
    _lost_at: float | None = field(default=None, init=False)
    _told: bool = field(default=False, init=False)
    #: Until when losses are only counted, and how long that takes.
    _quiet_until: float = field(default=float("-inf"), init=False)
    _quiet: float = field(default=_FIRST_SECONDS, init=False)
    _counted: int = field(default=0, init=False)
    _away: float = field(default=0.0, init=False)
    _reason: str = field(default="", init=False)

    def lost(self, reason: str) -> None:
        """Note that the connection was lost, or could not be opened again."""
        self.look()
        now, self._reason = self.clock(), reason
        if self._lost_at is None:
            self._lost_at, self._told = now, False
            if now < self._quiet_until:
                self._counted += 1
                return
            steady = now - self._quiet_until > self._quiet
            self._begin_quiet(_FIRST_SECONDS if steady else self._quiet)
        elif self._told or now - self._lost_at < _LASTS_SECONDS:
            return
        else:
            self._counted -= 1
        self._told = True
        self.tell(
            EventName.FEED_LOST,
            f"the change feed has lost its connection, and opens another: {reason}",
            level="warning",
            reason=reason,
        )

    def back(self) -> None:
        """Note that it is open again."""
        if self._lost_at is None:
            return
        seconds, self._lost_at = self.clock() - self._lost_at, None
        if not self._told:
            self._away += seconds
            return
        self.tell(
            EventName.FEED_RECONNECTED,
            f"the change feed is connected again, after {human_seconds(seconds)}",
            seconds=round(seconds, 3),
        )

    def look(self) -> None:
        """Report how many losses were counted, when it is time; called often."""
        if not self._counted or self.clock() < self._quiet_until:
            return
        self.tell(
            EventName.FEED_FLAPS,
            f"the change feed has lost its connection {self._counted} more times in"
            f" {human_seconds(self._quiet)}, for {human_seconds(self._away)} in all; no change is"
            f" missed; the last time: {self._reason}",
            level="warning",
            losses=self._counted,
            seconds=round(self._away, 3),
            within=round(self._quiet, 3),
            reason=self._reason,
        )
        self._counted, self._away = 0, 0.0
        self._begin_quiet(min(_LONGEST_SECONDS, 2 * self._quiet))

    def _begin_quiet(self, seconds: float) -> None:
        self._quiet = seconds
        self._quiet_until = self.clock() + seconds
