"""The modes that the operator chose for a migration, in place of the server's own.

A definition that an older ``sql_mode`` accepted (``DEFAULT '0000-00-00'``, a member that an ENUM
has twice), or an older ``innodb_strict_mode`` (a row that may exceed half a page), is changed by no
ALTER in a session with the server's present modes. The operator would set others in the session and
send the ALTER there. A migration does the same: the chosen modes take the place of the server's in
the facts that it read, so that everything that follows the server follows them: how the statement
is read, the session that alters the new table, what its sessions evaluate (R22), and the checks.

What the program writes stays strict all the same: no mode makes it shorten or replace a value
(R10). The choice is noted in the checkpoint, and a run with another one does not carry on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql.faults import ACCESS_NEEDS_PRIVILEGE, Disposition, disposition
from spirit_py.sql import quote_identifier, string_literal

if TYPE_CHECKING:
    from spirit_py.config import SessionModes
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.facts import ServerFacts

ZERO_MODES: Final = ("NO_ZERO_DATE", "NO_ZERO_IN_DATE")
STRICT_MODES: Final = ("STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL")
ANY_DATE: Final = "ALLOW_INVALID_DATES"


def under_modes(session: SqlSession, facts: ServerFacts, modes: SessionModes) -> ServerFacts:
    """Return the facts with the chosen modes, as the server spells them.

    Raises:
        Refusal: the server does not know a mode, or the account may not set it.
    """
    wanted: dict[str, str] = {}
    if modes.sql_mode is not None:
        wanted["sql_mode"] = modes.sql_mode
    elif modes.allow_zero_dates:
        wanted["sql_mode"] = without_modes(facts.sql_mode, ZERO_MODES)
    if modes.innodb_strict_mode:
        wanted["innodb_strict_mode"] = modes.innodb_strict_mode.upper()
    if not wanted:
        return facts
    chosen = {name: _spelled(session, name, value) for name, value in wanted.items()}
    return replace(facts, variables={**facts.variables, **chosen}, chosen=tuple(chosen.items()))


def without_modes(sql_mode: str, taken: tuple[str, ...]) -> str:
    """Return a ``sql_mode`` without some of its modes."""
    return ",".join(mode for mode in sql_mode.split(",") if mode.strip().upper() not in taken)


def choose_modes(session: SqlSession, facts: ServerFacts) -> None:
    """Set the chosen modes in a session that has the server's own."""
    for name, value in facts.chosen:
        session.execute(f"SET SESSION {quote_identifier(name)} = {_literal(value)}")


def _spelled(session: SqlSession, name: str, value: str) -> str:
    """Return a value of a variable as the server has it once it is set; it is set back."""
    variable = f"@@SESSION.{quote_identifier(name)}"
    before = str(session.query(f"SELECT {variable}")[0][0])
    try:
        session.execute(f"SET {variable} = {_literal(value)}")
    except ServerFault as fault:
        if disposition(fault) is not Disposition.FATAL:
            raise
        raise _refused(name, value, fault) from fault
    found = str(session.query(f"SELECT {variable}")[0][0])
    session.execute(f"SET {variable} = {_literal(before)}")
    return found


def _literal(value: str) -> str:
    """Render a value; a switch reads as a number."""
    return value if value.isdigit() else string_literal(value)


def _refused(name: str, value: str, fault: ServerFault) -> Refusal:
    if fault.code == ACCESS_NEEDS_PRIVILEGE:
        hint = "GRANT SESSION_VARIABLES_ADMIN ON *.* to the account"
    else:
        hint = "name modes that this version of the server knows"
    return Refusal(
        f"{name} cannot be {value!r}: {fault.text} (error {fault.code})",
        hint=hint,
        error_code=ErrorCode.WRONG_OPTIONS,
    )
