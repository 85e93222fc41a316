"""The interface of one throttler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from spirit_py.pace import Work

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

WRITES: Final = frozenset({Work.COPY, Work.REPAIR, Work.INDEX})
"""Work that writes to the new table, and so to the binlog and the replicas."""
ALL_WORK: Final = frozenset(Work)
"""Every kind of work."""


class Throttler(Protocol):
    """Looks at one thing that may be a reason to wait.

    One thread calls it, but for :attr:`every` 0, where any may. It owns its sessions.
    """

    @property
    def name(self) -> str:
        """What it looks at, for messages and the report: short, and always the same."""

    @property
    def holds(self) -> AbstractSet[Work]:
        """The work that it holds back."""

    @property
    def every(self) -> float:
        """Seconds until the next look.

        Always 0 for a throttler that does no I/O: it is asked whenever work is.
        """

    def look(self) -> str:
        """Return what the work has to wait for, as :meth:`spirit_py.pace.Pace.reason`.

        May block, at most for seconds. May raise anything: it is tried again, and what it found
        last holds for a grace.
        """

    def close(self) -> None:
        """Close its sessions; called once, after the last look, by the thread that looked."""
