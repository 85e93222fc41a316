"""What the operator asked for, and may change while a migration runs."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from spirit_py.errors import UsageFault

if TYPE_CHECKING:
    from spirit_py.contracts import Clock

LoadLimits: TypeAlias = tuple[tuple[str, float], ...]
"""Names of global status variables, each with the value that it must not exceed."""


@dataclass(frozen=True, kw_only=True)
class PaceSettings:
    """The settings of the pace, named as in the configuration. Seconds for times.

    Attributes:
        threads: tasks that may work at a time, at most.
        target_chunk_time: how long a chunk should take.
        nice: seconds of rest for each second of work.
        aggressive: spare no other user of the server.
        max_lag: how far a replica may be behind; None for no limit.
        max_load: above one of these values the work waits.
        critical_load: above one of these values the run ends; it can be resumed.
        paused: who has paused the run; empty when nobody has.
    """

    threads: int
    target_chunk_time: float = 0.5
    nice: float = 0.0
    aggressive: bool = False
    max_lag: float | None = None
    max_load: LoadLimits = ()
    critical_load: LoadLimits = ()
    paused: str = ""

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise UsageFault(f"threads cannot be {self.threads}", hint="use 1 or more")
        if self.target_chunk_time <= 0:
            raise UsageFault(f"a chunk cannot take {self.target_chunk_time:g} s")
        if self.nice < 0:
            raise UsageFault(f"nice cannot be {self.nice:g}", hint="use 0 or more")
        if self.max_lag is not None and self.max_lag <= 0:
            raise UsageFault(f"the lag cannot be kept below {self.max_lag:g} s")


class LiveSettings:
    """The settings that hold now. Thread-safe."""

    def __init__(self, settings: PaceSettings, *, clock: Clock = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._current = settings
        self._clock = clock
        #: Seconds of all pauses that have ended, and when the one that goes on began.
        self._paused_for = 0.0
        self._paused_at = clock()

    @property
    def current(self) -> PaceSettings:
        """The settings as they are now."""
        return self._current

    def change(self, **changes: Any) -> PaceSettings:
        """Change some settings, and return all; a value that cannot be changes nothing."""
        with self._lock:
            before, now = self._current, self._clock()
            self._current = replace(before, **changes)
            if before.paused and not self._current.paused:
                self._paused_for += now - self._paused_at
            elif self._current.paused and not before.paused:
                self._paused_at = now
            return self._current

    def unpaused(self) -> float:
        """Return monotonic seconds that stand still while an operator has paused the run."""
        with self._lock:
            now = self._paused_at if self._current.paused else self._clock()
            return now - self._paused_for
