"""What clients were promised, and what may therefore be in the table (pure).

A transaction was acknowledged, failed, or its outcome is unknown because the connection was
lost before the answer. Rows of an unknown one are never written again, so that each of its rows
must be as before it, or each as after it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.faults.shapes import State

#: A row's number, its state before, and after; None where the row does not exist.
Change = tuple[int, "State | None", "State | None"]

_SHOWN = 6


def everything(_number: int, _state: State) -> bool:
    """Keep each row."""
    return True


@dataclass
class Journal:
    """One writer's journal; other writers never touch its rows.

    Attributes:
        rows: what each row holds for certain; a row that does not exist is absent.
        unknown: transactions that happened as a whole or not at all.
        maybe: rows that an unknown INSERT may have made under a number that the server gave.
        history: what was tried on each row, for the report of a failure.
        keeps: tells which rows the new table is to have, by number and state.
        old: rows that were last written before the swap.
    """

    rows: dict[int, State] = field(default_factory=dict)
    unknown: list[list[Change]] = field(default_factory=list)
    maybe: list[State] = field(default_factory=list)
    history: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    acknowledged: int = 0
    failed: int = 0
    keeps: Callable[[int, State], bool] = everything
    old: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.old = set(self.rows)

    def acknowledge(self, changes: list[Change], what: str, *, old: bool = True) -> None:
        """Note that the server has confirmed a transaction.

        Args:
            old: it was made on the table of before the swap.
        """
        self.acknowledged += 1
        for number, _, after in changes:
            (self.old.add if old else self.old.discard)(number)
            self.history[number].append(f"{what}: acknowledged {after}")
            if after is None:
                self.rows.pop(number, None)
            else:
                self.rows[number] = after

    def fail(self, changes: list[Change], what: str) -> None:
        """Note that the server has refused a transaction, or that it was rolled back."""
        self.failed += 1
        for number, _, after in changes:
            self.history[number].append(f"{what}: failed {after}")

    def lose(self, changes: list[Change], what: str) -> None:
        """Note that it is unknown whether a transaction happened; its rows are not used again."""
        self.unknown.append(changes)
        for number, _, after in changes:
            self.history[number].append(f"{what}: unknown {after}")
            self.rows.pop(number, None)

    def left_out(self, number: int) -> bool:
        """Return whether the swap has left a row out."""
        state = self.rows.get(number)
        return state is not None and number in self.old and not self.keeps(number, state)

    def begin_anew(self, rows: Mapping[int, State], why: str, *, old: bool = True) -> None:
        """Take these rows for the truth: the server has broken its promises, not the program.

        Args:
            old: they are those of the table of before the swap.
        """
        for number in self.rows.keys() | rows.keys():
            self.history[number].append(f"{why}: {rows.get(number)}")
        self.rows = dict(rows)
        self.old = set(rows) if old else set()
        self.unknown, self.maybe = [], []

    def lose_new(self, state: State) -> None:
        """Note an INSERT with an unknown outcome, whose number the server would have given."""
        self.maybe.append(state)


def mismatches(
    journals: list[Journal], found: Mapping[int, State], *, swapped: bool = False
) -> list[str]:
    """Compare a table with the journals; a line for each row that is lost, extra or changed.

    Args:
        swapped: it is the new table, which need not have all rows of the old one.
    """
    expected: dict[int, State | None] = {}
    wrong: list[str] = []
    for journal in journals:
        gone = {number for number in journal.rows if swapped and journal.left_out(number)}
        expected |= {number: s for number, s in journal.rows.items() if number not in gone}
        for changes in journal.unknown:
            states = {number: found.get(number) for number, _, _ in changes}
            before = {number: state for number, state, _ in changes}
            after = {number: state for number, _, state in changes}
            keeps = journal.keeps if swapped else everything
            if not any(_may_be(states, whole, keeps) for whole in (before, after)):
                wrong.append(f"half a transaction: {states}, neither {before} nor {after}")
            expected |= states
    maybe = [state for journal in journals for state in journal.maybe]
    for number in sorted(expected.keys() | found.keys()):
        wanted, state = expected.get(number), found.get(number)
        if wanted == state:
            continue
        if wanted is None and state in maybe:
            maybe.remove(state)
            continue
        kind = "lost" if state is None else "extra" if wanted is None else "changed"
        past = [line for journal in journals for line in journal.history.get(number, [])[-4:]]
        wrong.append(f"{kind}: row {number} is {state}, must be {wanted}; journal: {past}")
    return wrong


def _may_be(
    found: dict[int, State | None],
    whole: dict[int, State | None],
    keeps: Callable[[int, State], bool],
) -> bool:
    """Return whether rows are those of a moment, but for what a swap may have left out."""
    return all(
        state == then or (state is None and then is not None and not keeps(number, then))
        for number, then in whole.items()
        for state in [found[number]]
    )


def shortened(lines: list[str]) -> str:
    """Join the first lines, and say how many more there are."""
    more = f" ... and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "; ".join(line[:600] for line in lines[:_SHOWN]) + more
