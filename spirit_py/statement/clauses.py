"""Read the clauses of one ALTER TABLE: the head of each, its names, and table options (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from spirit_py.statement.cursor import Cursor, normal_text, outside_parentheses, split_at, text_of
from spirit_py.statement.lexer import not_understood
from spirit_py.statement.model import Clause, ClauseKind
from spirit_py.statement.refusals import foreign_key, not_supported, refuse_clause, unknown_clause

if TYPE_CHECKING:
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
Kind = ClauseKind
_Reader: TypeAlias = Callable[[Cursor], Iterator[Clause]]
_CONSTRAINT_HEADS = frozenset({"PRIMARY", "UNIQUE", "FOREIGN", "CHECK"})
_PARTITION_HEADS = (("PARTITION", "BY"), ("REMOVE", "PARTITIONING"))


def read_clauses(sql: str, tokens: tuple[Token, ...]) -> tuple[Clause, ...]:
    """Read all clauses after the table's name."""
    for words, reader in _OF_PARTITIONS:
        # Its names are separated by commas, and the server takes no other clause with it.
        if (cursor := Cursor(sql, tokens)).take(*words):
            return tuple(reader(cursor))
    if (key := _only_foreign_key(Cursor(sql, tokens))) is not None:
        return (key,)
    clauses: list[Clause] = []
    for piece in split_at(tokens, ","):
        if not piece:
            raise not_understood(
                "there is an empty clause: a comma too many, or nothing to change",
                "give at least one clause, such as ADD COLUMN c INT",
            )
        for part in _split_partitioning(piece):
            clauses.extend(_read_clause(Cursor(sql, part)))
    return tuple(clauses)


def _split_partitioning(tokens: tuple[Token, ...]) -> Iterator[tuple[Token, ...]]:
    for index, token in outside_parentheses(tokens):
        follower = tokens[index + 1].upper if index + 1 < len(tokens) else ""
        if (token.upper, follower) in _PARTITION_HEADS:
            if index:
                yield tokens[:index]
            yield tokens[index:]
            return
    yield tokens


def _read_clause(cursor: Cursor) -> Iterator[Clause]:
    if not cursor.starts_with("REBUILD", "PARTITION", "ALL"):
        refuse_clause(cursor)
    for words, reader in _READERS:
        if cursor.take(*words):
            yield from reader(cursor)
            return
    if is_option(cursor):
        yield from read_options(cursor)
        return
    raise unknown_clause(cursor)


def _clause(cursor: Cursor, kind: ClauseKind, name: str = "", new_name: str = "") -> Clause:
    body, text = normal_text(cursor.rest()), text_of(cursor.sql, cursor.tokens)
    return Clause(kind=kind, name=name, new_name=new_name, body=body, text=text)


def _add(cursor: Cursor) -> Iterator[Clause]:
    if cursor.take("PARTITION"):
        clause = _clause(cursor, Kind.ADD_PARTITION)
        yield replace(clause, partitions=_added_partitions(cursor))
        return
    if not cursor.take("COLUMN"):
        constraint = _constraint(cursor)
        if constraint is not None:
            yield constraint
            return
    if not cursor.symbol("("):
        yield _column(cursor, Kind.ADD_COLUMN, cursor.name("the new column's name"))
        return
    inner = cursor.rest()
    if not inner[-1].is_symbol(")"):
        raise unknown_clause(cursor)
    for element in split_at(inner[1:-1], ","):
        part = Cursor(cursor.sql, element)
        constraint = _constraint(part)
        yield constraint or _column(part, Kind.ADD_COLUMN, part.name("the new column's name"))


def _added_partitions(cursor: Cursor) -> tuple[str, ...]:
    """Return the names that are added; none where only their number is given."""
    found = [token for token in cursor.tokens if token.is_symbol("(")][:1]
    if not found:
        return ()
    listed = cursor.tokens[cursor.tokens.index(found[0]) + 1 : -1]
    parts = [Cursor(cursor.sql, one) for one in split_at(listed, ",")]
    return tuple(one.name("the partition's name") for one in parts if one.take("PARTITION"))


def _partitions(kind: ClauseKind) -> _Reader:
    def read(cursor: Cursor) -> Iterator[Clause]:
        at = cursor.at
        every = kind is Kind.TRUNCATE_PARTITION and cursor.take("ALL")
        names: list[str] = []
        while not every and (not names or cursor.take_symbol(",")):
            names.append(cursor.name("the partition's name"))
        other, validation = ("", ""), ""
        if kind is Kind.EXCHANGE_PARTITION:
            if len(names) > 1 or not cursor.take("WITH", "TABLE"):
                raise unknown_clause(cursor)
            first = cursor.name("the table's name")
            other = ("", first)
            if cursor.take_symbol("."):
                other = (first, cursor.name("the table's name"))
            validation = cursor.take_any("WITH", "WITHOUT")
            if validation and not cursor.take("VALIDATION"):
                raise unknown_clause(cursor)
        if not cursor.done:
            raise unknown_clause(cursor)
        cursor.at = at
        clause = _clause(cursor, kind)
        yield replace(clause, partitions=tuple(names), other=other, validation=validation)

    return read


