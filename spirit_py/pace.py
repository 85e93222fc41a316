"""Pace: what search, copy, index build, checksum, swap and drop ask before they begin (pure)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

PART_BYTES: Final = 2 << 20
"""Bytes of the binlog that one transaction of the copy should write, where nothing spares others.
A commit writes its binlog cache under a lock for which every other commit waits."""
FIRST_TASKS: Final = 2
"""Tasks that work where no one else uses the server, until it is known how many pay."""


class Work(enum.StrEnum):
    """The kinds of work that can be held back."""

    SEARCH = "search"
    """Rows of the source are read for duplicates, before anything is copied."""
    COPY = "copy"
    APPLY = "apply"
    """Changes that came meanwhile are written to the new table."""
    INDEX = "index"
    CHECKSUM = "checksum"
    REPAIR = "repair"
    ARCHIVE = "archive"
    """Rows of a table that is not written any more are read, and none is written."""
    DROP = "drop"
    SWAP = "swap"
    """The table is changed: by the swap, or in place."""
    REBUILD = "rebuild"
    """The server copies the rows, or builds the table anew, which fills a disk."""


class ChunkDone(NamedTuple):
    """A chunk that was done by one of ``among`` tasks; 0 if that number changed meanwhile."""

    among: int
    rows: int
    seconds: float


class AtWork:
    """How many tasks work, and since when."""

    def __init__(self) -> None:
        self._busy, self._since = 0, 0.0

    def count(self, busy: int, now: float) -> None:
        """Note how many work now."""
        if busy != self._busy:
            self._busy, self._since = busy, now

    def done(self, rows: int, seconds: float, began: float) -> ChunkDone:
        """Return a chunk that has just ended, and ``began`` at that time."""
        return ChunkDone(self._busy if began >= self._since else 0, rows, seconds)


class Pace(Protocol):
    """How the work may go on now. Thread-safe, no I/O."""

    def reason(self, work: Work) -> str:
        """Return what new work of this kind has to wait for, behind "waiting for"; else empty."""

    def tasks(self, most: int) -> int:
        """Return how many tasks may work at a time: from 1 to ``most``."""

    def done(self, work: Work, done: ChunkDone, most: int) -> None:
        """Note a chunk of work for which there can be ``most`` tasks."""

    def part_bytes(self) -> int:
        """Return how many bytes of binlog one transaction of the copy should write."""

    def chunk_seconds(self) -> float:
        """Return how long a chunk should take."""

    def rest_after(self, seconds: float) -> float:
        """Return for how many seconds a task rests after so many seconds of work."""


HeldUp: TypeAlias = "Callable[[str, float], None]"
"""Called while others hold up a lock: with what is waited for, and seconds since the last call."""


def uncounted(_what: str, _seconds: float) -> None:
    """Count nothing."""


_ASK_SECONDS: Final = 0.1


def await_turn(
    pace: Pace, work: Work, *, pause: Callable[[float], object], show: Callable[[str], object]
) -> None:
    """Wait until work of this kind may begin; ``pause`` raises when a stop was asked for."""
    if not pace.reason(work):
        return
    while reason := pace.reason(work):
        show(reason)
        pause(_ASK_SECONDS)
    show("")


class Unhindered:
    """The pace of work that nothing holds back, with so many tasks at most."""

    def __init__(self, chunk_seconds: float = 0.5, *, tasks: int | None = None) -> None:
        self._chunk_seconds = chunk_seconds
        self._tasks = tasks

    def reason(self, work: Work) -> str:  # noqa: ARG002 - the protocol's
        """Return that nothing is waited for."""
        return ""

    def tasks(self, most: int) -> int:
        """Return all tasks that there are, up to the limit."""
        return most if self._tasks is None else min(most, self._tasks)

    def done(self, work: Work, done: ChunkDone, most: int) -> None:
        """Note nothing."""

    def part_bytes(self) -> int:
        """Return the size of a transaction that serves the copy best."""
        return PART_BYTES

    def chunk_seconds(self) -> float:
        """Return how long a chunk should take."""
        return self._chunk_seconds

    def rest_after(self, seconds: float) -> float:  # noqa: ARG002 - the protocol's
        """Return that no task rests."""
        return 0.0
