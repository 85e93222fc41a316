"""An expression over a table's rows, read by the server as that of a generated column.

So it refuses subqueries, other tables, variables, stored functions and RAND by itself (manual,
CREATE TABLE and Generated Columns). NOW() and the like are constants of one moment.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql.evaluation import as_stored
from spirit_py.mysql.facts import server_now
from spirit_py.mysql.faults import is_verdict
from spirit_py.mysql.lost_values import VALUE_ERRORS
from spirit_py.mysql.tables.definition import show_create
from spirit_py.sql import identifier_list, quote_table, string_literal
from spirit_py.statement.lexer import DEFAULT_MODE, SqlMode, tokenize
from spirit_py.table.expressions import RowExpression, names_in, why_zoned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.statement.lexer import Token
    from spirit_py.table.schema import TableSchema

_PROBE: Final = "_spirit_py_kept"
_COLUMN: Final = re.compile(
    rf"^  `{_PROBE}` tinyint\(1\) GENERATED ALWAYS AS \((.*)\) VIRTUAL", re.MULTILINE
)
#: These decide how a text is read; others would only judge definitions.
_READING: Final = frozenset({
    "ANSI_QUOTES", "PIPES_AS_CONCAT", "NO_BACKSLASH_ESCAPES", "HIGH_NOT_PRECEDENCE",
    "IGNORE_SPACE", "REAL_AS_FLOAT", "NO_UNSIGNED_SUBTRACTION",
})  # fmt: skip
#: Functions of the clock, and the type of the constant that takes the place of a call.
_CLOCK: Final = dict.fromkeys(
    ("NOW", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "UTC_TIMESTAMP"), "DATETIME(6)"
) | {
    "CURDATE": "DATE", "CURRENT_DATE": "DATE", "UTC_DATE": "DATE",
    "CURTIME": "TIME(6)", "CURRENT_TIME": "TIME(6)", "UTC_TIME": "TIME(6)", "UNIX_TIMESTAMP": "",
}  # fmt: skip
#: Two days on which an expression over a TIME must have one answer, and of so many rows.
_DAYS: Final = (86_400.0 * 400, 86_400.0 * 24_000)
_JUDGED_ROWS: Final = 500
_PADS: Final = "PAD_CHAR_TO_FULL_LENGTH"
_WITHOUT_PARENTHESES: Final = frozenset(_CLOCK) - {"NOW", "CURDATE", "CURTIME", "UNIX_TIMESTAMP"}


@dataclass(frozen=True, kw_only=True)
class Given:
    """An expression as it was given: the option, its text, and the refusal that names both.

    ``named``: what its columns may be qualified by, beside the table's own name and schema.
    ``shown``: what the operator wrote, where that is not the text.
    """

    option: str
    text: str
    code: ErrorCode = ErrorCode.KEEP_REFUSED
    named: tuple[str, ...] = ()
    shown: str = ""

    @property
    def chooses(self) -> bool:
        """Whether it chooses the rows that are written, and is not only read."""
        return self.code is ErrorCode.KEEP_REFUSED

    def refusal(self, why: str, hint: str = "") -> Refusal:
        """Return the error."""
        return Refusal(
            f"{self.option} {(self.shown or self.text)!r} cannot judge rows: {why}",
            hint=hint or "write an expression over the table's columns, as after WHERE",
            error_code=self.code,
        )

    def unreadable(self, fault: ServerFault) -> Refusal:
        """Return the error for what the server says of it."""
        if fault.code in {3102, 3763, 3772, 1093, 1109}:
            why = "it may read only the row's own columns, with functions that give one row one"
            return self.refusal(f"{why} answer ({fault.text})")
        return self.refusal(f"the server cannot read it: {fault.text}")


def modes_of_reading(sql_mode: str) -> list[str]:
    """Return the modes among these that decide how a text is read."""
    return sorted(_READING.intersection(sql_mode.upper().split(",")))


def read_row_expression(
    session: SqlSession, source: TableSchema, given: Given, facts: ServerFacts, *, moment: str
) -> RowExpression:
    """Return the expression as the server reads it, at a moment (ISO 8601; empty: now); Refusal."""
    # The server's now: this machine may have another clock.
    at = datetime.fromisoformat(moment).timestamp() if moment else server_now(session)
    zone = string_literal(facts.time_zone)
    mode = SqlMode.of(facts.sql_mode)
    tokens = tokenize(given.text, mode)
    _require_own(given, tokens, source)
    if mode.no_backslash_escapes and "\\" in given.text:
        raise given.refusal(
            "the server's sql_mode has NO_BACKSLASH_ESCAPES, and sessions of the program have not:"
            " a backslash would be another text",
            "write the text without one, as with X'5C'",
        )
    before = str(session.query("SELECT @@SESSION.sql_mode")[0][0])
    reading = ",".join(modes_of_reading(facts.sql_mode))
    session.execute(f"SET SESSION time_zone = {zone}, SESSION timestamp = {at:.6f}")
    try:
        _make_probe(session, source)
        session.execute(f"SET SESSION sql_mode = {string_literal(reading)}")
        text = _at_the_moment(session, given, tokens)
        expression = _as_read(session, source.schema, text, given, mode=before)
    finally:
        session.execute(
            "SET SESSION time_zone = '+00:00', SESSION timestamp = DEFAULT,"
            f" SESSION sql_mode = {string_literal(before)}"
        )
    if why := why_zoned(expression):
        hint = "write times as the server's clock shows them, numbers with UNIX_TIMESTAMP('...')"
        raise given.refusal(why, hint)
    names = names_in(expression)
    columns = tuple(column for column in source.columns if column.name.lower() in names)
    if not columns:
        raise given.refusal("it reads no column, and is the same for every row")
    for column in columns:
        if column.data_type == "char" and _PADS in facts.sql_mode.upper().split(","):
            raise given.refusal(
                f"the server's sql_mode has {_PADS}, and sessions of the program have not: CHAR"
                f" column {column.name} would be read without its blanks",
                "take it away on the server; or, where that is meant, name modes without it with"
                " --sql-mode, which migrate and move have",
            )
        if column.generated == "VIRTUAL" and given.chooses:
            raise given.refusal(
                f"column {column.name} is VIRTUAL, and the binary log does not have its values",
                f"write its expression instead: {column.generation_expression}",
            )
    read = RowExpression(expression=expression, columns=columns, time_zone=facts.time_zone)
    try:
        judged = read.condition() if given.chooses else read.value()
        session.query(f"SELECT {judged} FROM {source.quoted} LIMIT 1")
        said = session.warnings() if session.warning_count and given.chooses else []
        if any(one.data_type == "time" for one in columns):
            _require_any_day(session, given, f"SELECT {judged} FROM {source.quoted}")
    except ServerFault as fault:
        if not is_verdict(fault):
            raise
        raise given.refusal(f"a row cannot be judged by it: {fault.text}") from fault
    # In a statement that writes rows it would be an error.
    if wrong := next((text for _, code, text in said if code in VALUE_ERRORS), ""):
        raise given.refusal(f"a row is not judged for certain: {wrong}")
    return read


def _require_any_day(session: SqlSession, given: Given, judging: str) -> None:
    """Refuse to make a date of a TIME: the server takes the day on which it is asked."""
    found = []
    try:
        for day in (*_DAYS, _DAYS[0]):
            session.execute(f"SET SESSION timestamp = {day}")
            found.append(session.query(f"{judging} LIMIT {_JUDGED_ROWS}"))
    finally:
        session.execute("SET SESSION timestamp = DEFAULT")
    one, other, again = found
    # Rows that were written between two of the questions say nothing.
    if one == again != other:
        raise given.refusal(
            "it makes a date of a TIME, which is of the day on which the server is asked",
            "compare a TIME with TIME'10:00:00', or add it to a date: TIMESTAMP(date, time)",
        )


def _at_the_moment(session: SqlSession, given: Given, tokens: Sequence[Token]) -> str:
    """Return the text with a constant in the place of each call of a clock's function."""
    text = given.text
    calls = list(_clock_calls(tokens))
    if not calls:
        return text
    wanted = ", ".join(f"CAST({text[begin:end]} AS CHAR)" for _, begin, end in calls)
    try:
        values = session.query(f"SELECT {wanted}")[0]
        said = session.warnings() if session.warning_count else []
    except ServerFault as fault:
        if not is_verdict(fault):
            raise
        raise given.unreadable(fault) from fault
    if said or None in values:
        raise given.refusal(said[0][2] if said else "a constant is NULL")
    for (kind, begin, end), value in reversed(list(zip(calls, values, strict=True))):
        constant = f"CAST({string_literal(str(value))} AS {kind})" if kind else str(value)
        text = f"{text[:begin]}{constant}{text[end:]}"
    return text


