"""Every privilege that the migration needs, named before it is missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.mysql.grants import grant_statement
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn
from spirit_py.sql import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator


# On the table and on those beside it: ALTER, CREATE, DROP and INSERT are what RENAME TABLE asks
# for (manual 15.1.36), DELETE and INSERT what REPLACE does. Without TRIGGER the catalogue hides
# the table's triggers.
_ON_TABLES = ("SELECT", "INSERT", "DELETE", "CREATE", "DROP", "ALTER", "INDEX", "TRIGGER")
_ON_SCHEMA = ("LOCK TABLES", "CREATE TEMPORARY TABLES")
# PROCESS: foreign keys of tables that the account may not see (INNODB_FOREIGN).
_GLOBAL = ("REPLICATION SLAVE", "REPLICATION CLIENT", "PROCESS")
_DYNAMIC = ("XA_RECOVER_ADMIN",)
_PERFORMANCE_SCHEMA = "performance_schema"


def check(context: PreflightContext) -> Findings:
    """Name each missing privilege together with the GRANT that gives it."""
    grants, user = context.grants, context.facts.user
    names = context.names
    tables = (context.table, names.new, names.old, names.checkpoint, names.sentinel)
    missing = [
        (privilege, f"{quote_identifier(context.schema)}.*")
        for privilege in _ON_TABLES
        if not all(grants.has(privilege, context.schema, table) for table in tables)
    ]
    missing += [
        (privilege, f"{quote_identifier(context.schema)}.*")
        for privilege in _ON_SCHEMA
        if not grants.has(privilege, context.schema)
    ]
    missing += [(privilege, "*.*") for privilege in _global_ones(context)]
    if not grants.has("SELECT", _PERFORMANCE_SCHEMA):
        missing.append(("SELECT", f"{_PERFORMANCE_SCHEMA}.*"))
    for privilege, where in missing:
        yield refuse(
            f"account {user} lacks {privilege} on {where}",
            grant_statement([privilege], where, user) + _role_hint(context),
        )
    if not grants.has_global("CONNECTION_ADMIN") and not grants.has_global("SUPER"):
        yield warn(
            f"account {user} lacks CONNECTION_ADMIN: sessions of others that hold"
            " up the cutover cannot be ended",
            grant_statement(["CONNECTION_ADMIN"], "*.*", user),
        )


def _global_ones(context: PreflightContext) -> Iterator[str]:
    """Yield the missing global privileges."""
    grants, wanted = context.grants, [*_GLOBAL, *_DYNAMIC]
    if not context.facts.gtid:
        wanted.append("RELOAD")  # FLUSH BINARY LOGS, for a place that misses no commit (R2)
    for privilege in wanted:
        if not grants.has_global(privilege):
            yield privilege


def _role_hint(context: PreflightContext) -> str:
    """Point at roles that are granted and not active."""
    roles = [
        line for line in context.grants.text if line.startswith("GRANT") and " ON " not in line
    ]
    return " (or SET DEFAULT ROLE ALL, if a granted role has it)" if roles else ""
