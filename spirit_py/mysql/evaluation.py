"""The settings of the server under which every session of a run evaluates expressions (R22).

A native ALTER in a fresh session evaluates generated columns, defaults, conversions and CHECK
constraints under the server's globals. A run reads them once and carries them in its connection
options, so that the driver, the executors and a session that is opened days later agree.

The time zone is not among them: sessions stay in '+00:00', in which a TIMESTAMP can be compared
and read without loss, and change it around a statement that writes (``TableMapping.time_zone``).
Nor are the server's modes about dates: a session takes every date that a column holds, and has
them only around a statement that may make a date of something else
(``TableMapping.makes_dates``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spirit_py.mysql.facts import ServerFacts

STRICT_SQL_MODE: Final = "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"
#: What sets the session's mode back to its own.
OWN_SQL_MODE: Final = "@spirit_py_sql_mode"
#: What gives a session the mode in which dates are made.
DATE_SQL_MODE: Final = "@spirit_py_date_sql_mode"

_VARIABLES: Final = (
    "block_encryption_mode",
    "default_week_format",
    "div_precision_increment",
    "lc_time_names",
)
_MODES: Final = ("NO_UNSIGNED_SUBTRACTION", "TIME_TRUNCATE_FRACTIONAL")
_ANY_DATE: Final = "ALLOW_INVALID_DATES"
_ZERO_MODES: Final = ("NO_ZERO_DATE", "NO_ZERO_IN_DATE")
_STRICT: Final = frozenset({"STRICT_ALL_TABLES", "STRICT_TRANS_TABLES"})
_DIVISION: Final = "ERROR_FOR_DIVISION_BY_ZERO"


def evaluation_settings(facts: ServerFacts) -> tuple[tuple[str, str], ...]:
    """Return the session variables, and their values, that a server's globals ask for."""
    found = [(name, facts.text(name)) for name in _VARIABLES if facts.text(name)]
    modes = (
        ("sql_mode", evaluating_mode(facts.sql_mode)),
        (DATE_SQL_MODE, date_mode(facts.sql_mode)),
    )
    return (*modes, *found)


def evaluating_mode(sql_mode: str) -> str:
    """Return the program's strict mode with what of the server's changes a computed value.

    Division by zero is an error where a native ALTER makes it one; NULL otherwise, as there.
    """
    own = set(sql_mode.upper().split(","))
    wanted = (*_MODES, _DIVISION) if own & _STRICT else _MODES
    return ",".join((STRICT_SQL_MODE, *(mode for mode in wanted if mode in own)))


def date_mode(sql_mode: str) -> str:
    """Return :func:`evaluating_mode` with the server's own modes about dates.

    It stays strict: what a lenient server makes NULL with a warning is an error (R10).
    """
    own = set(sql_mode.upper().split(","))
    modes = evaluating_mode(sql_mode).split(",")
    kept = (mode for mode in modes if mode != _ANY_DATE or mode in own)
    return ",".join((*kept, *(mode for mode in _ZERO_MODES if mode in own)))
