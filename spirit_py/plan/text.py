"""The plan as lines for a terminal, each with the style in which it is shown (pure)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from spirit_py.units import (
    counted,
    diff_of,
    human_bytes,
    human_count,
    human_percent,
    human_seconds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spirit_py.plan import model

Style = Literal["", "heading", "removed", "added", "warning", "refusal", "dim"]
STYLES: Final[dict[Style, str]] = {
    "": "", "heading": "bold", "removed": "red", "added": "green", "warning": "yellow",
    "refusal": "bold red", "dim": "dim",
}  # fmt: skip
_WIDTH: Final = 10
_METHODS: Final = {
    "instant": "changed INSTANT, without copying a row",
    "inplace": "changed INPLACE, without copying a row",
    "native": "changed by the server itself, which copies the rows if it has to",
    "copy": "copied row by row, and swapped",
    "cleanup": "changed already by an earlier run; what follows the swap is carried on",
    "unknown": "changed in place if the server can do that, else copied and swapped",
}

_MOVED: Final = "copied row by row to another server, and switched"


class PlanLine(NamedTuple):
    """A line, and how it is shown."""

    text: str
    style: Style = ""


def text_of(plan: model.Plan) -> list[PlanLine]:
    """Return the whole plan."""
    lines = [line for table in plan.tables for line in _table(table, refused=_refused(table, plan))]
    if len(plan.tables) > 1:
        lines += _totals(plan)
    lines += _around(plan)
    lines += [line for note in plan.warnings for line in _note(note, "warning")]
    refusals = [(note, "failure" if note in plan.failures else "") for note in plan.refusals]
    lines += [line for note, word in refusals for line in _note(note, "refusal", word)]
    lines.append(_verdict(plan))
    return lines


def brief_text(plan: model.Plan) -> str:
    """Return the plan of a migration that begins in one line, for a log."""
    parts = [part for table in plan.tables for part in _brief(table)]
    if plan.earlier.action != "none":
        parts.append(_earlier_line(plan))
    if plan.replicas:
        parts.append(f"replicas: {', '.join(plan.replicas)}")
    return f"plan: {'; '.join(parts)}"


def _brief(table: model.TablePlan) -> Iterator[str]:
    yield headline(table)
    yield _size_line(table)
    counts = Counter(one.kind for one in table.attached)
    if counts:
        yield f"attached: {', '.join(counted(count, kind) for kind, count in counts.items())}"
    if table.space is not None:
        yield f"disk: {_disk_line(table.space)}"


def headline(table: model.TablePlan) -> str:
    """Return which table is changed, and how."""
    return f"{table.name}: {_MOVED if table.ways else how_changed(table.method)}"


def how_changed(method: model.Method) -> str:
    """Return how a table is changed."""
    expected = "" if method.certain or method.algorithm == "unknown" else " (expected)"
    return f"{_METHODS[method.algorithm]}{expected}"


def _refused(table: model.TablePlan, plan: model.Plan) -> str:
    """Return what refusals about this table do; a cause has the name with a space behind it."""
    found = [
        one
        for one in plan.refusals
        if table.name == one.table or (not one.table and f" {table.name} " in f" {one.cause} ")
    ]
    return "" if not found else "refused" if set(found) - set(plan.failures) else "would fail"


def _table(
    table: model.TablePlan, *, screen: bool = False, refused: str = ""
) -> Iterator[PlanLine]:
    if refused:
        yield PlanLine(f"{table.name}: {refused}, as said below", "heading")
    else:
        yield PlanLine(headline(table), "heading")
        yield from listed("why", [table.method.why])
    definition = list(_definition_lines(table))
    more = len(definition) - _MOST_LINES + 1
    if screen and more > 1:
        definition[_MOST_LINES - 1 :] = listed("", [f"and {more} lines more: see spirit-py plan"])
    yield from definition
    yield from listed("columns", (_screen_columns if screen else _columns)(table.columns))
    if (key := table.key) is not None:
        how = "changes of one row are applied as one" if key.deduplicates else "changes are applied"
        how += "" if key.deduplicates else " one by one, first in first out"
        why = "" if screen and key.deduplicates else f"; {how}: {key.why}"
        columns = "" if screen and why else f" ({', '.join(key.columns)})"
        yield from listed("key", [f"{key.name}{columns}{why}"])
    yield from listed("size", [_size_line(table)])
    yield from listed("goes", map(_way_line, table.ways))
    if table.keeps:
        yield from listed("keeps", [_kept_line(table)])
    indexes = table.indexes
    if indexes is not None and not (screen and not indexes.deferred and not indexes.may_fall):
        yield from listed("indexes", [_indexes_line(indexes)])
    yield from listed("attached", [f"{a.kind} {a.name}: {a.what}" for a in table.attached])
    if not (screen or refused):
        yield from listed("time", _time(table.time))
    if table.space is not None:
        yield from listed("disk", [_disk_line(table.space)])
    if screen:
        yield from listed("locks", _locks(table.locks))
        return
    if table.space is not None:
        size = table.space.binlog_bytes
        binlog = f"about {human_bytes(size)}" if size else "none: the server writes none"
        yield from listed("binlog", [binlog])
    for n, lock in enumerate(table.locks):
        yield PlanLine(f"  {'locks' if not n else '':<{_WIDTH}}{lock.name}: {lock.on}; {lock.held}")
        if lock.waits:
            yield PlanLine(f"  {'':<{_WIDTH}}  {lock.waits}", "dim")
    yield from listed("differs", table.differs)


def _columns(columns: Sequence[model.ColumnPlan]) -> Iterator[str]:
    if kept := sum(one.change == "kept" for one in columns):
        yield f"{kept} kept as {'it is' if kept == 1 else 'they are'}"
    yield from (_column_line(one) for one in columns if one.change != "kept")


def _definition_lines(table: model.TablePlan) -> Iterator[PlanLine]:
    definition = table.definition
    if definition is None:
        return
    if definition.new:
        lines = diff_of(definition.old, definition.new)
        marks = {"removed": "-", "added": "+", "same": " ", "gap": " "}
        if not lines and not definition.unknown:
            yield from listed("change", ["the definition stays the same"])
        for n, (mark, text) in enumerate(lines):
            style: Style = mark if mark in {"removed", "added"} else "dim"
            yield PlanLine(f"  {'change' if not n else '':<{_WIDTH}}{marks[mark]} {text}", style)
    yield from listed("not known", definition.unknown)


def _column_line(column: model.ColumnPlan) -> str:
    names = column.new or column.old
    if column.old and column.new and column.old != column.new:
        names = f"{column.old} -> {column.new}"
    types = column.new_type or column.old_type
    if column.old_type and column.new_type and column.old_type != column.new_type:
        types = f"{column.old_type} -> {column.new_type}"
    note = f" ({column.note})" if column.note else ""
    return f"{column.change} {names}: {types}{note}"


def _size_line(table: model.TablePlan) -> str:
    size = table.size
    computed = " (by its columns, or its files: the server has not measured it since a load)"
    return (
        f"~{human_count(size.rows)} rows, {human_bytes(size.data_bytes)} of rows,"
        f" {human_bytes(size.index_bytes)} of secondary indexes{computed if size.computed else ''}"
    )


def _way_line(way: model.WayPlan) -> str:
    named, binlog = f" ({way.name})" if way.name else "", way.space.binlog_bytes
    rows = "" if way.rows is None else f": ~{human_count(way.rows)} rows"
    about = "" if way.share is None else f", about {human_percent(way.share)} of them"
    logged = f"{human_bytes(binlog)} of binary log there" if binlog else "no binary log there"
    return f"{way.source} -> {way.target}{named}{rows}{about}; {_disk_line(way.space)}; {logged}"


def _kept_line(table: model.TablePlan) -> str:
    share = table.kept_share
    about = "" if share is None else f"about {human_percent(share)} of them, "
    left = f"; they are written to {table.archive_to} first" if table.archive_to else ""
    return f"{about}where {table.keeps}; all others are not in the new table{left}"


def _indexes_line(plan: model.IndexesPlan) -> str:
    if plan.deferred:
        return f"built after the copy: {', '.join(plan.deferred)} ({plan.why})"
    if plan.may_fall:
        return f"kept up to date, unless the copy becomes much slower ({plan.why})"
    return f"kept up to date by the copy ({plan.why})"


def _time(time: model.TimePlan) -> Iterator[str]:
    if time.seconds is None:
        yield f"not known{f': {time.how}' if time.how else ''}"
        return
    yield _seconds(time)
    if time.phases:
        yield ", ".join(f"{one.phase} {human_seconds(one.seconds)}" for one in time.phases)
    if time.how:
        yield time.how


def _seconds(time: model.TimePlan | model.Totals) -> str:
    between = ""
    if time.least is not None and time.most is not None:
        between = f" ({human_seconds(time.least)} to {human_seconds(time.most)})"
    return f"about {human_seconds(time.seconds)}{between}"


def _disk_line(space: model.SpacePlan) -> str:
    free = "free space unknown from here"
    if space.free_bytes is not None:
        free = f"{human_bytes(space.free_bytes)} free"
    sort = f", {human_bytes(space.sort_bytes)} for sorting indexes" if space.sort_bytes else ""
    search = ""
    if space.search_bytes:
        search = f", {human_bytes(space.search_bytes)} for the search for duplicates before it"
    return f"about {human_bytes(space.table_bytes)} for the new table{sort}{search}; {free}"


def _totals(plan: model.Plan) -> Iterator[PlanLine]:
    totals = plan.totals
    how = "swapped at one moment" if plan.together else "one after the other"
    yield PlanLine(f"{totals.tables} tables, {how}", "heading")
    size = f"~{human_count(totals.rows)} rows, {human_bytes(totals.data_bytes)} of rows"
    yield from listed("size", [f"{size}, {human_bytes(totals.index_bytes)} of indexes"])
    if totals.seconds is not None:
        yield from listed("time", [_seconds(totals)])
    if any(table.space is not None or table.ways for table in plan.tables):
        writes = f"about {human_bytes(totals.table_bytes)} of tables"
        yield from listed("disk", [f"{writes}, {human_bytes(totals.binlog_bytes)} of binary log"])


def _around(plan: model.Plan) -> Iterator[PlanLine]:
    yield PlanLine(
        f"server {plan.server}{f', MySQL {plan.version}' if plan.version else ''}", "heading"
    )
    if plan.version:
        if not plan.batch or plan.earlier.action != "none":
            yield from listed("earlier", [_earlier_line(plan)])
        yield from listed("replicas", plan.replicas or ["none found"])
    yield from listed("pace", plan.pace)
    yield from listed("batch", plan.batch)
    yield from listed("switch", plan.switch)


def _earlier_line(plan: model.Plan) -> str:
    earlier = plan.earlier
    rows = f" ({human_count(earlier.rows_copied)} rows are copied)" if earlier.rows_copied else ""
    return {
        "running": f"it runs now, {earlier.reason}",
        "none": "no earlier run has left anything",
        "resume": f"this command resumes: {earlier.reason}",
        "clean_up": f"this command carries on after the swap: {earlier.reason}",
        "afresh": f"this command drops it and starts afresh: {earlier.reason}{rows}",
        "ask": f"this command would drop it{rows} and asks first: {earlier.reason}",
        "give_up": f"this command gives it up: {earlier.reason}",
        "refuse": f"this command refuses: {earlier.reason}",
    }[earlier.action]


def _note(note: model.Note, style: Style, word: str = "") -> Iterator[PlanLine]:
    where = f"{note.table}: " if note.table and note.table not in note.cause else ""
    yield PlanLine(f"{word or style}: {where}{note.cause}", style)
    yield from (PlanLine(f"  {detail}") for detail in note.details)
    if note.remedy:
        yield PlanLine(f"  remedy: {note.remedy}")


def _verdict(plan: model.Plan) -> PlanLine:
    if plan.refusals:
        count = len(plan.refusals)
        reasons = "the reason" if count == 1 else f"the {count} reasons"
        later = len(plan.failures) == count
        would = "fail during the copy" if later else "be refused"
        return PlanLine(f"would {would} for {reasons} above; nothing was written", "refusal")
    how = "spirit-py migrate with the same options"
    how = "the same command without --plan" if plan.switch else how
    return PlanLine(f"would run: {how} does it; nothing was written", "heading")


def listed(title: str, entries: Iterable[str]) -> list[PlanLine]:
    """Put entries under one title."""
    return [
        PlanLine(f"  {title if n == 0 else '':<{_WIDTH}}{entry}") for n, entry in enumerate(entries)
    ]


_MOST_LINES: Final = 24
_LONGEST: Final = 240
_LONGEST_TYPE: Final = 60


def screen_of(plan: model.Plan) -> list[PlanLine]:
    """Return the lines; warnings are not among them, because each is an event of its own."""
    lines = [line for table in plan.tables for line in _table(table, screen=True)]
    if plan.earlier.action != "none":
        lines += listed("earlier", [_earlier_line(plan)])
    lines += listed("replicas", plan.replicas)
    return [PlanLine(_cut(line.text), line.style) for line in lines]


def _screen_columns(columns: Iterable[model.ColumnPlan]) -> Iterator[str]:
    for one in columns:
        if one.change in {"renamed", "converted", "dropped"} or (
            one.change == "changed" and (one.note or one.old != one.new)
        ):
            types = _cut(one.old_type, _LONGEST_TYPE), _cut(one.new_type, _LONGEST_TYPE)
            yield _column_line(replace(one, old_type=types[0], new_type=types[1]))


def _locks(locks: Iterable[model.Lock]) -> Iterator[str]:
    held = [f"{one.name}: {one.held.partition(':')[0]}" for one in locks]
    waits = [one.waits.partition(",")[0] for one in locks if one.waits]
    if held:
        yield "; ".join([*held, *waits[-1:]])


def _cut(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
