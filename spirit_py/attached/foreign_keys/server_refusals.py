"""What the server will have against foreign keys, as far as that is sure (pure).

A migration asks the server, on empty tables (:mod:`spirit_py.attached.foreign_keys.trial`). A plan
writes nothing, and no temporary table can have a foreign key, so it goes by the manual's conditions
("FOREIGN KEY Constraints") and names only what the statement breaks for certain. What it does not
name may still be refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.after_alter import carried, missing_column
from spirit_py.attached.foreign_keys.carryable import REMEDIES, Objection
from spirit_py.statement import ClauseKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.statement import AlterStatement
    from spirit_py.table.schema import Column, TableSchema

Name = tuple[str, str]

_INDEX_REMEDY: Final = "keep such an index, or drop the foreign key first"


@dataclass(frozen=True, kw_only=True)
class KeyedTables:
    """The definitions of the tables that keys are between, by schema and name.

    Attributes:
        old: as they are; a table that cannot be read is missing.
        new: as the statements leave them; those that are not altered are the same.
        altered: the statement of each table that is altered.
    """

    old: Mapping[Name, TableSchema]
    new: Mapping[Name, TableSchema]
    altered: Mapping[Name, AlterStatement]


def objections(keys: Iterable[ForeignKey], tables: KeyedTables) -> Iterator[Objection]:
    """Yield what the server refuses, a line for each key at most."""
    for key in keys:
        after = carried(key, tables.altered)
        if after is None or missing_column(key, tables.altered) is not None:
            continue
        found = next(_against(key, after, tables), None)
        if found is not None:
            code, why = found
            remedy = REMEDIES[code] if code else _INDEX_REMEDY
            number = f" (error {code})" if code else ""
            cause = f"{key} cannot be kept: {why}{number}" if code else f"{key} {why}"
            yield Objection(cause, remedy)


def _against(key: ForeignKey, after: ForeignKey, tables: KeyedTables) -> Iterator[tuple[int, str]]:
    """Yield errors of the server with what they say; 0 for the program's own reason."""
    for table in dict.fromkeys((key.child, key.parent)):
        statement = tables.altered.get(table)
        if statement is not None and statement.of_kind(ClauseKind.PARTITION_BY):
            yield (
                1506,
                f"{'.'.join(table)} gets partitions, with which the server has no such key",
            )
    child, parent = tables.new.get(key.child), tables.new.get(key.parent)
    if child is not None:
        yield from _of_child(after, child)
    if parent is not None and not _begins_index(parent, after.parent_columns):
        columns = ", ".join(after.parent_columns)
        yield 1822, f"no index of {'.'.join(after.parent)} begins with ({columns}) any more"
    if child is not None and parent is not None:
        yield from _of_types(key, after, tables)


def _of_child(after: ForeignKey, child: TableSchema) -> Iterator[tuple[int, str]]:
    name = ".".join(after.child)
    if "SET NULL" in {after.on_delete, after.on_update}:
        for column in after.columns:
            if child.has_column(column) and not child.column(column).nullable:
                yield (
                    1830,
                    f"column {column} of {name}, which the key sets to NULL, is NOT NULL",
                )
    if not _begins_index(child, after.columns):
        columns = ", ".join(after.columns)
        yield 0, f"needs an index that begins with ({columns}), which the ALTER removes"


def _of_types(key: ForeignKey, after: ForeignKey, tables: KeyedTables) -> Iterator[tuple[int, str]]:
    """Yield the pairs of columns that were of one kind and are not any more."""
    ends = (key.child, key.parent)
    if not all(end in tables.old for end in ends):
        return
    before = zip(key.columns, key.parent_columns, strict=True)
    for old, new in zip(before, zip(after.columns, after.parent_columns, strict=True), strict=True):
        was = [_column(tables.old[end], name) for end, name in zip(ends, old, strict=True)]
        now = [_column(tables.new[end], name) for end, name in zip(ends, new, strict=True)]
        if None in was or None in now:
            continue
        if _kind(was[0]) == _kind(was[1]) and _kind(now[0]) != _kind(now[1]):
            shown = [
                f"{name} of {'.'.join(end)} ({_type(column)})"
                for name, end, column in zip(new, ends, now, strict=True)
            ]
            yield 3780, f"columns {' and '.join(shown)} are incompatible"


def _column(table: TableSchema, name: str) -> Column | None:
    return table.column(name) if table.has_column(name) else None


def _kind(column: Column | None) -> tuple[object, ...]:
    """Return what must be the same on both sides of a key; lengths of texts need not be."""
    if column is None:
        return ()
    if column.collation is not None and column.data_type not in {"enum", "set"}:
        return "text", column.charset, column.collation
    if column.data_type in {"binary", "varbinary"}:
        return ("bytes",)
    if column.data_type == "decimal":
        return "decimal", column.unsigned, column.precision, column.scale
    return column.data_type, column.unsigned


def _type(column: Column | None) -> str:
    if column is None:
        return "?"
    return f"{column.column_type} {column.collation}" if column.collation else column.column_type


def _begins_index(table: TableSchema, columns: tuple[str, ...]) -> bool:
    """Return whether an index may begin with these columns, in any order."""
    wanted = {column.lower() for column in columns}
    return any(set(index.leading[: len(wanted)]) == wanted for index in table.indexes)
