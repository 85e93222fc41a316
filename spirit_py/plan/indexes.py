"""Which secondary indexes are built after the copy, as a migration decides it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.errors import Refusal
from spirit_py.plan.model import IndexesPlan
from spirit_py.preflight.index_deferral import automatic, expected_bytes, what_replicates, why_none
from spirit_py.statement.index_definitions import deferrable_indexes

if TYPE_CHECKING:
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.table.mapping import TableMapping


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
