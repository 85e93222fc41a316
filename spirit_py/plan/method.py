"""INSTANT, INPLACE or copy: what is expected, how certain, and which indexes are built later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql.faults import access_denied
from spirit_py.mysql.tables.guard_column import row_versions
from spirit_py.plan.model import IndexesPlan, Method
from spirit_py.preflight.copy_certain import certainly_copied, why_copied
from spirit_py.preflight.index_deferral import automatic, expected_bytes, what_replicates, why_none
from spirit_py.preflight.instant import Altered, why_not_inplace, why_not_instant
from spirit_py.statement.index_definitions import deferrable_indexes

if TYPE_CHECKING:
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.preflight.check import PreflightContext
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema


def method_of(context: PreflightContext, target: TableSchema | None, tables: int) -> Method:
    """Return how a table will be changed.

    Args:
        target: the new definition; None where it is not known.
        tables: how many are changed by the statement.
    """
    if reason := why_copied([context], tables):
        return Method(algorithm="copy", certain=True, why=reason)
    if clause := certainly_copied(context.statement):
        why = f"{clause!r} is neither INSTANT nor a change of metadata alone"
        return Method(algorithm="copy", certain=True, why=why)
    if target is None:
        why = "the server will be asked: it changes the table at once where it can"
        return Method(algorithm="unknown", certain=False, why=why)
    altered = Altered(
        source=context.source,
        target=target,
        statement=context.statement,
        version=context.facts.version,
        row_versions=row_versions(context.session, context.schema, context.table),
        referenced=_referenced(context),
    )
    instant = why_not_instant(altered)
    if not instant:
        why = "the server is expected to change only its dictionary"
        return Method(algorithm="instant", certain=False, why=why)
    inplace = why_not_inplace(altered)
    if not inplace:
        why = f"not INSTANT: {instant}; in place it is expected to touch only metadata"
        return Method(algorithm="inplace", certain=False, why=why)
    why = f"not INSTANT: {instant}; INPLACE is not used: {inplace}"
    return Method(algorithm="copy", certain=False, why=why)


def _referenced(context: PreflightContext) -> frozenset[str]:
    """Return the columns that foreign keys of other tables refer to, in lower case.

    None is known to an account that may not read them, which the plan refuses for that.
    """
    table = (context.schema, context.table)
    try:
        keys = keys_around(context.session, *table)
    except ServerFault as fault:
        if not access_denied(fault):
            raise
        return frozenset()
    return frozenset(
        column.lower() for key in keys if key.parent == table for column in key.parent_columns
    )


def indexes_of(
    session: SqlSession, config: MigrationConfig, facts: ServerFacts, mapping: TableMapping
) -> IndexesPlan:
    """Return which they are, and why.

    Raises:
        ServerFault: the server could not be asked.
    """
    mode = config.defer_indexes
    if mode == "off":
        return IndexesPlan(why="--defer-indexes off")
    try:
        found = deferrable_indexes(mapping.target, mapping.lookup.index.name)
    except Refusal as error:
        return IndexesPlan(why=error.message)
    if not found.clauses:
        return IndexesPlan(why=why_none(found))
    names = tuple(found.clauses)
    if mode == "on":
        return IndexesPlan(deferred=names, why="--defer-indexes on")
    at_once, may_fall, why = automatic(
        indexes=expected_bytes(session, mapping, found.clauses),
        data=mapping.source.data_bytes,
        pool=facts.number("innodb_buffer_pool_size", 1),
        who_replicates=lambda: what_replicates(session),
    )
    return IndexesPlan(
        deferred=names if at_once else (), may_fall=names if may_fall else (), why=why
    )


def clauses_of(mapping: TableMapping, indexes: IndexesPlan | None) -> dict[str, str]:
    """Return the definitions of the deferred indexes, by name."""
    if indexes is None or not indexes.deferred:
        return {}
    found = deferrable_indexes(mapping.target, mapping.lookup.index.name).clauses
    return {name: found[name] for name in indexes.deferred}
