"""Which modes would let the server execute an ALTER that it refuses: asked on an empty copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import ACCESS_NEEDS_PRIVILEGE, Disposition, disposition
from spirit_py.mysql.modes import ANY_DATE, STRICT_MODES, ZERO_MODES, without_modes
from spirit_py.sql import string_literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.contracts import SqlSession

ROW_TOO_LONG: Final = 1118
_ANY_ROW: Final = "--innodb-strict-mode off"
DEPENDING_ON_MODES: Final = frozenset(
    {
        1067,  # invalid default value
        1101,  # a BLOB or TEXT column with a default
        ROW_TOO_LONG,
        1291,  # an ENUM or SET with a member twice
        1292,  # incorrect value of a date
    }
)
"""Errors of a definition that another ``sql_mode`` or ``innodb_strict_mode`` may accept."""


def accepting_modes(session: SqlSession, sql: str, error: ServerFault) -> str:
    """Return the options under which the server executes a statement that it has refused.

    Args:
        session: with the modes under which it was refused; it has others afterwards.
        sql: an ALTER of an empty table that is dropped afterwards.

    Returns:
        The options, or an empty text where none was found.
    """
    if error.code not in DEPENDING_ON_MODES:
        return ""
    mode = str(session.query("SELECT @@SESSION.sql_mode")[0][0])
    for options, setting in _candidates(mode):
        try:
            session.execute(f"SET SESSION {setting}")
            session.execute(sql)
        except ServerFault as fault:
            if disposition(fault) is not Disposition.FATAL:
                raise
            if fault.code == ACCESS_NEEDS_PRIVILEGE:
                return f"{options} (which needs SESSION_VARIABLES_ADMIN)"
        else:
            return options
    return ""


def copying_modes(error: ServerFault) -> str:
    """Return the option under which a definition can be copied that no ``sql_mode`` refuses."""
    return _ANY_ROW if error.code == ROW_TOO_LONG else ""


def _candidates(mode: str) -> Iterator[tuple[str, str]]:
    """Yield options, and what they set, from the smallest change to the largest."""
    zeros = without_modes(mode, ZERO_MODES)
    any_date = ",".join(filter(None, (zeros, ANY_DATE)))
    lenient = without_modes(any_date, STRICT_MODES)
    yield "--allow-zero-dates", f"sql_mode = {string_literal(zeros)}"
    for modes in (any_date, lenient):
        yield f"--sql-mode '{modes}'", f"sql_mode = {string_literal(modes)}"
    yield _ANY_ROW, f"innodb_strict_mode = 0, sql_mode = {string_literal(mode)}"
    both = f"innodb_strict_mode = 0, sql_mode = {string_literal(lenient)}"
    yield f"{_ANY_ROW} --sql-mode '{lenient}'", both
