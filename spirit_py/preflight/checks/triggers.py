"""Triggers would stay on the old table, which is no longer written to."""

from __future__ import annotations

from spirit_py.preflight.check import Findings, PreflightContext, refuse


def check(context: PreflightContext) -> Findings:
    """Refuse a table with triggers."""
    rows = context.session.query(
        "SELECT TRIGGER_NAME, ACTION_TIMING, EVENT_MANIPULATION FROM information_schema.TRIGGERS"
        " WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s ORDER BY TRIGGER_NAME",
        (context.schema, context.table),
    )
    for name, timing, event in rows:
        yield refuse(
            f"trigger {name} ({timing} {event}) is on table {context.table}: RENAME would take"
            " it along to the old table",
            "drop the trigger, migrate, and create it again",
        )
