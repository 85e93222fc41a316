"""Which tables of a batch have another definition than most (pure)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spirit_py.batch.changes import TableChange

_SHOWN: Final = 6


class UsualDefinitions:
    """The definitions of the tables that are expected to be alike.

    A definition is kept once, however many tables have it.
    """

    def __init__(self) -> None:
        self._groups: dict[str, Counter[str]] = {}
        self._of: dict[tuple[str, str], str] = {}

    def add(self, change: TableChange, shape: str) -> None:
        """Note the definition of a table: its text without the counter."""
        text = _without_name(shape, change.table)
        group = self._groups.setdefault(change.alike, Counter())
        group[text] += 1
        # The text that is there already, not this one's own copy of it.
        self._of[change.name] = next(one for one in group if one == text)

    def differences(self, change: TableChange) -> tuple[str, ...]:
        """Return how a definition differs from the one that most tables have, a line each.

        Where no definition has the majority none of them counts as the usual one.
        """
        own = self._of.get(change.name)
        group = self._groups.get(change.alike)
        if own is None or group is None:
            return ()
        usual, count = group.most_common(1)[0]
        if own == usual or 2 * count <= group.total():
            return ()
        return _differences(own, usual)


def _differences(own: str, usual: str) -> tuple[str, ...]:
    mine, theirs = _lines(own), _lines(usual)
    found = [f"has {line}" for line in mine if line not in theirs]
    found += [f"lacks {line}" for line in theirs if line not in mine]
    more = len(found) - _SHOWN
    shown = found[:_SHOWN] or ["the order of its columns or keys"]
    return (*shown, *([f"and {more} more"] if more > 0 else []))


def _lines(text: str) -> list[str]:
    return [line.strip().removesuffix(",") for line in text.splitlines()[1:]]


def _without_name(shape: str, table: str) -> str:
    """Return the text without the table's own name, which names of constraints begin with."""
    quoted = table.replace("`", "``")
    text = shape.replace(f"CREATE TABLE `{quoted}`", "CREATE TABLE", 1)
    return text.replace(f"CONSTRAINT `{quoted}_", "CONSTRAINT `_")
