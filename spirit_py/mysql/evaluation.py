"""The settings under which sessions evaluate expressions, and modes that were chosen (R22).

A native ALTER evaluates under the server's globals. A run reads them once and carries them in its
connection options. The time zone and the modes for dates are set only around the statements that
need them (:func:`evaluating`): sessions stay in '+00:00' and accept every date.

Every session has NO_UNSIGNED_SUBTRACTION: the server keeps an open table's expressions as they were
resolved when it was opened, so without it the application's UPDATE failed with error 1690 (measured
on 9.7). Chosen modes take the place of the server's in the facts, so that definitions of older
modes are accepted; writes stay strict (R10), and other modes do not resume.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault, UsageFault
from spirit_py.mysql.faults import (
    ACCESS_NEEDS_PRIVILEGE,
    Disposition,
    access_denied,
    disposition,
    excused,
)
from spirit_py.sql import quote_identifier, string_literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.config import SessionModes
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.table.mapping import TableMapping

STRICT_SQL_MODE: Final = "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"
OWN_SQL_MODE: Final = "@spirit_py_sql_mode"
DATE_SQL_MODE: Final = "@spirit_py_date_sql_mode"

#: ER_BINLOG_UNSAFE_SYSTEM_FUNCTION
_UNSAFE_FUNCTION = 1674
_NAME_TOO_LONG = 1059
WITHOUT_KEY: Final = 3750
"""No primary key, with sql_require_primary_key=ON."""
KEY_NOT_REQUIRED: Final = (
    "GRANT SESSION_VARIABLES_ADMIN ON *.* to the account, or SET GLOBAL sql_require_primary_key ="
    " OFF for the time until the swap is settled"
)
#: An encryption that is not the schema's, without TABLE_ENCRYPTION_ADMIN.
_ENCRYPTS_OTHERWISE: Final = 3826
#: The end of a name that the server gives to a CHECK constraint.
_GIVEN_NAME = re.compile(r"_chk_\d+'")

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
    *("block_encryption_mode", "default_week_format", "div_precision_increment", "lc_time_names"),
)
_MODES: Final = (_SUBTRACTION, "TIME_TRUNCATE_FRACTIONAL")
ZERO_MODES: Final = ("NO_ZERO_DATE", "NO_ZERO_IN_DATE")
STRICT_MODES: Final = ("STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL")
ANY_DATE: Final = "ALLOW_INVALID_DATES"
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


def comparing_settings(facts: ServerFacts) -> tuple[tuple[str, str], ...]:
    """Return :func:`evaluation_settings` under which any date, and a division by zero, is a value.

    As rows may have them that are only read: a warning would leave a hash without meaning.
    """
    modes = f"{without_modes(facts.sql_mode, (*ZERO_MODES, _DIVISION))},{ANY_DATE}"
    return evaluation_settings(
        replace(facts, variables={**facts.variables, "sql_mode": modes}, chosen=())
    )


def evaluating_mode(sql_mode: str) -> str:
    """Return the strict mode with the server's modes that change values, as division by zero."""
    own = set(sql_mode.upper().split(","))
    wanted = (*_MODES, _DIVISION) if not own.isdisjoint(STRICT_MODES) else _MODES
    return ",".join((STRICT_SQL_MODE, *(mode for mode in wanted if mode in own)))


def date_mode(sql_mode: str) -> str:
    """Return :func:`evaluating_mode` with the server's modes about dates; still strict (R10)."""
    own = set(sql_mode.upper().split(","))
    modes = evaluating_mode(sql_mode).split(",")
    kept = (mode for mode in modes if mode != ANY_DATE or mode in own)
    return ",".join((*kept, *(mode for mode in ZERO_MODES if mode in own)))


