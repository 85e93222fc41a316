"""What the swap will not be able to do: see or kill blockers, keep snapshots whole, go back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.errors import ServerFault
from spirit_py.locks.look import why_locks_are_unseen
from spirit_py.mysql.endpoint import Service, service_of
from spirit_py.mysql.evaluation import as_stored
from spirit_py.mysql.faults import is_verdict
from spirit_py.mysql.kill import may_kill_by_procedure
from spirit_py.mysql.tables.guard_column import why_server_cannot, why_table_cannot
from spirit_py.mysql.tables.new_table import OWN_CHECKS
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn
from spirit_py.sql import is_text, quote_identifier, quote_table
from spirit_py.statement import ClauseKind
from spirit_py.statement.rewrite import PARTITIONING, check_definitions, without_partitions
from spirit_py.table.build import NO_REVERT, REMEDY
from spirit_py.table.expressions import column_names
from spirit_py.table.new_columns import needs_fill

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spirit_py.contracts import SqlSession
    from spirit_py.statement import AlterStatement
    from spirit_py.table.schema import Column, TableSchema


def blockers(context: PreflightContext) -> Findings:
    """Warn of what the swap will not be able to do."""
    kills, grants = context.config.kill_blockers != "never", context.grants
    may_kill = grants.has_global("CONNECTION_ADMIN") or grants.has_global("SUPER")
    if why := why_locks_are_unseen(context.session):
        lost = " and --kill-blockers kills no session" if kills else ""
        yield warn(
            f"metadata locks cannot be seen: {why}: before a lock on the table is requested, old"
            f" transactions on any table are waited for,{lost or ' not only those on this one'}",
            "start the server with --performance-schema=ON and without"
            " performance_schema_max_metadata_locks, enable wait/lock/metadata/sql/mdl in"
            " performance_schema.setup_instruments, and let the account read performance_schema",
        )
    elif kills and not (may_kill or may_kill_by_procedure(context.session)):
        needed = grants.grant(["CONNECTION_ADMIN"])
        if service_of(context.session, context.facts) is Service.RDS:
            # Nobody has that there.
            needed = grants.grant(["EXECUTE"]).replace("*.*", "PROCEDURE mysql.rds_kill")
        yield warn(
            f"account {grants.account} lacks CONNECTION_ADMIN: blockers of other"
            " accounts cannot be killed, as --kill-blockers asks for",
            needed,
        )


_ROW_FORMAT: Final = """
SELECT ROW_FORMAT FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"""
_WRITTEN: Final = re.compile(r"ROW_FORMAT=(\w+)", re.IGNORECASE)


def snapshot_guard(context: PreflightContext) -> Findings:
    """Refuse (``on``) or warn (``auto``) where the new table takes no instant column."""
    target, mode = context.mapping.target, context.config.snapshot_guard
    if mode == "off":
        return
    why = why_server_cannot(context.facts.version) or why_table_cannot(
        target, _row_format(context.session, target)
    )
    if not why:
        return
    text = f"the snapshot guard is not possible for {context.schema}.{context.table}: {why}"
    if mode == "on":
        yield refuse(text, "leave out --snapshot-guard on, and let no dump run during the swap")
    else:
        yield warn(
            f"{text}; a transaction that began before the swap and reads the table first after it"
            " (mysqldump --single-transaction) finds rows missing: let none run during the swap"
        )


def _row_format(session: SqlSession, table: TableSchema) -> str:
    """Return a table's row format; a plan's temporary table has it in its definition alone."""
    if found := session.query(_ROW_FORMAT, (table.schema, table.name)):
        return str(found[0][0] or "")
    options = table.create_sql.rpartition("\n)")[2]
    if written := _WRITTEN.search(options):
        return written[1]
    return "COMPRESSED" if "KEY_BLOCK_SIZE=" in options else ""


_PROBE: Final = "_spirit_py_defaults"
_NOT_ENFORCED: Final = "NOT ENFORCED */"
_OF_CHECKS: Final = (
    *(ClauseKind.DROP_CHECK, ClauseKind.DROP_CONSTRAINT),
    *(ClauseKind.ALTER_CHECK, ClauseKind.ALTER_CONSTRAINT),
)
_RANGE_OR_LIST: Final = re.compile(r" PARTITION BY (?:RANGE|LIST)\b")
_CATCH_ALL: Final = re.compile(r" VALUES LESS THAN \(?MAXVALUE\b")


def way_back(context: PreflightContext) -> Findings:
    """Refuse dropped columns whose defaults the old table refuses; warn of what else it refuses."""
    config, source, statement = context.config, context.source, context.statement
    asked, name = config.keep_old_current > 0, f"{context.schema}.{context.table}"
    if not (asked or config.drop_old_after):
        return
    found = context.session.query(OWN_CHECKS, (source.schema, source.name))
    checks = check_definitions(source.create_sql, [str(row[0]) for row in found])
    checks = {one: text for one, text in checks.items() if not text.endswith(_NOT_ENFORCED)}
    fresh = _with_defaults(source, statement)
    of_fresh = {one: text for one, text in checks.items() if set() < _reads(text) <= fresh.keys()}
    if why := _why_refused(context.session, source, fresh.values(), of_fresh):
        cause = (
            f"rows that are written after the swap have the default in dropped columns of {name},"
            f" and the old table refuses it: {why}"
        )
        if asked:
            remedy = f"give the column another default, or drop its constraint, before; or {REMEDY}"
            yield refuse(f"reverse replication is not possible: {cause}", remedy)
        else:
            yield warn(f"{NO_REVERT}: {cause}")
    if not asked:
        return
    changed = {clause.name.lower() for clause in statement.of_kind(*_OF_CHECKS)}
    for one, text in checks.items():
        if one.lower() in changed and one not in of_fresh:
            yield warn(
                f"{name}: the old table keeps CHECK {one} {text}; the first row that it refuses"
                " ends reverse replication"
            )
    partitions = source.create_sql[len(without_partitions(source.create_sql)) :]
    by_value = _RANGE_OR_LIST.search(partitions) and not _CATCH_ALL.search(partitions)
    if by_value and statement.of_kind(*PARTITIONING):
        yield warn(
            f"{name}: the old table keeps its partitions; the first row that belongs into none of"
            " them ends reverse replication"
        )


def _reads(expression: str) -> set[str]:
    return {name.lower() for name in column_names(expression)}


def _with_defaults(source: TableSchema, statement: AlterStatement) -> dict[str, Column]:
    """Return the dropped columns whose values depend on no other ones, by names in lower case."""
    dropped = [column for column in source.columns if column.name.lower() in statement.dropped]
    found: dict[str, Column] = {}
    for _ in dropped:
        for column in dropped:
            text = column.generation_expression or (column.default or "") * column.default_computed
            if not (needs_fill(column) or column.auto_increment) and _reads(text) <= found.keys():
                found[column.name.lower()] = column
    return found


def _why_refused(
    session: SqlSession, source: TableSchema, columns: Iterable[Column], checks: Mapping[str, str]
) -> str:
    """Return why a table of these columns refuses a row of defaults; empty where nothing shows."""
    if not checks and all(column.nullable or not column.generated for column in columns):
        return ""
    starts = (re.escape(f"  {quote_identifier(column.name)} ") for column in columns)
    lines = [re.search(rf"^{start}.*?(?=,?$)", source.create_sql, re.MULTILINE) for start in starts]
    named = (f"CONSTRAINT {quote_identifier(one)} CHECK {text}" for one, text in checks.items())
    body = ", ".join([*(line[0] for line in lines if line), *named])
    probe = quote_table(source.schema, _PROBE)
    made = False
    if not is_text(body):
        return ""
    with as_stored(session):
        try:
            session.execute(
                f"CREATE TEMPORARY TABLE {probe} ({_PROBE} INT AUTO_INCREMENT PRIMARY KEY, {body})"
                f" ENGINE=InnoDB COLLATE={source.collation}"
            )
            made = True
            session.execute(f"INSERT INTO {probe} () VALUES ()")
        except ServerFault as fault:
            if not is_verdict(fault):
                raise
            return fault.text if made else ""
        finally:
            session.execute(f"DROP TEMPORARY TABLE IF EXISTS {probe}")
    return ""
