"""The two definitions as a diff: lines that go, lines that come, and those around them (pure)."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Mark = Literal["same", "removed", "added", "gap"]
_AROUND: Final = 1


class DiffLine(NamedTuple):
    """One line; ``gap`` stands for lines that are the same and are not shown."""

    mark: Mark
    text: str


def diff_of(old: str, new: str) -> list[DiffLine]:
    """Return the changed lines, each with one line before and behind it; none where all is same.

    A comma at the end of a line is no difference: it depends on what follows.
    """
    before, after = old.splitlines(), new.splitlines()
    matcher = difflib.SequenceMatcher(None, _bare(before), _bare(after), autojunk=False)
    lines: list[DiffLine] = []
    groups = list(matcher.get_grouped_opcodes(_AROUND))
    for number, group in enumerate(groups):
        if number:
            lines.append(DiffLine("gap", "  ..."))
        for tag, first, last, start, end in group:
            lines += _lines(tag, before[first:last], after[start:end])
    return lines


def _bare(lines: list[str]) -> list[str]:
    return [line.rstrip(",") for line in lines]


def _lines(tag: str, before: list[str], after: list[str]) -> Iterator[DiffLine]:
    if tag == "equal":
        yield from (DiffLine("same", line) for line in after)
        return
    yield from (DiffLine("removed", line) for line in before)
    yield from (DiffLine("added", line) for line in after)
