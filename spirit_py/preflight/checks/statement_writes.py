"""``--pass-statement-writes``: whether a table that it names leads to a migrated one."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, warn
from spirit_py.preflight.passable import require_passable


def check(context: PreflightContext) -> Findings:
    """Refuse a table that is migrated, or whose trigger names one that is."""
    passable = context.config.feed.passable
    require_passable(context.session, passable, [(context.schema, context.table)])
    for schema, table in passable:
        if not context.grants.has("TRIGGER", schema, table):
            yield warn(
                f"--pass-statement-writes {schema}.{table}: the account may not see its triggers,"
                " so it was not checked whether one writes to the table",
            )
