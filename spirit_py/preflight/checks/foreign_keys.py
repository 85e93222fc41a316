"""Foreign keys of the table and to it, against what the ALTER drops.

What the server itself says to the keys between the new definitions is asked once all new tables
are made: :mod:`spirit_py.attached.foreign_keys.catalogue`.
"""

from __future__ import annotations

from spirit_py.attached.foreign_keys.catalogue import keys_around, keys_of
from spirit_py.attached.foreign_keys.rules import dropped_column, dropped_in_vain
from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse what a native ALTER refuses, and no copy of the definition would show.

    Without PROCESS children that the account may not see are unknown; the check of privileges
    refuses that.
    """
    session, schema, table = context.session, context.schema, context.table
    own = keys_of(session, schema, table)
    for cause, remedy in dropped_in_vain(context.statement, context.source, own):
        yield refuse(cause, remedy)
    if context.grants.has_global("PROCESS"):
        for key in keys_around(session, schema, table):
            for cause, remedy in dropped_column(key, context.altered):
                yield refuse(cause, remedy)
