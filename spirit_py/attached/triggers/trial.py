"""Try on an empty table whether the server makes a trigger again as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py.attached.triggers.catalogue import read_places, read_triggers
from spirit_py.attached.triggers.statements import OWN_SETTINGS, create, gate, withdrawn
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.mysql.faults import ACCESS_NEEDS_PRIVILEGE, Disposition, disposition
from spirit_py.sql import quote_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spirit_py.attached.triggers.model import Trigger, TriggerMove
    from spirit_py.errors import ServerFault
    from spirit_py.mysql.session import Session
    from spirit_py.table.swap import Swap

_BINLOG_UNTRUSTED: Final = 1419


def require_same(session: Session, move: TriggerMove, swap: Swap) -> None:
    """Create a trigger under its temporary name, as it is and behind its gate; drop it each time.

    Raises:
        Refusal: the server refuses it, or makes another one of it.
        ServerFault: of the server or the connection.
    """
    trigger = move.trigger
    for gated in ("", gate(move.note)):
        statements = create(trigger, name=move.temporary, table=swap.new, gated=gated)
        _, fault = session.execute_packet(statements)
        session.execute(OWN_SETTINGS)
        if fault is not None:
            raise _refused(trigger, fault)
        (made,) = read_triggers(session, swap.schema, swap.new)
        if not gated and made.essence != trigger.essence:
            raise _differing(trigger, made)
        session.execute(f"DROP TRIGGER {quote_table(swap.schema, move.temporary)}")


def withdraw(session: Session, moves: Iterable[TriggerMove], swap: Swap) -> None:
    """Drop what is left of the trial on the new table."""
    there = read_places(session, [(swap.schema, swap.new)])
    for statement in withdrawn([move.note for move in moves], there):
        session.execute_packet([statement])


def _refused(trigger: Trigger, fault: ServerFault) -> Exception:
    if disposition(fault) is not Disposition.FATAL:
        return fault
    hint = "drop the trigger, or create it anew in a way that this server accepts"
    if fault.code == ACCESS_NEEDS_PRIVILEGE:
        hint = f"grant the account what the server names, for the definer {trigger.user}"
    elif fault.code == _BINLOG_UNTRUSTED:
        hint = "SET GLOBAL log_bin_trust_function_creators = 1"
    return Refusal(
        f"{trigger.label} of {trigger.schema}.{trigger.table} cannot be created again:"
        f" {fault.text} (error {fault.code})",
        hint=hint,
        error_code=ErrorCode.TRIGGER_NOT_KEPT,
    )


def _differing(trigger: Trigger, made: Trigger) -> Refusal:
    alike = replace(made, name=trigger.name, table=trigger.table, order=trigger.order)
    differ = [name for name, value in vars(alike).items() if value != getattr(trigger, name)]
    return Refusal(
        f"{trigger.label} of {trigger.schema}.{trigger.table} would not be the same when it is"
        f" created again: {', '.join(differ)} would differ",
        hint="drop the trigger, or create it anew on this server",
        error_code=ErrorCode.TRIGGER_NOT_KEPT,
    )
