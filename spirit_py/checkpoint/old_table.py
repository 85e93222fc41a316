"""An old table that is kept after the swap: since when, and until when (pure).

The row is in the checkpoint table of each swapped table, beside the proof of which table the old
one is. Both stay as long as the old table is kept, so ``spirit-py cleanup`` can drop it (R24).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, kw_only=True)
class OldTableRecord:
    """When one table was swapped, and until when its old one is kept; by the server's clock.

    Attributes:
        swapped_at: seconds since 1970.
        until: the same of the time from which on it may be dropped; 0 where only the operator
            drops it.
        finished: the run has ended and left it to the operator.
        followed: reverse replication has ended: the old table follows no more.
        undone: a revert was made: the table that is kept is the one that it swapped out.
    """

    swapped_at: float
    until: float = 0.0
    finished: bool = False
    followed: bool = False
    undone: bool = False

    def __str__(self) -> str:
        """Return until when it is kept, for messages."""
        if self.finished or not self.until:
            return "kept until spirit-py cleanup --drop-old drops it"
        until = datetime.fromtimestamp(self.until, UTC).strftime("%Y-%m-%d %H:%M:%S")
        return f"kept until {until} UTC"
