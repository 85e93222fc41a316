"""The rows that ``--keep`` keeps: the server reads the expression, as that of a generated column.

So it refuses subqueries, other tables, variables, stored functions and RAND by itself (manual,
CREATE TABLE and Generated Columns). NOW() and the like are constants of when the migration began.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql.evaluation import as_stored
from spirit_py.mysql.faults import connection_lost
from spirit_py.mysql.tables.definition import show_create
from spirit_py.preflight.check import Findings, PreflightContext, refuse
from spirit_py.sql import identifier_list, quote_identifier, quote_table, string_literal
from spirit_py.statement.lexer import SqlMode, tokenize
from spirit_py.table.kept import KeptRows, names_in, why_zoned
from spirit_py.table.keys import INTEGERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.contracts import SqlSession
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
#: Places of the key, and rows at each, that are judged for an estimate.
_PLACES, _SAMPLED, _SAMPLE_SECONDS = 20, 500, 2
#: An estimate of room is larger by these than the sample says.
_MARGIN, _LEAST_SHARE = 1.2, 0.02
_WITHOUT_PARENTHESES: Final = frozenset(_CLOCK) - {"NOW", "CURDATE", "CURTIME", "UNIX_TIMESTAMP"}


def kept_rows(context: PreflightContext) -> Findings:
    """Refuse an expression that cannot judge rows, and what must not lose any."""
    if not context.config.modes.keep:
        return
    try:
        read_kept(context)
    except Refusal as refusal:
        yield refuse(refusal.message, refusal.hint)
    if context.config.keep_old_current:
        yield refuse(
            "--keep-old-current does not go with --keep: the old table has rows that the new one"
            " has not",
            "leave it out; --drop-old-after never keeps the old table as it was at the swap",
        )
    name = (context.schema, context.table)
    for key in keys_around(context.session, *name):
        if key.parent == name:
            yield refuse(
                f"--keep: rows of {'.'.join(key.child)} refer to {'.'.join(name)} by {key}, and"
                " would lose their parents",
                "drop the foreign key before, and the children's rows by it",
                code=ErrorCode.FOREIGN_KEY,
            )


def read_kept(context: PreflightContext) -> KeptRows | None:
    """Return the expression as the server reads it; None without one; Refusal."""
    given = context.config.modes.keep
    if not given:
        return None
    session, source, facts = context.session, context.source, context.facts
    at = datetime.fromisoformat(context.moment) if context.moment else datetime.now(UTC)
    zone = string_literal(facts.time_zone)
    session.execute(f"SET SESSION time_zone = {zone}, SESSION timestamp = {at.timestamp():.6f}")
    try:
        tokens = tokenize(given, SqlMode.of(facts.sql_mode))
        _require_own(given, tokens, source)
        text = _at_the_moment(session, given, tokens)
        expression = _as_read(session, source, text, facts.sql_mode, given)
    finally:
        session.execute("SET SESSION time_zone = '+00:00', SESSION timestamp = DEFAULT")
    if why := why_zoned(expression):
        hint = "write times as the server's clock shows them, numbers with UNIX_TIMESTAMP('...')"
        raise _refusal(given, why, hint)
    names = names_in(expression)
    columns = tuple(column for column in source.columns if column.name.lower() in names)
    if not columns:
        raise _refusal(given, "it reads no column, and is the same for every row")
    for column in columns:
        if column.generated == "VIRTUAL":
            raise _refusal(
                given,
                f"column {column.name} is VIRTUAL, and the binary log does not have its values",
                f"write its expression instead: {column.generation_expression}",
            )
    return KeptRows(expression=expression, columns=columns, time_zone=facts.time_zone)


def kept_share(context: PreflightContext) -> float | None:
    """Return the share of rows that is kept, by rows from all over the key; None if not known."""
    try:
        kept, source = read_kept(context), context.source
    except Refusal:
        return None  # The check above says it.
    primary = source.primary_key
    first = source.column(primary.columns[0]) if primary is not None else None
    if kept is None or first is None or first.data_type not in INTEGERS:
        return None
    table, name = source.quoted, quote_identifier(first.name)
    columns = identifier_list(dict.fromkeys((first.name, *(one.name for one in kept.columns))))
    hint = f"/*+ MAX_EXECUTION_TIME({_SAMPLE_SECONDS * 1000}) */"
    seen = found = 0
    try:
        ((low, high),) = context.session.query(
            f"SELECT {hint} MIN({name}), MAX({name}) FROM {table}"
        )
        if low is None:
            return None
        for step in range(_PLACES):
            begin = int(low) + (int(high) - int(low)) * step // _PLACES
            ((rows, true),) = context.session.query(
                f"SELECT {hint} COUNT(*), SUM({kept.condition()}) FROM (SELECT {columns}"
                f" FROM {table} FORCE INDEX (PRIMARY) WHERE {name} >= {begin}"
                f" ORDER BY {name} LIMIT {_SAMPLED}) AS sampled"
            )
            seen, found = seen + int(rows), found + int(true or 0)
    except ServerFault as fault:
        if connection_lost(fault):
            raise
    return found / seen if seen else None


def share_written(context: PreflightContext) -> float:
    """Return which part of the table a copy writes, at most; 1 where all rows are kept."""
    share = kept_share(context) if context.config.modes.keep else None
    return 1.0 if share is None else min(1.0, share * _MARGIN + _LEAST_SHARE)


def _at_the_moment(session: SqlSession, given: str, tokens: Sequence[Token]) -> str:
    """Return the text with a constant in the place of each call of a clock's function."""
    calls = list(_clock_calls(tokens))
    if not calls:
        return given
    wanted = ", ".join(f"CAST({given[begin:end]} AS CHAR)" for _, begin, end in calls)
    try:
        values = session.query(f"SELECT {wanted}")[0]
    except ServerFault as fault:
        raise _unreadable(given, fault) from fault
    for (kind, begin, end), value in reversed(list(zip(calls, values, strict=True))):
        text = f"CAST({string_literal(str(value))} AS {kind})" if kind else str(value)
        given = f"{given[:begin]}{text}{given[end:]}"
    return given


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


