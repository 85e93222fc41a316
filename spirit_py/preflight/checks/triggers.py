"""What may prevent that triggers are kept, as far as it can be named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.attached.triggers.catalogue import RECREATE, list_triggers, read_triggers
from spirit_py.attached.triggers.model import changed_by, mentions
from spirit_py.mysql.facts import version_numbers
from spirit_py.mysql.grants import scope_of
from spirit_py.preflight.check import Findings, PreflightContext, refuse

if TYPE_CHECKING:
    from spirit_py.attached.triggers.model import Trigger


def triggers(context: PreflightContext) -> Findings:
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
            yield refuse(str(mention), f"keep the column's name, or {RECREATE}")


_COLLATION = """
SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s"""
#: Create objects with the name of another account; SET_ANY_DEFINER since 8.2.
_ANY_DEFINER = ("SET_ANY_DEFINER", "SET_USER_ID", "SUPER")
_TRUST = "log_bin_trust_function_creators"


def triggers_kept(context: PreflightContext) -> Findings:
    """Refuse triggers that cannot be created again as they are, where the table is copied."""
    names = context.names
    also = (names.new, names.old, names.undone)
    found = read_triggers(context.session, context.schema, context.table, also=also)
    if found:
        yield from _privileges(context, found)
        yield from _collations(context, found)


def _privileges(context: PreflightContext, found: tuple[Trigger, ...]) -> Findings:
    grants = context.grants
    if (
        context.facts.is_on("log_bin")
        and not context.facts.is_on(_TRUST)
        and not grants.has_global("SUPER")
    ):
        yield refuse(
            f"account {grants.account} may not create triggers while the binlog is on"
            f" ({_TRUST} is off; error 1419)",
            f"SET GLOBAL {_TRUST} = 1, or {grants.grant(['SUPER'])}",
        )
    others = [one for one in found if f"{one.user}@{one.host}" != grants.account]
    if others and not any(grants.has_global(one) for one in _ANY_DEFINER):
        privilege = _ANY_DEFINER[version_numbers(context.facts.version) < (8, 2)]
        for one in others:
            yield refuse(
                f"{one.label} has the definer {one.user}@{one.host}: account {grants.account}"
                f" lacks {privilege} on {scope_of('')} to create it again with that definer",
                grants.grant([privilege]),
            )


def _collations(context: PreflightContext, found: tuple[Trigger, ...]) -> Findings:
    rows = context.session.query(_COLLATION, (context.schema,))
    now = str(rows[0][0]) if rows else ""
    for one in found:
        if now and one.database_collation != now:
            yield refuse(
                f"{one.label} was created when the collation of {context.schema} was"
                f" {one.database_collation}; a trigger created now gets {now}",
                "drop the trigger and create it again, so that it has today's collation; or ALTER"
                f" DATABASE to {one.database_collation} for the time of the migration",
            )
