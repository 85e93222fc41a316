"""The rows that ``--keep`` keeps: the server reads the expression, as that of a generated column.

So it refuses subqueries, other tables, variables, stored functions and RAND by itself (manual,
CREATE TABLE and Generated Columns). NOW() and the like are constants of when the migration began.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, ServerFault
from spirit_py.mysql.evaluation import as_stored, evaluation_settings
from spirit_py.mysql.faults import connection_lost
from spirit_py.mysql.tables.definition import show_create
from spirit_py.preflight.check import Findings, PreflightContext, refuse
from spirit_py.sql import identifier_list, quote_identifier, quote_table, string_literal
from spirit_py.statement.lexer import SqlMode, tokenize
from spirit_py.table.kept import KeptRows, names_in, why_zoned
from spirit_py.table.keys import INTEGERS, TEXT_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.statement.lexer import Token
    from spirit_py.table.mapping import TableMapping
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
#: So often a range of the key is divided, and so many rows of each are judged for an estimate.
_DIVISIONS, _SAMPLED, _SAMPLE_SECONDS = 60, 200, 2
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


def kept_keys(context: PreflightContext) -> Findings:
    """Refuse a new definition under which a row that is left out may stand for a kept one."""
    mapping = context.mapping
    if mapping.keep is None:
        return
    if mapping.key_merging:
        yield refuse(
            "--keep does not go with a key whose values may become equal in the new table"
            f" ({', '.join(mapping.new_key_columns)}): a row that is left out could not be told"
            " from a kept one",
            "change the key's type or collation in a migration of its own",
        )
    texts = [one.name for one in mapping.keep.columns if one.data_type in (*TEXT_TYPES, "json")]
    if mapping.time_zone and texts:
        yield refuse(
            f"--keep reads {', '.join(texts)} while the ALTER computes times in the server's time"
            " zone: a text with an offset would be judged in two zones",
            "make the change and the purge in two migrations",
        )


def judged_by(contexts: Sequence[PreflightContext], mappings: Sequence[TableMapping]) -> str:
    """Return a digest of all that decides which rows are kept; empty where all are."""
    kept = [(one.keep.expression, one.keep.time_zone) for one in mappings if one.keep is not None]
    text = repr((kept, evaluation_settings(contexts[0].facts)))
    return hashlib.sha256(text.encode()).hexdigest()[:32] if kept else ""


def require_judged_alike(
    contexts: Sequence[PreflightContext], mappings: Sequence[TableMapping], before: str
) -> None:
    """Refuse to go on with a copy whose rows were judged under other settings of the server."""
    if judged_by(contexts, mappings) != before:
        raise Refusal(
            "--keep would judge rows otherwise than the earlier run did: settings of the server"
            " are others now (time_zone, sql_mode, default_week_format or their like)",
            hint="set them back and run the same command again; or drop the copy with spirit-py"
            " cleanup, and begin anew",
            error_code=ErrorCode.CANNOT_RESUME,
        )


def read_kept(context: PreflightContext) -> KeptRows | None:
    """Return the expression as the server reads it; None without one; Refusal."""
    given = context.config.modes.keep
    if not given:
        return None
    session, source, facts = context.session, context.source, context.facts
    at = datetime.fromisoformat(context.moment) if context.moment else datetime.now(UTC)
    zone = string_literal(facts.time_zone)
    mode = SqlMode.of(facts.sql_mode)
    tokens = tokenize(given, mode)
    _require_own(given, tokens, source)
    if mode.no_backslash_escapes and "\\" in given:
        raise _refusal(
            given,
            "the server's sql_mode has NO_BACKSLASH_ESCAPES, and sessions of the program have not:"
            " a backslash would be another text",
            "write the text without one, as with X'5C'",
        )
    before = str(session.query("SELECT @@SESSION.sql_mode")[0][0])
    reading = ",".join(sorted(_READING.intersection(facts.sql_mode.upper().split(","))))
    session.execute(f"SET SESSION time_zone = {zone}, SESSION timestamp = {at.timestamp():.6f}")
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
    kept = KeptRows(expression=expression, columns=columns, time_zone=facts.time_zone)
    try:
        session.query(f"SELECT {kept.condition()} FROM {source.quoted} LIMIT 1")
    except ServerFault as fault:
        if connection_lost(fault):
            raise
        raise _refusal(given, f"a row cannot be judged by it: {fault.text}") from fault
    return kept


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
    sampled: list[tuple[int, int, int]] = []
    try:
        ranges = _ranges(context.session, table, name)
        for low, high, about in ranges:
            ((rows, true),) = context.session.query(
                f"SELECT {hint} COUNT(*), SUM({kept.condition()}) FROM (SELECT {columns}"
                f" FROM {table} FORCE INDEX (PRIMARY) WHERE {name} BETWEEN {low} AND {high}"
                f" ORDER BY {name} LIMIT {_SAMPLED}) AS sampled"
            )
            if rows:
                sampled.append((about, int(rows), int(true or 0)))
    except ServerFault as fault:
        if connection_lost(fault):
            raise
        return None
    # Each range counts by its rows, of which those at its beginning were judged.
    weighed = [(max(about, rows), true / rows) for about, rows, true in sampled]
    whole = sum(weight for weight, _ in weighed)
    return sum(weight * share for weight, share in weighed) / whole if whole else None


def _ranges(session: SqlSession, table: str, name: str) -> list[tuple[int, int, int]]:
    """Divide a key where its rows are: ranges, with about how many rows each has."""

    def counted(low: int, high: int) -> tuple[int, int, int]:
        # With FORCE INDEX the server would not look at the index, and answer 1.
        (row, *_) = session.query(
            f"EXPLAIN FORMAT=TRADITIONAL SELECT {name} FROM {table}"
            f" WHERE {name} BETWEEN {low} AND {high}"
        )
        return low, high, int(row[9] or 0)

    ((low, high),) = session.query(f"SELECT MIN({name}), MAX({name}) FROM {table}")
    if low is None:
        return []
    ranges = [counted(int(low), int(high))]
    for _ in range(_DIVISIONS):
        low, high, rows = widest = max(ranges, key=lambda one: one[2])
        if low == high or rows <= _SAMPLED:
            break
        middle = (low + high) // 2
        ranges.remove(widest)
        ranges += [counted(low, middle), counted(middle + 1, high)]
    return ranges


def share_written(context: PreflightContext) -> float:
    """Return which part of the table a copy writes, at most; 1 where all rows are kept."""
    return with_margin(kept_share(context) if context.config.modes.keep else None)


def with_margin(share: float | None) -> float:
    """Return the part of a table for which there must be room, by a share in a sample."""
    return 1.0 if share is None else min(1.0, share * _MARGIN + _LEAST_SHARE)


def _at_the_moment(session: SqlSession, given: str, tokens: Sequence[Token]) -> str:
    """Return the text with a constant in the place of each call of a clock's function."""
    calls = list(_clock_calls(tokens))
    if not calls:
        return given
    wanted = ", ".join(f"CAST({given[begin:end]} AS CHAR)" for _, begin, end in calls)
    try:
        values = session.query(f"SELECT {wanted}")[0]
        said = session.warnings() if session.warning_count else []
    except ServerFault as fault:
        raise _unreadable(given, fault) from fault
    if said or None in values:
        raise _refusal(given, said[0][2] if said else "a constant is NULL")
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


