"""Triggers would stay on the old table, which the application no longer writes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    """Refuse a table with triggers."""
    for name, timing, event in triggers(context.session, context.schema, context.table):
        yield refuse(
            f"trigger {name} ({timing} {event}) is on table {context.table}: RENAME would take"
            " it along to the old table",
            "drop the trigger, migrate, and create it again",
        )
