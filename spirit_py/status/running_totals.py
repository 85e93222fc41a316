"""Totals that never fall, from counters that may begin again (pure).

The counters of a run belong to its parts: a second feed after the swap counts from zero, and in a
batch a table's counters go when it ends. A record of the run wants what they have grown together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Growth:
    """Adds up by how much counters grow, by name."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, float]] = {}
        self._totals: dict[str, float] = {}

    def add(self, owner: str, counters: Mapping[str, float]) -> None:
        """Add what the counters of one owner have grown since the last call.

        One that is smaller than before has begun again.
        """
        before = self._seen.setdefault(owner, {})
        for name, value in counters.items():
            last = before.get(name, 0.0)
            grown = value - last if value >= last else value
            self._totals[name] = self._totals.get(name, 0.0) + grown
            before[name] = value

    def keep(self, owners: set[str]) -> None:
        """Forget the owners that are not among these; what they have added stays."""
        for gone in self._seen.keys() - owners:
            del self._seen[gone]

    @property
    def totals(self) -> Mapping[str, float]:
        """The sums so far; a counter that nobody has named is not among them."""
        return self._totals