def _require_own(given: str, tokens: Sequence[Token], source: TableSchema) -> None:
    """Refuse other tables, whose names a generated column passes over, and more than one text."""
    depth = 0
    for place, token in enumerate(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth < 0:
            raise _refusal(given, "a parenthesis is closed that was not opened")
        after = tokens[place + 1 : place + 3]
        if len(after) < 2 or not after[0].is_symbol(".") or not after[1].is_identifier:
            continue
        own = {source.name.lower(), source.schema.lower()}
        if token.is_identifier and token.value.lower() not in own:
            raise _refusal(given, f"{token.value} is another table")


def _as_read(session: SqlSession, source: TableSchema, text: str, sql_mode: str, given: str) -> str:
    """Return the expression as the server writes it, from a table without rows."""
    probe = quote_table(source.schema, _PROBE)
    names = identifier_list(column.name for column in source.columns)
    reading = ",".join(sorted(_READING.intersection(sql_mode.upper().split(","))))
    before = str(session.query("SELECT @@SESSION.sql_mode")[0][0])
    try:
        with as_stored(session):
            session.execute(f"DROP TEMPORARY TABLE IF EXISTS {probe}")
            session.execute(
                f"CREATE TEMPORARY TABLE {probe} ({_PROBE}_number INT AUTO_INCREMENT PRIMARY KEY)"
                f" ENGINE=InnoDB SELECT {names} FROM {source.quoted} LIMIT 0"
            )
        session.execute(f"SET SESSION sql_mode = {string_literal(reading)}")
        session.execute(
            f"ALTER TABLE {probe} ADD COLUMN {_PROBE} BOOL GENERATED ALWAYS AS ({text}) VIRTUAL"
        )
        session.execute(f"SET SESSION sql_mode = {string_literal(before)}")
        found = _COLUMN.search(show_create(session, source.schema, _PROBE))
    except ServerFault as fault:
        if connection_lost(fault):
            raise
        raise _unreadable(given, fault) from fault
    finally:
        session.execute(f"SET SESSION sql_mode = {string_literal(before)}")
        session.execute(f"DROP TEMPORARY TABLE IF EXISTS {probe}")
    if found is None:
        raise _refusal(given, "it is no expression")
    return found[1]


def _unreadable(text: str, fault: ServerFault) -> Refusal:
    if fault.code in {3102, 3763, 3772, 1093, 1109}:
        why = "it may read only the row's own columns, with functions that give one row one answer"
        return _refusal(text, f"{why} ({fault.text})")
    return _refusal(text, f"the server cannot read it: {fault.text}")


def _refusal(text: str, why: str, hint: str = "") -> Refusal:
    return Refusal(
        f"--keep {text!r} cannot judge rows: {why}",
        hint=hint or "write an expression over the table's columns, as after WHERE",
        error_code=ErrorCode.KEEP_REFUSED,
    )
