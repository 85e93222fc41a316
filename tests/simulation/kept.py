"""Worlds in which ``migrate --keep`` leaves rows out: clients move rows across the line.

The judge has each expression in Python, apart from what the model server makes of it.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.primitives import stand_in
from tests.simulation.program import OLD, T
from tests.simulation.trouble import DAMAGE
from tests.simulation.world import Plan, World, visible, wrong_rows

with stand_in():
    from spirit_py.config import SessionModes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.simulation.server import Name, Row, Table

CHECKPOINT: Final = ("s", "_t_chkpnt")
#: In the server's form, and whether a row is kept; a fact has what each makes of NULL.
EXPRESSIONS: Final[Mapping[str, Callable[[Row], bool]]] = {
    "((`v` % 2) = 0)": lambda row: row[1] is not None and row[1] % 2 == 0,
    "(`v` >= 100)": lambda row: row[1] is not None and row[1] >= 100,
    "(`v` < 100)": lambda row: row[1] is not None and row[1] < 100,
    "(`v` is null)": lambda row: row[1] is None,
    "(`id` > 4)": lambda row: row[0] > 4,
    "(((`id` + `v`) % 2) = 0)": lambda row: row[1] is not None and sum(row[:2]) % 2 == 0,
}
#: Shares of the worlds of this kind.
_UNIQUE: Final = 0.2
_OLD_STAYS: Final = 0.5
_REBUILDS: Final = 0.5
_DAMAGED: Final = 0.5


def kept_plan(plan: Plan, seed: int) -> Plan:
    """Make a world of this kind of another one's plan."""
    dice = random.Random(f"kept rows of {seed}")
    plan = replace(
        plan.of_command(),
        troubles=(),
        unique=dice.random() < _UNIQUE,
        keeps=dice.choice(sorted(EXPRESSIONS)),
        keeps_old=dice.random() < _OLD_STAYS,
        alters=dice.random() >= _REBUILDS,
    )
    if not plan.faults and dice.random() < _DAMAGED:
        plan = replace(plan, troubles=(DAMAGE,))
    return plan


class KeptWorld(World):
    """A world of ``plan.keeps``: only rows for which it is true are in the new table."""

    def __post_init__(self) -> None:
        """Remember the old table."""
        super().__post_init__()
        self._old = self.server.tables[T].number
        self._kept = EXPRESSIONS[self.plan.keeps]

    @property
    def kinds(self) -> Sequence[str]:
        """Rows get no value, or another key, besides."""
        return (*super().kinds, "null", "key")

    def _choices(self) -> dict[str, Any]:
        plan = self.plan
        choices = {**super()._choices(), "modes": SessionModes(keep=plan.keeps)}
        if not plan.alters:
            choices["alter"] = "FORCE"
        if plan.keeps_old:
            choices["drop_old_after"] = float("inf")
        return choices

    def _swapped(self, table: Table) -> bool:
        return table.number != self._old

    def _truth(self) -> dict[Any, Row]:
        """Return what the changes before the swap make, of that what is kept, and those since."""
        rows = visible(self._first, self.server, self._old)
        table = self.server.tables[T]
        if not self._swapped(table):
            return rows
        return visible(self._left(rows), self.server, table.number)

    def _states(self, then: dict[Any, Row]) -> list[dict[Any, Row]]:
        """Let a snapshot taken behind the guard, before the RENAME, read all that is kept."""
        return [then, self._left(then)] if self._swapped(self.server.tables[T]) else [then]

    def _left(self, rows: dict[Any, Row]) -> dict[Any, Row]:
        return {key: row for key, row in rows.items() if self._kept(row)}

    def _wrong_rows(self, table: Table) -> str:
        old = self.server.tables.get(OLD)
        if old is not None and self._swapped(table):
            # With what was left out: nobody has written to it since.
            wrong = wrong_rows(old, visible(self._first, self.server, self._old))
            if wrong:
                return f"the old table: {wrong}"
        return super()._wrong_rows(table)

    def _old_stays(self) -> bool:
        return self.plan.keeps_old or super()._old_stays()

    def _staying(self) -> set[Name]:
        return {T, OLD, CHECKPOINT} if self.plan.keeps_old else {T}
