"""The settings of the server under which every session of a run evaluates expressions (R22).

A native ALTER in a fresh session evaluates generated columns, defaults, conversions and CHECK
constraints under the server's globals. A run reads them once and carries them in its connection
options, so that the driver, the executors and a session that is opened days later agree.

The time zone is not among them: sessions stay in '+00:00', in which a TIMESTAMP can be compared
and read without loss, and change it around a statement that writes (``TableMapping.time_zone``).
Nor are the server's modes for dates: a session accepts every date that a column holds, and sets
these modes only around a statement that may convert another type to a date
(``TableMapping.makes_dates``).

One mode has every session, for the sake of others: the server keeps an open table with its
generated columns and CHECK constraints as they were resolved when it was opened, and the next
session that uses it computes by that. Whether an unsigned subtraction may be negative is resolved
then (NO_UNSIGNED_SUBTRACTION). A table that a session of ours had opened without it made the
application's UPDATE fail with error 1690 (measured on 9.7). So modes that the operator chose for a
migration add it, but do not take it away.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, Protocol

from spirit_py.sql import quote_identifier, string_literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.facts import ServerFacts

STRICT_SQL_MODE: Final = "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"
#: Sets the session's mode back to its own.
OWN_SQL_MODE: Final = "@spirit_py_sql_mode"
#: Sets the mode in which values are converted to dates.
DATE_SQL_MODE: Final = "@spirit_py_date_sql_mode"

_SUBTRACTION: Final = "NO_UNSIGNED_SUBTRACTION"


def kept_for_others(sql_mode: str, like: str = "@@GLOBAL.sql_mode") -> str:
    """Return SQL of a mode, with what stays with an open table where another mode has it."""
    more = f"IF(FIND_IN_SET('{_SUBTRACTION}', {like}), ',{_SUBTRACTION}', '')"
    return f"CONCAT({string_literal(sql_mode)}, {more})"


_LENIENT_SQL_MODE: Final = kept_for_others(
    "ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO", "@@SESSION.sql_mode"
)
"""SQL of the mode that accepts ENUM 0 and invalid dates in columns of a type that holds them.

And every definition of the source in a table of ours, such as an ENUM with a member twice."""

_VARIABLES: Final = (
    "block_encryption_mode",
    "default_week_format",
    "div_precision_increment",
    "lc_time_names",
)
_MODES: Final = (_SUBTRACTION, "TIME_TRUNCATE_FRACTIONAL")
_ANY_DATE: Final = "ALLOW_INVALID_DATES"
_ZERO_MODES: Final = ("NO_ZERO_DATE", "NO_ZERO_IN_DATE")
_STRICT: Final = frozenset({"STRICT_ALL_TABLES", "STRICT_TRANS_TABLES"})
_ROW_CHECKS: Final = "innodb_strict_mode"
"""Whether a definition is refused whose rows may become too long for a page."""
_DIVISION: Final = "ERROR_FOR_DIVISION_BY_ZERO"


def evaluation_settings(facts: ServerFacts) -> tuple[tuple[str, str], ...]:
    """Return the session variables, and their values, that a server's globals ask for."""
    found = [(name, facts.text(name)) for name in _VARIABLES if facts.text(name)]
    modes = (
        ("sql_mode", evaluating_mode(facts.sql_mode)),
        (DATE_SQL_MODE, date_mode(facts.sql_mode)),
    )
    unchecked = facts.text(_ROW_CHECKS) and not facts.is_on(_ROW_CHECKS)
    return (*modes, *found, *([(_ROW_CHECKS, "0")] if unchecked else []))


def evaluating_mode(sql_mode: str) -> str:
    """Return the program's strict mode with those modes of the server that change computed values.

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


class Evaluated(Protocol):
    """How a statement is to be evaluated; implemented by a mapping and by a chunk's task."""

    @property
    def time_zone(self) -> str:
        """The session's time zone for it; empty for the program's own."""

    @property
    def makes_dates(self) -> bool:
        """Whether it runs with the server's modes about dates."""

    @property
    def quiet(self) -> bool:
        """Whether notes can only be about columns that hold no value of the source."""


@contextlib.contextmanager
def evaluating(session: SqlSession, what: Evaluated, *, notes: bool = False) -> Iterator[None]:
    """Evaluate what a write evaluates as the server does, where it matters (R22).

    That is in its time zone and with its modes about dates. And without notes, where they can
    only be about columns that hold no value of the source, unless ``notes`` are wanted.
    """
    with contextlib.ExitStack() as settings:
        if what.time_zone:
            zone = string_literal(what.time_zone)
            settings.enter_context(_setting(session, "time_zone", zone, "'+00:00'"))
        if what.makes_dates:
            settings.enter_context(_setting(session, "sql_mode", DATE_SQL_MODE, OWN_SQL_MODE))
        if what.quiet and not notes:
            settings.enter_context(_setting(session, "sql_notes", "0", "1"))
        yield


@contextlib.contextmanager
def as_stored(session: SqlSession) -> Iterator[None]:
    """Accept every value of the source in columns of the same type, and its definition."""
    with _setting(session, "sql_mode", _LENIENT_SQL_MODE, OWN_SQL_MODE):
        yield


def accept_stored(session: SqlSession) -> None:
    """Let the session accept every definition to its end, also where its own mode is set again."""
    mode = _LENIENT_SQL_MODE
    session.execute(f"SET {OWN_SQL_MODE}={mode}, SESSION sql_mode={mode}")


@contextlib.contextmanager
def _setting(session: SqlSession, name: str, value: str, usual: str) -> Iterator[None]:
    """Change a variable of the session while the context is open.

    After a fault it is set back too, and should that fail the first fault is the one raised.

    Args:
        value: SQL of the temporary value.
        usual: SQL of the value it is set back to.
    """
    session.execute(f"SET SESSION {quote_identifier(name)}={value}")
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            session.execute(f"SET SESSION {quote_identifier(name)}={usual}")
        raise
    session.execute(f"SET SESSION {quote_identifier(name)}={usual}")
