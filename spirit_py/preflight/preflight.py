"""The preflight phase: read server and tables, run the checks, make the mapping.

In order: :func:`prepare`, :func:`check_before_create` (nothing is written until here), the creation
of new tables, :func:`check_after_create`, and :func:`check_keys` once all are created. On a Refusal
of the last two the caller drops the new tables.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from spirit_py import points
from spirit_py.attached.foreign_keys.catalogue import Trial, keys_around, require_free_around
from spirit_py.attached.foreign_keys.model import carried
from spirit_py.checkpoint.examination import require_finished
from spirit_py.checkpoint.record import MOST_TABLES
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.locks.named import NO_RUN_OF_OURS, named_lock_holder
from spirit_py.mysql.evaluation import under_modes
from spirit_py.mysql.facts import read_facts, require_mysql
from spirit_py.mysql.grants import read_grants
from spirit_py.mysql.processlist import whose
from spirit_py.mysql.tables.definition import read_table
from spirit_py.mysql.tables.guard_column import with_file_bytes
from spirit_py.preflight.check import PreflightContext, refusal_of, refuse
from spirit_py.preflight.checks.kept_rows import read_kept
from spirit_py.preflight.checks.syntax import read_intent
from spirit_py.preflight.registry import CheckScope, run_checks
from spirit_py.sql import binary_literal, node_types, string_literal
from spirit_py.statement.lexer import not_understood
from spirit_py.table import new_columns
from spirit_py.table.build import build_mapping
from spirit_py.table.conversions import cast_to
from spirit_py.table.mapping import Fill
from spirit_py.table.names import lock_name
from spirit_py.table.unique_keys import without_computed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.preflight.check import Finding
    from spirit_py.statement import AlterStatement
    from spirit_py.table.mapping import TableMapping
    from spirit_py.table.schema import Column, TableSchema


def at_one_moment(session: SqlSession, mapping: TableMapping, moment: str) -> TableMapping:
    """Return the mapping with constants for new columns that read the clock (ISO 8601)."""
    columns = new_columns.of_the_moment(mapping)
    if not columns:
        return mapping
    at = datetime.fromisoformat(moment)
    zone = string_literal(mapping.time_zone or "+00:00")
    try:
        session.execute(f"SET SESSION time_zone = {zone}, SESSION timestamp = {at.timestamp():.6f}")
        schema = mapping.source.schema
        fills = [Fill(column=column, sql=_value(session, column, at, schema)) for column in columns]
    finally:
        session.execute("SET SESSION time_zone = '+00:00', SESSION timestamp = DEFAULT")
    return replace(mapping, fills=(*mapping.fills, *fills))


_NUMBER_TYPES: Final = frozenset({"INTEGER", "UNSIGNED INTEGER", "DOUBLE", "DECIMAL"})


def _value(session: SqlSession, column: Column, at: datetime, schema: str) -> str:
    digits = new_columns.plain_digits(column)
    if digits is not None:
        return new_columns.instant_literal(at, digits)
    given = f"({new_columns.in_schema(column.default or '', schema)})"
    value, exact = cast_to(given, None, column), "''"
    if column.data_type == "timestamp":
        value = f"UNIX_TIMESTAMP({value})"
    elif column.data_type in {"date", "datetime"}:
        value = f"CAST({value} AS CHAR)"  # the driver has no object for a zero date
    elif column.data_type == "float":
        value = f"CAST({given} AS DOUBLE)"  # a FLOAT is shown with six digits
    elif column.data_type == "json":
        value = f"CAST({given} AS CHAR)"
        same = f"{node_types(given)} = {node_types(f'CAST({value} AS JSON)')}"
        exact = f"IF({same}, '', 'other types')"
    elif column.data_type == "bit":
        exact = f"JSON_TYPE(JSON_EXTRACT(JSON_ARRAY({given}), '$[0]'))"
    found, told = session.query(f"SELECT {value}, {exact}")[0]
    if found is None:
        return "NULL"
    if told == "other types":
        raise Refusal(
            f"the default of new column {column.name} is a document with times or numbers of a type"
            " that no JSON text has, and reads the clock: it has no one value for all rows",
            hint="add the column without the default, fill it, and then ALTER TABLE ... ALTER"
            " COLUMN ... SET DEFAULT (...)",
            error_code=ErrorCode.COLUMN_NOT_CONVERTIBLE,
        )
    if column.data_type == "timestamp":
        return new_columns.instant_literal(new_columns.from_unix(str(found)), 6)
    if told in _NUMBER_TYPES:
        # Text would be taken for the bytes of the bits.
        return f"{found}e0" if told == "DOUBLE" and "e" not in str(found) else str(found)
    return binary_literal(found) if isinstance(found, bytes) else string_literal(str(found))


def prepare(session: SqlSession, config: MigrationConfig) -> tuple[PreflightContext, ...]:
    """Read server, statements and tables; return a context each.

    Refusal for what is not MySQL, and for more tables than a record can name.
    """
    facts = read_facts(session)
    require_mysql(facts)
    facts = under_modes(session, facts, config.modes)
    statements = read_intent(session, config, facts.sql_mode)
    if len(statements) > MOST_TABLES:
        raise Refusal(
            f"{len(statements)} tables are more than one run takes ({MOST_TABLES})",
            hint="take them in several runs, one after the other",
        )
    grants = read_grants(session)
    contexts = tuple(
        PreflightContext(
            session=session,
            config=config,
            facts=facts,
            grants=grants,
            statement=with_present_name(session, statement),
            found=read_table(session, statement.schema, statement.table),
        )
        for statement in statements
    )
    _refuse_twice(contexts)
    altered = {(context.schema, context.table): context.statement for context in contexts}
    held = with_file_bytes(session, [context.found for context in contexts])
    return tuple(
        replace(context, altered=altered, found=found)
        for context, found in zip(contexts, held, strict=True)
    )


def with_present_name(session: SqlSession, statement: AlterStatement) -> AlterStatement:
    """Return a statement whose clause names its other table as the server does."""
    clause = statement.parsed[0]
    found = read_table(session, *clause.other) if clause.other[1] else None
    if found is None:
        return statement
    named = replace(clause, other=(found.schema, found.name))
    return replace(statement, parsed=(named,), clauses=named.qualified)


def _refuse_twice(contexts: tuple[PreflightContext, ...]) -> None:
    """Refuse two statements for one table: the definition that the second changes is not clear."""
    names = [(context.schema, context.table) for context in contexts]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise not_understood(
                f"table {'.'.join(name)} is changed by two statements",
                "write its clauses into one ALTER TABLE, separated by commas",
            )


def check_before_create(
    contexts: Sequence[PreflightContext], further: Callable[[], Iterable[Finding]] = tuple
) -> tuple[Finding, ...]:
    """Run all checks that need nothing to be written; return the warnings, or raise Refusal."""
    findings = run_checks(contexts, CheckScope.SERVER, CheckScope.SOURCE, further=further)
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
    """Make the mapping, run the checks of the new definition; return the warnings, or refuse."""
    mapping = mapping_of(context, target)
    context = replace(context, made=mapping)
    return mapping, run_checks([context], CheckScope.AFTER_CREATE)


def check_keys(
    contexts: Sequence[PreflightContext], mappings: Sequence[TableMapping], building: str
) -> None:
    """Try the foreign keys between all new definitions; raise Refusal with all that fail."""
    session = contexts[0].session
    around = dict.fromkeys(
        key for context in contexts for key in keys_around(session, context.schema, context.table)
    )
    kept = (carried(key, contexts[0].altered) for key in around)
    trial = Trial(
        session=session,
        keys=tuple(key for key in kept if key is not None),
        new_tables={
            (one.source.schema, one.source.name): (one.target.schema, one.target.name)
            for one in mappings
        },
        schema=contexts[0].schema,
        building=building,
    )
    if found := [
        refuse(cause, remedy, code=ErrorCode.FOREIGN_KEY) for cause, remedy in trial.run()
    ]:
        raise refusal_of(found)


def mapping_of(context: PreflightContext, target: TableSchema) -> TableMapping:
    """Make the mapping alone, for a new table that was checked when an earlier run made it."""
    made = build_mapping(
        context.source,
        target,
        context.statement,
        context.facts.time_zone,
        nullable_key=context.config.allow_nullable_unique_key,
    )
    made = replace(made, keep=read_kept(context))
    if context.moment:
        made = at_one_moment(context.session, made, context.moment)
    return without_computed(made) if context.config.recompute_generated else made


def require_free_relatives(session: SqlSession, contexts: Sequence[PreflightContext]) -> None:
    """Require that no other run works on a child or a parent, or a table that a statement names.

    The swap of one alters the other. Of those that are named nothing is left unfinished, either.
    """
    tables = [(one.schema, one.table) for one in contexts]
    for other in [clause.other for one in contexts for clause in one.statement.parsed]:
        if not other[1] or other in tables:
            continue
        if holder := named_lock_holder(session, lock_name("migration", *other)):
            raise Refusal(
                f"another run works on {'.'.join(other)} ({whose(session, holder)}), which the"
                " statement names",
                hint=f"let it finish first; {NO_RUN_OF_OURS.format(holder)}",
                error_code=ErrorCode.ALREADY_RUNNING,
            )
        require_finished(session, other, "the statement names that table")
    require_free_around(
        session, tables, "let it finish first, or change both tables in one command"
    )