def _only_foreign_key(cursor: Cursor) -> Clause | None:
    """Read ``ADD [CONSTRAINT name] FOREIGN KEY ... REFERENCES ...`` that is the whole ALTER."""
    if not cursor.take("ADD"):
        return None
    name = ""
    if cursor.take("CONSTRAINT") and cursor.keyword() not in _CONSTRAINT_HEADS:
        name = cursor.name("the constraint's name")
    if not cursor.take("FOREIGN", "KEY"):
        return None
    if not cursor.symbol("("):
        cursor.name("the index's name")
    columns = _names_in_parentheses(cursor)
    if not cursor.take("REFERENCES"):
        raise unknown_clause(cursor)
    other = ("", cursor.name("the table's name"))
    if cursor.take_symbol("."):
        other = (other[1], cursor.name("the table's name"))
    parent_columns = _names_in_parentheses(cursor)
    if len(columns) != len(parent_columns):
        raise not_understood(
            f"the foreign key refers to another number of columns, {len(parent_columns)}, than it"
            f" has, {len(columns)}: {cursor.excerpt()!r}",
            "name a column of the other table for each",
        )
    if any(token.is_symbol(",") for _, token in outside_parentheses(cursor.tokens[cursor.at :])):
        raise foreign_key(cursor)
    if not name:
        raise not_understood(
            f"the foreign key has no name: {cursor.excerpt()!r}",
            "write ADD CONSTRAINT name FOREIGN KEY ...: by its name a later run knows it",
        )
    clause = _clause(cursor, Kind.ADD_FOREIGN_KEY, name)
    return replace(clause, other=other, columns=columns, parent_columns=parent_columns)


def _names_in_parentheses(cursor: Cursor) -> tuple[str, ...]:
    names: list[str] = []
    if not cursor.take_symbol("("):
        raise unknown_clause(cursor)
    while not names or cursor.take_symbol(","):
        names.append(cursor.name("the column's name"))
    if not cursor.take_symbol(")"):
        raise unknown_clause(cursor)
    return tuple(names)


def _constraint(cursor: Cursor) -> Clause | None:
    symbol = ""
    if cursor.take("CONSTRAINT") and cursor.keyword() not in _CONSTRAINT_HEADS:
        symbol = cursor.name("the constraint's name")
    if cursor.take("FOREIGN", "KEY"):
        raise foreign_key(cursor)
    if cursor.take("CHECK"):
        return _clause(cursor, Kind.ADD_CHECK, symbol)
    if cursor.take("PRIMARY", "KEY"):
        return _clause(cursor, Kind.ADD_PRIMARY_KEY)
    if cursor.take("UNIQUE"):
        cursor.take_any("INDEX", "KEY")
        return _clause(cursor, Kind.ADD_UNIQUE, _index_name(cursor) or symbol)
    kind = cursor.take_any("FULLTEXT", "SPATIAL")
    if cursor.take_any("INDEX", "KEY") or kind:
        clause = _clause(cursor, Kind.ADD_INDEX, _index_name(cursor))
        return replace(clause, body=f"{kind.lower()} {clause.body}".strip())
    if symbol:
        raise unknown_clause(cursor)
    return None


def _index_name(cursor: Cursor) -> str:
    if cursor.symbol("(") or cursor.keyword() == "USING":
        return ""
    return cursor.name("the index's name")


def _column(cursor: Cursor, kind: ClauseKind, name: str, new_name: str = "") -> Clause:
    if cursor.done:
        raise not_understood(
            f"the definition of column {new_name or name} is missing in {cursor.excerpt()!r}",
            "give its type, such as INT NOT NULL",
        )
    clause = _clause(cursor, kind, name, new_name)
    if any(token.upper == "REFERENCES" for _, token in outside_parentheses(cursor.tokens)):
        raise foreign_key(cursor)
    return clause


def _subject(
    cursor: Cursor, index: Kind, check: Kind, constraint: Kind, column: Kind
) -> tuple[Kind, str]:
    if cursor.take_any("INDEX", "KEY"):
        return index, cursor.name("the index's name")
    if cursor.take("CHECK"):
        return check, cursor.name("the constraint's name")
    if cursor.take("CONSTRAINT"):
        return constraint, cursor.name("the constraint's name")
    cursor.take("COLUMN")
    return column, cursor.name("the column's name")


