"""Every privilege that the migration needs, checked before anything is written."""

from __future__ import annotations

from spirit_py.mysql.grants import scope_of
from spirit_py.preflight.check import Findings, PreflightContext, refuse

# On the table and its auxiliary ones: ALTER, CREATE, DROP and INSERT are what RENAME TABLE asks
# for (manual 15.1.36), DELETE and INSERT what REPLACE does. Without TRIGGER the catalogue hides
# the table's triggers.
_ON_TABLES = ("SELECT", "INSERT", "DELETE", "CREATE", "DROP", "ALTER", "INDEX", "TRIGGER")
_ON_SCHEMA = ("LOCK TABLES", "CREATE TEMPORARY TABLES")
# PROCESS: foreign keys of tables that the account may not see (INNODB_FOREIGN).
_GLOBAL = ("REPLICATION SLAVE", "REPLICATION CLIENT", "PROCESS")
_DYNAMIC = ("XA_RECOVER_ADMIN",)
_PERFORMANCE_SCHEMA = "performance_schema"


def check(context: PreflightContext) -> Findings:
    """Report each missing privilege with its GRANT."""
    grants, schema = context.grants, context.schema
    names = context.names
    tables = (context.table, names.new, names.old, names.checkpoint, names.sentinel)
    # FLUSH BINARY LOGS, for a place that misses no commit (R2).
    without_gtids = () if context.facts.gtid else ("RELOAD",)
    missing = {
        schema: grants.missing(_ON_TABLES, schema, tables) + grants.missing(_ON_SCHEMA, schema),
        "": grants.missing((*_GLOBAL, *_DYNAMIC, *without_gtids)),
        _PERFORMANCE_SCHEMA: grants.missing(("SELECT",), _PERFORMANCE_SCHEMA),
    }
    for where, privileges in missing.items():
        for privilege in privileges:
            yield refuse(
                f"account {grants.account} lacks {privilege} on {scope_of(where)}",
                grants.grant([privilege], where) + _role_hint(context),
            )


def _role_hint(context: PreflightContext) -> str:
    """Point at roles that are granted and not active."""
    roles = [
        line for line in context.grants.text if line.startswith("GRANT") and " ON " not in line
    ]
    return " (or SET DEFAULT ROLE ALL, if a granted role has it)" if roles else ""
