"""Every privilege that the migration needs, checked before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.attached.foreign_keys.model import carried
from spirit_py.mysql.grants import scope_of
from spirit_py.preflight.check import Finding, Findings, PreflightContext, refuse, warn
from spirit_py.preflight.checks.server_settings import WITHOUT_PERFORMANCE_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

# ALTER, CREATE, DROP, INSERT: RENAME TABLE (manual 15.1.36); DELETE, INSERT: REPLACE; TRIGGER: to
# see the triggers.
_ON_TABLES = ("SELECT", "INSERT", "DELETE", "CREATE", "DROP", "ALTER", "INDEX", "TRIGGER")
# The definition is tried on a table whose name is drawn: no grant on a table covers it.
_ON_SCHEMA = ("CREATE", "DROP", "ALTER", "LOCK TABLES", "CREATE TEMPORARY TABLES")
# Others: LOCK TABLES asks for SELECT, a child's key for ALTER, a key for REFERENCES on its parent
# (measured on 9.7; not INSERT and CREATE, which the manual names for ALTER).
_ON_PARENT = ("SELECT", "REFERENCES")
# INSERT ... ON DUPLICATE KEY UPDATE, which leaves the values of dropped columns in the old table.
_ON_OLD = ("UPDATE",)
_ON_EXCHANGED = ("SELECT", "ALTER", "INSERT", "CREATE", "DROP")
_ON_CHILD = ("SELECT", "ALTER")
# Keys are tried between copies of both ends, which are in the schema of the run's first table.
_ON_COPIES = ("CREATE", "DROP", "ALTER", "REFERENCES")
_GLOBAL = ("REPLICATION SLAVE", "REPLICATION CLIENT", "PROCESS")
_PERFORMANCE_SCHEMA = "performance_schema"


def privileges(context: PreflightContext) -> Findings:
    """Refuse an account without what is needed, with all GRANTs; warn of what else is missing."""
    grants = context.grants
    if any(privileges for _, privileges in _for_table(context)):
        yield refuse_all(context)
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


def refuse_all(context: PreflightContext) -> Finding:
    """Return everything that is missing, with its GRANTs."""
    grants = context.grants
    lacking: dict[str, list[str]] = {}
    for where, privileges in (*_for_table(context), *missing_for_keys(context)):
        if privileges:
            here = lacking.setdefault(where, [])
            here += [privilege for privilege in privileges if privilege not in here]
    named = "; ".join(
        f"{', '.join(privileges)} on {scope_of(where)}" for where, privileges in lacking.items()
    )
    block = " ".join(grants.grant(privileges, where) for where, privileges in lacking.items())
    return refuse(f"account {grants.account} lacks {named}", block + grants.or_role)


def _for_table(context: PreflightContext) -> Iterator[tuple[str, list[str]]]:
    grants, schema, names = context.grants, context.schema, context.names
    beside = [names.new, names.old, names.checkpoint, names.requests, names.sentinel]
    if context.config.keep_old_current or context.config.drop_old_after:
        # A revert gives the table that name.
        beside.append(names.undone)
    yield schema, grants.missing(_ON_TABLES, schema, (context.table, *beside))
    yield schema, grants.missing(_ON_SCHEMA, schema)
    if context.config.keep_old_current and _keeps_values(context):
        yield schema, grants.missing(_ON_OLD, schema, (names.old,))
    yield "", grants.missing(_GLOBAL)
    for clause in context.statement.parsed:
        if clause.other[1]:
            on_other = _ON_PARENT if clause.columns else _ON_EXCHANGED
            where, table = clause.other
            yield where, grants.missing(on_other, where, (table,))
            if clause.columns:
                yield schema, grants.missing(_ON_COPIES, schema)


def _keeps_values(context: PreflightContext) -> bool:
    """Return whether the old table keeps columns that the new one has not."""
    # A table that was moved away is not here any more.
    columns = () if context.found is None else context.found.columns
    dropped = context.statement.dropped
    return any(one.name.lower() in dropped and not one.generated for one in columns)


def missing_for_keys(context: PreflightContext) -> Iterator[tuple[str, list[str]]]:
    """Yield what is missing for foreign keys, with the schema; they are known with PROCESS."""
    grants, schema, table = context.grants, context.schema, context.table
    keys = keys_around(context.session, schema, table) if grants.has_global("PROCESS") else ()
    for key in keys:
        for (where, name), privileges in ((key.child, _ON_CHILD), (key.parent, _ON_PARENT)):
            names = (name, context.names.new) if (where, name) == (schema, table) else (name,)
            yield where, grants.missing(privileges, where, names)
            yield where, grants.missing(("LOCK TABLES",), where)
    if any(carried(key, context.altered) for key in keys):
        copies = next(iter(context.altered), (schema, table))[0]
        yield copies, grants.missing(_ON_COPIES, copies)
