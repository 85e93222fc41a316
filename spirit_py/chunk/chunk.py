"""A chunk, and the order in which its key is walked (pure).

An index with descending parts is walked in its own order, or in the exact reverse of it when
its first part descends, so that every walk begins ascending and a single-column key always does.
MySQL reads an index in both directions, but only these two orders need no sort.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from spirit_py.table.keys import ComparableKey, KeyBound, KeyLiterals

if TYPE_CHECKING:
    from spirit_py.table.schema import Index

__all__ = [
    "Chunk",
    "ComparableKey",
    "Directions",
    "KeyBound",
    "KeyLiterals",
    "KeyRange",
    "precedes",
    "walk_directions",
]

Directions: TypeAlias = tuple[bool, ...]
"""For each part of the key whether it is walked in descending order."""


@dataclass(frozen=True, kw_only=True)
class KeyRange:
    """All rows with ``lower < key <= upper`` in the order of the walk; None is an open end.

    Attributes:
        lower: exclusive lower bound; None for the beginning of the table.
        upper: inclusive upper bound; None for the end of the table.
    """

    lower: KeyBound | None = None
    upper: KeyBound | None = None

    def __str__(self) -> str:
        """Show the range as ``(lower, upper]``."""

        def side(bound: KeyBound | None, open_end: str) -> str:
            return open_end if bound is None else ", ".join(bound.literals)

        return f"({side(self.lower, '-inf')}; {side(self.upper, '+inf')}]"


@dataclass(frozen=True, kw_only=True)
class Chunk(KeyRange):
    """A range of the chunk key that is read at once.

    It is what is scheduled, registered with the change feed (R3, R4) and checkpointed, and it is
    written in one transaction for each of its :attr:`parts`.

    Attributes:
        number: dispatch order from 0; never reused in a run.
        target_rows: rows that the chunker aimed at.
        cuts: bounds between its parts, ascending in the walk, without the two ends.
        lane_end: upper end of the lane that it was cut from (:mod:`spirit_py.chunk.lanes`), as it
            was then; None for the end of the table.
    """

    number: int
    target_rows: int
    cuts: tuple[KeyBound, ...] = ()
    lane_end: KeyBound | None = None

    @property
    def parts(self) -> tuple[Chunk, ...]:
        """The ranges between the cuts, in the order of the walk; the chunk itself without cuts."""
        bounds = (self.lower, *self.cuts, self.upper)
        rows = self.target_rows // (len(self.cuts) + 1)
        return tuple(
            replace(self, lower=lower, upper=upper, target_rows=rows, cuts=())
            for lower, upper in pairwise(bounds)
        )

    def __str__(self) -> str:
        """Show number and range, for logs and Spark's job descriptions."""
        return f"#{self.number} {super().__str__()}"


def walk_directions(key: Index) -> Directions:
    """Return the direction of each part of the walk; the first is never descending."""
    reverse = key.parts[0].descending
    return tuple(part.descending != reverse for part in key.parts)


def precedes(left: ComparableKey, right: ComparableKey, directions: Directions) -> bool:
    """Return whether ``left`` comes before ``right`` in the walk."""
    for one, other, descending in zip(left, right, directions, strict=True):
        if one != other:
            return bool(one > other) if descending else bool(one < other)
    return False
