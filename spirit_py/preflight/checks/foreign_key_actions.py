"""Foreign keys that a swap cannot carry, though nothing is wrong with the ALTER; what others mean.

A warning is given of many children, and of cascades into the table, whose deadlocks a server may
log wrongly.
"""

from __future__ import annotations

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.attached.foreign_keys.rules import (
    MANY_CHILDREN,
    cascades_unseen,
    half_logged_changes,
    name_too_long,
    unseen_changes,
)
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn


def check(context: PreflightContext) -> Findings:
    """Refuse what does no harm where nothing is copied.

    Keys that change rows unseen by the feed, and those whose names RENAME would make too long.
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
