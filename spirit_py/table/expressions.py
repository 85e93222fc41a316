"""Expressions of a definition, and over a row; whether sessions differ in them (pure; R22, R27).

A whitelist: any other expression may depend on the session that evaluates it. Measured on 9.7: a
TIMESTAMP literal with an offset stores its instant; ``INSERT ... SELECT`` of a TIMESTAMP, its
comparison with a literal and a join over it go through local time (docs/decisions.md).

An expression over a row is judged by the server, in the statement that reads the row: the copy and
the comparison in the source, the applier among staged row images. What is not true, NULL too, is
left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass
from spirit_py.sql import string_literal
from spirit_py.table.conversions import is_timestamp
from spirit_py.table.keys import TEMPORALS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from spirit_py.table.schema import Column, TableSchema

_NAME: Final = re.compile(r"`((?:[^`]|``)+)`")
_CHECK: Final = re.compile(r"^  (?:CONSTRAINT `(?:[^`]|``)+` )?CHECK \((.*)$", re.MULTILINE)
#: The catalogue escapes quotes with a backslash; a string with another escape is not matched.
_STRING: Final = re.compile(r"\\?'[^'\\]*\\?'")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
#: Without ``/``: its precision is a setting.
_SIGNS: Final = re.compile(r"[\s\d.,()+*%<>=!&|^~-]*")

_WORDS: Final = frozenset({
    "and", "or", "not", "xor", "is", "null", "true", "false", "in", "between", "div", "mod",
    "case", "when", "then", "else", "end", "if", "ifnull", "nullif", "coalesce",
    "abs", "sign", "floor", "ceiling", "greatest", "least", "crc32",
    "lower", "lcase", "upper", "ucase", "concat", "trim", "ltrim", "rtrim", "reverse",
    "left", "right", "substr", "substring", "replace", "length", "char_length",
    "md5", "sha", "sha1", "sha2", "hex", "unhex", "json_extract", "json_unquote", "json_length",
    "cast", "as", "unsigned", "signed", "char", "binary", "decimal", "array", "charset",
    "convert", "using", "utf8mb4", "utf8mb3", "latin1", "ascii", "_utf8mb4", "_utf8mb3",
})  # fmt: skip


def column_names(expression: str) -> Iterator[str]:
    """Yield the columns that an expression reads; a definition writes their names in quotes."""
    return (name.replace("``", "`") for name in _NAME.findall(expression))


def evaluated_expressions(target: TableSchema, fresh: Collection[str]) -> Iterator[str]:
    """Yield the text of every expression that a write may evaluate."""
    for column in target.columns:
        if column.generated:
            yield column.generation_expression
        elif column.name in fresh and column.default_computed:
            yield column.default or ""
    for index in target.indexes:
        yield from (part.expression for part in index.parts if part.expression)
    yield from _CHECK.findall(target.create_sql)


def steady_expression(text: str) -> bool:
    """Return whether an expression has the same value in every session, if its columns do."""
    rest = _STRING.sub(" ", _NAME.sub(" ", text))
    words = {word.lower() for word in _WORD.findall(rest)}
    return words <= _WORDS and _SIGNS.fullmatch(_WORD.sub(" ", rest)) is not None


#: In the name of every function, type and unit of dates and times. A superfluous word costs
#: a SET for each write; a missing one leads to a wrong value.
_TEMPORAL: Final = re.compile(
    r"date|time|now|day|hour|minute|second|week|month|quarter|year|zone|interval", re.IGNORECASE
)
_FIXED: Final = re.compile(r"[+-]\d\d:\d\d|(?:Etc/)?(?:UTC|GMT|UCT|Zulu)", re.IGNORECASE)


def repeats_hours(time_zone: str) -> bool:
    """Return whether a clock of this zone may show one local time twice."""
    return _FIXED.fullmatch(time_zone) is None


def instant_text(sql: str) -> str:
    """Render a TIMESTAMP column as text in UTC; only ``UNIX_TIMESTAMP`` reads what is stored."""
    text = f"'1970-01-01 00:00:00' + INTERVAL UNIX_TIMESTAMP({sql}) SECOND"
    return f"IF(UNIX_TIMESTAMP({sql}) = 0, '0000-00-00 00:00:00', CONCAT({text}, '+00:00'))"


def evaluated_in_zone(target: TableSchema, fresh: Collection[str]) -> bool:
    """Return whether writing a row may depend on the time zone; ``fresh`` get their defaults."""
    if any(column.generated and column.data_type in TEMPORALS for column in target.columns):
        return True
    return any(reads_time(target, text) for text in evaluated_expressions(target, fresh))


def reads_time(target: TableSchema, expression: str) -> bool:
    """Return whether an expression computes with times, or reads a column that holds them."""
    if _TEMPORAL.search(_NAME.sub(" ", expression)):
        return True
    names = filter(target.has_column, column_names(expression))
    return any(target.column(name).data_type in TEMPORALS for name in names)


#: A string, whose content is nobody's name, or a quoted name; as SHOW CREATE TABLE has them.
_TEXT: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|`(?P<name>(?:[^`]|``)+)`", re.DOTALL)
#: A time with an offset, as the server takes it (9.7.4): six numbers, signs of any kind between
#: them, two digits each behind them, and blanks.
_OFFSET: Final = re.compile(
    r"'\s*(?:\d+(?:T|[^\w'])+){5}\d+(?:\.\d*)?[+-]\d\d:\d\d(?:\s|\\[ntr])*'$", re.IGNORECASE
)
#: What makes no text but of texts that stand there. Units and names of types are of CAST and the
#: like; CHAR is not among them.
_TEXTLESS: Final = frozenset({
    "and", "or", "not", "xor", "is", "null", "true", "false", "in", "between", "div", "mod",
    "case", "when", "then", "else", "end", "if", "ifnull", "nullif", "coalesce", "like",
    "abs", "sign", "floor", "ceiling", "round", "truncate", "pow", "sqrt", "greatest", "least",
    "year", "quarter", "month", "week", "day", "hour", "minute", "second", "microsecond",
    "dayofmonth", "dayofweek", "dayofyear", "weekday", "weekofyear", "yearweek", "to_days",
    "to_seconds", "last_day", "from_days", "makedate", "datediff", "timestampdiff", "extract",
    "interval", "convert_tz", "unix_timestamp",
    "cast", "as", "signed", "unsigned", "decimal", "double", "float", "date", "datetime", "time",
    "timestamp", "_utf8mb4", "_utf8mb3", "_latin1", "_ascii", "_binary",
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RowExpression:
    """An expression over ``columns`` of the source, whose names it has in backquotes.

    A TIMESTAMP is compared as the server's ``time_zone`` shows it, whatever the session's is.
    """

    expression: str
    columns: tuple[Column, ...]
    time_zone: str

    def condition(self, table: str = "") -> str:
        """Render whether it is true, which is never NULL; ``table``, quoted, has the columns."""
        return f"(({self.value(table)}) IS TRUE)"

    def value(self, table: str = "") -> str:
        """Render its value."""
        zoned = {column.name.lower() for column in self.columns if is_timestamp(column)}
        zone = string_literal(self.time_zone)

        def qualified(found: re.Match[str]) -> str:
            if found["name"] is None:
                return found[0]
            name = f"{table}.{found[0]}" if table else found[0]
            moved = found["name"].replace("``", "`").lower() in zoned
            if not moved:
                return name
            # A zero has no time zone: converted it is NULL.
            converted = f"CONVERT_TZ({name}, @@SESSION.time_zone, {zone})"
            return f"IF(UNIX_TIMESTAMP({name}) = 0, {name}, {converted})"

        return _TEXT.sub(qualified, self.expression)


def names_in(expression: str) -> frozenset[str]:
    """Return the names in backquotes of an expression, in lower case; not those within strings."""
    found = (one["name"] for one in _TEXT.finditer(expression))
    return frozenset(name.replace("``", "`").lower() for name in found if name)


def makes_texts(expression: str) -> bool:
    """Return whether an expression may make a text, as ``CONCAT(at, '+01:00')`` does.

    The server reads a text with an offset as an instant, in the session's time zone.
    """
    return not _TEXTLESS.issuperset(
        word.lower() for word in _WORD.findall(_TEXT.sub(" ", expression))
    )


def why_zoned(expression: str) -> str:
    """Return what of an expression another session's time zone would change; empty for nothing."""
    if re.search(r"\bfrom_unixtime\(", _TEXT.sub(" ", expression), re.IGNORECASE):
        return "FROM_UNIXTIME depends on the session's time zone"
    strings = (one[0] for one in _TEXT.finditer(expression) if one["name"] is None)
    offset = next(filter(_OFFSET.search, strings), "")
    return f"the offset of {offset} depends on the session's time zone" if offset else ""
