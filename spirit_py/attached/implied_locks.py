"""Which further tables LOCK TABLES locks by itself, for the look at who is in front of a request.

Measured on 9.7: WRITE, the tables that its triggers use and the children whose rows a key changes
(CASCADE, SET NULL), recursively; READ, its parents and other children. A name in a trigger's body
may be that of a column or a variable, so tables that only triggers bring in are guessed. What a
trigger calls is not followed: a request that waits for such a table is short all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.catalogue import keys_of, keys_to
from spirit_py.attached.triggers.catalogue import list_triggers
from spirit_py.classes import dataclass
from spirit_py.errors import Refusal
from spirit_py.mysql.tables.definition import existing_tables
from spirit_py.sql import string_literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.statement.lexer import Token
    from spirit_py.table.names import Name

_VIEWS: Final = """
SELECT VIEW_SCHEMA, VIEW_NAME FROM information_schema.VIEW_TABLE_USAGE
WHERE (TABLE_SCHEMA, TABLE_NAME) IN ({})"""
READ_BY: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.VIEW_TABLE_USAGE
WHERE (VIEW_SCHEMA, VIEW_NAME) IN ({})"""
#: Beyond so many tables the search ends: it would take longer than the request.
_MOST_TABLES: Final = 200


@dataclass(frozen=True, kw_only=True)
class Implied:
    """Tables that are locked besides those of a request, by schema and name.

    ``guessed``: those among them that a trigger's body may mean. ``opened``: what views over the
    request's tables read, which a RENAME opens.
    """

    written: tuple[Name, ...] = ()
    read: tuple[Name, ...] = ()
    guessed: tuple[Name, ...] = ()
    opened: tuple[Name, ...] = ()


def implied_locks(session: SqlSession, tables: Iterable[Name]) -> Implied:
    """Return what LOCK TABLES ... WRITE of these tables locks besides."""
    asked = list(tables)
    written, read = set[tuple[str, str]](), set[tuple[str, str]]()
    new = _follow_keys(session, asked, written, read)
    sure = written | read
    while new and len(written) < _MOST_TABLES:
        used = {name for table in new for name in used_by_triggers(session, table)}
        new = _follow_keys(session, used - written, written, read)
    existing = set(there(session, (written | read) - set(asked)))
    return Implied(
        written=tuple(sorted(existing & written)),
        read=tuple(sorted((existing & read) - written)),
        guessed=tuple(sorted(existing - sure)),
    )


def _follow_keys(
    session: SqlSession, tables: Iterable[Name], written: set[Name], read: set[Name]
) -> list[Name]:
    """Add tables and those that their foreign keys lock; return those that are written now."""
    new, left = list[tuple[str, str]](), [*tables]
    while left and len(written) < _MOST_TABLES:
        table = left.pop()
        if table in written:
            continue
        written.add(table)
        new.append(table)
        read |= {key.parent for key in keys_of(session, *table)}
        for key in keys_to(session, *table):
            if key.changes_rows:
                left.append(key.child)
            else:
                read.add(key.child)
    return new


def used_by_triggers(session: SqlSession, table: Name) -> Iterator[Name]:
    """Yield the tables that exist and whose names are in bodies of a table's triggers."""
    for trigger in list_triggers(session, *table):
        try:
            tokens = trigger.tokens()
        except Refusal:
            continue
        yield from there(session, names_in(tokens, table[0]))


def names_in(tokens: Sequence[Token], schema: str) -> set[Name]:
    """Return what a body names, as if it were tables, without the lists of columns of INSERTs."""
    words = [token.value if token.is_identifier else "" for token in tokens]
    dots = [token.is_symbol(".") for token in tokens]
    columns = _listed_columns(tokens)
    return {
        (words[at - 2] if at > 1 and dots[at - 1] and words[at - 2] else schema, word)
        for at, word in enumerate(words)
        if word and at not in columns
    }


def _listed_columns(tokens: Sequence[Token]) -> set[int]:
    """Return the places of the names in ``INTO t (a, b)``; a query there has more than names."""
    found = set[int]()
    for at, token in enumerate(tokens):
        if token.upper != "INTO":
            continue
        begin = at + 4 if tokens[at + 2 : at + 3] and tokens[at + 2].is_symbol(".") else at + 2
        end = begin
        while end < len(tokens) and not tokens[end].is_symbol(")"):
            end += 1
        inside = range(begin + 1, end)
        if (
            tokens[begin : begin + 1]
            and tokens[begin].is_symbol("(")
            and all(
                tokens[i].is_symbol(",") if (i - begin) % 2 == 0 else tokens[i].is_identifier
                for i in inside
            )
        ):
            found.update(inside)
    return found


def there(session: SqlSession, tables: Iterable[Name]) -> list[Name]:
    """Return those of some tables that exist."""
    by_schema: dict[str, list[str]] = {}
    for schema, table in tables:
        by_schema.setdefault(schema, []).append(table)
    return [
        (schema, name)
        for schema, names in by_schema.items()
        for name in sorted(existing_tables(session, schema, names))
    ]


def views_over(session: SqlSession, tables: Iterable[Name]) -> set[Name]:
    """Return the views over some tables, and those over these, as far as the account sees them.

    Measured on 9.7: each RENAME of a table locks all of them, and opens what they read.
    """
    found, left = set[tuple[str, str]](), set(tables)
    while left and len(found) < _MOST_TABLES:
        left = listed(session, _VIEWS, left) - found
        found |= left
    return found


def listed(session: SqlSession, sql: str, names: Collection[Name]) -> set[Name]:
    """Return what a query lists of these, as :data:`READ_BY`."""
    if not names:
        return set()
    some = ", ".join(f"({', '.join(map(string_literal, name))})" for name in sorted(names))
    return {(str(schema), str(name)) for schema, name in session.query(sql.format(some))}


def opened_by_rename(session: SqlSession, tables: Iterable[Name]) -> tuple[Name, ...]:
    """Return what views over some tables read: they themselves, and others."""
    views = sorted(views_over(session, tables))[:_MOST_TABLES]
    return tuple(sorted(listed(session, READ_BY, views)))
