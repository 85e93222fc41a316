"""Read statements: ALTER TABLE, CREATE INDEX and DROP INDEX, one or a file of them (pure)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal, UsageFault
from spirit_py.sql import quote_identifier
from spirit_py.statement.clauses import read_clauses
from spirit_py.statement.cursor import Cursor, split_at, text_of
from spirit_py.statement.lexer import (
    SqlMode,
    after_blanks,
    not_understood,
    read_token,
    read_tokens,
    tokenize,
)
from spirit_py.statement.model import AlterStatement
from spirit_py.statement.refusals import refuse_clause, unknown_clause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.statement.lexer import Token

_TABLE = "the table's name"


def parse_statement(
    sql: str, default_schema: str, *, sql_mode: str = ""
) -> tuple[AlterStatement, ...]:
    """Read statements, separated by semicolons; Refusal for what cannot be honoured."""
    mode = SqlMode.of(sql_mode)
    pieces = [piece for piece in split_at(tokenize(sql, mode), ";") if piece]
    if not pieces:
        raise not_understood("the statement is empty", "give an ALTER TABLE or a CREATE INDEX")
    return tuple(_one(Cursor(sql, piece), default_schema, mode) for piece in pieces)


def changed_table(sql: str, default_schema: str, *, sql_mode: str = "") -> tuple[str, str] | None:
    """Return schema and table of an ALTER, CREATE or DROP INDEX; None for a mere rename, others.

    Whatever is behind the name: who carries the change out refuses that. Raises Refusal where a
    change names no table.
    """
    cursor, unread = _as_the_server_reads(sql, sql_mode)
    if cursor.take("ALTER", "TABLE"):
        found = _table_name(cursor, default_schema)
        return None if _is_rename(cursor, default_schema) and unread is None else found
    if cursor.take("CREATE"):
        cursor.take_any("UNIQUE", "FULLTEXT", "SPATIAL")
    elif not cursor.take("DROP"):
        return None
    if not cursor.take("INDEX"):
        return None
    cursor.name("the index's name")
    if cursor.take("USING"):
        cursor.name("the index type")
    if not cursor.take("ON"):
        raise unread or unknown_clause(cursor)
    return _table_name(cursor, default_schema)


def _as_the_server_reads(sql: str, sql_mode: str) -> tuple[Cursor, Refusal | None]:
    """Return what can be read, comments that the server executes included, and why not the rest."""
    tokens: list[Token] = []
    unread = None
    try:
        tokens.extend(read_tokens(sql, SqlMode.of(sql_mode), executed=True))
    except Refusal as refusal:
        unread = refusal
    return Cursor(sql, tuple(tokens)), unread


def _is_rename(cursor: Cursor, default_schema: str) -> bool:
    if not cursor.take("RENAME") or cursor.take_any("COLUMN", "INDEX", "KEY"):
        return False
    if not cursor.take_any("TO", "AS"):
        cursor.take_symbol("=")
    _table_name(cursor, default_schema)
    cursor.take_symbol(";")
    return cursor.done


def defined_table(sql: str, default_schema: str, *, sql_mode: str = "") -> tuple[str, str] | None:
    """Return schema and name of the table whose definition a statement makes or changes.

    None for what is no DDL of one table, and for IF EXISTS; of a rename the name before.
    """
    cursor, _ = _as_the_server_reads(sql, sql_mode)
    try:
        if cursor.take_any("ALTER", "CREATE", "DROP", "RENAME") and cursor.take("TABLE"):
            return None if cursor.take("IF") else _table_name(cursor, default_schema)
        return changed_table(sql, default_schema, sql_mode=sql_mode)
    except Refusal:
        return None


def alter_of(schema: str, table: str, clauses: str, *, sql_mode: str = "") -> AlterStatement:
    """Read the clauses that follow ``ALTER TABLE t``; a whole statement is a ``UsageFault``."""
    tokens = tokenize(clauses, SqlMode.of(sql_mode))
    cursor = Cursor(clauses, tokens)
    if cursor.starts_with("ALTER", "TABLE") or cursor.keyword() == "CREATE":
        raise UsageFault(
            f"the clauses begin with a whole statement: {cursor.excerpt()!r}",
            hint="give only what follows the table's name, or use --statement",
            error_code=ErrorCode.STATEMENT_NOT_UNDERSTOOD,
        )
    pieces = [piece for piece in split_at(tokens, ";") if piece]
    if len(pieces) > 1:
        raise not_understood(
            "the clauses hold a semicolon: more than one statement",
            "use --statement for whole statements",
        )
    return _statement(schema, table, clauses, pieces[0] if pieces else ())


def _one(cursor: Cursor, default_schema: str, mode: SqlMode) -> AlterStatement:
    if cursor.take("ALTER", "TABLE"):
        schema, table = _table_name(cursor, default_schema)
        return _statement(schema, table, cursor.sql, cursor.rest())
    if cursor.take("CREATE"):
        kind = cursor.take_any("UNIQUE", "FULLTEXT", "SPATIAL")
        if cursor.take("INDEX"):
            return _create_index(cursor, kind, default_schema, mode)
    elif cursor.take("DROP", "INDEX"):
        return _drop_index(cursor, default_schema, mode)
    raise UsageFault(
        "the statement is neither ALTER TABLE nor CREATE INDEX nor DROP INDEX:"
        f" {cursor.excerpt()!r}",
        hint="write it as ALTER TABLE ...; clauses alone go with --table and --alter",
        error_code=ErrorCode.STATEMENT_NOT_UNDERSTOOD,
    )


def _table_name(cursor: Cursor, default_schema: str) -> tuple[str, str]:
    first = cursor.name(_TABLE)
    if cursor.take_symbol("."):
        return first, cursor.name(_TABLE)
    if not default_schema:
        raise not_understood(
            f"table {first} is named without a schema", "name it schema.table, or give --database"
        )
    return default_schema, first


def _statement(schema: str, table: str, sql: str, tokens: tuple[Token, ...]) -> AlterStatement:
    parsed, clauses = read_clauses(sql, tokens), text_of(sql, tokens)
    if parsed and parsed[0].other[1]:
        # The program's sessions have no default schema.
        only = replace(parsed[0], other=(parsed[0].other[0] or schema, parsed[0].other[1]))
        clauses, parsed = only.qualified, (only,)
    return AlterStatement(schema=schema, table=table, clauses=clauses, parsed=parsed)


def _create_index(cursor: Cursor, kind: str, default_schema: str, mode: SqlMode) -> AlterStatement:
    name = cursor.name("the index's name")
    using = ""
    if cursor.take("USING"):
        using = f" USING {cursor.name('the index type')}"
    if not cursor.take("ON"):
        raise unknown_clause(cursor)
    schema, table = _table_name(cursor, default_schema)
    body = _without_modifiers(cursor)
    head = f"ADD {kind} INDEX" if kind else "ADD INDEX"
    clauses = f"{head} {quote_identifier(name)}{using} {body}"
    return _statement(schema, table, clauses, tokenize(clauses, mode))


def _drop_index(cursor: Cursor, default_schema: str, mode: SqlMode) -> AlterStatement:
    name = cursor.name("the index's name")
    if not cursor.take("ON"):
        raise unknown_clause(cursor)
    schema, table = _table_name(cursor, default_schema)
    if not cursor.done:
        refuse_clause(cursor)
        raise unknown_clause(cursor)
    clauses = f"DROP INDEX {quote_identifier(name)}"
    return _statement(schema, table, clauses, tokenize(clauses, mode))


def _without_modifiers(cursor: Cursor) -> str:
    depth = 0
    start = cursor.at
    while not cursor.done:
        depth += cursor.symbol("(") - cursor.symbol(")")
        if depth == 0:
            refuse_clause(cursor)
        cursor.at += 1
    return text_of(cursor.sql, cursor.tokens[start:])


_USE: Final = re.compile(r"USE[ \t]+([^\s]+)[ \t]*(?=\r?\n|\Z)", re.IGNORECASE)
_DELIMITER: Final = re.compile(r"DELIMITER(?![0-9A-Za-z_$])[ \t]*([^\s]*)[^\n]*", re.IGNORECASE)


@dataclass(frozen=True)
class ScriptStatement:
    """One statement of a file, from its first token, in ``line``, to its last."""

    text: str
    line: int
    schema: str = ""


def read_script(text: str, mode: SqlMode) -> Iterator[ScriptStatement]:
    """Yield the statements of a file; ``USE`` and ``DELIMITER`` are carried out, not yielded.

    Raises Refusal, with the line, for what the lexer refuses or a ``USE`` that cannot be read.
    """
    schema = ""
    for found in _cut(text.removeprefix("\ufeff"), mode):
        if read_token(found.text, 0, mode).upper == "USE":
            tokens = tokenize(found.text, mode)
            if len(tokens) != 2 or not tokens[1].is_identifier:
                raise not_understood(
                    f"line {found.line}: USE takes one schema: {found.text!r}", "write USE schema;"
                )
            schema = tokens[1].value
        elif not _sets_utf8(found.text, mode):
            yield ScriptStatement(found.text, found.line, schema)


def _sets_utf8(text: str, mode: SqlMode) -> bool:
    words = [token.value.upper() for token in tokenize(text, mode)]
    return words[:2] == ["SET", "NAMES"] and words[2:] in (["UTF8"], ["UTF8MB3"], ["UTF8MB4"])


def _cut(text: str, mode: SqlMode) -> Iterator[ScriptStatement]:
    lines = _Lines(text)
    delimiter, at, begin, end = ";", 0, -1, 0
    while True:
        try:
            at = after_blanks(text, at)
            if at >= len(text):
                break
            if text.startswith(delimiter, at):
                if begin >= 0:
                    yield ScriptStatement(text[begin:end], lines.of(begin))
                begin, at = -1, at + len(delimiter)
                continue
            if begin < 0 and (found := _DELIMITER.match(text, at)):
                delimiter, at = _delimiter(found), found.end()
                continue
            if begin < 0 and (found := _USE.match(text, at)) and delimiter not in found[0]:
                yield ScriptStatement(found[0].rstrip(), lines.of(at))
                at = found.end()
                continue
            token = read_token(text, at, mode)
        except Refusal as refusal:
            line = lines.of(at if begin < 0 else begin)
            raise not_understood(f"line {line}: {refusal.message}", refusal.hint) from refusal
        begin = token.start if begin < 0 else begin
        inside = text.find(delimiter, token.start, token.end) if token.kind == "word" else -1
        at = end = inside if inside > 0 else token.end
    if begin >= 0:
        yield ScriptStatement(text[begin:end], lines.of(begin))


def _delimiter(found: re.Match[str]) -> str:
    if not found[1] or "\\" in found[1]:
        raise not_understood(
            f"DELIMITER has no delimiter: {found[0]!r}", "write for instance DELIMITER //"
        )
    return found[1]


class _Lines:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1

    def of(self, at: int) -> int:
        self._line += self._text.count("\n", self._at, at)
        self._at = at
        return self._line
