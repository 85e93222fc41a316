"""Foreign keys whose actions change rows, and the number of children."""

from __future__ import annotations

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.attached.foreign_keys.judgement import MANY_CHILDREN, unseen_changes
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn


def check(context: PreflightContext) -> Findings:
    """Refuse keys that change rows unseen by the feed; where nothing is copied, they do no harm."""
    table = (context.schema, context.table)
    keys = keys_around(context.session, *table)
    for key in keys:
        for cause, remedy in unseen_changes(key, context.altered, context.facts):
            yield refuse(cause, remedy)
    children = {key.child for key in keys} - {table}
    if len(children) > MANY_CHILDREN:
        yield warn(
            f"{len(children)} tables refer to {'.'.join(table)}: the swap changes the definition of"
            " each while it holds the locks of all, some milliseconds a table",
            "swap at a quiet time; --dry-run measures the lock",
        )
