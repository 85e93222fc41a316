"""The order in which a chunk key is walked, and comparing keys in it (pure).

An index with descending parts is walked in its own order, or in the exact reverse of it when
its first part descends, so that every walk begins ascending and a single-column key always does.
MySQL reads an index in both directions, but only these two orders need no sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from spirit_py.chunk.chunk import ComparableKey
    from spirit_py.table.schema import Index

Directions: TypeAlias = tuple[bool, ...]
"""For each part of the key whether it is walked in descending order."""


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
