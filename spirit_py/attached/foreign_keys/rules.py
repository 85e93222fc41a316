"""Which foreign keys a swap can carry along, and what the server will have against one (pure).

A migration tries each key on empty tables; a plan names only what breaks for certain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from spirit_py.attached.foreign_keys.model import carried, missing_column
from spirit_py.attached.sequence import carried_name
from spirit_py.classes import dataclass
from spirit_py.mysql.capabilities import Capability
from spirit_py.sql import quote_identifier
from spirit_py.statement import ClauseKind
from spirit_py.table.names import MAX_IDENTIFIER, AuxiliaryNames, Name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.statement import AlterStatement
    from spirit_py.table.schema import Column, TableSchema

#: From here on the SQL layer changes the rows of children, and logs them (measured on 9.7).
_NATIVE_KEYS = "innodb_native_foreign_keys"
#: Each child takes some milliseconds of the lock, and its lock is asked for with the others.
MANY_CHILDREN = 20
#: Each view takes some milliseconds of the lock (measured on 9.7.4: 300 views, 1.7 s).
MANY_VIEWS = 50
_ALIKE: Final = (
    "change the columns of both tables in the same way, in one run: --statement 'ALTER TABLE ...;"
    " ALTER TABLE ...'; or drop the foreign key first"
)
INDEX_REMEDY: Final = "keep such an index, or drop the foreign key first"
_PARENT_INDEX: Final = "keep a unique index over the referenced columns, or drop the foreign key"
REMEDIES: Final = {
    1506: "drop the foreign key first: MySQL has none on partitioned tables",
    1553: INDEX_REMEDY,
    1822: _PARENT_INDEX,
    1830: "keep the column nullable, or drop the foreign key first",
    3104: "do not make the column a generated one, or drop the foreign key first",
    3192: "leave the column out of stored generated columns, or replace the key by one without such"
    " an action first",
    3733: "keep the generated column STORED, or drop the foreign key first",
    3780: _ALIKE,
    3823: "leave the CHECK out, or replace the key by one without such an action first",
    6125: f"{_PARENT_INDEX}; or set the global restrict_fk_on_non_standard_key to OFF, here and on"
    " the replicas, if it referred to such an index before",
}
"""What to do about errors of the server that are about foreign keys, by their number."""


class Objection(NamedTuple):
    """Why a key cannot be carried along, and what to do."""

    cause: str
    remedy: str


def dropped_column(
    key: ForeignKey, altered: Mapping[tuple[str, str], AlterStatement]
) -> Iterator[Objection]:
    """Yield a column of a key that is dropped without the key (errors 1828 and 1829)."""
    if carried(key, altered) is None or not (lost := missing_column(key, altered)):
        return
    column, table = lost
    first = f"add DROP FOREIGN KEY {key.name} to the statement"
    if key.child not in altered:
        first = f"ALTER TABLE {'.'.join(key.child)} DROP FOREIGN KEY {key.name} first"
    cause = f"column {column} of {'.'.join(table)} cannot be dropped: {key} needs it"
    yield Objection(cause, f"{first}, or keep the column")


def unseen_changes(
    key: ForeignKey, altered: Mapping[tuple[str, str], AlterStatement], facts: ServerFacts
) -> Iterator[Objection]:
    """Yield a key, dropped ones too, that changes rows of a table without a trace in the binlog."""
    if key.child in altered and key.changes_rows and (why := cascades_unseen(facts)):
        actions = f"ON DELETE {key.on_delete} ON UPDATE {key.on_update}"
        yield Objection(
            f"{key} changes rows of {'.'.join(key.child)} ({actions}), and {why}",
            "migrate on MySQL 9.6 or later without that option; or replace the key by one without"
            " these actions during the migration, and let the application change"
            " these rows itself",
        )


def name_too_long(
    key: ForeignKey, altered: Mapping[tuple[str, str], AlterStatement], *, kept: bool
) -> Iterator[Objection]:
    """Yield a key that RENAME would give a name of more than 64 characters (error 1059)."""
    if key.child not in altered:
        return
    names = AuxiliaryNames.of(key.table)
    for name in (names.old, names.undone) if kept else (names.old,):
        if len(after := carried_name(key.name, key.table, name)) > MAX_IDENTIFIER:
            yield Objection(
                f"RENAME TABLE to {name} would rename {key} to {after}, which is too long",
                f"give it a name that does not begin with {key.table}_ibfk_ first: SET SESSION"
                f" foreign_key_checks=0, then DROP FOREIGN KEY and ADD CONSTRAINT in one"
                " ALTER TABLE, which changes metadata only",
            )
            return


def cascades_unseen(facts: ServerFacts) -> str:
    """Return why the binlog lacks the rows that foreign keys change; empty where it has them."""
    if not Capability.LOGGED_CASCADES.of(facts.version):
        return f"MySQL {facts.version} does not log such changes: InnoDB makes them itself"
    if facts.is_on(_NATIVE_KEYS):
        return f"with {_NATIVE_KEYS}=ON the server does not log such changes"
    return ""


def dropped_in_vain(
    statement: AlterStatement, source: TableSchema, keys: Iterable[ForeignKey]
) -> Iterator[Objection]:
    """Yield the clauses that drop a key which is not there, or is not clearly meant."""
    names = {key.name.lower(): key.name for key in keys}
    there = f"its foreign keys: {', '.join(names.values())}" if names else "it has none"
    for clause in statement.of_kind(ClauseKind.DROP_FOREIGN_KEY):
        if clause.name.lower() not in names:
            yield Objection(
                f"table {source.full_name} has no foreign key {clause.name}",
                f"correct the name, or leave the clause out ({there})",
            )
    for clause in statement.of_kind(ClauseKind.DROP_CONSTRAINT):
        name = clause.name
        if name.lower() in names and _other_constraint(source, name):
            yield Objection(
                f"DROP CONSTRAINT {name} names two constraints of {source.name}",
                "write DROP FOREIGN KEY, DROP CHECK or DROP INDEX",
            )


def _other_constraint(source: TableSchema, name: str) -> bool:
    index = source.index(name)
    check = f"  CONSTRAINT {quote_identifier(name)} CHECK ".lower()
    lines = source.create_sql.lower().split("\n")
    return any(line.startswith(check) for line in lines) or (index is not None and index.unique)


@dataclass(frozen=True, kw_only=True)
class KeyedTables:
    """The definitions of the tables that keys are between: before, after, and the statements."""

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
            remedy = REMEDIES[code] if code else INDEX_REMEDY
            number = f" (error {code})" if code else ""
            cause = f"{key} cannot be kept: {why}{number}" if code else f"{key} {why}"
            yield Objection(cause, remedy)


def _against(key: ForeignKey, after: ForeignKey, tables: KeyedTables) -> Iterator[tuple[int, str]]:
    for table in dict.fromkeys((key.child, key.parent)):
        statement = tables.altered.get(table)
        if statement is not None and statement.of_kind(ClauseKind.PARTITION_BY):
            name = ".".join(table)
            yield 1506, f"{name} becomes partitioned, and MySQL has no foreign keys there"
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
                yield (1830, f"column {column} of {name}, which the key sets to NULL, is NOT NULL")
    if not _begins_index(child, after.columns):
        columns = ", ".join(after.columns)
        yield 0, f"needs an index that begins with ({columns}), which the ALTER removes"


def _of_types(key: ForeignKey, after: ForeignKey, tables: KeyedTables) -> Iterator[tuple[int, str]]:
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
    wanted = {column.lower() for column in columns}
    return any(set(index.leading[: len(wanted)]) == wanted for index in table.indexes)
