"""What the server is expected to do with a statement: INSTANT, INPLACE, or neither (pure).

``migrate`` asks the server, ``plan`` goes by these rules: manual 17.12.1 (Online DDL Operations)
with its limits, each measured on 9.7 and compared with migrations in ``test_plan_cases.py``:

- ADD, DROP COLUMN: not with ROW_FORMAT=COMPRESSED, a FULLTEXT index, 1017 columns, or without a
  row version; before 8.0.29 no DROP, and ADD only at the end.
- ADD: no STORED column, expression default or AUTO_INCREMENT; a NOT NULL column without a default
  neither of a spatial type nor a DATE or DATETIME, under any sql_mode.
- VIRTUAL columns: not between others, nor with a rename.
- RENAME COLUMN, CHANGE: not before 8.0.28, nor a column that another table refers to.
- MODIFY: default, comment, visibility, ON UPDATE, and members at the end of an ENUM or SET of as
  many bytes; DROP CHECK and CHECK NOT ENFORCED; never options, indexes and keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.binlog.codec.scalars import character_bytes
from spirit_py.classes import dataclass, replace
from spirit_py.mysql.capabilities import Capability, most_row_versions
from spirit_py.mysql.tables.guard_column import MOST_COLUMNS
from spirit_py.preflight.clauses import why_not_metadata_only
from spirit_py.statement import ClauseKind
from spirit_py.table.build import following
from spirit_py.table.new_columns import needs_fill
from spirit_py.table.schema import SPATIAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.statement import AlterStatement
    from spirit_py.table.schema import Column, Index, TableSchema

_REBUILDS: Final = frozenset({
    ClauseKind.OPTION, ClauseKind.CONVERT, ClauseKind.FORCE, ClauseKind.ADD_PRIMARY_KEY,
    ClauseKind.DROP_PRIMARY_KEY, ClauseKind.PARTITION_BY, ClauseKind.ADD_PARTITION,
    ClauseKind.REMOVE_PARTITIONING, ClauseKind.REORGANIZE_PARTITION,
    ClauseKind.COALESCE_PARTITION, ClauseKind.DROP_FOREIGN_KEY, ClauseKind.RENAME_INDEX,
    ClauseKind.ALTER_INDEX,
})  # fmt: skip
_DATES: Final = frozenset({"date", "datetime"})
_ONE_BYTE: Final = 255


@dataclass(frozen=True, kw_only=True)
class Altered:
    """A table and what a statement makes of it; ``row_versions`` is None if unreadable."""

    source: TableSchema
    target: TableSchema
    statement: AlterStatement
    version: str
    row_versions: int | None = None
    referenced: frozenset[str] = frozenset()

    @property
    def pairs(self) -> list[tuple[Column, Column]]:
        """The columns that stay, old and new, in the order of the new table."""
        origin = dict(following(self.source.columns, self.statement))
        named = ((column.name.lower(), column) for column in self.target.columns)
        return [(origin[name], column) for name, column in named if name in origin]

    @property
    def added(self) -> list[Column]:
        """The new columns."""
        kept = {new.name for _, new in self.pairs}
        return [column for column in self.target.columns if column.name not in kept]

    @property
    def dropped(self) -> list[Column]:
        """The columns that go."""
        return [one for one in self.source.columns if one.name.lower() in self.statement.dropped]

    @property
    def renamed(self) -> list[Column]:
        """The columns that get another name."""
        return [old for old, new in self.pairs if old.name.lower() != new.name.lower()]


def why_not_instant(altered: Altered) -> str:
    """Return the first reason for which the server is expected not to do it instantly."""
    return next(_reasons(altered), "")


def why_not_inplace(altered: Altered) -> str:
    """Return why it is expected not to change only metadata in place; empty where it is."""
    if reason := why_not_metadata_only(altered.source, altered.statement):
        return reason
    for old, new in altered.pairs:
        if _length_bytes(old) != _length_bytes(new):
            return f"the length of {new.name} needs another length byte, which rebuilds the table"
    return _why_index_stays(altered)


def _why_index_stays(altered: Altered) -> str:
    """Return why an index over an expression is not dropped in place (measured: error 1846)."""
    dropped = [
        index
        for clause in altered.statement.of_kind(ClauseKind.DROP_INDEX)
        if (index := altered.source.index(clause.name)) is not None
    ]
    hidden = [one.name for one in dropped if any(part.column is None for part in one.parts)]
    plain = len(dropped) == len(altered.statement.parsed) and not any(one.unique for one in dropped)
    if hidden and not plain:
        return f"the index {hidden[0]} over an expression is dropped together with something else"
    return ""


def _reasons(altered: Altered) -> Iterator[str]:
    yield from _of_clauses(altered)
    for old, new in altered.pairs:
        yield from _of_column(old, new)
    places = [old.ordinal for old, _ in altered.pairs]
    stored = [one for one in (*altered.added, *altered.dropped) if one.generated != "VIRTUAL"]
    anywhere = stored and Capability.INSTANT_COLUMNS.of(altered.version)
    if places != sorted(places) and not anywhere:
        yield "the order of columns changes"
    names = {old.name.lower(): new.name.lower() for old, new in altered.pairs}
    before = [one for one in altered.source.indexes if one.kind.upper() != "FULLTEXT"]
    after = {_index(one, {}) for one in altered.target.indexes}
    if {_index(one, names) for one in before} != after:
        yield "indexes change"
    yield from _of_renames(altered)
    yield from _of_new_and_gone(altered)


def _of_clauses(altered: Altered) -> Iterator[str]:
    for clause in altered.statement.parsed:
        if clause.kind in _REBUILDS or clause.body.startswith(("fulltext", "spatial")):
            yield f"{clause.text!r} is never INSTANT"
        if clause.kind in {ClauseKind.ALTER_CHECK, ClauseKind.ALTER_CONSTRAINT}:
            lines = altered.source.create_sql.splitlines()
            off = any(f"`{clause.name}` CHECK" in one and "NOT ENFORCED" in one for one in lines)
            if off and "not enforced" not in clause.body:
                yield "the rows are checked for a constraint"
        inline = clause.kind is ClauseKind.ADD_COLUMN and " check(" in f" {clause.body}"
        new = inline or clause.kind is ClauseKind.ADD_CHECK
        if new and "not enforced" not in clause.body:
            yield "the rows are checked for a new constraint"


def _of_column(old: Column, new: Column) -> Iterator[str]:
    name = new.name
    if old.generated != new.generated or (
        old.generated and old.generation_expression != new.generation_expression
    ):
        yield f"the expression of {name} changes"
    if old.nullable != new.nullable:
        yield f"{name} becomes {'NULL' if new.nullable else 'NOT NULL'}"
    if old.auto_increment != new.auto_increment:
        yield f"{name} {'becomes' if new.auto_increment else 'is no longer'} AUTO_INCREMENT"
    if (old.type_identity, old.collation) != (new.type_identity, new.collation) and not (
        _more_members(old, new)
    ):
        yield f"{name} changes from {old.column_type} to {new.column_type}"


def _more_members(old: Column, new: Column) -> bool:
    return (
        old.data_type == new.data_type
        and old.data_type in {"enum", "set"}
        and (old.charset, old.collation) == (new.charset, new.collation)
        and new.members[: len(old.members)] == old.members
        and old.number_bytes == new.number_bytes
    )


def _length_bytes(column: Column) -> int:
    if column.data_type not in {"varchar", "varbinary"}:
        return 0
    longest = (column.length or 0) * character_bytes(column.charset or "")
    return 1 if longest <= _ONE_BYTE else 2


def _index(index: Index, names: dict[str, str]) -> Index:
    parts = tuple(
        replace(part, column=names.get(part.column.lower(), part.column.lower()))
        if part.column
        else part
        for part in index.parts
    )
    return replace(index, parts=parts)


def _of_renames(altered: Altered) -> Iterator[str]:
    if not altered.renamed:
        return
    if not (renames := Capability.INSTANT_RENAMES).of(altered.version):
        yield f"the server renames no column instantly before {renames.since}"
    for column in altered.renamed:
        if column.name.lower() in altered.referenced:
            yield f"a foreign key of another table refers to {column.name}"
    if any(one.generated == "VIRTUAL" for one in (*altered.added, *altered.dropped)):
        yield "a VIRTUAL column is not added or dropped together with a rename"


def _of_new_and_gone(altered: Altered) -> Iterator[str]:
    added, dropped = altered.added, altered.dropped
    for column in added:
        if column.generated == "STORED":
            yield f"the values of the new column {column.name} are stored in each row"
        if column.auto_increment:
            yield f"the rows are numbered for the new column {column.name}"
        if needs_fill(column) and column.data_type in SPATIAL | _DATES:
            yield f"the new column {column.name} has no value that the rows could get"
        if column.default_computed and not (column.default or "").upper().startswith(
            "CURRENT_TIMESTAMP"
        ):
            yield f"the default of the new column {column.name} is an expression"
        if column.generated == "VIRTUAL" and not _at_end(altered, added):
            yield f"the VIRTUAL column {column.name} is added between others"
    if any(one.generated != "VIRTUAL" for one in (*added, *dropped)):
        yield from _of_versions(altered, added, dropped)


def _of_versions(
    altered: Altered, added: Sequence[Column], dropped: Sequence[Column]
) -> Iterator[str]:
    source, columns = altered.source, Capability.INSTANT_COLUMNS
    if "ROW_FORMAT=COMPRESSED" in source.create_sql.rpartition("\n)")[2].upper():
        yield "ROW_FORMAT=COMPRESSED"
    if any(index.kind.upper() == "FULLTEXT" for index in source.indexes):
        yield "the table has a FULLTEXT index"
    if not columns.of(altered.version):
        if dropped:
            yield f"the server drops no column instantly before {columns.since}"
        if not _at_end(altered, added):
            yield f"the server adds columns instantly at the end only, before {columns.since}"
    elif altered.row_versions is not None:
        most = most_row_versions(altered.version)
        if altered.row_versions >= most:
            yield f"the table has {altered.row_versions} of {most} row versions already"
    if added and len(altered.target.columns) > MOST_COLUMNS + 1:
        yield f"it has more than {MOST_COLUMNS} columns"


def _at_end(altered: Altered, added: Sequence[Column]) -> bool:
    last = max((new.ordinal for _, new in altered.pairs), default=0)
    return all(column.ordinal > last for column in added)
