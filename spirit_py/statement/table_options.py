"""Read the table options of an ALTER TABLE (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.statement.cursor import Cursor, normal_text, text_of
from spirit_py.statement.model import Clause, ClauseKind
from spirit_py.statement.refusals import not_supported, refuse_clause, unknown_clause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.statement.lexer import Token

_ONE_WORD = """
    AUTOEXTEND_SIZE AUTO_INCREMENT AVG_ROW_LENGTH CHECKSUM COMMENT COMPRESSION
    DELAY_KEY_WRITE ENCRYPTION ENGINE ENGINE_ATTRIBUTE KEY_BLOCK_SIZE MAX_ROWS MIN_ROWS
    PACK_KEYS ROW_FORMAT SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE STATS_AUTO_RECALC
    STATS_PERSISTENT STATS_SAMPLE_PAGES TABLESPACE
"""
_HEADS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("DEFAULT", "CHARACTER", "SET"), "character set"),
    (("DEFAULT", "CHARSET"), "character set"),
    (("DEFAULT", "CHAR", "SET"), "character set"),
    (("DEFAULT", "COLLATE"), "collate"),
    (("CHARACTER", "SET"), "character set"),
    (("CHAR", "SET"), "character set"),
    (("CHARSET",), "character set"),
    (("COLLATE",), "collate"),
    (("DATA", "DIRECTORY"), "data directory"),
    (("INDEX", "DIRECTORY"), "index directory"),
    *(((word,), word.lower()) for word in _ONE_WORD.split()),
)


def is_option(cursor: Cursor) -> bool:
    """Return whether the next tokens are a table option."""
    return any(cursor.starts_with(*words) for words, _ in _HEADS)


def read_options(cursor: Cursor) -> Iterator[Clause]:
    """Read options until the end of the clause."""
    while not cursor.done:
        start = cursor.at
        name = next((name for words, name in _HEADS if cursor.take(*words)), "")
        if not name:
            refuse_clause(Cursor(cursor.sql, cursor.tokens[start:]))
            raise unknown_clause(cursor)
        cursor.take_symbol("=")
        value = _value(cursor)
        if name == "engine" and value[0].value.lower() != "innodb":
            raise not_supported(
                f"ENGINE={value[0].value} is not possible: only InnoDB lets the swap be proved and"
                " undone",
                "keep ENGINE=InnoDB, or run the ALTER natively",
            )
        yield Clause(
            kind=ClauseKind.OPTION,
            name=name,
            body=normal_text(value),
            text=text_of(cursor.sql, cursor.tokens[start : cursor.at]),
        )


def _value(cursor: Cursor) -> tuple[Token, ...]:
    start = cursor.at
    if cursor.done:
        raise unknown_clause(cursor)
    introducer = cursor.keyword().startswith("_")
    string_follows = any(token.kind == "string" for token in cursor.tokens[start + 1 : start + 2])
    cursor.at += 2 if introducer and string_follows else 1
    return cursor.tokens[start : cursor.at]
