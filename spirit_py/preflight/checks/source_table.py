"""The table: there, a base table, InnoDB, and neither the server's own nor this program's."""

from __future__ import annotations

from dataclasses import astuple

from spirit_py.checkpoint.table import checkpoint_tables
from spirit_py.codes import ErrorCode
from spirit_py.preflight.check import Finding, Findings, PreflightContext, refuse
from spirit_py.sql import quote_table
from spirit_py.table.names import AuxiliaryNames

_SYSTEM = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
_UNSUITABLE = ErrorCode.TABLE_NOT_SUITABLE


def source_table(context: PreflightContext) -> Findings:
    """Refuse what is not an InnoDB base table of a user."""
    schema, table = context.statement.schema, context.statement.table
    if schema.lower() in _SYSTEM:
        yield refuse(
            f"{schema} is a system schema",
            "name a table of your own",
            code=_UNSUITABLE,
        )
    elif context.found is None:
        yield _missing(context, schema, table)
    elif _is_auxiliary(context, schema, table):
        yield refuse(
            f"table {schema}.{table} is an auxiliary table of a migration by this program",
            "name the table that is migrated; spirit-py status shows the migration, and spirit-py"
            " cleanup drops what an abandoned one left",
            code=_UNSUITABLE,
        )
    elif context.source.engine.lower() != "innodb":
        yield refuse(
            f"table {schema}.{table} has the engine {context.source.engine}: without"
            " transactions its rows cannot be copied consistently",
            "ALTER TABLE ... ENGINE=InnoDB first, natively",
            code=_UNSUITABLE,
        )


def _is_auxiliary(context: PreflightContext, schema: str, table: str) -> bool:
    marks = checkpoint_tables(context.session, schema)
    families = (AuxiliaryNames.of_checkpoint(name) for _, name in marks)
    return any(table in astuple(family) for family in families if family is not None)


def _missing(context: PreflightContext, schema: str, table: str) -> Finding:
    found = context.session.query(
        "SELECT TABLE_TYPE FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (schema, table),
    )
    if found:
        return refuse(
            f"{schema}.{table} is a {str(found[0][0]).lower()}, not a base table",
            "name its base table",
            code=_UNSUITABLE,
        )
    known = context.session.query(
        "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s", (schema,)
    )
    if not known:
        return refuse(f"there is no schema {schema}", "check --database, and the account's grants")
    if "." in table or "`" in table:
        return refuse(
            f"there is no table {quote_table(schema, table)}",
            "--table takes the bare name: no schema, which goes with --database, and no quotes",
        )
    return refuse(
        f"there is no table {schema}.{table}",
        "check --table; names may be case-sensitive, and other tables are hidden from an account",
    )
