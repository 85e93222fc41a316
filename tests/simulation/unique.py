"""Worlds in which the change adds a unique key: values move between rows, and some meet.

The source has no such key, so two of its rows may have one value for a while, or for good. Then the
command has to say so, and may not swap while they do.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tests.simulation.program import T
from tests.simulation.server import RowChange
from tests.simulation.trouble import DAMAGE, LATE_DUPLICATES
from tests.simulation.whole import FEED
from tests.simulation.world import Plan, World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation import program
    from tests.simulation.server import Row, Table
    from tests.simulation.whole import WholeRun

#: Shares of the worlds of this kind.
_DUPLICATES: Final = 0.3
_SMALL: Final = 0.4
_DAMAGED: Final = 0.3
_LATE: Final = 0.2
_ADDS: Final = "ADD COLUMN n INT, ADD UNIQUE KEY v (v)"
#: Of the errors of the command: values that meet.
_NAMED: Final = ("DuplicateForUnique", "duplicate")
#: Room for two changes and no more: the rest of a transaction waits for them.
_ROOM: Final = (1 << 20) + 450


@dataclass(frozen=True, kw_only=True)
class NewKey:
    """What is drawn for such a world.

    Attributes:
        duplicates: clients write values that other rows have.
        small: the buffers of the feed have no room for a whole transaction.
    """

    duplicates: bool
    small: bool


def unique_plan(plan: Plan, seed: int) -> Plan:
    """Make a world of this kind of another one's plan."""
    dice = random.Random(f"a unique key of {seed}")
    new_key = NewKey(duplicates=dice.random() < _DUPLICATES, small=dice.random() < _SMALL)
    plan = replace(
        plan.of_command(),
        troubles=(),
        xa=0.0,
        unique=False,
        keeps="",
        requests=(),
        deferred=False,
        back=None,
        new_key=new_key,
    )
    if not plan.faults and not new_key.duplicates and dice.random() < _DAMAGED:
        plan = replace(plan, troubles=(DAMAGE,))
    if random.Random(f"late duplicates of {seed}").random() < _LATE:
        plan = replace(plan, troubles=(*plan.troubles, LATE_DUPLICATES))
    return plan


class UniqueWorld(World):
    """A world of ``plan.new_key``: the column ``v`` gets a unique key."""

    _transactions: ClassVar[float] = 0.6

    def __post_init__(self) -> None:
        """Give each row a value of its own."""
        super().__post_init__()
        table = self.server.tables[T]
        table.rows = {key: (key, -key, 0) for key in table.rows}
        self._first = dict(table.rows)
        assert self.plan.new_key is not None
        self._new_key = self.plan.new_key
        self._false = ""

    @property
    def kinds(self) -> Sequence[str]:
        """Values move from row to row, too, and two rows have one for a while."""
        return (*super().kinds, "move", "trade", "trade")

    def _value(self, number: int, turn: int, place: int) -> int:
        """Return a value that no other row has, or sometimes one of three."""
        if self._new_key.duplicates and self.random.random() < 0.5:
            return self.random.randrange(1, 4)
        return 1000 * (number + 1) + 10 * turn + place

    def _choices(self) -> dict[str, Any]:
        choices = {**super()._choices(), "alter": _ADDS}
        if self._new_key.small:
            choices["feed"] = replace(FEED, soft_limit_bytes=_ROOM)
        return choices

    def _wrong_rows(self, table: Table) -> str:
        rows = [row[1] for row in table.rows.values() if row[1] is not None]
        if self._swapped(table) and len(rows) > len(set(rows)):
            return f"two rows have a value of the unique key: {sorted(rows)}"
        return super()._wrong_rows(table)

    def _hear(self, run: program.Run | WholeRun) -> None:
        if not any(text in run.error for text in _NAMED):
            super()._hear(run)
        elif not self._false and not self._met():
            self._false = f"duplicates are named, and no two rows had one value: {run.error}"

    def _wrong_word(self, run: program.Run | WholeRun, *, swapped: bool) -> str:
        if self._false:
            return self._false
        if not swapped and any(text in run.error for text in _NAMED):
            return ""
        return super()._wrong_word(run, swapped=swapped)

    def _met(self) -> bool:
        """Whether two rows of the source had one value at the end of a transaction."""
        rows: dict[Any, Row] = dict(self._first)
        for _, changes in itertools.groupby(self.server.history, key=itemgetter(0)):
            for _, change in changes:
                if not isinstance(change, RowChange) or change.table != T:
                    continue
                if change.before is not None:
                    rows.pop(change.before[0], None)
                if change.after is not None:
                    rows[change.after[0]] = change.after
            values = [row[1] for row in rows.values() if row[1] is not None]
            if len(values) > len(set(values)):
                return True
        return False
