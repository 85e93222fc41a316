"""Pace: what search, copy, index build, checksum, swap and drop ask before they begin (pure)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

PART_BYTES: Final = 2 << 20
"""Bytes of the binlog that one transaction of the copy should write, where nothing spares others.
A commit writes its binlog cache under a lock for which every other commit waits."""


class Work(enum.StrEnum):
    """The kinds of work that can be held back."""

    SEARCH = "search"
    """Rows of the source are read for duplicates, before anything is copied."""
    COPY = "copy"
    INDEX = "index"
    CHECKSUM = "checksum"
    REPAIR = "repair"
    DROP = "drop"
    SWAP = "swap"
    """The table is changed: by the swap, or in place."""


class Pace(Protocol):
    """How the work may go on now. Thread-safe, no I/O."""

    def reason(self, work: Work) -> str:
        """Return what new work of this kind has to wait for, behind "waiting for"; else empty."""

    def tasks(self, most: int) -> int:
        """Return how many tasks may work at a time: from 1 to ``most``."""

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
    """The pace of work that nothing holds back."""

    def __init__(self, chunk_seconds: float = 0.5) -> None:
        self._chunk_seconds = chunk_seconds

    def reason(self, work: Work) -> str:  # noqa: ARG002 - the protocol's
        """Return that nothing is waited for."""
        return ""

    def tasks(self, most: int) -> int:
        """Return all tasks that there are."""
        return most

    def part_bytes(self) -> int:
        """Return the size of a transaction that serves the copy best."""
        return PART_BYTES

    def chunk_seconds(self) -> float:
        """Return how long a chunk should take."""
        return self._chunk_seconds

    def rest_after(self, seconds: float) -> float:  # noqa: ARG002 - the protocol's
        """Return that no task rests."""
        return 0.0
