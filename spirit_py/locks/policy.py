"""How a lock on a table that others use is requested, and whom it may end (R23)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spirit_py.config import KillMode, RunConfig

OLD_SECONDS: Final = 1.0
"""Age at which a session in front is waited for without a request."""
_STRICT_SECONDS: Final = 30.0
_DOUBLINGS: Final = 20


@dataclass(frozen=True, kw_only=True)
class KillPolicy:
    """Which blockers are killed, as the operator chose.

    Attributes:
        mode: nobody; sessions that idle in a transaction; those and running statements.
        after: seconds for which a blocker must have been in front. Counted from when it was first
            seen, also while the lock is not requested.
    """

    mode: KillMode = "never"
    after: float = 30.0


@dataclass(frozen=True, kw_only=True)
class LockPolicy:
    """How a lock on a table that others use is requested. Seconds.

    Attributes:
        wait: the longest time that one request may wait, and new statements behind it.
        timeout: from the first look to the last request; then the lock is given up.
        old: age at which a session in front is waited for without a request.
        pause: after the first failed try at least; doubled after each further one.
        longest_pause: the limit of that.
        kills: whom in front to kill, and after how long.
    """

    wait: float = 2.5
    timeout: float = 86_400.0
    old: float = OLD_SECONDS
    pause: float = 1.0
    longest_pause: float = 30.0
    kills: KillPolicy = field(default_factory=KillPolicy)

    @classmethod
    def of(cls, config: RunConfig) -> LockPolicy:
        """Return the policy that the options of a command ask for."""
        return cls(
            wait=config.lock_wait_timeout,
            timeout=config.cutover_timeout,
            kills=KillPolicy(mode=config.kill_blockers, after=config.kill_after),
        )

    def pause_after(self, tries: int, waited: float) -> float:
        """Return the pause after so many failed tries, from 1.

        Args:
            waited: for which the application may have waited in the last one.
        """
        first = max(self.pause, 2.0 * waited)
        return float(min(self.longest_pause, first * 2 ** min(tries - 1, _DOUBLINGS)))

    def old_after(self, looked: float) -> float:
        """Return the age that counts as old after so many seconds of looking."""
        return self.old if looked < _STRICT_SECONDS else max(self.old, self.wait)
