"""Which DDL does not change the description of a table's rows: names, members, key (pure).

Each clause must be proven harmless by its head; an unknown clause is not. In the server's grammar
clauses are separated by commas, so a head decides for its whole clause. In a binlog the content of
every version comment was executed: the server turns the others into plain comments.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from spirit_py.errors import Refusal
from spirit_py.statement.cursor import Cursor, split_at
from spirit_py.statement.lexer import SqlMode, tokenize
from spirit_py.statement.table_options import is_option

if TYPE_CHECKING:
    from spirit_py.statement.lexer import Token


class _Verdict(enum.IntEnum):
    HARMLESS = 0
    KEYED = 1
    """Harmless where there is a primary key; otherwise it may choose another unique key."""
    UNPROVEN = 2


_H, _K = _Verdict.HARMLESS, _Verdict.KEYED
_PARTITION_WORK: Final = (
    "ADD", "DROP", "REORGANIZE", "COALESCE", "TRUNCATE", "EXCHANGE", "ANALYZE", "CHECK",
    "OPTIMIZE", "REBUILD", "REPAIR", "DISCARD", "IMPORT",
)  # fmt: skip
_HEADS: Final[tuple[tuple[tuple[str, ...], _Verdict], ...]] = (
    *((("ADD", word), _H) for word in ("INDEX", "KEY", "FULLTEXT", "SPATIAL", "CHECK")),
    (("ADD", "FOREIGN", "KEY"), _H),
    (("ADD", "UNIQUE"), _K),
    (("DROP", "CHECK"), _H),
    (("DROP", "FOREIGN", "KEY"), _H),
    (("ALTER", "CHECK"), _H),
    (("ALTER", "CONSTRAINT"), _H),
    (("ALTER", "INDEX"), _K),
    (("RENAME", "INDEX"), _K),
    (("RENAME", "KEY"), _K),
    *(((word, "PARTITION"), _H) for word in _PARTITION_WORK),
    (("PARTITION", "BY"), _H),
    (("REMOVE", "PARTITIONING"), _H),
    (("DISCARD", "TABLESPACE"), _H),
    (("IMPORT", "TABLESPACE"), _H),
    (("ENABLE", "KEYS"), _H),
    (("DISABLE", "KEYS"), _H),
    (("ORDER", "BY"), _H),
    *(((word, "VALIDATION"), _H) for word in ("WITH", "WITHOUT")),
    *(((word,), _H) for word in ("ALGORITHM", "LOCK", "FORCE")),
)
_CONSTRAINTS: Final = {"CHECK": _H, "FOREIGN": _H, "UNIQUE": _K}
_COLUMN_PROPERTIES: Final = (
    ("SET", "DEFAULT"), ("DROP", "DEFAULT"), ("SET", "VISIBLE"), ("SET", "INVISIBLE"),
)  # fmt: skip
_WHAT: Final = "a name"


def leaves_rows_as_described(sql: str, *, plain_backslash: bool = False, keyed: bool) -> bool:
    """Return whether the definition after a DDL statement describes rows from before it correctly.

    Args:
        sql: from a binlog, so that a server has accepted it.
        plain_backslash: the session's sql_mode has NO_BACKSLASH_ESCAPES.
        keyed: the table has a primary key after the statement, which identifies its rows.
    """
    try:
        verdict = _statement(Cursor(sql, _tokens(sql, plain_backslash=plain_backslash)))
    except Refusal:
        return False
    return verdict is _Verdict.HARMLESS or (verdict is _Verdict.KEYED and keyed)


def _tokens(sql: str, *, plain_backslash: bool) -> tuple[Token, ...]:
    """Tokenize a statement whose double quotes may be those of names or of strings.

    Raises:
        Refusal: when the two readings cut it differently.
    """
    strings, names = (
        tokenize(sql, SqlMode(ansi, plain_backslash), executed=True) for ansi in (False, True)
    )
    if [(token.start, token.end) for token in strings] != [(t.start, t.end) for t in names]:
        raise Refusal("what the double quotes mean depends on the session's sql_mode")
    return names


def _statement(cursor: Cursor) -> _Verdict:
    if cursor.take("TRUNCATE"):
        return _Verdict.HARMLESS
    if cursor.take("ALTER", "TABLE"):
        return _alter(cursor)
    if cursor.take("DROP", "INDEX"):
        return _unless_primary(cursor)
    if cursor.take("CREATE"):
        return _create(cursor)
    return _Verdict.UNPROVEN


def _create(cursor: Cursor) -> _Verdict:
    """Judge CREATE INDEX, or CREATE TRIGGER after its DEFINER."""
    kind = cursor.take_any("UNIQUE", "FULLTEXT", "SPATIAL")
    if cursor.take("INDEX"):
        return _K if kind == "UNIQUE" else _H
    reserved = (token.upper for token in cursor.rest() if token.upper in {"TABLE", "TRIGGER"})
    return _H if next(reserved, "") == "TRIGGER" else _Verdict.UNPROVEN


def _alter(cursor: Cursor) -> _Verdict:
    cursor.name("the table's name")
    if cursor.take_symbol("."):
        cursor.name("the table's name")
    tokens = cursor.rest()
    if tokens and tokens[-1].is_symbol(";"):
        tokens = tokens[:-1]
    if any(token.is_symbol(";") for token in tokens):
        return _Verdict.UNPROVEN
    pieces = split_at(tokens, ",") if tokens else iter(())
    return max((_clause(Cursor(cursor.sql, piece)) for piece in pieces), default=_H)


def _clause(cursor: Cursor) -> _Verdict:
    for words, verdict in _HEADS:
        if cursor.starts_with(*words):
            return verdict
    if is_option(cursor) or _goes_on(cursor):
        return _Verdict.HARMLESS
    if cursor.take("ADD", "CONSTRAINT"):
        if cursor.keyword() not in {*_CONSTRAINTS, "PRIMARY"}:
            cursor.name(_WHAT)
        return _CONSTRAINTS.get(cursor.keyword(), _Verdict.UNPROVEN)
    if any(cursor.take("DROP", word) for word in ("INDEX", "KEY", "CONSTRAINT")):
        return _unless_primary(cursor)
    if cursor.take("ALTER"):
        cursor.take("COLUMN")
        cursor.name(_WHAT)
        if any(cursor.starts_with(*words) for words in _COLUMN_PROPERTIES):
            return _Verdict.HARMLESS
    return _Verdict.UNPROVEN


def _goes_on(cursor: Cursor) -> bool:
    """Return whether a piece continues the names of ORDER BY or of partitions.

    No clause consists of one name, or has ASC, DESC or INTO (all reserved) after its first word.
    """
    first, *rest = cursor.tokens or (None,)
    if first is None or not first.is_identifier:
        return False
    return not rest or rest[0].upper in {"ASC", "DESC", "INTO"}


def _unless_primary(cursor: Cursor) -> _Verdict:
    """Judge the end of an index or a constraint by its name."""
    primary = cursor.name(_WHAT).upper() == "PRIMARY"
    return _Verdict.UNPROVEN if primary else _Verdict.KEYED
