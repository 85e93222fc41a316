"""What the operator asked for, and may change while a migration runs."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from spirit_py.classes import dataclass, replace
from spirit_py.errors import UsageFault

if TYPE_CHECKING:
    from spirit_py.contracts import Clock

LoadLimits: TypeAlias = tuple[tuple[str, float], ...]


@dataclass(frozen=True, kw_only=True)
class PaceSettings:
    """The settings of the pace, named as in the configuration. Seconds for times.

    ``threads``: the most tasks at a time; ``nice``: rest for each second of work; ``max_lag``: None
    for no limit; above ``critical_load`` the run ends; ``paused``: who paused it, or empty.
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
        self.current = settings
        self._clock = clock
        #: Seconds of ended pauses, and the start of the present one.
        self._paused_for = 0.0
        self._paused_at = clock()

    def change(self, **changes: Any) -> PaceSettings:
        """Change some settings, and return all; a value that cannot be changes nothing."""
        with self._lock:
            before, now = self.current, self._clock()
            self.current = replace(before, **changes)
            if before.paused and not self.current.paused:
                self._paused_for += now - self._paused_at
            elif self.current.paused and not before.paused:
                self._paused_at = now
            return self.current

    def unpaused(self) -> float:
        """Return monotonic seconds that stand still while an operator has paused the run."""
        with self._lock:
            now = self._paused_at if self.current.paused else self._clock()
            return now - self._paused_for
