"""The watermarks of a copy: how far it was dispatched and committed (pure; R3, R4).

Chunks are dispatched in the order of the walk and commit in any order::

    committed ...... committed | in flight | committed | in flight | not dispatched
                               ^ low watermark                     ^ high watermark

The high watermark is the upper bound of the last dispatched chunk, the low watermark that of
the longest prefix of dispatched chunks that have all committed. Beside the two bounds every
dispatch is counted, for keys that Python cannot order as the server does: a change that came
when ``n`` chunks had been dispatched may be applied once these ``n`` have committed.

Not thread-safe: the owner calls everything under its own lock, or in one thread.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spirit_py.chunk.chunk import precedes

if TYPE_CHECKING:
    from spirit_py.chunk.chunk import Chunk, ComparableKey, Directions, KeyBound


class OpenEnd(enum.Enum):
    """An open end of the walk."""

    BEGINNING = "beginning"
    END = "end"


@dataclass(frozen=True, kw_only=True)
class CopiedSoFar:
    """The copied beginning of a table, over all runs.

    Attributes:
        up_to: SQL literals of its last key; empty before the first chunk.
        rows: rows in it, as they were when they were copied.
        finished: every row that existed is copied; ``up_to`` is empty then.
    """

    up_to: tuple[str, ...] = ()
    rows: int = 0
    chunks: int = 0
    finished: bool = False

    def extended_by(self, prefix: CommittedPrefix) -> CopiedSoFar:
        """Return this and what a run that began above it has committed."""
        low = prefix.low
        return CopiedSoFar(
            up_to=low.literals if not isinstance(low, OpenEnd) else (),
            rows=self.rows + prefix.rows,
            chunks=self.chunks + prefix.settled,
            finished=low is OpenEnd.END,
        )

    def ended(self) -> CopiedSoFar:
        """Return the same for a table that is copied to its end."""
        return replace(self, up_to=(), finished=True)


class CommittedPrefix:
    """The chunks of one run, and the longest prefix of them that has committed.

    Args:
        resumed_above: what an earlier run has committed already: both watermarks begin there.

    Attributes:
        high: the upper bound of the last dispatched chunk.
        low: the upper bound of the committed prefix: a later run may begin above it.
        dispatched: chunks dispatched so far; the stamp of a change that arrives now.
        settled: chunks of the committed prefix: stamps up to it may be applied.
        rows: rows of the committed prefix.
    """

    def __init__(self, resumed_above: KeyBound | None = None) -> None:
        self.high: KeyBound | OpenEnd = resumed_above or OpenEnd.BEGINNING
        self.low = self.high
        self.dispatched = 0
        self.settled = 0
        self.rows = 0
        #: Chunks after the low watermark in dispatch order: in flight, or committed too early.
        self._window: dict[int, Chunk] = {}
        #: The rows of those that committed too early.
        self._early: dict[int, int] = {}

    def dispatch(self, chunk: Chunk) -> None:
        """Raise the high watermark to the chunk's upper bound.

        Raises:
            ValueError: when the chunk was dispatched before or does not follow the last one.
        """
        expected = None if isinstance(self.high, OpenEnd) else self.high.literals
        lower = None if chunk.lower is None else chunk.lower.literals
        if self.high is OpenEnd.END or lower != expected or chunk.number in self._window:
            raise ValueError(f"chunk {chunk} does not follow the high watermark {self.high}")
        self._window[chunk.number] = chunk
        self.dispatched += 1
        self.high = chunk.upper or OpenEnd.END

    def committed(self, chunk: Chunk, rows: int = 0) -> None:
        """Note that a chunk has committed, and move the low watermark.

        A second report of the same chunk is ignored, because Spark may rerun a task (R18).
        """
        if chunk.number not in self._window:
            return
        self._early.setdefault(chunk.number, rows)
        while self._window and (first := next(iter(self._window))) in self._early:
            self.low = self._window.pop(first).upper or OpenEnd.END
            self.rows += self._early.pop(first)
            self.settled += 1


class WatermarkTracker(CommittedPrefix):
    """The watermarks of one table's copy, and which keys they let be dropped or hold.

    Args:
        directions: the walk, of :func:`spirit_py.chunk.chunk.walk_directions`.
        keep_up_to: no key up to this one is ever :meth:`above_high`: an earlier run may have
            copied it (R17). ``OpenEnd.END`` for no key at all; ``OpenEnd.BEGINNING`` keeps nothing
            more than the high watermark does.
    """

    def __init__(
        self,
        directions: Directions,
        *,
        resumed_above: KeyBound | None = None,
        keep_up_to: ComparableKey | OpenEnd = OpenEnd.BEGINNING,
    ) -> None:
        super().__init__(resumed_above)
        self._directions = directions
        self._keep_up_to = keep_up_to

    def above_high(self, key: ComparableKey) -> bool:
        """Return whether a later chunk will read this key, so that its change may be dropped."""
        keep = self._keep_up_to
        if isinstance(keep, OpenEnd):
            return keep is OpenEnd.BEGINNING and self._beyond(key, self.high)
        return precedes(keep, key, self._directions) and self._beyond(key, self.high)

    def held(self, key: ComparableKey) -> bool:
        """Return whether this key is inside a chunk in flight, so that its change must wait."""
        if not self._beyond(key, self.low):
            return False
        return any(
            (chunk.lower is None or self._beyond(key, chunk.lower))
            and (chunk.upper is None or not self._beyond(key, chunk.upper))
            for number, chunk in self._window.items()
            if number not in self._early
        )

    def _beyond(self, key: ComparableKey, bound: KeyBound | OpenEnd) -> bool:
        """Return whether the key comes after the bound in the walk."""
        if isinstance(bound, OpenEnd):
            return bound is OpenEnd.BEGINNING
        if bound.comparable is None:
            raise ValueError("this key is not comparable: count dispatches instead")
        return precedes(bound.comparable, key, self._directions)
