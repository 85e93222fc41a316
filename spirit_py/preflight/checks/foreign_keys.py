"""Foreign keys of the table and to it: what a swap cannot carry along."""

from __future__ import annotations

from spirit_py.attached.foreign_keys.catalogue import keys_around, keys_of
from spirit_py.attached.foreign_keys.rules import (
    MANY_CHILDREN,
    cascades_unseen,
    dropped_column,
    dropped_in_vain,
    half_logged_changes,
    name_too_long,
    unseen_changes,
)
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn
from spirit_py.preflight.checks.privileges import missing_for_keys, refuse_all


def foreign_keys(context: PreflightContext) -> Findings:
    """Refuse what a native ALTER refuses; without PROCESS some children are unknown."""
    session, schema, table = context.session, context.schema, context.table
    own = keys_of(session, schema, table)
    for cause, remedy in dropped_in_vain(context.statement, context.source, own):
        yield refuse(cause, remedy)
    if context.grants.has_global("PROCESS"):
        for key in keys_around(session, schema, table):
            for cause, remedy in dropped_column(key, context.altered):
                yield refuse(cause, remedy)


def foreign_key_actions(context: PreflightContext) -> Findings:
    """Refuse what does no harm where nothing is copied; warn of many children, and of cascades.

    Of a deadlock in a cascade a server may log changes that it has rolled back.
    """
    table = (context.schema, context.table)
    keys = keys_around(context.session, *table)
    kept = context.config.keep_old_current > 0
    altered = context.altered
    for key in keys:
        for cause, remedy in unseen_changes(key, altered, context.facts):
            yield refuse(cause, remedy)
        for cause, remedy in name_too_long(key, altered, kept=kept):
            yield refuse(cause, remedy)
    if not cascades_unseen(context.facts) and (cascading := half_logged_changes(keys, altered)):
        yield warn(
            "if a cascade of "
            + ", ".join(str(key) for key in cascading)
            + " ends in a deadlock while its statement runs with autocommit, the server reports no"
            " error and logs changes that it has rolled back: this migration compares such rows"
            " before the swap, replicas keep the changes",
            "change keys of the parent and delete from it within BEGIN and COMMIT, and look at the"
            " number of rows (docs/triggers-and-foreign-keys.md)",
        )
    children = {key.child for key in keys} - {table}
    if len(children) > MANY_CHILDREN:
        yield warn(
            f"{len(children)} tables refer to {'.'.join(table)}: the swap changes the definition of"
            " each while it holds the locks of all, some milliseconds a table",
            "swap at a quiet time; --dry-run measures the lock",
        )


def foreign_key_privileges(context: PreflightContext) -> Findings:
    """Refuse an account that may not carry the foreign keys along."""
    if any(privileges for _, privileges in missing_for_keys(context)):
        yield refuse_all(context)
