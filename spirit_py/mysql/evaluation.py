"""The settings of the server under which every session of a run evaluates expressions (R22).

A native ALTER in a fresh session evaluates generated columns, defaults, conversions and CHECK
constraints under the server's globals. A run reads them once and carries them in its connection
options, so that the driver, the executors and a session that is opened days later agree.

The time zone is not among them: sessions stay in '+00:00', in which a TIMESTAMP can be compared
and read without loss, and change it around a statement that writes (``TableMapping.time_zone``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spirit_py.mysql.facts import ServerFacts

STRICT_SQL_MODE: Final = "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"
#: What sets the session's mode back to its own.
OWN_SQL_MODE: Final = "@spirit_py_sql_mode"

_VARIABLES: Final = (
    "block_encryption_mode",
    "default_week_format",
    "div_precision_increment",
    "lc_time_names",
)
_MODES: Final = ("NO_UNSIGNED_SUBTRACTION", "TIME_TRUNCATE_FRACTIONAL")
_STRICT: Final = frozenset({"STRICT_ALL_TABLES", "STRICT_TRANS_TABLES"})
_DIVISION: Final = "ERROR_FOR_DIVISION_BY_ZERO"


def evaluation_settings(facts: ServerFacts) -> tuple[tuple[str, str], ...]:
    """Give the session variables, and their values, that a server's globals ask for."""
    found = [(name, facts.text(name)) for name in _VARIABLES if facts.text(name)]
    return (("sql_mode", evaluating_mode(facts.sql_mode)), *found)


def evaluating_mode(sql_mode: str) -> str:
    """Give the program's strict mode with what of the server's changes a computed value.

    Division by zero is an error where a native ALTER makes it one; NULL otherwise, as there.
    """
    own = set(sql_mode.upper().split(","))
    wanted = (*_MODES, _DIVISION) if own & _STRICT else _MODES
    return ",".join((STRICT_SQL_MODE, *(mode for mode in wanted if mode in own)))