def _clock_calls(tokens: Sequence[Token]) -> Iterator[tuple[str, int, int]]:
    """Yield type, begin and end of each call that is a constant of the moment."""
    for place, token in enumerate(tokens):
        if token.upper not in _CLOCK or (place and tokens[place - 1].is_symbol(".")):
            continue
        signs = tokens[place + 1 : place + 4]
        if signs and signs[0].is_symbol("("):
            closed = next((at for at in (1, 2) if signs[at:] and signs[at].is_symbol(")")), 0)
            inside = signs[1] if closed == 2 else None
            wanted = "string" if token.upper == "UNIX_TIMESTAMP" else "word"
            if closed and (inside is None or inside.kind == wanted):
                yield _CLOCK[token.upper], token.start, signs[closed].end
        elif token.upper in _WITHOUT_PARENTHESES:
            yield _CLOCK[token.upper], token.start, token.end


def _require_own(given: Given, tokens: Sequence[Token], source: TableSchema) -> None:
    """Refuse other tables, whose names a generated column passes over, and more than one text."""
    depth = 0
    for place, token in enumerate(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth < 0:
            raise given.refusal("a parenthesis is closed that was not opened")
        after = tokens[place + 1 : place + 3]
        if len(after) < 2 or not after[0].is_symbol(".") or not after[1].is_identifier:
            continue
        own = {source.name.lower(), source.schema.lower(), *given.named}
        if token.is_identifier and token.value.lower() not in own:
            raise given.refusal(f"{token.value} is another table")


def _make_probe(session: SqlSession, source: TableSchema) -> None:
    """Make an empty copy of the table, with plain columns."""
    probe = quote_table(source.schema, _PROBE)
    names = identifier_list(column.name for column in source.columns)
    with as_stored(session):
        session.execute(f"DROP TEMPORARY TABLE IF EXISTS {probe}")
        session.execute(
            f"CREATE TEMPORARY TABLE {probe} ({_PROBE}_number INT AUTO_INCREMENT PRIMARY KEY)"
            f" ENGINE=InnoDB ROW_FORMAT=DYNAMIC SELECT {names} FROM {source.quoted} LIMIT 0"
        )


def _as_read(session: SqlSession, schema: str, text: str, given: Given, *, mode: str) -> str:
    """Return the expression as the server writes it, from the probe; under ``mode`` from then."""
    probe = quote_table(schema, _PROBE)
    try:
        # A line of its own: the text may end in a comment.
        session.execute(
            f"ALTER TABLE {probe} ADD COLUMN {_PROBE} BOOL GENERATED ALWAYS AS ({text}\n) VIRTUAL"
        )
        # With ANSI_QUOTES names would be in other quotes.
        session.execute(f"SET SESSION sql_mode = {string_literal(mode)}")
        found = _COLUMN.search(show_create(session, schema, _PROBE))
    except ServerFault as fault:
        if not is_verdict(fault):
            raise
        raise given.unreadable(fault) from fault
    finally:
        session.execute(f"DROP TEMPORARY TABLE IF EXISTS {probe}")
    if found is None:
        raise given.refusal("it is no expression")
    return _sendable(given, found[1])


def _sendable(given: Given, expression: str) -> str:
    """Return an expression with digits in the place of texts that are not Unicode.

    The server writes a text in the column's own character set, as ``_latin1'...'``.
    """
    for token in reversed(tokenize(expression, DEFAULT_MODE)):
        octets = token.value.encode(errors="surrogateescape")
        if token.kind == "string" and octets != token.value.encode(errors="replace"):
            digits = f" X'{octets.hex()}'"
            expression = f"{expression[: token.start]}{digits}{expression[token.end :]}"
    # Of some character sets a letter's second byte is a backslash.
    if re.search(r"[\ud800-\udfff]|_(?:big5|cp932|gbk|gb18030|sjis) X'", expression):
        raise given.refusal(
            "a text in it is in a character set that cannot be sent as it is",
            "compare with CONVERT(column USING utf8mb4)",
        )
    return expression
