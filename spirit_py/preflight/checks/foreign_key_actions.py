"""Foreign keys that a swap cannot carry, though nothing is wrong with the ALTER; their number."""

from __future__ import annotations

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.attached.foreign_keys.judgement import (
    MANY_CHILDREN,
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
    for key in keys:
        for cause, remedy in unseen_changes(key, context.altered, context.facts):
            yield refuse(cause, remedy)
        for cause, remedy in name_too_long(key, context.altered, kept=kept):
            yield refuse(cause, remedy)
    children = {key.child for key in keys} - {table}
    if len(children) > MANY_CHILDREN:
        yield warn(
            f"{len(children)} tables refer to {'.'.join(table)}: the swap changes the definition of"
            " each while it holds the locks of all, some milliseconds a table",
            "swap at a quiet time; --dry-run measures the lock",
        )
