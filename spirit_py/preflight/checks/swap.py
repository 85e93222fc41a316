"""What the swap will not be able to do: see or kill blockers, keep older snapshots whole."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.locks.look import why_locks_are_unseen
from spirit_py.mysql.kill import may_kill_by_procedure
from spirit_py.mysql.tables.guard_column import why_server_cannot, why_table_cannot
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession
    from spirit_py.table.schema import TableSchema


def blockers(context: PreflightContext) -> Findings:
    """Warn of what the swap will not be able to do."""
    kills = context.config.kill_blockers != "never"
    if why := why_locks_are_unseen(context.session):
        lost = " and --kill-blockers kills no session" if kills else ""
        yield warn(
            f"metadata locks cannot be seen: {why}: before a lock on the table is requested, old"
            f" transactions on any table are waited for,{lost or ' not only those on this one'}",
            "start the server with --performance-schema=ON and without"
            " performance_schema_max_metadata_locks, enable wait/lock/metadata/sql/mdl in"
            " performance_schema.setup_instruments, and let the account read performance_schema",
        )
    elif kills and not _may_kill(context):
        grants = context.grants
        yield warn(
            f"account {grants.account} lacks CONNECTION_ADMIN: blockers of other"
            " accounts cannot be killed, as --kill-blockers asks for",
            grants.grant(["CONNECTION_ADMIN"]),
        )


def _may_kill(context: PreflightContext) -> bool:
    grants = context.grants
    by_privilege = grants.has_global("CONNECTION_ADMIN") or grants.has_global("SUPER")
    return by_privilege or may_kill_by_procedure(context.session)


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
