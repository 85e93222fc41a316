"""The table: a base table in InnoDB, neither the server's own nor this program's; key and width."""

from __future__ import annotations

import re
from dataclasses import astuple
from typing import TYPE_CHECKING, Final

from spirit_py.applier.stage import drop_stage, make_row_stage
from spirit_py.checkpoint.table import checkpoint_tables
from spirit_py.codes import ErrorCode
from spirit_py.errors import NullInKey, ServerFault
from spirit_py.mysql.duplicates import refuse_null_keys, ruled_out
from spirit_py.mysql.evaluation import as_stored
from spirit_py.mysql.tables.definition import SCHEMA, near_name, no_base_table
from spirit_py.preflight.check import Finding, Findings, PreflightContext, refuse, warn
from spirit_py.sql import quote_table
from spirit_py.statement import ClauseKind
from spirit_py.table.keys import comparable
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.table.mapping import TableMapping

_SYSTEM = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
_UNSUITABLE = ErrorCode.TABLE_NOT_SUITABLE
#: As SHOW CREATE TABLE writes it: in the line of options, which no text of the user begins, behind
#: whole texts in quotes, as of a comment.
_SECONDARY: Final = re.compile(
    r"^\) ENGINE=(?:[^'\n]|'(?:[^'\\]|\\.)*')* SECONDARY_ENGINE=", re.MULTILINE
)
_DOCUMENT_ID: Final = "FTS_DOC_ID"
_TOO_WIDE: Final = frozenset({1117, 1118})  # too many columns, row size too large


def source_table(context: PreflightContext) -> Findings:
    """Refuse what is not an InnoDB base table of a user."""
    schema, table = context.schema, context.table
    if schema.lower() in _SYSTEM:
        yield refuse(f"{schema} is a system schema", "name a table of your own", code=_UNSUITABLE)
    elif context.found is None:
        yield _missing(context, schema, table)
    elif any(
        table in astuple(family)
        for _, name in checkpoint_tables(context.session, schema)
        if (family := AuxiliaryNames.of_checkpoint(name))
    ):
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


def secondary_engine(context: PreflightContext) -> Findings:
    """Warn of a second engine, which has the rows of the table that is swapped out."""
    if _SECONDARY.search(context.mapping.target.create_sql):
        table = quote_table(context.schema, context.table)
        yield warn(
            f"table {context.schema}.{context.table} has a SECONDARY_ENGINE, into which the new"
            " table is not loaded: after the swap its queries go to InnoDB, and fail where"
            " use_secondary_engine is FORCED",
            f"ALTER TABLE {table} SECONDARY_LOAD; after the swap",
        )


def _missing(context: PreflightContext, schema: str, table: str) -> Finding:
    if other := no_base_table(context.session, schema, table):
        return refuse(other, "name its base table", code=_UNSUITABLE)
    if not context.session.query(SCHEMA, (schema,)):
        return refuse(f"there is no schema {schema}", "check --database, and the account's grants")
    if "." in table or "`" in table:
        return refuse(
            f"there is no table {quote_table(schema, table)}",
            "--table takes the bare name: no schema, which goes with --database, and no quotes",
        )
    return refuse(
        f"there is no table {schema}.{table}",
        f"{near_name(context.session, schema, table)}check --table; names may be"
        " case-sensitive, and other tables are hidden from an account",
    )


def usable_key(context: PreflightContext) -> Findings:
    """Refuse a table without a unique key over whole NOT NULL columns, or a nullable by choice."""
    source = context.source
    if any(i.visible for i in source.not_null_unique_indexes()):
        return
    nullable = [i.name for i in source.nullable_unique_indexes() if i.visible]
    if nullable and context.config.allow_nullable_unique_key:
        return
    remedy = "add a primary key natively first"
    if parts := [one.name for one in source.indexes if one.unique and not one.columns]:
        remedy = f"add a unique key over whole columns natively first: {parts[0]} has parts of some"
    if nullable:
        remedy += (
            f"; or, if no row ever has NULL in the key {', '.join(nullable)}, use"
            " --allow-nullable-unique-key: such a row stops the run"
        )
    yield refuse(
        f"table {source.name} has neither a primary key nor a unique key over NOT NULL"
        " columns: its rows cannot be told apart",
        remedy,
    )


