"""What a statement does: to each column, by which key, and INSTANT, INPLACE or copy (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.feed.subscription import may_be_weighed
from spirit_py.mysql.capabilities import most_row_versions
from spirit_py.mysql.faults import access_denied, excused
from spirit_py.mysql.tables.guard_column import row_versions
from spirit_py.plan.model import ColumnPlan, IndexesPlan, KeyPlan, Method, Note
from spirit_py.preflight import clauses
from spirit_py.preflight.index_deferral import deferral
from spirit_py.preflight.instant import Altered, why_not_inplace, why_not_instant
from spirit_py.preflight.shortcut import why_rebuilt
from spirit_py.statement import ClauseKind
from spirit_py.statement.index_definitions import deferrable_indexes
from spirit_py.table.conversions import rounds
from spirit_py.table.keys import comparable, comparable_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.plan.model import Change
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.mapping import ColumnPair, TableMapping
    from spirit_py.table.schema import Column, TableSchema


def columns_of(mapping: TableMapping) -> tuple[ColumnPlan, ...]:
    """Return the columns of the new table in its order, then those that are dropped."""
    return (*_new(mapping), *_dropped(mapping))


def values_gone(columns: Iterable[ColumnPlan], source: TableSchema) -> list[Note]:
    """Return a warning of each column whose values no old table keeps."""
    return [
        Note(
            cause=f"the values of column {one.old} are gone when it is done",
            remedy="--keep-old-current copies the table, and keeps them in the old one",
            table=source.full_name,
        )
        for one in columns
        if one.change == "dropped" and not source.column(one.old).generated
    ]


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
        why += "; rows that differ here may be equal under a key of the new table, so changes"
        why += " are applied as whole rows"
    return KeyPlan(
        name=mapping.key.name, columns=mapping.key.columns, deduplicates=ordered or weighed, why=why
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
        if rounds(old, new):
            notes.append("one that is more exact is rounded or cut")
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
    note = "; ".join(notes)
    return ColumnPlan(
        change=change, old=old.name, new=new.name, old_type=types[0], new_type=types[1], note=note
    )


def _added(column: Column, fill: str | None) -> ColumnPlan:
    if column.generated:
        note = "computed by the server"
    elif column.auto_increment:
        note = "numbered in the order of the copy"
    elif fill is not None and column.default_computed:
        note = f"the same in all existing rows, evaluated at the start: {column.default}"
    elif fill is not None:
        note = f"{fill} in existing rows"
    elif column.default is None:
        note = "NULL in existing rows"
    else:
        note = f"its default in existing rows: {column.default}"
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
    collation = f" {column.collation}" if column.collation else ""
    return f"{column.column_type}{collation}{'' if column.nullable else ' NOT NULL'}"


def _rest(column: Column) -> tuple[object, ...]:
    return column.default, column.extra, column.comment, column.srid


_WHOLE: Final = "--native, and the table is small enough: online where the server can"


def method_of(context: PreflightContext, target: TableSchema | None, tables: int) -> Method:
    """Return how a table will be changed, of ``tables`` together."""
    if clause := clauses.made_by_server([context]):
        why = f"the server makes {clause.text!r} itself, and no row is copied"
        if clause.kind is ClauseKind.ADD_FOREIGN_KEY:
            why += "; then it is looked at each row whether it has a parent"
        return Method(algorithm="inplace", certain=True, why=why)
    whole = tables == 1 and clauses.made_natively([context])
    if reason := clauses.why_copied([context], tables):
        return Method(algorithm="copy", certain=True, why=reason)
    if whole and (target is None or clauses.certainly_copied(context.statement)):
        return Method(algorithm="native", certain=True, why=_WHOLE)
    if reason := clauses.why_not_in_place(context):
        return Method(algorithm="copy", certain=True, why=reason)
    if not whole and (reason := why_rebuilt(context.session, context)):
        return Method(algorithm="copy", certain=True, why=reason)
    if target is None:
        why = "the server is tried first: it changes the table in place if it can"
        return Method(algorithm="unknown", certain=False, why=why)
    table = (context.schema, context.table)
    # None without the privilege.
    keys = excused(lambda: keys_around(context.session, *table), (), access_denied)
    altered = Altered(
        source=context.source,
        target=target,
        statement=context.statement,
        version=context.facts.version,
        row_versions=row_versions(context.session, *table),
        referenced=frozenset(
            column.lower() for key in keys if key.parent == table for column in key.parent_columns
        ),
    )
    instant = why_not_instant(altered)
    if not instant:
        why = "the server is expected to change only the data dictionary"
        if altered.row_versions is not None and (altered.added or altered.dropped):
            most = most_row_versions(altered.version)
            why += f"; {most - altered.row_versions} of {most} row versions are left before it"
        return Method(algorithm="instant", certain=False, why=why)
    inplace = why_not_inplace(altered)
    if not inplace:
        why = f"not INSTANT: {instant}; in place it is expected to touch only metadata"
        return Method(algorithm="inplace", certain=False, why=why)
    why = f"not INSTANT: {instant}; INPLACE is not used: {inplace}"
    if whole:
        return Method(algorithm="native", certain=False, why=_WHOLE)
    return Method(algorithm="copy", certain=False, why=why)


def indexes_of(
    session: SqlSession, config: MigrationConfig, facts: ServerFacts, mapping: TableMapping
) -> IndexesPlan:
    """Return which indexes are deferred, and why."""
    found = deferral(session, config.defer_indexes, facts, mapping)
    names = tuple(found.clauses)
    return IndexesPlan(
        deferred=names if found.at_once else (),
        may_fall=names if found.may_fall else (),
        why=found.why,
    )


def clauses_of(mapping: TableMapping, indexes: IndexesPlan | None) -> dict[str, str]:
    """Return the definitions of the deferred indexes, by name."""
    if indexes is None or not indexes.deferred:
        return {}
    found = deferrable_indexes(mapping.target, mapping.lookup.index.name).clauses
    return {name: found[name] for name in indexes.deferred if name in found}
