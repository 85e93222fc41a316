"""Triggers: kept, unless their bodies name a column that the ALTER takes away."""

from __future__ import annotations

from spirit_py.attached.triggers.catalogue import RECREATE, list_triggers, read_triggers
from spirit_py.attached.triggers.model import changed_by, mentions
from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse a body that names a column that the ALTER takes away; or any trigger, as asked."""
    if context.config.triggers == "refuse":
        for listed in list_triggers(context.session, context.schema, context.table):
            yield refuse(
                f"{listed.label} is on table {context.table}, and --triggers refuse was given",
                "leave the option out: triggers are kept",
            )
        return
    changed = changed_by(context.statement)
    if not changed:
        return
    for trigger in read_triggers(context.session, context.schema, context.table):
        for mention in mentions(trigger, changed):
            yield refuse(str(mention), f"leave the column's name alone, or {RECREATE}")
