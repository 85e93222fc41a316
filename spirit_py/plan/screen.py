"""The first screen of a migration: what it is about to do, without what needs no saying (pure)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py.plan.text import (
    PlanLine,
    column_line,
    definition_lines,
    disk_line,
    earlier_line,
    headline,
    indexes_line,
    listed,
    size_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spirit_py.plan.model import ColumnPlan, Lock, Plan, TablePlan

_MOST_LINES: Final = 24
"""Of one definition's diff."""
_LONGEST: Final = 240
"""Letters of one line: a list of members, a comment."""
_LONGEST_TYPE: Final = 60
"""Letters of a column's type, behind which stands what happens to its values."""


def screen_of(plan: Plan) -> list[PlanLine]:
    """Return the lines; warnings are not among them, because each is an event of its own."""
    lines = [line for table in plan.tables for line in _table(table)]
    if plan.earlier.action != "none":
        lines += listed("earlier", [earlier_line(plan)])
    lines += listed("replicas", plan.replicas)
    return [PlanLine(_cut(line.text), line.style) for line in lines]


def _table(table: TablePlan) -> Iterator[PlanLine]:
    yield PlanLine(headline(table), "heading")
    yield from listed("why", [table.method.why])
    yield from _shortened(list(definition_lines(table)))
    yield from listed("columns", list(_columns(table.columns)))
    if table.key is not None and not table.key.deduplicates:
        how = "changes are applied one by one, first in first out"
        yield from listed("key", [f"{table.key.name}; {how}: {table.key.why}"])
    elif table.key is not None:
        yield from listed("key", [f"{table.key.name} ({', '.join(table.key.columns)})"])
    yield from listed("size", [size_line(table)])
    if table.indexes is not None and (table.indexes.deferred or table.indexes.may_fall):
        yield from listed("indexes", [indexes_line(table)])
    yield from listed("attached", [f"{a.kind} {a.name}: {a.what}" for a in table.attached])
    if table.space is not None:
        yield from listed("disk", [disk_line(table)])
    yield from listed("locks", list(_locks(table.locks)))


def _shortened(lines: list[PlanLine]) -> list[PlanLine]:
    """Return a diff of a bounded length."""
    if len(lines) <= _MOST_LINES:
        return lines
    more = len(lines) - _MOST_LINES + 1
    return [*lines[: _MOST_LINES - 1], *listed("", [f"and {more} lines more: see spirit-py plan"])]


def _columns(columns: Iterable[ColumnPlan]) -> Iterator[str]:
    """Yield the columns of which the diff does not say all."""
    for one in columns:
        if one.change in {"renamed", "converted", "dropped"} or (
            one.change == "changed" and (one.note or one.old != one.new)
        ):
            types = _cut(one.old_type, _LONGEST_TYPE), _cut(one.new_type, _LONGEST_TYPE)
            yield column_line(replace(one, old_type=types[0], new_type=types[1]))


def _locks(locks: Iterable[Lock]) -> Iterator[str]:
    """Yield each lock with how long it is held, and how long a request for the last one waits."""
    held = [f"{one.name}: {one.held.partition(':')[0]}" for one in locks]
    waits = [one.waits.partition(",")[0] for one in locks if one.waits]
    if held:
        yield "; ".join([*held, *waits[-1:]])


def _cut(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
