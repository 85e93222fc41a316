"""Which table of a batch begins next, and with how many slots (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spirit_py.mysql.tables.identity import Name


class Slots:
    """The slots of all migrations together, dealt out to those that run side by side.

    A migration keeps what it began with. So the last one, which runs alone, has all of them.

    Args:
        total: slots that there are.
        parallel: migrations that may run side by side; not more than slots.
    """

    def __init__(self, total: int, parallel: int) -> None:
        self._free = total
        self._parallel = parallel

    def take(self, waiting: int) -> int:
        """Return the slots of the next migration; 0 where it cannot begin now.

        Args:
            waiting: migrations that wait to begin, this one included.
        """
        parallel = min(self._parallel, waiting)
        share = self._free // parallel if parallel else 0
        if share:
            self._free -= share
            self._parallel -= 1
        return share

    def give_back(self, share: int) -> None:
        """Take the slots of a migration back that has ended."""
        self._free += share
        self._parallel += 1


def next_table(
    waiting: Iterable[Name], under_way: Iterable[Name], related: Mapping[Name, frozenset[Name]]
) -> Name | None:
    """Return the first table that may begin; None where each is related to one under way.

    The swap of a table takes locks on the tables that reference it or that it references, and may
    change their definitions, which would end their own migrations (R14).
    """
    busy = set(under_way)
    return next((one for one in waiting if busy.isdisjoint(related.get(one, ()))), None)