def _make_probe(session: SqlSession, source: TableSchema) -> None:
    """Make an empty copy of the table, with plain columns."""
    probe = quote_table(source.schema, _PROBE)
    names = identifier_list(column.name for column in source.columns)
    with as_stored(session):
        session.execute(f"DROP TEMPORARY TABLE IF EXISTS {probe}")
        session.execute(
            f"CREATE TEMPORARY TABLE {probe} ({_PROBE}_number INT AUTO_INCREMENT PRIMARY KEY)"
            f" ENGINE=InnoDB SELECT {names} FROM {source.quoted} LIMIT 0"
        )


def _as_read(session: SqlSession, schema: str, text: str, given: str, *, mode: str) -> str:
    """Return the expression as the server writes it, from the probe; under ``mode`` from then."""
    probe = quote_table(schema, _PROBE)
    try:
        session.execute(
            f"ALTER TABLE {probe} ADD COLUMN {_PROBE} BOOL GENERATED ALWAYS AS ({text}) VIRTUAL"
        )
        # With ANSI_QUOTES names would be in other quotes.
        session.execute(f"SET SESSION sql_mode = {string_literal(mode)}")
        found = _COLUMN.search(show_create(session, schema, _PROBE))
    except ServerFault as fault:
        if connection_lost(fault):
            raise
        raise _unreadable(given, fault) from fault
    finally:
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
