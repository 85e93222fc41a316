"""The preflight phase: read server and tables, run the checks, make the mapping.

Life::

    contexts = prepare(session, config)                 statements, facts, tables; MySQL only
    warnings = check_before_create(contexts)            nothing is written until here
    target = create_new_table(...)
    mapping, warnings = check_after_create(context, target)   on a Refusal the caller drops it
    check_keys(contexts, mappings, building)                  once all are created; likewise
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spirit_py import points
from spirit_py.attached.foreign_keys.after_alter import carried
from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.attached.foreign_keys.trial import Trial
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.mysql.facts import read_facts, require_mysql
from spirit_py.mysql.grants import read_grants
from spirit_py.mysql.modes import under_modes
from spirit_py.mysql.tables.definition import read_table
from spirit_py.preflight.check import PreflightContext, refusal_of, refuse
from spirit_py.preflight.checks.syntax import read_intent
from spirit_py.preflight.clock_defaults import at_one_moment
from spirit_py.preflight.registry import CheckScope, run_checks
from spirit_py.table.build import build_mapping
from spirit_py.table.computed import without_computed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.preflight.check import Finding
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import TableSchema


def prepare(session: SqlSession, config: MigrationConfig) -> tuple[PreflightContext, ...]:
    """Read the server, the statements and their tables; write nothing.

    Returns:
        One context for each table, in the order of the statements; at least one.

    Raises:
        Refusal: for another server than MySQL, and for a statement that cannot be honoured.
    """
    facts = read_facts(session)
    require_mysql(facts)
    facts = under_modes(session, facts, config.modes)
    grants = read_grants(session)
    contexts = tuple(
        PreflightContext(
            session=session,
            config=config,
            facts=facts,
            grants=grants,
            statement=statement,
            found=read_table(session, statement.schema, statement.table),
        )
        for statement in read_intent(session, config, facts.sql_mode)
    )
    _refuse_twice(contexts)
    altered = {(context.schema, context.table): context.statement for context in contexts}
    return tuple(replace(context, altered=altered) for context in contexts)


def _refuse_twice(contexts: tuple[PreflightContext, ...]) -> None:
    """Refuse two statements for one table: the definition that the second changes is not clear."""
    seen: set[tuple[str, str]] = set()
    for context in contexts:
        name = (context.schema, context.table)
        if name in seen:
            raise Refusal(
                f"table {context.schema}.{context.table} is changed by two statements",
                hint="write its clauses into one ALTER TABLE, separated by commas",
                error_code=ErrorCode.STATEMENT_NOT_UNDERSTOOD,
            )
        seen.add(name)


def check_before_create(contexts: Sequence[PreflightContext]) -> tuple[Finding, ...]:
    """Run all checks that need nothing to be written; return the warnings.

    Raises:
        Refusal: with all that was found, together.
    """
    findings = run_checks(contexts, CheckScope.SERVER, CheckScope.SOURCE)
    if frozenset(read_grants(contexts[0].session).lines) != frozenset(contexts[0].grants.lines):
        raise Refusal(
            "the account's privileges were changed while the checks ran: something may have been"
            " hidden from them",
            hint="run the same command again",
            error_code=ErrorCode.MISSING_PRIVILEGES,
        )
    points.reach("preflight.done")
    return findings


def check_after_create(
    context: PreflightContext, target: TableSchema
) -> tuple[TableMapping, tuple[Finding, ...]]:
    """Make the mapping and run the checks that need the new definition; return the warnings.

    Raises:
        Refusal: with all that was found, together; the caller drops the new table.
    """
    mapping = mapping_of(context, target)
    context = replace(context, made=mapping)
    return mapping, run_checks([context], CheckScope.AFTER_CREATE)


def check_keys(
    contexts: Sequence[PreflightContext], mappings: Sequence[TableMapping], building: str
) -> None:
    """Try the foreign keys between all new definitions, once all new tables are made.

    Args:
        building: the name that is noted for what is built beside the first table.

    Raises:
        Refusal: with all that the server refuses, together.
    """
    session = contexts[0].session
    around = dict.fromkeys(
        key for context in contexts for key in keys_around(session, context.schema, context.table)
    )
    kept = (carried(key, contexts[0].altered) for key in around)
    trial = Trial(
        session=session,
        keys=tuple(key for key in kept if key is not None),
        new_tables={
            (mapping.source.schema, mapping.source.name): (
                mapping.target.schema,
                mapping.target.name,
            )
            for mapping in mappings
        },
        schema=contexts[0].schema,
        building=building,
    )
    if found := [
        refuse(cause, remedy, code=ErrorCode.FOREIGN_KEY) for cause, remedy in trial.run()
    ]:
        raise refusal_of(found)


def mapping_of(context: PreflightContext, target: TableSchema) -> TableMapping:
    """Make the mapping alone, for a new table that was checked when an earlier run made it.

    Raises:
        Refusal: when there is no mapping.
    """
    made = build_mapping(
        context.source,
        target,
        context.statement,
        context.facts.time_zone,
        nullable_key=context.config.allow_nullable_unique_key,
    )
    if context.moment:
        made = at_one_moment(context.session, made, context.moment)
    return without_computed(made) if context.config.recompute_generated else made
