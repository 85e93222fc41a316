"""What happens to each column, and which key is used (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.feed.subscription import may_be_weighed
from spirit_py.plan.model import ColumnPlan, KeyPlan
from spirit_py.table.keys import comparable, comparable_column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.plan.model import Change
    from spirit_py.table.mapping import ColumnPair, TableMapping
    from spirit_py.table.schema import Column


def columns_of(mapping: TableMapping) -> tuple[ColumnPlan, ...]:
    """Return every column: those of the new table in its order, then those that are dropped."""
    return (*_new(mapping), *_dropped(mapping))


def key_of(mapping: TableMapping) -> KeyPlan:
    """Return the key, and whether changes are deduplicated by it."""
    names = ", ".join(mapping.key.columns)
    others = ", ".join(one.name for one in mapping.key_columns if not comparable_column(one))
    ordered, weighed = comparable(mapping.key_columns), may_be_weighed(mapping)
    if ordered:
        why = f"values of {names} are compared here exactly as on the server"
    elif weighed:
        why = f"{others} is compared by the weights that the server gives"
    else:
        why = f"only the server knows which values of {others} are equal"
    if mapping.merging:
        why += "; rows that differ here may meet under a key of the new table, so they are written"
        why += " as complete states of the source"
    return KeyPlan(
        name=mapping.key.name,
        columns=mapping.key.columns,
        deduplicates=ordered or weighed,
        why=why,
    )


def _new(mapping: TableMapping) -> Iterator[ColumnPlan]:
    pairs = {pair.new.name: pair for pair in mapping.compared}
    fills = {fill.column.name: fill.sql for fill in mapping.fills}
    for column in mapping.target.columns:
        pair = pairs.get(column.name)
        if pair is not None:
            yield _carried(pair)
        elif column.generated and mapping.source.has_column(column.name):
            old = mapping.source.column(column.name)
            same = old.generation_expression == column.generation_expression
            yield ColumnPlan(
                change="kept" if same else "changed",
                old=column.name,
                new=column.name,
                old_type=old.column_type,
                new_type=column.column_type,
                note="computed by the server" if same else "computed anew by the server",
            )
        else:
            yield _added(column, fills.get(column.name))


def _carried(pair: ColumnPair) -> ColumnPlan:
    old, new = pair.old, pair.new
    types = _type(old), _type(new)
    change: Change = "kept"
    notes = []
    if pair.converted:
        change = "converted"
        notes.append("by the server; a value that does not fit stops the run")
    elif types[0] != types[1] or _rest(old) != _rest(new):
        change = "changed"
        if pair.narrowed:
            notes.append("a value that does not fit stops the run")
        if old.default != new.default:
            notes.append(f"default {_shown_default(old)} -> {_shown_default(new)}")
    elif old.name != new.name:
        change = "renamed"
    if old.nullable and not new.nullable:
        notes.append("a NULL stops the run")
    return ColumnPlan(
        change=change,
        old=old.name,
        new=new.name,
        old_type=types[0],
        new_type=types[1],
        note="; ".join(notes),
    )


def _added(column: Column, fill: str | None) -> ColumnPlan:
    if column.generated:
        note = "computed by the server"
    elif column.auto_increment:
        note = "numbered in the order of the copy"
    elif fill is not None and column.default_computed:
        note = f"the same in all rows that are there, evaluated when it begins: {column.default}"
    elif fill is not None:
        note = f"{fill} in the rows that are there"
    elif column.default is None:
        note = "NULL in the rows that are there"
    else:
        note = f"its default in the rows that are there: {column.default}"
    return ColumnPlan(change="added", new=column.name, new_type=_type(column), note=note)


def _dropped(mapping: TableMapping) -> Iterator[ColumnPlan]:
    kept = {pair.old.name.lower() for pair in mapping.compared}
    names = {column.name.lower() for column in mapping.target.columns if column.generated}
    for column in mapping.source.columns:
        if column.name.lower() not in kept and column.name.lower() not in names:
            yield ColumnPlan(change="dropped", old=column.name, old_type=_type(column))


def _shown_default(column: Column) -> str:
    if column.default is None:
        return "NULL" if column.nullable else "none"
    return column.default if column.default_computed else repr(column.default)


def _type(column: Column) -> str:
    """Return the type, with NULL and the collation."""
    collation = f" {column.collation}" if column.collation else ""
    return f"{column.column_type}{collation}{'' if column.nullable else ' NOT NULL'}"


def _rest(column: Column) -> tuple[object, ...]:
    return column.default, column.extra, column.comment, column.srid
