"""Triggers: kept, unless their bodies name a column that the ALTER takes away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.attached.triggers.body import changed_by, mentions
from spirit_py.attached.triggers.catalogue import read_triggers
from spirit_py.attached.triggers.survey import RECREATE
from spirit_py.preflight.check import Findings, PreflightContext, refuse

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession


def triggers(session: SqlSession, schema: str, table: str) -> list[tuple[str, str, str]]:
    """Return name, timing and event of a table's triggers, as far as the account may see them."""
    return session.query(
        "SELECT TRIGGER_NAME, ACTION_TIMING, EVENT_MANIPULATION FROM information_schema.TRIGGERS"
        " WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s ORDER BY TRIGGER_NAME",
        (schema, table),
    )


def check(context: PreflightContext) -> Findings:
    """Refuse a body that names a column that the ALTER takes away; or any trigger, as asked."""
    if context.config.triggers == "refuse":
        for name, timing, event in triggers(context.session, context.schema, context.table):
            yield refuse(
                f"trigger {name} ({timing} {event}) is on table {context.table}, and --triggers"
                " refuse was given",
                "leave the option out: triggers are kept",
            )
        return
    changed = changed_by(context.statement)
    if not changed:
        return
    for trigger in read_triggers(context.session, context.schema, context.table):
        for mention in mentions(trigger, changed):
            yield refuse(str(mention), f"leave the column's name alone, or {RECREATE}")
