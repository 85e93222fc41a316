"""The tables that ``--pass-statement-writes`` names: none may lead to a migrated one (R13)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from spirit_py.attached.foreign_keys.catalogue import keys_to, visible_keys_to
from spirit_py.attached.implied_locks import READ_BY, listed, used_by_triggers
from spirit_py.attached.triggers.catalogue import list_triggers
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.mysql.faults import access_denied, excused
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spirit_py.contracts import SqlSession

    Names = Iterable[tuple[str, str]]


def require_passable(session: SqlSession, passable: Names, tables: Names) -> None:
    """Refuse a table (schema, name) whose writes, foreign keys or triggers reach a migrated one."""
    passable = tuple(passable)
    if not passable:
        return
    ignores_case = session.query("SELECT @@GLOBAL.lower_case_table_names")[0][0] != 0
    fold: Callable[[str], str] = str.lower if ignores_case else str
    own = {
        (fold(schema), fold(name))
        for schema, table in tables
        for name in (table, *vars(AuxiliaryNames.of(table)).values())
    }
    for one in passable:
        for reached, by in _reached(session, (fold(one[0]), fold(one[1]))).items():
            if (fold(reached[0]), fold(reached[1])) in own:
                why = f"a write to it is one to {'.'.join(reached)}, which is migrated{by}"
            elif trigger := _naming(session, reached, {name for _, name in own}, fold):
                why = f"the trigger {trigger} of {'.'.join(reached)} names a migrated table"
            else:
                continue
            raise Refusal(
                f"--pass-statement-writes {'.'.join(one)}: {why}",
                hint="leave the option out for that table, and SET binlog_format=ROW in the client"
                " that writes to it",
                error_code=ErrorCode.PASSED_WRITES,
            )


def _reached(session: SqlSession, table: tuple[str, str]) -> dict[tuple[str, str], str]:
    """Return what a write may change, each with the foreign key or the trigger that leads there."""
    found: dict[tuple[str, str], str] = {}
    left = [(table, "")]
    while left:
        one, by = left.pop()
        if one not in found:
            found[one] = by
            left += [(name, by) for name in sorted(listed(session, READ_BY, [one]))]
            used = sorted(used_by_triggers(session, one))
            left += [(name, f" (a trigger of {'.'.join(one)} names it)") for name in used]
            seen = visible_keys_to(session, *one)
            keys = excused(partial(keys_to, session, *one), seen, access_denied)
            left += [(key.child, f" ({key} changes its rows)") for key in keys if key.changes_rows]
    return found


def _naming(
    session: SqlSession, table: tuple[str, str], names: set[str], fold: Callable[[str], str]
) -> str:
    for trigger in list_triggers(session, *table):
        try:
            tokens = trigger.tokens()
        except Refusal:
            return trigger.name
        if any(token.is_identifier and fold(token.value) in names for token in tokens):
            return trigger.name
    return ""