def _drop(cursor: Cursor) -> Iterator[Clause]:
    if cursor.take("FOREIGN", "KEY"):
        name = cursor.name("the foreign key's name")
        yield _ended(cursor, _clause(cursor, Kind.DROP_FOREIGN_KEY, name))
        return
    kinds = (Kind.DROP_INDEX, Kind.DROP_CHECK, Kind.DROP_CONSTRAINT, Kind.DROP_COLUMN)
    kind, name = _subject(cursor, *kinds)
    if kind is Kind.DROP_COLUMN:
        cursor.take_any("RESTRICT", "CASCADE")
    yield _ended(cursor, _clause(cursor, kind, name))


def _ended(cursor: Cursor, clause: Clause) -> Clause:
    if clause.body:
        raise unknown_clause(cursor)
    return clause


def _modify(cursor: Cursor) -> Iterator[Clause]:
    cursor.take("COLUMN")
    yield _column(cursor, Kind.MODIFY_COLUMN, cursor.name("the column's name"))


def _change(cursor: Cursor) -> Iterator[Clause]:
    cursor.take("COLUMN")
    old = cursor.name("the column's old name")
    yield _column(cursor, Kind.CHANGE_COLUMN, old, cursor.name("the column's new name"))


def _alter(cursor: Cursor) -> Iterator[Clause]:
    kinds = (Kind.ALTER_INDEX, Kind.ALTER_CHECK, Kind.ALTER_CONSTRAINT, Kind.ALTER_COLUMN)
    yield _clause(cursor, *_subject(cursor, *kinds))


def _rename(cursor: Cursor) -> Iterator[Clause]:
    if cursor.take("COLUMN"):
        kind, what = Kind.RENAME_COLUMN, "the column's name"
    elif cursor.take_any("INDEX", "KEY"):
        kind, what = Kind.RENAME_INDEX, "the index's name"
    else:
        raise not_supported(
            f"the table cannot be renamed in the same statement: {cursor.excerpt()!r}",
            "run RENAME TABLE afterwards: it changes metadata only",
        )
    old = cursor.name(what)
    if not cursor.take("TO"):
        raise unknown_clause(cursor)
    yield _ended(cursor, _clause(cursor, kind, old, cursor.name(what)))


def _plain(kind: ClauseKind) -> _Reader:
    def read(cursor: Cursor) -> Iterator[Clause]:
        yield _clause(cursor, kind)

    return read


def _bare(kind: ClauseKind, body: str = "") -> _Reader:
    def read(cursor: Cursor) -> Iterator[Clause]:
        yield replace(_ended(cursor, _clause(cursor, kind)), body=body)

    return read


_OF_PARTITIONS: tuple[tuple[tuple[str, ...], _Reader], ...] = (
    (("REORGANIZE", "PARTITION"), _plain(Kind.REORGANIZE_PARTITION)),
    (("DROP", "PARTITION"), _partitions(Kind.DROP_PARTITION)),
    (("TRUNCATE", "PARTITION"), _partitions(Kind.TRUNCATE_PARTITION)),
    (("EXCHANGE", "PARTITION"), _partitions(Kind.EXCHANGE_PARTITION)),
)
_READERS: tuple[tuple[tuple[str, ...], _Reader], ...] = (
    (("ADD",), _add),
    (("DROP", "PRIMARY", "KEY"), _bare(Kind.DROP_PRIMARY_KEY)),
    (("DROP",), _drop),
    (("MODIFY",), _modify),
    (("CHANGE",), _change),
    (("ALTER",), _alter),
    (("RENAME",), _rename),
    (("CONVERT", "TO", "CHARACTER", "SET"), _plain(Kind.CONVERT)),
    (("CONVERT", "TO", "CHARSET"), _plain(Kind.CONVERT)),
    (("CONVERT", "TO", "CHAR", "SET"), _plain(Kind.CONVERT)),
    (("PARTITION", "BY"), _plain(Kind.PARTITION_BY)),
    (("REMOVE", "PARTITIONING"), _bare(Kind.REMOVE_PARTITIONING)),
    (("COALESCE", "PARTITION"), _plain(Kind.COALESCE_PARTITION)),
    (("FORCE",), _bare(Kind.FORCE)),
    (("REBUILD", "PARTITION", "ALL"), _bare(Kind.FORCE)),
    (("WITH", "VALIDATION"), _bare(Kind.VALIDATION, "with")),
    (("WITHOUT", "VALIDATION"), _bare(Kind.VALIDATION, "without")),
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