def document_ids(context: PreflightContext) -> Findings:
    """Refuse FULLTEXT documents whose numbers are given by the applications.

    The server takes ascending ones alone (error 182, 9.7.4): rows come in another order, and again.
    """
    statement, mapping = context.statement, context.mapping
    names = {one.name.lower() for one in mapping.source.indexes if one.kind.upper() == "FULLTEXT"}
    names -= {one.name.lower() for one in statement.of_kind(ClauseKind.DROP_INDEX)}
    added = statement.of_kind(ClauseKind.ADD_INDEX)
    if not mapping.target.has_column(_DOCUMENT_ID) or not (
        names or any(one.body.startswith("fulltext ") for one in added)
    ):
        return
    yield refuse(
        f"table {context.table} has a FULLTEXT index and a column {_DOCUMENT_ID}: the server"
        " refuses a row whose number is not greater than all before it, and rows are not copied so",
        "drop the FULLTEXT index in this ALTER and add it natively afterwards, or run the ALTER"
        " natively",
    )


def nullable_key(context: PreflightContext) -> Findings:
    """Refuse a row with NULL in the key; warn where neither the ALTER nor a CHECK rules it out."""
    mapping = context.mapping
    pairs = [pair for pair in mapping.key_pairs if pair.old.nullable]
    if not pairs:
        return
    context.check_stop()
    try:
        refuse_null_keys(context.session, mapping)
    except NullInKey as error:
        yield refuse(error.message, "give these rows a value first", error.details)
    checked = ruled_out(context.session, mapping.source)
    open_ = [p.old.name for p in pairs if p.new.nullable and p.old.name.lower() not in checked]
    if open_:
        yield warn(
            f"nothing rules out NULL in {', '.join(open_)} of the key {mapping.key.name}, that"
            " identifies rows: the first row with NULL there stops the run",
            f"ADD CHECK ({open_[0]} IS NOT NULL) before, or make it NOT NULL in this ALTER",
        )


def staging_room(context: PreflightContext) -> Findings:
    """Refuse where changed rows need a staging table that the server cannot make.

    It has one column more; InnoDB has room for 1017, and a row for 65 535 bytes and, without long
    values, half a page.
    """
    mapping = context.mapping
    try:
        with as_stored(context.session):
            make_row_stage(context.session, mapping)
    except ServerFault as fault:
        if fault.code not in _TOO_WIDE:
            raise
        why = f"the server cannot make a table with one column more than it ({fault.text})"
    else:
        drop_stage(context.session, mapping)
        return
    needed = "; ".join(_needing(mapping))
    if needed:
        yield refuse(
            f"{context.schema}.{context.table} is too wide for the staging table that its changes"
            f" take, because {needed}: {why}",
            "make this change in an ALTER of its own, natively; or first drop a column, or shorten"
            " one",
        )
    else:
        yield warn(
            f"{context.schema}.{context.table} is too wide for a staging table: {why}; a difference"
            " that the checksum finds could not be repaired, and would end the migration"
        )


def _needing(mapping: TableMapping) -> Iterator[str]:
    converted = [pair.old.name for pair in mapping.pairs if pair.converted]
    if converted:
        yield f"the server must convert {', '.join(converted)}"
    if mapping.keep is not None:
        yield "the server judges by --keep which of them are written"
    if mapping.merging or mapping.tightened:
        yield "a key of the new table may find rows equal that differ in the source"
    if not comparable(mapping.key_columns):
        yield f"its rows are told apart by {', '.join(mapping.key.columns)}"
    numbered = [pair.old.name for pair in mapping.pairs if pair.old.data_type == "enum"]
    if numbered:
        yield f"{', '.join(numbered)} may hold the number 0 of an ENUM"