@contextlib.contextmanager
def evaluating(session: SqlSession, what: TableMapping, *, notes: bool = False) -> Iterator[None]:
    """Evaluate a write as the server does: in its time zone, with its modes about dates (R22).

    Without notes, where they can only be about generated columns, unless ``notes`` are wanted.
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


@contextlib.contextmanager
def as_shown(session: SqlSession) -> Iterator[None]:
    """Show definitions, and accept them as they are shown, whatever mode and zone it has.

    SHOW CREATE TABLE shows the instant of a TIMESTAMP's default in the session's time zone.
    """
    mode, zone = map(str, session.query("SELECT @@SESSION.sql_mode, @@SESSION.time_zone")[0])
    with (
        _setting(session, "sql_mode", f"'{ANY_DATE}'", string_literal(mode)),
        _setting(session, "time_zone", "'+00:00'", string_literal(zone)),
    ):
        yield


def accept_stored(session: SqlSession) -> None:
    """Let the session accept every definition to its end, also where its own mode is set again."""
    mode = _LENIENT_SQL_MODE
    session.execute(f"SET {OWN_SQL_MODE}={mode}, SESSION sql_mode={mode}")


@contextlib.contextmanager
def _setting(session: SqlSession, name: str, value: str, usual: str) -> Iterator[None]:
    """Change a variable while the context is open; after two faults the first is raised."""
    back = f"SET SESSION {quote_identifier(name)}={usual}"
    try:
        session.execute(f"SET SESSION {quote_identifier(name)}={value}")
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            set_back(session, back)
        raise
    set_back(session, back)


def set_back(session: SqlSession, *statements: str) -> None:
    """Set a session back; one that cannot be is closed, so that its next use finds it lost."""
    try:
        for statement in statements:
            session.execute(statement)
    except BaseException:
        session.close()
        raise


def under_modes(session: SqlSession, facts: ServerFacts, modes: SessionModes) -> ServerFacts:
    """Return the facts with the chosen modes, as the server spells them; Refusal if impossible."""
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


def choose_modes(session: SqlSession, facts: ServerFacts, *, apart: bool = False) -> None:
    """Set the chosen modes in a session that has the server's own.

    ``apart``: the facts are another server's, whose own modes and time zone it gets before. A zone
    that this server does not know is left: who depends on it looks.
    """
    if apart:
        session.execute(f"SET SESSION sql_mode = {string_literal(facts.text('sql_mode'))}")
        zone = f"SET SESSION time_zone = {string_literal(facts.time_zone)}"
        excused(lambda: session.execute(zone), 0, {_UNKNOWN_ZONE})
    for name, value in facts.chosen:
        session.execute(f"SET SESSION {quote_identifier(name)} = {_literal(value)}")


def _spelled(session: SqlSession, name: str, value: str) -> str:
    variable = f"@@SESSION.{quote_identifier(name)}"
    before = str(session.query(f"SELECT {variable}")[0][0])
    try:
        session.execute(f"SET {variable} = {_literal(value)}")
    except ServerFault as fault:
        if disposition(fault) is not Disposition.FATAL:
            raise
        hint = "name modes that this version of the server knows"
        if fault.code == ACCESS_NEEDS_PRIVILEGE:
            hint = "GRANT SESSION_VARIABLES_ADMIN ON *.* to the account"
        text = f"{name} cannot be {value!r}: {fault.text} (error {fault.code})"
        raise UsageFault(text, hint=hint) from fault
    found = str(session.query(f"SELECT {variable}")[0][0])
    session.execute(f"SET {variable} = {_literal(before)}")
    return found


def _literal(value: str) -> str:
    return value if value.isdigit() else string_literal(value)


_UNKNOWN_ZONE: Final = 1298
ROW_TOO_LONG: Final = 1118
_ANY_ROW: Final = "--innodb-strict-mode off"
DEPENDING_ON_MODES: Final = frozenset({
    1067,  # invalid default value
    1101,  # a BLOB or TEXT column with a default
    ROW_TOO_LONG,
    1291,  # an ENUM or SET with a member twice
    1292,  # incorrect value of a date
})  # fmt: skip
"""Errors of a definition that another ``sql_mode`` or ``innodb_strict_mode`` may accept."""


def accepting_modes(session: SqlSession, sql: str, error: ServerFault) -> str:
    """Return the options under which the server executes a refused ALTER, if any.

    The ALTER is of an empty table. The session has other modes afterwards.
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


#: What is refused where it is not the statement: on the same server, and on another one.
DEFINITION_COPY: Final = "a copy of the table's definition"
DEFINITION_THERE: Final = "the definition of the source's table"


def server_refusal(error: ServerFault, what: str, modes: str = "") -> Refusal:
    """Return a refusal with the server's message, and the options under which it accepts it."""
    hint = "correct the statement; a native ALTER TABLE would fail in the same way"
    code = ErrorCode.DEFINITION_REFUSED
    copied = what in {DEFINITION_COPY, DEFINITION_THERE}
    if copied:
        hint = "see SHOW CREATE TABLE for what the server refuses now: the new table begins as that"
    if access_denied(error) or error.code == _ENCRYPTS_OTHERWISE:
        code = ErrorCode.MISSING_PRIVILEGES
        hint = "grant the account what the message names"
        if (copied and error.code == ACCESS_NEEDS_PRIVILEGE) or error.code == _ENCRYPTS_OTHERWISE:
            hint = (
                "grant the account what the definition needs: FILE ON *.* for a DATA DIRECTORY,"
                " TABLE_ENCRYPTION_ADMIN ON *.* for an encryption that is not the schema's"
            )
    elif modes:
        code = ErrorCode.OTHER_MODES_ACCEPT
        hint = (
            f"the server accepts it under other modes: add {modes} if the definition is meant so;"
            " a native ALTER TABLE in a session with these modes would do the same"
        )
    elif error.code == WITHOUT_KEY and copied:
        code = ErrorCode.SERVER_SETTINGS
        hint = f"{KEY_NOT_REQUIRED}: the new table begins as the table, which has none"
    elif error.code == _UNSAFE_FUNCTION:
        hint = (
            "a native ALTER TABLE would fail in the same way, because the default of a new column"
            " has another value in each row: add the column without the default, fill it, and then"
            " ALTER TABLE ... ALTER COLUMN ... SET DEFAULT (...), which the server accepts"
        )
    elif error.code == _NAME_TOO_LONG and _GIVEN_NAME.search(error.text):
        code = ErrorCode.CHECK_NAME
        hint = "name it in the ALTER: ADD CONSTRAINT name CHECK (...)"
    text = f"the server refuses {what}: {error.text} (error {error.code})"
    return Refusal(text, hint=hint, error_code=code)
