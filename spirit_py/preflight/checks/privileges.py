"""Every privilege that the migration needs, checked before anything is written."""

from __future__ import annotations

from spirit_py.mysql.grants import scope_of
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn
from spirit_py.preflight.checks.server_settings import WITHOUT_PERFORMANCE_SCHEMA

# On the table and its auxiliary ones: ALTER, CREATE, DROP and INSERT are what RENAME TABLE asks
# for (manual 15.1.36), DELETE and INSERT what REPLACE does. Without TRIGGER the catalogue hides
# the table's triggers.
_ON_TABLES = ("SELECT", "INSERT", "DELETE", "CREATE", "DROP", "ALTER", "INDEX", "TRIGGER")
_ON_SCHEMA = ("LOCK TABLES", "CREATE TEMPORARY TABLES")
# PROCESS: foreign keys of tables that the account may not see (INNODB_FOREIGN).
_GLOBAL = ("REPLICATION SLAVE", "REPLICATION CLIENT", "PROCESS")
_PERFORMANCE_SCHEMA = "performance_schema"


def check(context: PreflightContext) -> Findings:
    """Refuse an account without what is needed, with all GRANTs; warn of what else is missing."""
    grants, schema = context.grants, context.schema
    names = context.names
    tables = (context.table, names.new, names.old, names.checkpoint, names.sentinel)
    missing = {
        schema: grants.missing(_ON_TABLES, schema, tables) + grants.missing(_ON_SCHEMA, schema),
        "": grants.missing(_GLOBAL),
    }
    lacking = {where: privileges for where, privileges in missing.items() if privileges}
    if lacking:
        named = "; ".join(
            f"{', '.join(privileges)} on {scope_of(where)}" for where, privileges in lacking.items()
        )
        block = " ".join(grants.grant(privileges, where) for where, privileges in lacking.items())
        yield refuse(f"account {grants.account} lacks {named}", block + _role_hint(context))
    yield from _optional(context)


def _optional(context: PreflightContext) -> Findings:
    """Warn of what is lost without privileges that a migration can do without."""
    grants = context.grants
    if grants.missing(("XA_RECOVER_ADMIN",)):
        yield warn(
            f"account {grants.account} lacks XA_RECOVER_ADMIN: the change feed cannot see which"
            " transactions are prepared XA transactions; it waits at its start for every one that"
            " has changed rows and may be such a one",
            grants.grant(["XA_RECOVER_ADMIN"]),
        )
    shown = context.facts.is_on(_PERFORMANCE_SCHEMA)
    if shown and grants.missing(("SELECT",), _PERFORMANCE_SCHEMA):
        yield warn(
            f"account {grants.account} lacks SELECT on {scope_of(_PERFORMANCE_SCHEMA)}:"
            f" {WITHOUT_PERFORMANCE_SCHEMA}",
            grants.grant(["SELECT"], _PERFORMANCE_SCHEMA),
        )


def _role_hint(context: PreflightContext) -> str:
    """Point at roles that are granted and not active."""
    roles = [
        line for line in context.grants.text if line.startswith("GRANT") and " ON " not in line
    ]
    return " (or SET DEFAULT ROLE ALL, if a granted role has it)" if roles else ""
